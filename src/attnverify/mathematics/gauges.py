"""What the tokens and the weights of one layer say about a change of its query-key matrix.

In floats, as a training is watched: the gauge P (1 - P) diam^2 of claim ``training.covariance`` and
its two factors for each head, the entropies of its rows, and how near the tokens are to each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnverify.mathematics import norms
from attnverify.support.errors import require


@dataclass(frozen=True, slots=True)
class Head:
    """Means over the rows of a head that see two tokens or more.

    entropy: in nats; least_entropy: of any row; share: P (1 - P), at most 1/4; gauge: the share
    times diam^2, with the diameter of the tokens that the row sees (of all tokens under a mask that
    is neither causal nor none), as they enter attention.
    """

    entropy: float
    least_entropy: float
    share: float
    gauge: float


@dataclass(frozen=True, slots=True)
class Layer:
    """Residual ||X - 1 mean||_F / ||X||_F and diameter of the tokens as they enter attention."""

    residual: float
    diameter: float
    heads: tuple[Head, ...]


def layer_of(X: Tensor, P: Tensor, valid: Tensor | None) -> Layer:
    """Figures of one layer; X (tokens, width), P (heads, tokens, tokens), float64."""
    if valid is not None:
        keep = valid[0].bool()
        X, P = X[keep], P[:, keep][:, :, keep]
    require(len(X) >= 2, "batch", f"a text of {len(X)} tokens", "2 or more, padding apart")
    centered = norms.mean_centered(X)
    distances = distances_of(centered)
    sizes, several = diameters_of(distances, (P != 0).any(0))  # NaN is not hidden
    H = torch.special.entr(P).sum(-1)[:, several]
    share = share_of(P)[:, several]
    rows = zip(
        H.mean(-1).tolist(),
        H.amin(-1).tolist(),
        share.mean(-1).tolist(),
        (share * sizes[several].square()).mean(-1).tolist(),
        strict=True,
    )
    residual = float(centered.norm()) / float(X.norm())
    return Layer(residual, float(distances.max()), tuple(Head(*row) for row in rows))


def share_of(P: Tensor) -> Tensor:
    """P (1 - P) of each row of weights, with P = max(1/2, its largest weight); (..., rows).

    :func:`attnverify.mathematics.gradients.weight_variance` keeps more digits near 0 from logits,
    in time cubic in the number of tokens.
    """
    largest = P.amax(-1).clamp_min(0.5)
    return largest * (1 - largest)


def distances_of(X: Tensor) -> Tensor:
    """Distances of centered tokens by one matrix product.

    Its errors are a few roundings of float64 of the largest squared length, which is at most the
    squared diameter of centered tokens; so the diameter keeps some 15 digits however near tokens
    are to each other.
    """
    squares = X.square().sum(-1)
    apart = squares[:, None] + squares[None, :] - 2 * X @ X.mT
    return apart.clamp_min(0).sqrt().fill_diagonal_(0.0)


def diameters_of(distances: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """For every query the diameter of the tokens it sees, and whether it sees two or more."""
    several = seen.sum(-1) > 1
    if torch.equal(seen, torch.ones_like(seen).tril()):
        return distances.tril().amax(-1).cummax(0).values, several
    return distances.max().expand(len(distances)), several

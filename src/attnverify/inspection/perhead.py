"""What is measured at the heads of one layer: their matrices, and what they attend to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnverify.inspection.layers import attention_output, differ, rates
from attnverify.inspection.trace import Heads, Layer
from attnverify.mathematics import norms, querykey
from attnverify.mathematics.entropy import spread_constant
from attnverify.mathematics.spectral import thin_product

Row = dict[str, Any]

FAR = 2.0**10  # a spread beyond what float64 resolves: a weight that underflows; the floor is 0


def rows(layer: Layer, valid: Tensor, unit: float) -> list[Row]:
    """A row for every head; what depends on tokens is the mean over those of all texts.

    unit: the coarsest roundoff that was worked with so far.
    """
    heads = layer.heads
    values = {**weights(heads), **attention(heads, valid), **parts(layer, valid, unit)}
    lists = {name: value.tolist() for name, value in values.items()}
    return [
        {
            "layer": layer.number,
            "head": head + 1,
            **{name: _number(values[head]) for name, values in lists.items()},
        }
        for head in range(heads.count)
    ]


def weights(heads: Heads) -> dict[str, Tensor]:
    """Figures of W_QK = W_Q W_K^T and of W = W_V W_O, each (heads,); nan where undefined."""
    Q, K = heads.W_Q, heads.W_K
    c, v = rates(heads)
    return {
        "xi": querykey.xi(Q, K),
        "xi_frobenius": querykey.xi_general(Q, K),
        "symmetry": querykey.symmetry(Q, K),
        "asymmetry": querykey.skew_share(Q, K),
        "rank": _rank(thin_product(Q, K), Q.shape[-2]),
        "query_key_norm": 4 * c / heads.scale,
        "value_norm": v,
    }


def _rank(small: Tensor, width: int) -> Tensor:
    """Singular values above width u times the largest, which rounding alone does not reach."""
    values = torch.linalg.svdvals(small)
    limit = values[..., :1] * width * torch.finfo(values.dtype).eps
    return (values > limit).sum(-1).double()


def attention(heads: Heads, valid: Tensor) -> dict[str, Tensor]:
    """Entropy, its floor, and where attention goes, (heads,): means over rows with two keys.

    The keys of a row are the tokens that some head gives weight to: what a mask or a window hides
    no head sees, and a weight that underflows in one head alone is one of zero.
    """
    found = [_attention_of(heads.P[t][:, keep][:, :, keep]) for t, keep in enumerate(valid)]
    joined = {name: torch.cat([each[name] for each in found], -1) for name in found[0]}
    return {name: value.nanmean(-1) for name, value in joined.items()}


def _attention_of(P: Tensor) -> dict[str, Tensor]:
    """For every head and token of one text, P (heads, tokens, tokens); nan for rows of one key."""
    seen = (P > 0).any(0)
    keys = seen.sum(-1)
    logs = torch.where(P > 0, P, 1.0).log()
    entropy = -(P * logs).sum(-1)
    D = P.amax(-1).log() - torch.where(seen, P, torch.inf).amin(-1).log()
    D = D.clamp_max(FAR)
    most = keys.double().log()
    lack = torch.where(D > 0, spread_constant(torch.where(D > 0, D, 1.0)), 0.0)
    several = keys > 1
    first = seen[:, 0].clone()
    first[0] = False
    return {
        "entropy": torch.where(several, entropy / most, torch.nan),
        "entropy_floor": torch.where(several, ((most - lack) / most).clamp_min(0), torch.nan),
        "sink": torch.where(first, P[..., 0], torch.nan),
        "itself": torch.where(several, P.diagonal(dim1=-2, dim2=-1), torch.nan),
    }


def parts(layer: Layer, valid: Tensor, unit: float) -> dict[str, Tensor]:
    """What each head adds to the attention's output, tokens' mean removed, (heads,).

    part: its projection on the whole, over the whole's square (all heads add up to 1 where rows of
    attention add up to 1); moves: its norm over that of the whole. nan where the whole has equal
    tokens, up to rounding.
    """
    heads, whole = layer.heads, attention_output(layer)
    inner, square, total, kept = [], [], 0.0, 0.0
    for text, keep in enumerate(valid):
        X, out = heads.input[text][keep], norms.mean_centered(whole[text][keep])
        P = heads.P[text][:, keep][:, :, keep]
        own = [
            norms.mean_centered(p @ (X @ V) @ W)
            for p, V, W in zip(P, heads.W_V, heads.W_O, strict=True)
        ]
        inner.append(torch.stack([(each * out).sum() for each in own]))
        square.append(torch.stack([each.square().sum() for each in own]))
        total += float(out.square().sum())
        kept += float(whole[text][keep].square().sum())
    total = total if differ(total, kept, unit) else 0.0
    whole_size = torch.tensor(total, dtype=torch.float64)
    return {
        "part": _over(torch.stack(inner).sum(0), whole_size),
        "moves": _over(torch.stack(square).sum(0), whole_size).sqrt(),
    }


def _over(a: Tensor, b: Tensor) -> Tensor:
    """a / b; nan where b is 0."""
    return a / torch.where(b == 0, torch.nan, b)


def _number(value: float) -> float | None:
    return value if value == value else None

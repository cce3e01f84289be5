"""Checks of MLPs: diameter and composite value."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from attnverify import ops
from attnverify.evidence.cover import certain
from attnverify.evidence.forms import Check, Decision, Inequality
from attnverify.formulas import norms
from attnverify.formulas.spectral import spectral_norm
from attnverify.verdict import Verdict


def mlp(X, W_1, b_1, W_2):
    """relu(X W_1 + b_1) W_2, row by row."""
    hidden = X @ W_1 + b_1
    return ops.maximum(hidden, 0 * hidden) @ W_2


def _lipschitz(X, W_1, b_1, W_2):
    return spectral_norm(W_1) * spectral_norm(W_2) * norms.diameter(X)


MLP_SIZES = (
    {"X": (2, 2), "W_1": (2, 2), "b_1": (1, 2), "W_2": (2, 2)},
    {"X": (4, 3), "W_1": (3, 5), "b_1": (1, 5), "W_2": (5, 3)},
)


def _pass_through() -> dict[str, torch.Tensor]:
    """Positive tokens through identity maps: relu does nothing."""
    eye = torch.eye(2, dtype=torch.float64)
    X = torch.tensor([[1.0, 1.0], [2.0, 1.0]], dtype=torch.float64)
    return {"X": X, "W_1": eye, "b_1": torch.zeros(1, 2, dtype=torch.float64), "W_2": eye}


MLP_DIAMETER = Inequality(
    left=lambda **i: norms.diameter(mlp(**i)),
    right=_lipschitz,
    sizes=MLP_SIZES,
    extremal=(_pass_through,),
).times(0.9999)


def _entrywise(X, x, W_1, b_1, W_2):
    return norms.composite(abs(W_1) @ abs(W_2)) * norms.composite(X - x)


def _spectral_composite(X, x, W_1, b_1, W_2):
    return spectral_norm(W_1) * spectral_norm(W_2) * norms.composite(X - x)


def hadamard(d: int) -> torch.Tensor:
    """Sylvester's Hadamard matrix of width d, a power of two: entries +-1, H H^T = d I."""
    H = torch.ones(1, 1, dtype=torch.float64)
    while len(H) < d:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    return H


def _every_center(bound: Callable, d: int = 8) -> Verdict:
    """A bound against f(x) = relu(x + 1) H on the tokens e_1, ..., e_d, -e_1, ..., -e_d.

    For any center y, |f(e_i) - y| + |f(-e_i) - y| >= |f(e_i) - f(-e_i)|. These differences bound
    every column sum, and half of their mean row sum the largest row sum, from below. The entrywise
    bound is attained, so it is compared up to 2^-40.
    """
    eye = torch.eye(d, dtype=torch.float64)
    X = ops.balls(torch.cat([eye, -eye]))
    maps = {"W_1": ops.balls(eye), "b_1": ops.full((1, d), 1, X), "W_2": ops.balls(hadamard(d))}
    Y = mlp(X, **maps)
    apart = abs(Y[:d] - Y[d:])
    least = ops.sqrt(norms.max_column_sum(apart) * (np.sum(apart) / (2 * d)))
    allowed = bound(X, 0 * X[:1], **maps)
    room = allowed * (1 + 2.0**-40)
    holds = certain(least <= room, least > room)
    return Verdict(holds, f"at least {least.str(6)} with any center, allowed {allowed.str(6)}")


# The left side takes the center f(x) in place of the best one: stronger than the statement.
MLP_COMPOSITE = (
    Inequality(
        left=lambda X, x, W_1, b_1, W_2: norms.composite(
            mlp(X, W_1, b_1, W_2) - mlp(x, W_1, b_1, W_2)
        ),
        right=_entrywise,
        sizes=tuple({**size, "x": (1, size["X"][1])} for size in MLP_SIZES),
        extremal=(
            lambda: {**_pass_through(), "x": torch.tensor([[1.0, 1.0]], dtype=torch.float64)},
        ),
    )
    .times(0.9999)
    .but("the l2-Lipschitz constant in place of the entrywise matrix", right=_spectral_composite)
)

MLP_BEST_CENTER = Decision(
    partial(_every_center, _entrywise), "one instance, the Hadamard matrix of width 8", "certified"
).but(
    "the l2-Lipschitz constant in place of the entrywise matrix",
    run=partial(_every_center, _spectral_composite),
)

CHECKS: dict[str, dict[str, Check]] = {
    "mlp.lipschitz": {
        "diameter": MLP_DIAMETER,
        "composite": MLP_COMPOSITE,
        "best center": MLP_BEST_CENTER,
    },
}

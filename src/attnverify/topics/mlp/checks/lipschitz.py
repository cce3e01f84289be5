"""Checks of the Lipschitz constants of an MLP, for several activations: diameter and size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.mathematics import norms
from attnverify.mathematics.norms import least_composite
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict


def relu(x):
    return ops.maximum(x, 0 * x)


def unequal(x):
    """x for x >= 0, -x/2 below: 1-Lipschitz, and not monotone."""
    return ops.maximum(x, -x / ops.constant(2, x))


#: Activations with Lipschitz constant 1: kinked, bounded, with slopes of both signs, smooth.
ACTIVATIONS: dict[str, Callable] = {
    "relu": relu,
    "tanh": ops.tanh,
    "hyperbola": lambda x: ops.sqrt(1 + ops.square(x)),
    "unequal slopes": unequal,
    "softplus": lambda x: ops.log1p(ops.exp(x)),
}


def mlp(X, W_1, b_1, W_2, b_2: Any = 0, activation: Callable = relu):
    """activation(X W_1 + b_1) W_2 + b_2, row by row."""
    return activation(X @ W_1 + b_1) @ W_2 + b_2


def _lipschitz(X, W_1, b_1, W_2, b_2):
    return spectral_norm(W_1) * spectral_norm(W_2) * norms.diameter(X)


MLP_SIZES = (
    {"X": (2, 2), "W_1": (2, 2), "b_1": (1, 2), "W_2": (2, 2), "b_2": (1, 2)},
    {"X": (4, 3), "W_1": (3, 5), "b_1": (1, 5), "W_2": (5, 3), "b_2": (1, 3)},
)


def _pass_through(size: float, start: float) -> dict[str, torch.Tensor]:
    """Two tokens through identity maps, at inputs of the activation near ``start``."""
    eye, zero = torch.eye(2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)
    X = torch.tensor([[size, size], [2 * size, size]], dtype=torch.float64)
    return {"X": X, "W_1": eye, "b_1": zero + start, "W_2": eye, "b_2": zero + 1}


#: Where each activation has slope 1, nearly.
STEEPEST = {"tanh": (2.0**-12, 0.0), "hyperbola": (1.0, 2.0**12), "softplus": (1.0, 32.0)}


def _at_full_slope(name: str) -> dict[str, torch.Tensor]:
    return _pass_through(*STEEPEST.get(name, (1.0, 0.0)))


def _diameter(name: str) -> Inequality:
    return Inequality(
        left=lambda **i: norms.diameter(mlp(**i, activation=ACTIVATIONS[name])),
        right=_lipschitz,
        sizes=MLP_SIZES,
        extremal=(partial(_at_full_slope, name),),
    ).times(0.9999)


def _entrywise(X, x, W_1, b_1, W_2, b_2):
    return norms.composite(abs(W_1) @ abs(W_2)) * norms.composite(X - x)


def _spectral_composite(X, x, W_1, b_1, W_2, b_2):
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
    maps["b_2"] = 0 * maps["b_1"]
    Y = mlp(X, **maps)
    apart = abs(Y[:d] - Y[d:])
    least = ops.sqrt(norms.max_column_sum(apart) * (np.sum(apart) / (2 * d)))
    allowed = bound(X, 0 * X[:1], **maps)
    room = allowed * (1 + 2.0**-40)
    holds = certain(least <= room, least > room)
    return Verdict(holds, f"at least {least.str(6)} with any center, allowed {allowed.str(6)}")


def _between(name: str) -> dict[str, torch.Tensor]:
    """Any x between the two tokens is a best center, of X and of f(X)."""
    tokens = _at_full_slope(name)
    return {**tokens, "x": tokens["X"].mean(0, keepdim=True)}


def _composite(name: str) -> Inequality:
    """The left side takes the center f(x) in place of the best one: stronger than the statement."""

    def moved(X, x, **maps):
        return mlp(X, **maps, activation=ACTIVATIONS[name]) - mlp(
            x, **maps, activation=ACTIVATIONS[name]
        )

    return Inequality(
        left=lambda **i: norms.composite(moved(**i)),
        lower=lambda **i: least_composite(moved(**i)),
        right=_entrywise,
        sizes=tuple({**size, "x": (1, size["X"][1])} for size in MLP_SIZES),
        extremal=(partial(_between, name),),
    ).times(0.9999)


MLP_BEST_CENTER = Decision(
    partial(_every_center, _entrywise), "one instance, the Hadamard matrix of width 8", "certified"
).but(
    "the l2-Lipschitz constant in place of the entrywise matrix",
    run=partial(_every_center, _spectral_composite),
)


def _named(form: str, activation: str) -> str:
    return form if activation == "relu" else f"{form}, {activation}"


CHECKS: dict[str, dict[str, Check]] = {
    "mlp.lipschitz": {
        **{_named("diameter", name): _diameter(name) for name in ACTIVATIONS},
        **{_named("composite", name): _composite(name) for name in ("relu", "hyperbola")},
        "best center": MLP_BEST_CENTER,
    },
}

"""Checks of pre-norm residual streams: no collapse."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import INSIDE, KEY_WIDTH, along_first_axis, two_tokens
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.mathematics import collapse, layernorm, norms
from attnverify.mathematics.spectral import spectral_norm
from attnverify.topics.modern.checks.layer_share import normalized

SUMMED_LAYERS = 30


def _sum_of_cubes(r, m):
    """Sum of (r^2 + l m^2)^(-3/2) over l < 30."""
    total = 0 * r
    for i in range(SUMMED_LAYERS):
        length = ops.sqrt(ops.square(r) + ops.constant(i, r) * ops.square(m))
        total = total + 1 / length**3
    return total


def _integral_bound(r, m, first: int = 1):
    """Bound first r^-3 + 2 m^-2 r^-1 on that sum, by an integral."""
    return ops.constant(first, r) / r**3 + ops.constant(2, r) / (ops.square(m) * r)


def _radius_and_step(r: float, m: float) -> Instance:
    return {"r": torch.tensor([r]).double(), "m": torch.tensor([m]).double()}


# r = m = 1 has 2.250 below 3, more than the integral alone; fast growth leaves the first term
CUBES = (
    Inequality(
        left=_sum_of_cubes,
        right=_integral_bound,
        sizes=({"r": (1,), "m": (1,)},),
        build=lambda r, m: {"r": torch.exp(r), "m": torch.exp(m)},
        hypotheses=lambda r, m: [(0 * r, r), (0 * m, m)],
        extremal=(partial(_radius_and_step, 1.0, 1.0), partial(_radius_and_step, 1.0, 2.0**10)),
    )
    .times(0.9999)
    .but("without the first term", right=partial(_integral_bound, first=0))
)


# ------------------------------------------------------------------------------------ no collapse

V, K = 0.5, 3.2382  # K(1/2) rounded up (claim skip.polynomial-rate-heads)


def layers(X, W_QK, b_QK, W, g, power: int = 3):
    """Costs lambda_l^power mu_l, values lambda_l sum_h v_h, and the diameter of the output."""
    costs, values = [], []
    for i in range(W.shape[-4]):
        least = -ops.amax(-layernorm.length_squared(X), -1)
        lam = layernorm.lipschitz(ops.amax(abs(g), -1), least, X.shape[-1], ops.constant(0, X))
        c, v = collapse.rate(W_QK[..., i, :, :, :], KEY_WIDTH), spectral_norm(W[..., i, :, :, :])
        costs.append(lam**power * ops.sum(c * v, -1))
        values.append(lam * ops.sum(v, -1))
        N, at = normalized(X, g), (..., i, slice(None), slice(None), slice(None))
        X = X + collapse.layer(N, W_QK[at], b_QK[..., i, :, :], W[at], KEY_WIDTH)
    return costs, values, norms.diameter(X)


def _growth(**i: Any):
    after = layers(**i)[2]
    return ops.square(norms.diameter(i["X"]) / after) - ops.constant(1, i["X"])


def _allowed(power: int = 3, **i: Any):
    costs = layers(**i, power=power)[0]
    total = sum(costs[1:], costs[0])
    return ops.constant(K, i["X"]) * total * ops.square(norms.diameter(i["X"]))


def small_values(X, W_QK, b_QK, W, g) -> Instance:
    """Instance with value maps scaled, layer by layer, to lambda_l sum_h v_h just below V."""
    maps = []
    for i in range(W.shape[-4]):
        done = torch.stack([*maps, W[..., i, :, :, :]], -4)
        most = layers(X, W_QK[..., : i + 1, :, :, :], b_QK[..., : i + 1, :, :], done, g)[1][-1]
        maps.append(W[..., i, :, :, :] * (INSIDE * V / most)[..., None, None, None])
    return {"X": X, "W_QK": W_QK, "b_QK": b_QK, "W": torch.stack(maps, -4), "g": g}


def _values_below(**i: Any):
    return [(value, ops.full(tuple(value.shape), V, value)) for value in layers(**i)[1]]


def _costly(depth: int, length: float) -> Instance:
    """Network of two tokens at equality for V = 1/2: W_V = -v e_1 e_1', scores along e_1.

    The tokens begin at distance 1 with this length. d = 4 and g = 1, so lambda is 2 over the
    length; a layer costs most where c lambda^2 delta^2 = y (x_V = V y), and it leaves 1 - V tanh y
    of delta.
    """
    size, y, kept = 1.0, 1.138, length**2 - 0.25
    X = two_tokens(4, size)
    X[:, 1] = kept**0.5
    W_QK, W = [], []
    for _ in range(depth):
        lam = 2 / (kept + size**2 / 4) ** 0.5
        W_QK.append(along_first_axis(4, 1, 1, 4 * KEY_WIDTH**0.5 * y / (lam * size) ** 2))
        W.append(along_first_axis(4, 1, 1, -V / lam * (1 - 2.0**-30)))
        size = size * (1 - V * math.tanh(y))
    zero, g = torch.zeros(depth, 1, 4).double(), torch.ones(4, dtype=torch.float64)
    return {"X": X, "W_QK": torch.cat(W_QK), "b_QK": zero, "W": torch.cat(W), "g": g}


NO_COLLAPSE = (
    Inequality(
        left=_growth,
        right=_allowed,
        sizes=tuple(
            {"X": (n, d), "W_QK": (L, H, d, d), "b_QK": (L, H, d), "W": (L, H, d, d), "g": (d,)}
            for n, d, L, H in ((2, 2, 1, 1), (3, 2, 3, 2), (2, 4, 1, 3))
        ),
        build=small_values,
        hypotheses=_values_below,
        extremal=(
            partial(_costly, 1, 1.0),
            partial(_costly, 2, 1.0),
            partial(_costly, 1, 2 / 1.005),
        ),
    )
    .times(0.9999)
    .but("lambda_l^2 in place of its cube", right=partial(_allowed, power=2))
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.pre-norm-depth": {"no collapse": NO_COLLAPSE, "sum of cubes": CUBES},
}

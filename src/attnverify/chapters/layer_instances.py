"""Instances of layers and networks, with bounded scores, that several chapters share."""

from __future__ import annotations

from typing import Any

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Instance
from attnverify.mathematics import collapse, norms, softmax
from attnverify.mathematics.softmax import oscillation
from attnverify.mathematics.spectral import spectral_norm

KEY_WIDTH = 4  # d_qk of all instances; W_QK is free, so its value is no restriction
INSIDE = 1 - 2.0**-40  # keeps a bound after rounding; the bound itself is checked in balls
LIMIT = softmax.critical_float() * INSIDE


def output_diameter(X, W_QK, b_QK, W, skip: bool = False):
    """Diameter (...) of the output of a network, with skip connections or without."""
    return norms.diameter(collapse.network(X, W_QK, b_QK, W, KEY_WIDTH, skip=skip))


def bounded_layer(
    x, W_QK, b_QK, W, s, u: Any = None, R: Any = None, limit: float = LIMIT
) -> Instance:
    """Layer with scores scaled so that every oscillation is at most ``limit``.

    The share of the limit is sigmoid(s), with s free for each head.
    Two tokens are R = (u, -u), whose center is the minimizing one.
    """
    R = torch.cat([u, -u], dim=-2) if R is None else R
    largest = oscillation(collapse.scores_of_residual(R, W_QK, KEY_WIDTH)).amax(-1)
    # the floor keeps rounding noise of nearly equal tokens from being scaled up to the limit
    factor = limit * torch.sigmoid(s) / largest.clamp_min(1e-6)
    return {"R": R, "x": x, "W_QK": W_QK * factor[..., None, None], "b_QK": b_QK, "W": W}


def two_token_layer(scale: float, heads: int = 1) -> dict[str, torch.Tensor]:
    """Layer of two tokens +-(scale, 0), W_QK = e_1 e_1^T, W = e_1 1^T: a large ratio at width 2.

    With several heads, head h = 0, 1, ... has 1 + h/H times these scores and 2 - (h + 1)/H times
    this value map, so that no two are equal.
    """
    h = torch.arange(heads, dtype=torch.float64)
    W_QK = torch.zeros(heads, 2, 2, dtype=torch.float64)
    W_QK[:, 0, 0] = 1 + h / heads
    W = torch.zeros(heads, 2, 2, dtype=torch.float64)
    W[:, 0, :] = (2 - (h + 1) / heads)[:, None]
    R = torch.tensor([[scale, 0.0], [-scale, 0.0]], dtype=torch.float64)
    zero = torch.zeros(heads, 2, dtype=torch.float64)
    return {"R": R, "x": torch.zeros(1, 2, dtype=torch.float64), "W_QK": W_QK, "b_QK": zero, "W": W}


def small_scores(heads: int = 1) -> dict[str, torch.Tensor]:
    """Layer of two tokens whose scores oscillate by 2^-16 or little more."""
    return two_token_layer(2.0**-8, heads)


def oscillations_bounded(R, W_QK, **_):
    """Hypothesis D_i <= x* for every head and row, as pairs (smaller, larger)."""
    D = oscillation(collapse.scores_of_residual(R, W_QK, KEY_WIDTH))
    return [(D, ops.full(tuple(D.shape), 0, D) + softmax.critical_oscillation(D))]


def with_rate(W_QK, rate):
    """W_QK rescaled so that every head has this ``rate`` (..., 1 or heads)."""
    now = collapse.rate(W_QK, KEY_WIDTH).clamp_min(1e-300)
    return W_QK * (rate[..., None] / now)[..., None, None]


def with_rates(W_QK, rates):
    """W_QK rescaled so that head h of layer l has the rate of (..., depth or 1, heads)."""
    now = collapse.rate(W_QK, KEY_WIDTH).clamp_min(1e-300)
    return W_QK * (rates / now)[..., None, None]


def unit_value_map(W, size):
    """W rescaled to largest singular value ``size`` (broadcast over depth and heads)."""
    norm: Any = spectral_norm(W)
    return W * (INSIDE * size / norm.clamp_min(1e-300))[..., None, None]


def power(x: Any, exponent: float) -> Any:
    """Power x^exponent for x > 0."""
    return ops.exp(ops.constant(exponent, x) * ops.log(x))


def two_tokens(width: int, size: float) -> torch.Tensor:
    """Tokens +-(size/2) e_1, at distance ``size``."""
    X = torch.zeros(2, width, dtype=torch.float64)
    X[:, 0] = torch.tensor([size / 2, -size / 2])
    return X


def along_first_axis(width: int, depth: int, heads: int, value: float) -> torch.Tensor:
    """Maps value * e_1 e_1^T for every layer and head."""
    W = torch.zeros(depth, heads, width, width, dtype=torch.float64)
    W[..., 0, 0] = value
    return W


def extremal_network(
    size: float, depth: int, value: float, heads: int = 1, growth: float = 0.0
) -> Instance:
    """Network at equality: two tokens along the singular vectors of rank-one maps, rate c = 1/8.

    value: the singular value of every value map, with sign. With several heads, head h = 1, 2, ...
    has h times this rate and value / h, since aligned heads attain the bound at any sizes. growth:
    what each layer adds to the factor 1 of the first one's rates and values.
    """
    number = torch.arange(1, heads + 1, dtype=torch.float64)[:, None, None]
    layer = 1 + growth * torch.arange(depth, dtype=torch.float64)[:, None, None, None]
    W_QK = along_first_axis(2, depth, heads, 1.0) * number * layer
    zero = torch.zeros(depth, heads, 2, dtype=torch.float64)
    return {
        "X": two_tokens(2, size),
        "W_QK": W_QK,
        "b_QK": zero,
        "W": along_first_axis(2, depth, heads, value) / number * layer,
    }


def extremal_layer(size: float, value: float, heads: int = 1) -> Instance:
    """The one layer of :func:`extremal_network`: X (2, 2), W_QK and W (H, 2, 2), b_QK (H, 2)."""
    made = extremal_network(size, 1, value, heads)
    return {name: array if name == "X" else array[0] for name, array in made.items()}

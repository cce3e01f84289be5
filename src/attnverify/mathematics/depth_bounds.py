"""Bounds on the diameter over depth with many heads, without and with skip connections.

Without skip connections the sharp bound of one layer gives a recursion for the diameter and a
threshold below which it collapses; with them it gives a polynomial rate. The formulas serve the
claims collapse.threshold-heads and skip.*-heads.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`. c, v (..., heads) are the rates
||W_QK||_2 / (4 sqrt(d_qk)) and the largest singular values of the value maps; size (...) is a
diameter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.mathematics.collapse import sharp_factor
from attnverify.mathematics.softmax import variation_bound
from attnverify.support.errors import require


def recursion(size, c, v, depth: int):
    """Diameter bound a_L of a_0 = size, a_{l+1} = a_l sum_h v_h tanh(c_h a_l^2); shape of size."""
    for _ in range(depth):
        size = size * sharp_factor(size, c, v)
    return size


def geometric(size, c, v, depth: int):
    """Geometric bound F(size)^L size with the first factor F = sum_h v_h tanh(c_h size^2)."""
    factor = sharp_factor(size, c, v)
    bound = size
    for _ in range(depth):
        bound = bound * factor
    return bound


def saturating(x, V):
    """Largest factor V tanh(x/V) of heads with sum_h v_h = V > 0 and sum_h v_h c_h size^2 = x."""
    return V * variation_bound(4 * x / V)


def mean_factor(size, c, v):
    """:func:`saturating` for these heads, at least their factor sum_h v_h tanh(c_h size^2)."""
    return saturating(ops.sum(c * v, -1) * ops.square(size), ops.sum(v, -1))


def skip_cost(x, V):
    """Growth of 1/size^2 over sum_h v_h c_h in one layer: ((1 - V tanh(x/V))^-2 - 1)/x.

    x = size^2 sum_h v_h c_h > 0 and 0 < V < 1. Its largest value over x is K(V) of claim
    skip.polynomial-rate-heads.
    """
    one = ops.constant(1, x)
    return (one / ops.square(one - saturating(x, V)) - one) / x


def equal_rates(start, m, V, layers: int, slope: float = 2.0):
    """Bound t + 2 m L + (A m/2) log(1 + 2 m L/t) + A m^2/t on 1/diam^2 after L layers with skips.

    start = 1/diam^2 of the input, m bounds sum_h v_h c_h of every layer and V < 1 bounds sum_h v_h;
    A = 3/(1 - V)^2 and t = max(start, m root A) + (2 - V) m/(1 - V)^2. slope: 2, or another number
    for a twin of claim skip.equal-rates.
    """
    left = 1 - V
    A = 3 / ops.square(left)
    t = ops.maximum(start, m * ops.sqrt(A)) + m * (2 - V) / ops.square(left)
    grown = slope * m * layers
    return t + grown + A * m / slope * ops.log(1 + grown / t) + A * ops.square(m) / t


def heads_threshold(
    qk_norms: Sequence[float | int], value_norms: Sequence[float | int], key_width: int
) -> float:
    """Diameter below which heads with these norms collapse: the root of F = 1, by halving.

    As in claim collapse.threshold-heads; infinite if the value norms of the heads with a positive
    qk_norm add up to at most 1. A float, up to a few roundings.
    """
    same = len(qk_norms) == len(value_norms)
    require(same, "value_norms", f"{len(value_norms)} heads", f"{len(qk_norms)}, as qk_norms")
    for name, norms in {"qk_norms": qk_norms, "value_norms": value_norms}.items():
        fine = all(math.isfinite(value) and value >= 0 for value in norms)
        require(fine, name, norms, "finite numbers >= 0")
    require(key_width >= 1, "key_width", key_width, "a positive whole number")
    q, v = torch.tensor([[*qk_norms], [*value_norms]], dtype=torch.float64)
    return layer_threshold(q / (4 * math.sqrt(key_width)), v)


def layer_threshold(c: Float[Tensor, " heads"], v: Float[Tensor, " heads"]) -> float:
    """Diameter below which a layer with these rates and value norms collapses.

    It is the root of sum_h v_h tanh(c_h size^2) = 1; heads with c_h = 0 or v_h = 0 do not count.
    """
    counting = (c > 0) & (v > 0)
    c, v = (each[counting].to("cpu", torch.float64) for each in (c, v))

    def factor(size: float) -> float:
        return float(sharp_factor(torch.tensor(size, dtype=torch.float64), c, v))

    if factor(math.inf) <= 1:
        return math.inf
    low, high = 0.0, 1.0
    while factor(high) < 1:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if factor(middle) < 1 else (low, middle)
    return high

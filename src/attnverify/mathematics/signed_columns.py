"""What many rows with one base move together in a vector of both signs, and what follows for width.

With g = max(1/sqrt 2, (1 + kappa)/4) the deviations of
:func:`attnverify.mathematics.heads.deviations` are at most g sqrt(||v||_1 ||v||_inf) ||E||_1 while
D = max_i osc(E_i) <= x*. This module holds the factor g, the constant of many heads that follows
from it, and the quantities of the proof. It serves the claims collapse.signed-columns and
collapse.multi-head-width.

Bounds work in any arithmetic of :mod:`attnverify.arithmetic.ops`, with arrays as in
:mod:`attnverify.mathematics.heads`.

>>> import torch
>>> from attnverify.mathematics import signed_columns
>>> D = torch.tensor(2.0**-20, dtype=torch.float64)
>>> round(signed_columns.factor(D).item(), 6)  # 1/sqrt 2
0.707107
"""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics import heads, norms


def factor(D):
    """Factor g(D) = max(1/sqrt 2, (1 + kappa(D))/4), D > 0."""
    c = heads.single_factor(heads.kappa(D))
    return ops.maximum(c, 0 * c + ops.constant(1, c) / ops.root(2, c))


def width_factor(D, d):
    """Factor (sqrt c / 2) (tau + 1/tau), tau^4 = g^2 d / (2 c^2), c = (1 + kappa(D))/4, g = g(D).

    D > 0: largest oscillation, at most x*; d >= 2: width, a number in the arithmetic of D.
    """
    c = heads.single_factor(heads.kappa(D))
    tau = ops.sqrt(factor(D) / c * ops.sqrt(d / ops.constant(2, D)))
    return ops.sqrt(c) * (tau + 1 / tau) / ops.constant(2, D)


def width_constant(R, W_QK, W, key_width: int):
    """The factor times sum_h ||W_QK,h||_1 ||W_h||_{1,inf} / sqrt(d_qk); W_h has d >= 2 columns."""
    D = heads.largest_oscillation(R, W_QK, key_width)
    sizes = ops.sum(norms.max_column_sum(W_QK) * norms.composite(W), -1)
    return width_factor(D, ops.constant(W.shape[-1], R) + 0 * D) * sizes / ops.root(key_width, R)


# ---------------------------------------------------------------- quantities of the proof


def log_raised(s, D):
    """Factor u(s) = log(1 + s (e^D - 1))/D: a share s raised by e <= D grows by at most u(s) e."""
    return ops.log1p(s * ops.expm1(D)) / D


def edge(D):
    """The m from which on the slope of the logistic function is at its largest at distance D."""
    grown = ops.expm1(D)
    return 1 - 2 * (D * ops.exp(D) - grown) / ops.square(grown)


def slope_before(m, D):
    """Bound 1/(1 + m^2/4) on the slope l, at any m and D."""
    return 4 / (4 + ops.square(m))


def slope_beyond(m, D):
    """Slope l = 2 (1 - m^2) (e^D - 1) / (D (2 + (1 - m)(e^D - 1))), from :func:`edge` on."""
    grown = ops.expm1(D)
    return 2 * (1 - ops.square(m)) * grown / (D * (2 + (1 - m) * grown))


def token_weights(base, v, D):
    """Weights w (..., tokens): 2 |(P - p) v| <= sum_j w_j |e_j| for P = softmax(base + e).

    base: (..., tokens); v: entries 1, -1 and 0, of both signs, mean m >= 0 under p; D: (...),
    osc e, with 0 in the range of e. The slope is bounded by :func:`slope_before`.
    """
    p = ops.softmax(base)
    m, D = ops.sum(p * v, -1, keepdims=True), D[..., None]
    flat, slope = 1 - ops.square(m), slope_before(m, D)
    up, down = 2 * p / (1 + m), 2 * p / (1 - m)
    raised = ops.maximum(slope * up, flat * log_raised(up, D))
    zeros = ops.maximum(slope * up, flat * down)
    zeros = ops.maximum(zeros, 2 * heads.kappa(D) * slope * m * up / (1 - m))
    plus, minus = v * (v + 1) / 2, v * (v - 1) / 2
    return plus * raised + minus * slope * log_raised(down, D) + (1 - v * v) * zeros / 2


def total_weight(m, V, slope, D, plus: int, minus: int):
    """Bound on the sum of all weights, for ``plus`` and ``minus`` signs.

    m >= 0: mean of v under the base; V = h/(y + h) with y the mass of the minus tokens and h half
    of that of the zeros; slope: a bound on l. It is to be at most sqrt(2 (plus + minus)).
    """
    flat, rest = 1 - ops.square(m), (1 - m) / (1 + m)
    share = 1 - V * rest
    up = slope * plus * log_raised(share / plus, D)
    if plus == 1:
        up = ops.maximum(slope * share, flat * log_raised(share, D))
    down = slope * minus * log_raised((1 - V) / minus, D)
    rising = 2 * heads.kappa(D) * m * slope / (1 + m)
    return up + down + V * ops.maximum(ops.maximum(slope * rest, flat), rising)

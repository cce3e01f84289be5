"""Many tokens at a fixed temperature, and the normal law corrected for skewness.

Arithmetic of :mod:`attnverify.arithmetic.ops`, and sympy for :func:`ends`.
"""

from __future__ import annotations

from typing import Any

from attnverify.arithmetic import ops
from attnverify.mathematics import chisquare, edgeworth, localization, walk
from attnverify.mathematics.spectral import spectral_norm


def ends(t, xi, low, high, asymmetry: Any = 1, sqrt=ops.sqrt):
    """(low + s xi)/sqrt(v) and (s xi - high)/sqrt(v), s = t - 1/2, v = walk.limit_variance(t).

    low, high: the thresholds below and above the mean score, in units of T ||M||_F.
    """
    return (
        localization.limit_argument(t, xi, low, asymmetry, sqrt),
        localization.limit_argument(t, xi, -high, asymmetry, sqrt),
    )


def window(t, xi, low, high, asymmetry: Any = 1):
    """Phi of the first less Phi of the second of :func:`ends`: normal scores in the window."""
    first, second = ends(t, xi, low, high, asymmetry)
    return ops.normal_cdf(first) - ops.normal_cdf(second)


def many_tokens(t, xi, theta, T, asymmetry: Any = 1):
    """rho_T(t) of claim localization.fixed-temperature, theta = temperature / ||M||_F."""
    return window(t, xi, theta / T, theta - theta / T, asymmetry)


def limit(t, xi, theta, asymmetry: Any = 1):
    """rho_infinity(t) of the same claim."""
    return window(t, xi, 0 * theta, theta, asymmetry)


def shift_rate(theta, T):
    """sqrt(6/pi) theta/T: how far the two are apart at most."""
    return ops.sqrt((6 + 0 * T) / ops.pi(T)) * theta / T


def cubic_term(weights):
    """|sum mu^3| B(3/2, r/4 - 3/2)/(12 pi max|mu|^3) for stable rank r > 6; (..., m) -> (...)."""
    size = weights / ops.amax(abs(weights), -1, keepdims=True)
    return chisquare.cubic(abs(ops.sum(size * size * size, -1)), weights)


def quartic_term(weights):
    """sum mu^4/(pi max|mu|^4 (r - 8)(r - 4)) for stable rank r > 8; (..., m) -> (...)."""
    size = ops.square(weights / ops.amax(abs(weights), -1, keepdims=True))
    r = chisquare.stable_rank(weights)
    return ops.sum(size * size, -1) / (ops.pi(weights) * (r - 8) * (r - 4))


def relative_cubes(M, g, h):
    """|sum mu^3|/(sum mu^2)^(3/2) of a score's weights; M (..., d, d), g and h (...) -> (...)."""
    _, frobenius, square = walk.traces(M, ops.eye(M.shape[-1], M))
    squares = ((g * g + h * h) * frobenius + g * g * square) / 2
    return abs(edgeworth.third_trace(M, g, h * h)) / (squares * ops.sqrt(squares))


def relative_cubes_bound(M, g, h):
    """(3/sqrt(2)) (|g|/h) sigma/||M||_F with the largest singular value sigma; (...)."""
    size = spectral_norm(M) / ops.sqrt(ops.sum(ops.square(M), (-2, -1)))
    return 3 * abs(g) / h * size / ops.root(2, M)

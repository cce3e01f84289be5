"""Scores of a Gaussian random walk: the token model of Bao, Hataya and Karakida (2024).

Tokens: x_1 ~ N(0, S), x_{t+1} | x_t ~ N(x_t, S). The last token is the query, omega_i = x_i' W x_T
for a query-key matrix W, and a score is measured from the mean of its row: omega_i - mean(omega).
Formulas are plain arithmetic: they take torch tensors, balls, rationals and sympy symbols.

>>> from fractions import Fraction
>>> import attnverify as av
>>> [av.walk.alignment(i, 3) for i in (1, 2, 3)]
[-1.0, 0.0, 1.0]
>>> av.walk.remainder(Fraction(5))  # (25 - 1) / 12
Fraction(2, 1)
"""

from __future__ import annotations

import torch

from attnverify.arithmetic import ops


def alignment(i, T):
    """Covariance factor g_i = (2i - T - 1)/2: Cov(x_i - mean(x), x_T) = g_i S, for i = 1..T."""
    return (2 * i - T - 1) / 2


def spread(i, T):
    """Variance factor a_i: Cov(x_i - mean(x)) = a_i S, for i = 1..T."""
    return (2 * T * T - 6 * T * i + 3 * T + 6 * i * i - 6 * i + 1) / (6 * T)


def remainder(T):
    """Remainder h^2 = a_i T - g_i^2 = (T^2 - 1)/12, which is the same for every i."""
    return (T * T - 1) / 12


def score_mean(i, T, trace):
    """Mean of the centered score omega_i - mean(omega), g_i tr(WS); trace: tr(WS)."""
    return alignment(i, T) * trace


def score_variance(i, T, frobenius, square):
    """Variance of the centered score, a_i T tr(WSW'S) + g_i^2 tr(WSWS).

    frobenius: tr(WSW'S), which is ||W||_F^2 for S = I; square: tr(WSWS).
    """
    g = alignment(i, T)
    return (g * g + remainder(T)) * frobenius + g * g * square


def limit_variance(t, asymmetry=1):
    """Limit of Var(omega_i - mean(omega)) / (T^2 tr(WSW'S)) at relative position t in [0, 1].

    asymmetry: tr(WSWS)/tr(WSW'S) in [-1, 1], and 1 for symmetric W, where the polynomial is
    2 t^2 - 2 t + 7/12.
    """
    from_middle = (2 * t - 1) * (2 * t - 1)
    return (3 * (1 + asymmetry) * from_middle + 1) / 12


def position(i, T):
    """Position t_i = (i - 1/2)/T, the middle of cell i of T in [0, 1]; g_i/T = t_i - 1/2."""
    return (2 * i - 1) / (2 * T)


def indices(tokens: int, like):
    """Token numbers 1, ..., T in the arithmetic of ``like``; shape (T,)."""
    return ops.full((tokens,), 1, like).cumsum(0)


def traces(w, covariance):
    """Traces tr(WS), tr(WSW'S) and tr(WSWS) of W and S (..., d, d); each (...)."""
    product = w @ covariance
    transposed = ops.transpose(w) @ covariance
    return (
        trace(product),
        ops.sum(product * ops.transpose(transposed), (-2, -1)),
        ops.sum(product * ops.transpose(product), (-2, -1)),
    )


def trace(A):
    """Trace of A; (..., d, d) -> (...)."""
    return ops.sum(A * ops.eye(A.shape[-1], A), (-2, -1))


def sample(
    covariance_root: torch.Tensor, tokens: int, samples: int, random: torch.Generator
) -> torch.Tensor:
    """Random walks x_t = x_{t-1} + R e_t with e_t ~ N(0, I) and S = R R'; (samples, tokens, d)."""
    root = covariance_root
    steps = torch.randn(samples, tokens, root.shape[0], generator=random, dtype=root.dtype)
    return (steps @ root.mT).cumsum(1)

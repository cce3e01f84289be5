"""The first Edgeworth correction of a weighted chi-square sum, with an error bound at every rank.

Q = sum_k mu_k z_k^2 as in :mod:`attnverify.mathematics.chisquare`; scores are in standard
deviations from the mean. Formulas work on torch tensors and on balls; weights (..., m), results
(...).
"""

from __future__ import annotations

from typing import Any

from attnverify.arithmetic import ops
from attnverify.mathematics import chisquare, walk


def skewness(weights):
    """kappa = 8 sum mu^3/(2 sum mu^2)^(3/2), between -sqrt(8/r) and sqrt(8/r)."""
    V = 2 * ops.sum(ops.square(weights), -1)
    return 8 * ops.sum(ops.square(weights) * weights, -1) / (V * ops.sqrt(V))


def token_skewness(g, h, shape: Any = 1, sqrt=ops.sqrt):
    """2 g (4 g^2 + 3 h^2)/(2 g^2 + h^2)^(3/2) times shape = tr(M^3)/tr(M^2)^(3/2), symmetric M.

    ``sqrt``: the square root of the arguments' arithmetic; pass sympy's for sympy symbols.
    """
    spread = 2 * g * g + h * h
    return 2 * g * (4 * g * g + 3 * h * h) / (spread * sqrt(spread)) * shape


def third_trace(M, g, h_squared):
    """tr(B^3) = g^3 tr(S^3) + (3/4) g h^2 tr(S M M'), S = (M + M')/2, of one matrix M (d, d)."""
    S = (M + ops.transpose(M)) / 2
    cubed, mixed = S @ S @ S, S @ M @ ops.transpose(M)
    return g * g * g * walk.trace(cubed) + 3 * g * h_squared * walk.trace(mixed) / 4


def correction(score, kappa):
    """-(kappa/6)(y^2 - 1) phi(y) at y = score: what to add to Phi(y)."""
    square = ops.square(score)
    density = ops.exp(-square / 2) / ops.sqrt(2 * ops.pi(score) + 0 * score)
    return kappa * (1 - square) * density / 6


def unpaired_fifth(weights):
    """sum_k |p_k^5 - n_k^5| over the positive and the negative weights, matched by size."""
    zero = 0 * weights
    up, down = (ops.descending(ops.maximum(v, zero)) for v in (weights, -weights))
    return ops.sum(abs(_fifth(up) - _fifth(down)), -1)


def _fifth(v):
    return ops.square(ops.square(v)) * v


def edgeworth_bound(weights):
    """sup_x |P(Q <= x) - Phi(y) - correction| is at most this, for every stable rank.

    The bound of symmetric laws, kappa^2/(9 pi) and 6/(5 sqrt(pi)) beta/(sum mu^2)^(5/2) with beta
    of :func:`unpaired_fifth`. Derived in the chapter on the skewness of a score.
    """
    V, pi = ops.sum(ops.square(weights), -1), ops.pi(weights)
    tail = unpaired_fifth(weights) / (ops.square(V) * ops.sqrt(V))
    skew = ops.square(skewness(weights)) / (9 * pi)
    return chisquare.symmetric_bound(weights) + skew + 6 * tail / (5 * ops.sqrt(pi + 0 * V))


def rank_bound(r):
    """17/(9 pi r) + 2/(3 pi r^2) + 6/(5 sqrt(pi) r^(3/2)) >= :func:`edgeworth_bound`; any shape."""
    pi = ops.pi(r) + 0 * r
    low = (17 / r + 6 / ops.square(r)) / (9 * pi)
    return low + 6 / (5 * r * ops.sqrt(pi * r))

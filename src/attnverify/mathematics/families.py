"""Families of instances with a closed form: an anchor token, many heads, a triangle."""

from __future__ import annotations

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.mathematics import collapse


def unconditional_ratio(k: int, exponent: int = 4) -> arb:
    """Left over right of the bound with constant 4 for 2k + 1 tokens, without D <= x*.

    One anchor token holds half of the softmax base; k tokens pull weight to themselves by a score
    M = log(2^exponent k); k tokens do nothing. The value map reads the anchor's feature alone. With
    ||R||_1 = ||R||_inf = 1, ||W_QK||_1 / sqrt(d_qk) = M, ||W_V||_{1,inf} = 1 the right side is 4 M.
    The one output column is 1/2 for k + 1 tokens and alpha = 2k / (4k - 1 + e^M) for k; its best
    center is the midpoint, which leaves (1/2 - alpha) sqrt((k + 1/2) / 2).
    """
    M = (arb(2) ** exponent * k).log()
    alpha = arb(2 * k) / (4 * k - 1 + M.exp())
    return (arb(1) / 2 - alpha) * ((arb(k) + arb(1) / 2) / 2).sqrt() / (4 * M)


def printed_ratio(d: int, t: arb | None = None) -> arb:
    """Ratio of the printed many-heads bound with gamma = 1 in balls; t = 1/10 by default."""
    width = np.array([arb(d)], dtype=object)
    distance = np.array([arb(1) / 10 if t is None else t], dtype=object)
    return collapse.many_heads_ratio(width, distance)[0]


def triangle(rho):
    """Corners of an equilateral triangle around the origin with circumradius ``rho`` (..., 1)."""
    half, height = rho / 2, rho * ops.root(3, rho) / 2
    zero = 0 * rho
    rows = [
        ops.stack([rho[..., 0], zero[..., 0]], -1),
        ops.stack([-half[..., 0], height[..., 0]], -1),
        ops.stack([-half[..., 0], -height[..., 0]], -1),
    ]
    return ops.stack(rows, -2)


def triangle_factor(a):
    """(e^a - e^(-a/2)) / (e^a + 2 e^(-a/2)), in the form (1 - z)/(1 + 2 z) with z = e^(-3a/2)."""
    z = ops.expm1(-3 * a / 2)  # z - 1, which loses no digits for small a
    return -z / (3 + 2 * z)

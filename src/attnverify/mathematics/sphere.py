"""Tokens on the unit sphere, divided by their lengths after attention: caps and inner products.

A cap of radius phi about a unit vector w holds the unit vectors x with <w, x> >= cos(phi). The
formulas serve the claims sphere.* and work in any arithmetic of :mod:`attnverify.arithmetic.ops`.
X (..., tokens, width), attention P (..., tokens, tokens). An orthogonal value map turns all tokens
alike and is left out.

>>> import torch
>>> from attnverify.mathematics import sphere
>>> X = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
>>> P = torch.tensor([[0.75, 0.25], [0.25, 0.75]], dtype=torch.float64)
>>> sphere.cap(X).item(), sphere.cap(sphere.attended(X, P)).item()
(1.0, 0.5)
>>> sphere.common(P).item()
0.5
"""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics import layernorm, norms


def unit(X):
    """Tokens divided by their lengths."""
    return X / ops.sqrt(layernorm.length_squared(X))[..., None]


def attended(X, P):
    """Tokens of length 1 after attention P and division by their lengths."""
    return unit(P @ unit(X))


def cap(X):
    """Tangent of the radius of the cap about the first axis that holds the tokens of X, (...).

    The first features are positive.
    """
    across = ops.sqrt(layernorm.length_squared(X[..., 1:]))
    return ops.amax(across / X[..., 0], -1)


def common(P):
    """Common weight alpha(P) = sum_j min_i P_ij of all rows, (...)."""
    return ops.sum(-ops.amax(-P, -2), -1)


def half(tangent):
    """tan(x/2) from tan(x) >= 0."""
    return tangent / (1 + ops.sqrt(1 + ops.square(tangent)))


def half_largest_angle(X):
    """Tangent of half the largest angle of two tokens, which is below pi; (...)."""
    D = norms.diameter(unit(X))
    return D / ops.sqrt(4 - ops.square(D))


def least_product(X):
    """Least inner product of two tokens, each divided by its length; (...)."""
    tokens = unit(X)
    return -ops.amax(ops.amax(-(tokens @ ops.transpose(tokens)), -1), -1)


def axes(X, P):
    """Axes of two caps about the tokens after attention, one of which is as small as claimed.

    Two arrays (..., width): the middle b of a half ball that holds the tokens before they are
    divided, and the axis of the cone over the base of the half ball.
    """
    tokens, t = unit(X), cap(X)
    rho = 1 / ops.sqrt(1 + ops.square(t))
    part = -ops.amax(-P, -2)[..., None, :] @ tokens
    rest = (1 - common(P)) * rho
    high = part[..., 0, 0] + rest  # height of the middle
    q = part[..., 0, 1:] / high[..., None]
    r_squared = ops.square(rest * t / high)
    trace = 1 + ops.sum(ops.square(q), -1) - r_squared
    mu = 2 * r_squared / (ops.sqrt(ops.square(trace) + 4 * r_squared) + trace)
    one = (1 + 0 * high)[..., None]
    return ops.join([one, q], -1), ops.join([one, q / (1 + mu)[..., None]], -1)


def half_cap_about(X, axis):
    """Tangent of half the radius of the cap about an axis (..., width) that holds the tokens."""
    tokens, middle = unit(X), unit(axis[..., None, :])
    apart = layernorm.length_squared(tokens - middle) / layernorm.length_squared(tokens + middle)
    return ops.sqrt(ops.amax(apart, -1))


def collapse_bound(tangent, kappa, layers: int):
    """Bound on the cap's tangent after layers: each takes tan to tanh(kappa sin^2) tan.

    kappa: ||W_QK||_2 / sqrt(d_qk).
    """
    for _ in range(layers):
        square = ops.square(tangent)
        tangent = ops.tanh(kappa * square / (1 + square)) * tangent
    return tangent


def simplex(tokens: int, height_squared, like):
    """Tokens (rho, sigma f_a) with the corners f_a of a simplex about 0; (tokens, 1 + tokens)."""
    root = lambda value: ops.sqrt(value + ops.full((), 0, like))  # noqa: E731
    corners = ops.eye(tokens, like) - ops.full((tokens, tokens), 1, like) / tokens
    scale = root((1 - height_squared) * tokens / ops.constant(tokens - 1, like))
    first = ops.full((tokens, 1), 1, like) * root(height_squared)
    return ops.join([first, corners * scale], -1)

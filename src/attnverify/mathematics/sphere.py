"""Tokens on the unit sphere, divided by their lengths after attention: caps and inner products.

A cap of radius phi about a unit vector w holds the unit vectors x with <w, x> >= cos(phi). The
formulas serve the claims sphere.* and work in any arithmetic of :mod:`attnverify.arithmetic.ops`.
X (..., tokens, width), attention P (..., tokens, tokens). An orthogonal value map turns all tokens
alike and is left out.

>>> import torch
>>> from attnverify.mathematics import sphere
>>> X = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
>>> P = torch.tensor([[0.75, 0.25], [0.25, 0.75]], dtype=torch.float64)
>>> sphere.cap(X).item(), round(sphere.cap(sphere.attended(X, P)).item(), 6)
(1.0, 0.5)
>>> sphere.dual_tangent(X, torch.tensor([0.5, 0.5], dtype=torch.float64)).item()
1.0
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


def dual_radius(X, shares):
    """Root of the variance of the rows of X under shares (..., tokens) of sum 1, (...).

    Its largest value over all shares is the radius of the smallest ball that holds the rows.
    """
    middle = shares[..., None, :] @ X
    return ops.sqrt(ops.sum(shares * layernorm.length_squared(X - middle), -1))


def dual_tangent(X, shares):
    """Tangent of the angle whose cosine is the length of the mean of the normalized tokens, (...).

    Its largest value over all shares is that of the smallest cap that holds the tokens.
    """
    tokens = unit(X)
    middle = shares[..., None, :] @ tokens
    return dual_radius(tokens, shares) / ops.sqrt(layernorm.length_squared(middle)[..., 0])


def half_largest_angle(X):
    """Tangent of half the largest angle of two tokens, which is below pi; (...)."""
    D = norms.diameter(unit(X))
    return D / ops.sqrt(4 - ops.square(D))


def least_product(X):
    """Least inner product of two tokens, each divided by its length; (...)."""
    tokens = unit(X)
    return -ops.amax(ops.amax(-(tokens @ ops.transpose(tokens)), -1), -1)


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


# ------------------------------------------------------------------------------------ equilibria


def grouped_values(sizes: tuple[int, ...], E):
    """Value map under which groups of tokens e_1, ..., e_k stay, at W_QK = q I; (k, k).

    E = exp(q/sqrt(d_qk)), a number other than 1; sizes: tokens of each group.
    """
    like = ops.full((1,), 0, E) + E
    k, n = len(sizes), sum(sizes)
    sums = ops.stack([n + size * (like - 1) for size in sizes], -1)  # of exponentials, by group
    back = (ops.eye(k, like) - 1 / (like + (k - 1))) * sums / (like - 1)
    return back / ops.stack([size * (1 + 0 * like) for size in sizes], 0)


def derivative(X, D, A, W):
    """Derivative along D of the layer x_i -> (P X W)_i / |(P X W)_i|, scores X A X^T, at X."""
    P = ops.softmax(X @ A @ ops.transpose(X))
    change = D @ A @ ops.transpose(X) + X @ A @ ops.transpose(D)
    dP = P * (change - ops.sum(P * change, -1, keepdims=True))
    Y, dY = P @ X @ W, (dP @ X + P @ D) @ W
    along = ops.sum(unit(Y) * dY, -1, keepdims=True)
    return (dY - unit(Y) * along) / ops.sqrt(layernorm.length_squared(Y))[..., None]

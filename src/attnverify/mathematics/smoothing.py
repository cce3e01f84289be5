"""Over-smoothing: how a layer with a skip connection changes the distance to equal rows.

The distance to equal rows is the Frobenius norm of the tokens less their mean. Formulas serve the
claims smoothing.* and work in any arithmetic of :mod:`attnverify.arithmetic.ops`. X (..., tokens,
width); attention P (..., heads, tokens, tokens); value maps W (..., heads, width, width).

>>> import torch
>>> from attnverify.mathematics import smoothing
>>> smoothing.distance(torch.tensor([[3.0], [1.0]], dtype=torch.float64)).item() ** 2
2.0000000000000004
"""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics import layernorm, norms
from attnverify.mathematics.spectral import spectral_norm


def distance(X):
    """Distance ||X - 1 mean||_F of X to the matrices with equal rows, (...)."""
    return ops.sqrt(ops.sum(ops.square(norms.mean_centered(X)), (-2, -1)))


def mixing(P):
    """Size s(P) = ||(I - J) P (I - J)||_2, J = 11^T/n, of P (..., n, n) on differences."""
    centered = norms.mean_centered(P)
    return spectral_norm(centered - ops.sum(centered, -1, keepdims=True) / P.shape[-1])


def layer(X, P, W):
    """Layer X + sum_h P_h X W_h with a skip connection."""
    return X + ops.sum(P @ X[..., None, :, :] @ W, -3)


def scale(Y):
    """Least root mean square of the features of a token, (...)."""
    least = -ops.amax(-layernorm.length_squared(Y), -1)
    return ops.sqrt(least / Y.shape[-1])


def normalized(Y):
    """Tokens divided by the root mean square of their features (RMS norm, no scale)."""
    return Y / ops.sqrt(layernorm.length_squared(Y) / Y.shape[-1])[..., None]


def factor(sizes, W):
    """Factor 1 + sum_h s_h ||W_h||_2 of the layer; ``sizes`` (..., heads)."""
    return 1 + ops.sum(sizes * spectral_norm(W), -1)


def fused(X, shares):
    """Sum of the outputs X (..., layers, tokens, width) of all layers by weights (..., layers)."""
    return ops.sum(X * shares[..., None, None], -3)


def kept(sizes, shares):
    """First share times first size, less the others; (..., layers) -> (...)."""
    parts = sizes * shares
    return 2 * parts[..., 0] - ops.sum(parts, -1)

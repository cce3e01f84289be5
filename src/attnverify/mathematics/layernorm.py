"""Layer normalization as a formula in any arithmetic; the network itself uses torch's.

Arrays are (..., tokens, width).

>>> import torch
>>> import attnverify as av
>>> X = torch.tensor([[1.0, 3.0]], dtype=torch.float64)
>>> av.layernorm.normalize(X)
tensor([[-1.,  1.]], dtype=torch.float64)
"""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics.spectral import spectral_norm


def deviations(X):
    """X minus the mean over the features of each token, (..., tokens, width)."""
    return X - ops.sum(X, -1, keepdims=True) / ops.constant(X.shape[-1], X)


def standard_deviation(X):
    """sigma_i of each token over its features, (..., tokens, 1); epsilon is 0."""
    width = ops.constant(X.shape[-1], X)
    return ops.sqrt(ops.sum(ops.square(deviations(X)), -1, keepdims=True) / width)


def normalize(X):
    """(x - mean) / sigma for each token; scale 1, shift 0, epsilon 0."""
    return deviations(X) / standard_deviation(X)


def normalize_features(X):
    """(x - mean) / s for each feature, mean and s over the tokens; (..., tokens, width)."""
    return ops.transpose(normalize(ops.transpose(X)))


# ------------------------------------------------------------ RMS norm and layer norm with a scale

# ---------------------------------------------------------------- RMS norm and layer norm


def length_squared(X):
    """|x_i|^2 of each token, (..., tokens)."""
    return ops.sum(ops.square(X), -1)


def largest_length(X):
    """max_i |x_i|; (..., tokens, width) -> (...)."""
    return ops.sqrt(ops.amax(length_squared(X), -1))


def rms_norm(X, g, epsilon):
    """x diag(g) / sqrt(|x|^2 / d + epsilon) for each token; epsilon (..., 1, 1) or a number."""
    mean = length_squared(X)[..., None] / ops.constant(X.shape[-1], X)
    return X / ops.sqrt(mean + epsilon) * g[..., None, :]


def layer_norm(X, g, epsilon):
    """:func:`rms_norm` of the deviations of a token from its own mean."""
    return rms_norm(deviations(X), g, epsilon)


def lipschitz(size, squared, width: int, epsilon):
    """size / sqrt(squared/width + epsilon): Lipschitz constant on tokens of squared length
    ``squared`` at least; size is the largest |g_k|, for layer norm :func:`centered_size`."""
    return size / ops.sqrt(squared / ops.constant(width, squared) + epsilon)


def centered_size(g):
    """||(I - 11^T/d) diag(g)||_2, at most the largest |g_k|; shape (...)."""
    return spectral_norm(deviations(ops.eye(g.shape[-1], g)) * g[..., None, :])


# ---------------------------------------------------------------- gated MLPs

"""Layer norm and RMS norm as formulas, and what they do to distances of tokens.

The formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`, so that claims layernorm.*
and modern.rms-lipschitz can be certified; networks apply torch's own norms. X (..., tokens, width);
a scale g (..., width). A layer with a norm in front of it is SA(N(X)).

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
    """Deviations of each token from the mean of its features, (..., tokens, width)."""
    return X - ops.sum(X, -1, keepdims=True) / ops.constant(X.shape[-1], X)


def standard_deviation(X):
    """Standard deviation of the features of each token, (..., tokens, 1); epsilon is 0."""
    width = ops.constant(X.shape[-1], X)
    return ops.sqrt(ops.sum(ops.square(deviations(X)), -1, keepdims=True) / width)


def normalize(X):
    """Layer norm (x - mean) / sigma of each token, with scale 1, shift 0 and epsilon 0."""
    return deviations(X) / standard_deviation(X)


def normalize_features(X):
    """Norm (x - mean) / s of each feature, mean and s over the tokens; (..., tokens, width)."""
    return ops.transpose(normalize(ops.transpose(X)))


# ------------------------------------------------------------ RMS norm and layer norm with a scale

# ---------------------------------------------------------------- RMS norm and layer norm


def length_squared(X):
    """Squared Euclidean length |x_i|^2 of each token, (..., tokens)."""
    return ops.sum(ops.square(X), -1)


def largest_length(X):
    """Largest Euclidean length of a token; (..., tokens, width) -> (...)."""
    return ops.sqrt(ops.amax(length_squared(X), -1))


def rms_norm(X, g, epsilon):
    """RMS norm x diag(g) / sqrt(|x|^2 / d + epsilon) of each token.

    epsilon: (..., 1, 1) or a number.
    """
    mean = length_squared(X)[..., None] / ops.constant(X.shape[-1], X)
    return X / ops.sqrt(mean + epsilon) * g[..., None, :]


def layer_norm(X, g, epsilon):
    """Layer norm with scale g: :func:`rms_norm` of a token's deviations from its own mean."""
    return rms_norm(deviations(X), g, epsilon)


def lipschitz(size, squared, width: int, epsilon):
    """Lipschitz constant size / sqrt(squared/width + epsilon) of a norm on long enough tokens.

    squared: least squared length of a token (of its deviations, for layer norm); size: the largest
    |g_k|, for layer norm :func:`centered_size`.
    """
    return size / ops.sqrt(squared / ops.constant(width, squared) + epsilon)


def centered_size(g):
    """Size ||(I - 11^T/d) diag(g)||_2 of a layer norm's scale, at most the largest |g_k|; (...)."""
    return spectral_norm(deviations(ops.eye(g.shape[-1], g)) * g[..., None, :])


# ---------------------------------------------------------------- gated MLPs

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

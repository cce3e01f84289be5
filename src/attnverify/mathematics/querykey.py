"""Statistics of a query-key matrix W = W_Q W_K^T from its two factors, without forming W.

query, key: (..., width, key_width), the factors W_Q and W_K; every statistic has shape (...). W has
rank at most key_width; tr W, tr W^2 and ||W||_F are those of key_width x key_width products. The
first three work in any arithmetic of :mod:`attnverify.arithmetic.ops` and are differentiable; the
ratios are for floats, and NaN where they are not defined.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.mathematics import eigenspectrum as spectrum


def trace(query, key):
    """Trace of W, the sum of the products of equal entries."""
    return ops.sum(query * key, (-2, -1))


def square_trace(query, key):
    """Trace of W^2, which is that of (W_K^T W_Q)^2."""
    return spectrum.square_trace(ops.transpose(key) @ query)


def squared_norm(query, key):
    """Squared Frobenius norm of W, tr(W_Q^T W_Q W_K^T W_K)."""
    return ops.sum((ops.transpose(query) @ query) * (ops.transpose(key) @ key), (-2, -1))


def xi(query: Tensor, key: Tensor) -> Tensor:
    """Statistic xi = tr W / sqrt(tr W^2); NaN for tr W^2 <= 0."""
    squares = square_trace(query, key)
    return trace(query, key) / torch.where(squares > 0, squares, torch.nan).sqrt()


def xi_general(query: Tensor, key: Tensor) -> Tensor:
    """Statistic tr W / ||W||_F, at most sqrt(key_width) in size; NaN for W = 0."""
    return trace(query, key) / _positive(squared_norm(query, key)).sqrt()


def symmetry(query: Tensor, key: Tensor) -> Tensor:
    """Symmetry tr W^2 / ||W||_F^2 in [-1, 1]: 1 for symmetric W, -1 for skew-symmetric W."""
    return square_trace(query, key) / _positive(squared_norm(query, key))


def skew_square(query: Tensor, key: Tensor) -> Tensor:
    """Squared skew share ||(W - W^T)/2||_F^2 / ||W||_F^2 = (1 - symmetry)/2, from 0 to 1.

    It is near 1/2 for random W.
    """
    return ((1 - symmetry(query, key)) / 2).clamp_min(0)  # rounding may exceed a symmetry of 1


def skew_share(query: Tensor, key: Tensor) -> Tensor:
    """Skew share ||(W - W^T)/2||_F / ||W||_F: 0 for symmetric W, 1 for skew-symmetric W."""
    return skew_square(query, key).sqrt()


def _positive(square: Tensor) -> Tensor:
    """The sum of squares as it is, or NaN where it is 0 or, by rounding, below."""
    return torch.where(square > 0, square, torch.nan)

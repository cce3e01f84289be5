"""Figures of W = W_Q W_K^T by its two factors alone, without the width x width matrix.

query, key: (..., width, key_width), the factors W_Q and W_K; every figure has shape (...). W has
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
    """tr W, the sum of the products of equal entries."""
    return ops.sum(query * key, (-2, -1))


def square_trace(query, key):
    """tr W^2 = tr (W_K^T W_Q)^2."""
    return spectrum.square_trace(ops.transpose(key) @ query)


def squared_norm(query, key):
    """||W||_F^2 = tr(W_Q^T W_Q W_K^T W_K)."""
    return ops.sum((ops.transpose(query) @ query) * (ops.transpose(key) @ key), (-2, -1))


def xi(query: Tensor, key: Tensor) -> Tensor:
    """tr W / sqrt(tr W^2); not defined for tr W^2 <= 0."""
    squares = square_trace(query, key)
    return trace(query, key) / torch.where(squares > 0, squares, torch.nan).sqrt()


def xi_general(query: Tensor, key: Tensor) -> Tensor:
    """tr W / ||W||_F, at most sqrt(key_width) in size; not defined for W = 0."""
    return trace(query, key) / _positive(squared_norm(query, key)).sqrt()


def symmetry(query: Tensor, key: Tensor) -> Tensor:
    """tr W^2 / ||W||_F^2 in [-1, 1]: 1 for symmetric W, -1 for skew-symmetric W."""
    return square_trace(query, key) / _positive(squared_norm(query, key))


def skew_square(query: Tensor, key: Tensor) -> Tensor:
    """||(W - W^T)/2||_F^2 / ||W||_F^2 = (1 - symmetry)/2, from 0 to 1; random W: near 1/2."""
    return ((1 - symmetry(query, key)) / 2).clamp_min(0)  # rounding may exceed a symmetry of 1


def skew_share(query: Tensor, key: Tensor) -> Tensor:
    """||(W - W^T)/2||_F / ||W||_F: 0 for symmetric W, 1 for skew-symmetric W."""
    return skew_square(query, key).sqrt()


def _positive(square: Tensor) -> Tensor:
    """A sum of squares; NaN where it is 0, or less by rounding."""
    return torch.where(square > 0, square, torch.nan)

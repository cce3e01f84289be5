"""The largest singular value (spectral norm) of a matrix, in floats and as a rigorous ball."""

from __future__ import annotations

from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.tracing import Node


def spectral_norm(A):
    """Spectral norm ||A||_2 of A (..., rows, columns) -> (...), in floats or in balls."""
    if ops.is_torch(A):
        return torch.linalg.matrix_norm(A, ord=2)
    out = np.empty(A.shape[:-2], dtype=object)
    for index in np.ndindex(*out.shape):
        out[index] = _enclosure(A[index])
    return out[()]


def thin_product(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Small matrix with the singular values of A B^T, from QR; A, B (..., width, columns)."""
    return torch.linalg.qr(A).R @ torch.linalg.qr(B).R.mT


def _enclosure(A: np.ndarray) -> Any:
    """Ball around ||A||_2, or a node of a recorded program if A holds nodes.

    Below: ||A v|| / ||v|| for the float singular vector v. Above: any c for which c^2 I - A^T A is
    positive definite, shown by an elimination whose pivots are all certainly positive.
    """
    if isinstance(A.flat[0], Node):
        return A.flat[0].spectral_norm(A)
    if all(a.is_zero() for a in A.flat):
        return flint.arb(0)
    with ops.precision(max(256, 2 * flint.ctx.prec)):
        v = ops.balls(np.linalg.svd(A.astype(float))[2][0])
        low = ops.sqrt(np.array([np.sum(ops.square(A @ v)) / np.sum(ops.square(v))], dtype=object))[
            0
        ]
        gram = A.T @ A
        for bits in (96, 64, 48, 32, 16, 4, 0):
            high = low.upper() * (1 + flint.arb(2) ** -bits)
            if positive_definite(high * high * ops.eye(len(gram), gram) - gram):
                return flint.arb.union(low, high)
        # reached only for wide balls: the Frobenius norm is always an upper bound
        return flint.arb.union(low, ops.sqrt(np.array([np.sum(ops.square(A))], dtype=object))[0])


def positive_definite(S: np.ndarray) -> bool:
    """Whether symmetric elimination has only certainly positive pivots (False: not shown)."""
    S = S.copy()
    for k in range(len(S)):
        if not S[k, k] > 0:
            return False
        S[k + 1 :, k + 1 :] = S[k + 1 :, k + 1 :] - np.outer(S[k + 1 :, k] / S[k, k], S[k, k + 1 :])
    return True

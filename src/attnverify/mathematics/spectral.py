"""The largest singular value, in floats and as a rigorous enclosure."""

from __future__ import annotations

from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.tracing import Node


def spectral_norm(A):
    """||A||_2 of A (..., rows, columns) -> (...), in floats or in balls."""
    if ops.is_torch(A):
        return torch.linalg.matrix_norm(A, ord=2)
    out = np.empty(A.shape[:-2], dtype=object)
    for index in np.ndindex(*out.shape):
        out[index] = _enclosure(A[index])
    return out[()]


def thin_product(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """A small matrix with the singular values of A B^T; A, B (..., width, columns) of floats.

    From the triangles of their QR factors.
    """
    return torch.linalg.qr(A).R @ torch.linalg.qr(B).R.mT


def _enclosure(A: np.ndarray) -> Any:
    """A ball around ||A||_2; where operations are only written down, the operation.

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
        # only a matrix of wide balls gets here: the Frobenius norm always bounds from above
        return flint.arb.union(low, ops.sqrt(np.array([np.sum(ops.square(A))], dtype=object))[0])


def positive_definite(S: np.ndarray) -> bool:
    """Whether symmetric elimination meets only certainly positive pivots (False: not shown)."""
    S = S.copy()
    for k in range(len(S)):
        if not S[k, k] > 0:
            return False
        S[k + 1 :, k + 1 :] = S[k + 1 :, k + 1 :] - np.outer(S[k + 1 :, k] / S[k, k], S[k, k + 1 :])
    return True

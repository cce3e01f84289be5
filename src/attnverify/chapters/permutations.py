"""Doubly stochastic matrices as mixtures of permutations, and their second singular value."""

from __future__ import annotations

import itertools

from attnverify.arithmetic import ops
from attnverify.mathematics.spectral import spectral_norm


def mixture(weights, n: int):
    """Mixture of all permutations with weights softmax(weights), (..., n!) -> (..., n, n).

    These are all doubly stochastic matrices with positive entries (Birkhoff and von Neumann).
    """
    a, orders = ops.softmax(weights), list(itertools.permutations(range(n)))
    entry = lambda i, j: sum(a[..., k] for k, order in enumerate(orders) if order[i] == j)  # noqa: E731
    return ops.stack([ops.stack([entry(i, j) for j in range(n)], -1) for i in range(n)], -2)


def second(A):
    """Largest singular value of A on the vectors of sum 0; (...)."""
    return spectral_norm(A - ops.full(tuple(A.shape[-2:]), 1, A) / A.shape[-1])

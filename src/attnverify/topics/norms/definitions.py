"""Definitions of norms, diameter and contraction, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import norms
from attnverify.mathematics.spectral import positive_definite, spectral_norm


def sizes(squared: int = 2) -> Iterator[Pair]:
    """Column and row sums and the two composite values of a matrix that is not square."""
    (A,) = drawn(0, (3, 5))
    columns = largest(total(abs(A[i, j]) for i in range(3)) for j in range(5))
    rows = largest(total(abs(A[i, j]) for j in range(5)) for i in range(3))
    yield "columns", norms.max_column_sum(A), columns
    yield "rows", norms.max_row_sum(A), rows
    yield "composite", norms.composite(A), (columns * rows).sqrt()
    yield "squared", norms.composite_squared(A), (columns * rows).sqrt() ** squared


def centered(tokens: int = 4) -> Iterator[Pair]:
    """Tokens less their mean, feature by feature."""
    (X,) = drawn(1, (4, 3))
    means = [total(X[i, k] for i in range(4)) / tokens for k in range(3)]
    yield "centered", norms.mean_centered(X), table(lambda i, k: X[i, k] - means[k], 4, 3)


def distances(half: int = 2) -> Iterator[Pair]:
    """Diameter by pairs of tokens, contraction by subsets of columns, and a spectral norm.

    The total variation of two rows is the largest difference that they have on any set of columns.
    """
    X, Z, u, w = drawn(2, (6, 2), (3, 6), (3,), (4,))
    Z = Z / 4  # rows that differ in several columns either way
    for Y in (X, X.T):
        pairs = [(i, j) for i in range(len(Y)) for j in range(i)]
        apart = [total((a - b) ** 2 for a, b in zip(Y[i], Y[j], strict=True)) for i, j in pairs]
        yield "diameter", norms.diameter(Y), largest(apart).sqrt()
    P = table(lambda i, j: ops.exp(Z)[i, j] / total(ops.exp(Z)[i]), 3, 6)
    yield "softmax", ops.softmax(Z), P
    subsets = [s for size in range(1, 6) for s in combinations(range(6), size)]
    rows = [(i, j) for i in range(3) for j in range(3) if i != j]
    most = largest(total(P[i, k] - P[j, k] for k in s) for i, j in rows for s in subsets)
    yield "contraction", norms.contraction(P), most * 2 / half
    apart = largest(total(P[0, k] - P[1, k] for k in s) for s in subsets)
    yield "total variation", norms.total_variation(P[0], P[1]), apart
    length = total(a * a for a in u) * total(b * b for b in w)
    yield "spectral", spectral_norm(u[:, None] * w[None, :]), length.sqrt()


def spectral(indefinite: int = 0) -> Iterator[Pair]:
    """Singular values of (3 0; 4 5), whose squares are 45 and 5, and definiteness by minors."""
    for scale in (8, 1):
        A = ops.balls(np.array([[3, 0], [4, 5]])) / scale
        yield f"norm over {scale}", spectral_norm(A), arb(45).sqrt() / scale
        yield "transposed", spectral_norm(ops.transpose(A)), arb(45).sqrt() / scale
    yield "zero", spectral_norm(0 * ops.balls(np.ones((2, 3)))), arb(0)
    definite = ops.balls(np.array([[2, -1, 0], [-1, 2, -1], [0, -1, 2]]))  # minors 2, 3, 4
    other = ops.balls(np.array([[2, -1, 0], [-1, 2, -2], [0, -2, 2]]))  # minors 2, 3, -2
    yield "definite", arb(int(positive_definite(definite))), arb(1)
    yield "indefinite", arb(int(positive_definite(other))), arb(indefinite)

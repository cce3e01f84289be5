"""Definitions of doubly normalized attention, of least totals and of double differences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import doubly


def weights(first: int = 0) -> Iterator[Pair]:
    """Both normalizations of a table of scores, totals, the least total, and a layer."""
    (S,) = (s / 8 for s in drawn(11, (3, 4)))
    m, n = S.shape
    E = ops.exp(S)
    columns = [total(E[i, j] for i in range(m)) for j in range(n)]
    rows = [total(E[i, j] for j in range(n)) for i in range(m)]
    once = [rows, columns] if first else [columns, rows]
    Q = table(lambda i, j: E[i, j] / once[0][i if first else j], m, n)
    yield "queries", doubly.over_queries(S), Q
    P = table(lambda i, j: Q[i, j] / total(Q[i]), m, n)
    yield "attention", doubly.attention(S), P
    A = table(lambda i, j: E[i, j] / once[1][i], m, n)
    keys = table(lambda i, j: A[i, j] / total(A[:, j]), m, n)
    yield "keys first", doubly.keys_first(S), keys
    yield "totals", doubly.totals(S), [total(S[:, j]) for j in range(n)]
    D, shares = arb(3) / 4, []
    for k in (1, 2, 3, 4):
        q = [(D / 2).exp()] * k + [arb(1)] * (5 - k)
        shares.append(-(total(q) ** 2) / total(a * a for a in q))
    exact = doubly.least_total(np.array(D, dtype=object)[()], 5, 3)
    yield "least total", exact, -largest(shares) / 3
    yield "closed", doubly.total_bound(np.array([D]), 5, 3), [arb(5) / 3 / (D / 4).cosh() ** 2]


def spreads(rows: int = 0) -> Iterator[Pair]:
    """Largest double difference of scores over all pairs of queries and keys; two tokens."""
    (S,) = drawn(12, (3, 4))
    some, keys = range(3), range(4)
    apart = [
        abs(S[i, j] - S[i, m] - (S[k, j] - S[k, m]) * (1 - rows))
        for i in some
        for k in some
        for j in keys
        for m in keys
    ]
    yield "spread", doubly.spread(S), largest(apart)
    T = S[:2, :2]
    yield "kappa", doubly.difference(T), T[0, 0] - T[0, 1] - T[1, 0] + T[1, 1]
    yield "alpha", doubly.leaning(T), (T[0, 0] + T[0, 1] - T[1, 0] - T[1, 1]) / 2

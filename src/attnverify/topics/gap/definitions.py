"""Definitions of totals, minors, centered weights and removal, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import spectral_gap as gap


def entries(others: int = 1) -> Iterator[Pair]:
    """Minors, the bound by totals, a removed row, the excess of a weight, a determinant."""
    A, u = drawn(21, (3, 3), (3,))
    n, three = 3, range(3)
    pairs = ((0, 1), (0, 2), (1, 2))
    minors = table(
        lambda a, b: (
            A[pairs[a][0], pairs[b][0]] * A[pairs[a][1], pairs[b][1]]
            - A[pairs[a][0], pairs[b][1]] * A[pairs[a][1], pairs[b][0]]
        ),
        3,
        3,
    )
    yield "compound", gap.compound(A), minors
    t = [total(A[i, j] for i in three) for j in three]
    yield "totals", gap.gathered(A), 1 + total((a - 1) * (a - 1) for a in t) / n
    yield "removed", gap.removed(A, u), table(lambda i, j: A[i, j] - u[j], 3, 3)
    over = [abs(A[i, j] - (t[j] - A[i, j]) / (n - others)) for i in three for j in three]
    yield "excess", gap.excess(A), largest(over)
    rows = [A[0, j] * minors[2, 2 - j] * (-1) ** j for j in three]
    yield "determinant", gap.determinant(A), total(rows)

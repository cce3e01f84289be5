"""Definitions of query-key matrices at a distance, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, table, total
from attnverify.mathematics import rotary as formulas

WIDTH, KEY_WIDTH, COUNT = 3, 4, 4


def rotary(sign: int = 1) -> Iterator[Pair]:
    """Matrix M(m), its trace, means over distances and tokens, and the two mean squares."""
    Q, K, angles = drawn(6, (WIDTH, KEY_WIDTH), (WIDTH, KEY_WIDTH), (KEY_WIDTH // 2,))
    planes, angles = range(KEY_WIDTH // 2), abs(angles) / 4

    def entry(i: int, j: int, m: int) -> arb:
        """Row i of Q, turned by m times the angles, times row j of K."""

        def plane(p: int) -> arb:
            c, s = (sign * m * angles[p]).cos(), (sign * m * angles[p]).sin()
            u, v, f, g = Q[i, p], Q[i, p + 2], K[j, p], K[j, p + 2]
            return (u * c - v * s) * f + (u * s + v * c) * g

        return total(plane(p) for p in planes)

    def trace(m: int) -> arb:
        return total(entry(i, i, m) for i in range(WIDTH))

    known = table(lambda i, j: entry(i, j, 3), WIDTH, WIDTH)
    yield "M(3)", formulas.at_distance(Q, K, angles, 3), known
    yield "trace", formulas.signal(Q, K, angles, 3), trace(3)
    mean = total(trace(m) for m in range(COUNT)) / COUNT
    yield "mean over distances", formulas.mean_signal(Q, K, angles, COUNT), mean
    score = total(i * trace(COUNT - i) for i in range(1, COUNT + 1)) / COUNT
    yield "mean score", formulas.mean_score(Q, K, angles, COUNT), score
    columns = [
        [total(A[i, p] ** 2 for i in range(WIDTH)) for p in range(KEY_WIDTH)] for A in (Q, K)
    ]
    q, k = ([c[p] + c[p + 2] for p in planes] for c in columns)
    bound = total(q[p] * k[p] for p in planes) / 2
    yield "bound of the mean square", formulas.mean_square_bound(Q, K), bound

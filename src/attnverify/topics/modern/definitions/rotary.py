"""Definitions of query-key matrices at a distance, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, table, total
from attnverify.mathematics import rotary as formulas

WIDTH, KEY_WIDTH, COUNT = 3, 4, 4


def _instance() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns Q and K, and angles."""
    Q, K, angles = drawn(6, (WIDTH, KEY_WIDTH), (WIDTH, KEY_WIDTH), (KEY_WIDTH // 2,))
    return Q, K, abs(angles) / 4


def _entry(i: int, j: int, m: int, Q, K, angles, sign: int) -> arb:
    """Row i of Q, turned by m times the angles, times row j of K; sign: of the turn."""

    def plane(p: int) -> arb:
        c, s = (sign * m * angles[p]).cos(), (sign * m * angles[p]).sin()
        u, v, f, g = Q[i, p], Q[i, p + 2], K[j, p], K[j, p + 2]
        return (u * c - v * s) * f + (u * s + v * c) * g

    return total(plane(p) for p in range(KEY_WIDTH // 2))


def _trace(m: int, Q, K, angles, sign: int) -> arb:
    return total(_entry(i, i, m, Q, K, angles, sign) for i in range(WIDTH))


def rotary(sign: int = 1) -> Iterator[Pair]:
    """Matrix M(m) and its trace."""
    given = _instance()
    known = table(lambda i, j: _entry(i, j, 3, *given, sign), WIDTH, WIDTH)
    yield "M(3)", formulas.at_distance(*given, 3), known
    yield "trace", formulas.signal(*given, 3), _trace(3, *given, sign)


def averages(sign: int = 1) -> Iterator[Pair]:
    """Means of the trace over distances and of scores over tokens, and a mean square's bound."""
    given = Q, K, _ = _instance()
    trace, planes = partial(_trace, sign=sign), range(KEY_WIDTH // 2)
    mean = total(trace(m, *given) for m in range(COUNT)) / COUNT
    yield "mean over distances", formulas.mean_signal(*given, COUNT), mean
    score = total(i * trace(COUNT - i, *given) for i in range(1, COUNT + 1)) / COUNT
    yield "mean score", formulas.mean_score(*given, COUNT), score
    columns = [
        [total(A[i, p] ** 2 for i in range(WIDTH)) for p in range(KEY_WIDTH)] for A in (Q, K)
    ]
    q, k = ([c[p] + c[p + 2] for p in planes] for c in columns)
    bound = total(q[p] * k[p] for p in planes) / 2
    yield "bound of the mean square", formulas.mean_square_bound(Q, K), bound

"""Definitions of the bound for columns of both signs and of the constant that follows from it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, largest, total
from attnverify.mathematics import heads, signed_columns
from attnverify.topics.collapse.definitions.layers import KEY_WIDTH, scores_by_entries

#: How many minus tokens and zeros, beside one plus token.
KINDS = ((1, 0), (1, 3), (2, 1), (3, 2), (6, 1))


def _parts(rows, least: int) -> tuple[arb, arb]:
    """(1 + kappa)/4 and g for D the largest oscillation; kappa by its series."""
    D = largest(largest(row) + largest(-row) for row in rows)
    c = (1 + total(D**k / arb(k + 2).gamma() for k in range(80))) / 4
    return c, largest([c, 1 / arb(least).sqrt()])


def bounds(least: int = 2) -> Iterator[Pair]:
    """The bound g sqrt(sum |v_j| max |v_j|) max_j sum_i |E_ij| where either part is larger."""
    E, v, base = drawn(9, (3, 4), (4,), (4,))
    for scale in (32, 2):
        rows = E / scale
        _, g = _parts(rows, least)
        column = largest(total(abs(x) for x in rows[:, j]) for j in range(4))
        size = (total(abs(x) for x in v) * largest(abs(x) for x in v)).sqrt()
        yield f"bound, E/{scale}", [signed_columns.bound(rows, v)], [g * size * column]
    yield "deviations", [heads.deviations(base, E, v)], [_deviations(base, E, v)]


def _deviations(base, E, v) -> arb:
    """The sum over the rows of E of how far the mean of v moves."""

    def mean(logits) -> arb:
        return total(
            v[j] / total((logits[k] - logits[j]).exp() for k in range(len(v)))
            for j in range(len(v))
        )

    return total(abs(mean(base + row) - mean(base)) for row in E)


def weights(more: int = 0) -> Iterator[Pair]:
    """The function of m and V that is covered, and the sum of the weights of single tokens.

    They are equal for one plus token and equal minus tokens. For more plus tokens the function
    has a larger bound for these, which is derived.
    """
    logits, sizes = drawn(11, (5, 3), (5,))
    for (minus, zeros), (a, b, c), D in zip(KINDS, abs(logits), abs(sizes), strict=True):
        counts = (1, minus, zeros)
        kinds = (a + b + arb(minus).log(), b, c)  # the plus token outweighs all minus tokens
        masses = [n * x.exp() for n, x in zip(counts, kinds, strict=True)]
        x, y, z = (mass / total(masses) for mass in masses)
        m, V = x - y, z / (2 * y + z)
        found = signed_columns.total_weight(m, V, 1 / (1 + m * m / 4), D, 1, minus + more)
        base = np.array([x for n, x in zip(counts, kinds, strict=True) for _ in range(n)])
        v = np.array([arb(1), *[arb(-1)] * minus, *[arb(0)] * zeros])
        single = signed_columns.token_weights(base, v, np.asarray(D, dtype=object))
        yield f"{minus} minus, {zeros} zeros", [found], [total(single)]


def widths(root: int = 4) -> Iterator[Pair]:
    """The factor sqrt(c)/2 (tau + 1/tau), tau^4 = g^2 d/(2 c^2), times the sizes of the heads."""
    R, Q, W = drawn(10, (4, 3), (2, 3, 3), (2, 3, 3))
    for scale in (32, 4):
        c, g = _parts([row for head in scores_by_entries(R / scale, Q) for row in head], 2)
        tau = (g * g * 3 / (2 * c * c)).root(root)
        sizes = total(
            _column_sums(q) * (_column_sums(w) * _column_sums(w.T)).sqrt()
            for q, w in zip(Q, W, strict=True)
        )
        known = c.sqrt() / 2 * (tau + 1 / tau) * sizes / arb(KEY_WIDTH).sqrt()
        yield (
            f"constant, R/{scale}",
            signed_columns.width_constant(R / scale, Q, W, KEY_WIDTH),
            known,
        )


def _column_sums(A) -> arb:
    return largest(total(abs(x) for x in A[:, j]) for j in range(A.shape[1]))

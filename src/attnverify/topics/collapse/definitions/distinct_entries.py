"""Comparison of layers given by distinct entries, and of closed forms, with dense layers.

A counterexample of a width in the thousands is certified from its distinct rows and columns. At
widths where all entries fit they are compared with the dense layer, and the closed form with its
ratio.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair
from attnverify.mathematics import collapse, heads, norms
from attnverify.topics.collapse.checks import distinct_entries

W = 2.0**-3
#: Width (a square, so that the dense entries are exact), tokens (more than 3 sqrt d + 1), bias.
SIZES = ((4, 8, 2.0), (9, 11, 4.0), (16, 14, 1.0))


#: For the family with large scores: width (half a square), number of zero tokens, parameters.
LARGE = (
    (8, 10, {"D": 1.25, "y": 0.25, "lead": 1.5, "m": 2, "w": W}),
    (18, 20, {"D": 1.0, "y": 0.5, "lead": 2.0, "m": 4, "w": W}),
)


def families(more: int = 0) -> Iterator[Pair]:
    """Comparisons of all families; the twin takes closed forms for another number of tokens."""
    with ops.precision(distinct_entries.BITS):
        found = [pair for d, n, bias in SIZES for pair in _many(d, n, bias, more)]
        found += [pair for d, zeros, scores in LARGE for pair in _large(d, zeros, scores, more)]
        dense = {k: ops.balls(v) for k, v in collapse.many_heads_counterexample(16, 0.25).items()}
        few = heads.pair_distinct(16, arb(1) / 4)
        found += _same("pair", dense, few, 1, [0, 1], [0] + [1] * 15)
    yield from found


def _many(d: int, n: int, bias: float, more: int) -> Iterator[Pair]:
    """Distinct entries and the dense layer, and the ratio in closed form with both."""
    name = f"d = {d}, n = {n}"
    dense = {k: ops.balls(v) for k, v in heads.wide_family(d, n, W, bias).items()}
    few = heads.wide_family_distinct(d, n + more, W, bias)
    rows, columns = [0, 1] + [2] * (n - 2), [0] + [1] * (d - 1)
    yield from _same(name, dense, few, heads.WIDE_KEY_WIDTH, rows, columns)
    ball = [np.array([arb(v)], dtype=object) for v in (d, n + more, W, bias)]
    yield (
        f"{name}: ratio",
        heads.wide_family_ratio(*ball),
        [distinct_entries.family(d, n, W, bias).printed],
    )


def _large(d: int, zeros: int, scores: dict[str, Any], more: int) -> Iterator[Pair]:
    """Distinct entries of the family with large scores against the dense layer."""
    name, key, m = f"d = {d}, large scores", 64, scores["m"]
    dense = heads.large_family(d, zeros, key, **scores, bias=2.0)
    few = heads.large_family_distinct(d, zeros + more, key, **scores, bias=2.0)
    rows = [0, 1] + [4] * (m - 1) + [2] * (d - 1 - m) + [5] * zeros
    whole = {k: ops.balls(v) for k, v in dense.items()}
    yield from _same(name, whole, few, key, rows, [0] + [1] * (d - 1))
    D = heads.largest_oscillation(whole["X"], whole["W_QK"], key)
    yield f"{name}: D", [heads.largest_oscillation(few["X"], few["W_QK"], key)], [D]


def _same(
    name: str, dense: dict[str, Any], few: dict[str, Any], key: int, rows: list, columns: list
) -> Iterator[Pair]:
    """Output and sizes of weights and output, of a dense layer and of its distinct entries."""
    whole, short = (collapse.layer(i["X"], i["W_QK"], i["b_QK"], i["W"], key) for i in (dense, few))
    yield f"{name}: output", short[rows][:, columns], whole
    size = norms.max_column_sum(dense["W_QK"]) * norms.composite(dense["W"])
    yield f"{name}: weights", heads.head_sizes(few), size
    repeated = heads.repeated_composite(short, few["rows"], few["columns"])
    yield f"{name}: composite value", [repeated], [norms.composite(whole)]

"""Layers given by distinct entries, and the closed form of their ratio, against dense layers.

A counterexample at a width of thousands is certified from its distinct rows and columns. That these
are the layer, and that the closed form is its ratio, is compared at widths where all entries fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import arb

from attnverify import ops
from attnverify.checks.collapse import wide
from attnverify.checks.definitions.agree import Pair
from attnverify.formulas import collapse, heads, norms

W = 2.0**-3
#: Width (a square, so that the dense entries are exact), tokens (more than 3 sqrt d + 1), bias.
SIZES = ((4, 8, 2.0), (9, 11, 4.0), (16, 14, 1.0))


def families(more: int = 0) -> Iterator[Pair]:
    """Both families; the twin takes the closed forms for another number of tokens."""
    with ops.precision(wide.BITS):
        found = [pair for d, n, bias in SIZES for pair in _many(d, n, bias, more)]
        dense = {k: ops.balls(v) for k, v in collapse.many_heads_counterexample(16, 0.25).items()}
        few = heads.pair_distinct(16, arb(1) / 4)
        found += _same("pair", dense, few, 1, [0, 1], [0] + [1] * 15)
    yield from found


def _many(d: int, n: int, bias: float, more: int) -> Iterator[Pair]:
    """Distinct entries against the dense layer, and the ratio in closed form against both."""
    name = f"d = {d}, n = {n}"
    dense = {k: ops.balls(v) for k, v in heads.wide_family(d, n, W, bias).items()}
    few = heads.wide_family_distinct(d, n + more, W, bias)
    rows, columns = [0, 1] + [2] * (n - 2), [0] + [1] * (d - 1)
    yield from _same(name, dense, few, heads.WIDE_KEY_WIDTH, rows, columns)
    ball = [np.array([arb(v)], dtype=object) for v in (d, n + more, W, bias)]
    yield f"{name}: ratio", heads.wide_family_ratio(*ball), [wide.family(d, n, W, bias).printed]


def _same(
    name: str, dense: dict[str, Any], few: dict[str, Any], key: int, rows: list, columns: list
) -> Iterator[Pair]:
    """Output, the sizes of weights and output, of a layer and of its distinct entries."""
    whole, short = (collapse.layer(i["X"], i["W_QK"], i["b_QK"], i["W"], key) for i in (dense, few))
    yield f"{name}: output", short[rows][:, columns], whole
    size = norms.max_column_sum(dense["W_QK"]) * norms.composite(dense["W"])
    yield f"{name}: weights", heads.head_sizes(few), size
    repeated = heads.repeated_composite(short, few["rows"], few["columns"])
    yield f"{name}: composite value", [repeated], [norms.composite(whole)]

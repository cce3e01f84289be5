"""Checks of columns with both signs, and of the width up to which the printed bound is true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from flint import arb

from attnverify.arithmetic import interval_cover, ops
from attnverify.chapters import composite_layers
from attnverify.chapters.layer_instances import bounded_layer, oscillations_bounded
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import heads, norms, signed_columns
from attnverify.mathematics.softmax import critical_oscillation, oscillation
from attnverify.support.verdict import Verdict
from attnverify.topics.collapse.checks import (
    composite,
    distinct_entries,
    many_heads,
)
from attnverify.topics.collapse.definitions import signed_columns as definitions

# ------------------------------------------------------------------------------- the lemma


def two_signs(size: float) -> Instance:
    """Instance of two tokens, v = (1, -1) and the row (size, -size): v moves by tanh(size)."""
    return {**composite_layers.one_row(size), "v": torch.tensor([1.0, -1.0], dtype=torch.float64)}


def one_entry(light: int, D: float) -> Instance:
    """Instance near equality where (1 + kappa)/4 is the larger part: one heavy token, v = e_1."""
    one = many_heads.one_heavy(light, D)
    return {**one, "v": torch.eye(light + 1, dtype=torch.float64)[0]}


def _with_factor(base, E, v, factor):
    """Right side with another factor, a function of D and of a 1 in its shape and arithmetic."""
    D = ops.amax(oscillation(E), -1)
    known = signed_columns.bound(E, v) / signed_columns.factor(D)
    return factor(D, 0 * D + ops.constant(1, D)) * known


def _largest_entry(base, E, v):
    """Right side with ||v||_inf in place of the root."""
    return signed_columns.factor(ops.amax(oscillation(E), -1)) * (
        ops.amax(abs(v), -1) * norms.max_column_sum(E)
    )


COLUMNS = (
    Inequality(
        left=heads.deviations,
        right=lambda base, E, v: signed_columns.bound(E, v),
        sizes=tuple(
            {"base": (m,), "E": (n, m), "v": (m,), "s": (1,)}
            for n, m in ((1, 2), (2, 3), (4, 3), (6, 8))
        ),
        build=composite_layers.bounded_rows,
        hypotheses=composite_layers.rows_bounded,
        extremal=(lambda: two_signs(2.0**-8), lambda: one_entry(64, 1.25)),
    )
    .times(0.999)
    .but(
        "1/sqrt(2) alone",
        right=partial(_with_factor, factor=lambda D, one: one / ops.root(2, one)),
    )
    .but(
        "(1 + kappa(D))/4 alone",
        right=partial(
            _with_factor, factor=lambda D, one: one * heads.single_factor(heads.kappa(D))
        ),
    )
    .but("the largest entry of v in place of the root", right=_largest_entry)
    .but(
        "3/4 without the condition",
        right=partial(_with_factor, factor=lambda D, one: 3 * one / 4),
        hypotheses=None,
        extremal=(lambda: one_entry(64, 1.5),),
    )
)


SIGNS = (1.0, -1.0, 0.0, -1.0, 1.0, 0.0)


def _one_row(base, e, s):
    """Instance of one row with v = (1, -1, 0, -1, 1, 0), or its negative if the mean is < 0."""
    v = torch.tensor(SIGNS[: base.shape[-1]], dtype=torch.float64, device=base.device)
    mean = (torch.softmax(base, -1) * v).sum(-1, keepdim=True)
    scaled = composite_layers.bounded_rows(base, e[..., None, :], s)["E"][..., 0, :]
    return {"base": base, "e": scaled, "v": torch.where(mean < 0, -v, v)}


def _single(size: float) -> Instance:
    """The instance :func:`two_signs` as one row."""
    two = two_signs(size)
    return {"base": two["base"], "e": two["E"][0], "v": two["v"]}


def _tiny(e):
    """An oscillation so small that u(s) is s."""
    return 0 * oscillation(e) + ops.constant(2.0**-40, e)


def _normalized(e):
    """Row e minus the number of its range that is nearest to 0."""
    low, high = -ops.amax(-e, -1, keepdims=True), ops.amax(e, -1, keepdims=True)
    return e - ops.maximum(low, 0 * low) + ops.maximum(-high, 0 * high)


def _row_moves(base, e, v):
    return 2 * heads.deviations(base, e[..., None, :], v)


def _row_bound(base, e, v, D=oscillation):
    weights = signed_columns.token_weights(base, v, D(e))
    return ops.sum(weights * abs(_normalized(e)), -1)


def _mean_is_positive(base, v, **_):
    mean = ops.sum(ops.softmax(base) * v, -1)
    return [(0 * mean, mean)]


def _raised(tokens: int) -> Instance:
    """Instance of one row that raises one of two minus tokens by 1.25."""
    base, e, v = torch.zeros(3, tokens, dtype=torch.float64)
    base[0], e[1], v[:] = 1.25, 1.25, torch.tensor(SIGNS[:tokens], dtype=torch.float64)
    return {"base": base, "e": e, "v": v}


ROW = (
    Inequality(
        left=_row_moves,
        right=_row_bound,
        sizes=tuple({"base": (m,), "e": (m,), "s": (1,)} for m in (2, 3, 4, 6)),
        build=_one_row,
        hypotheses=_mean_is_positive,
        extremal=(lambda: _single(2.0**-8), lambda: _raised(4)),
    )
    .times(0.999)
    .but("shares in place of u", right=lambda base, e, v: _row_bound(base, e, v, _tiny))
)


def _parts(D: arb, share: float) -> Iterator[interval_cover.Part]:
    """Covers of [0, 1] x [0, 1], for each number of plus and minus tokens, on both sides of edge.

    For one of each, m < 1/8 is left out: there the notebook derives the bound, which is attained.
    """
    edge, whole = signed_columns.edge(D), (arb(0), arb(1))
    for k in range(2, 8):
        start = arb(1) / 8 if k == 2 else arb(0)
        for plus in range(1, k):
            parts = []
            for m_side, slope in (
                ((start, edge), signed_columns.slope_before),
                ((edge, arb(1)), signed_columns.slope_beyond),
            ):

                def room(m, V, slope=slope, plus=plus, k=k):
                    weight = signed_columns.total_weight(m, V, slope(m, D), D, plus, k - plus)
                    return arb(2 * k).sqrt() * share - weight

                parts.append(interval_cover.positive_on(room, m_side, whole))
            yield interval_cover.joined(*parts)


def _weights(D: arb, share: float = 1.0) -> Verdict:
    """Whether twice the sum of the weights is at most ``share`` sqrt(2 k), oscillations up to D."""
    with ops.precision(128):
        words = f"covers of the square, 2 <= k <= 7, D = {D.str(6)}"
        return interval_cover.both(*_parts(D, share)).verdict(words)


CRITICAL = arb("1.25644")  # x* rounded up: the weights increase with D
LIMITS, UNIT = (
    "the estimates in two variables; the rest is derived in the notebook",
    (arb(0), arb(1)),
)
OVER = (((arb(1) / 8, arb(1)), UNIT), *[(UNIT, UNIT)] * (2 + 3 + 4 + 5 + 6))  # k - 1 for each k
WEIGHTS = (
    Decision(partial(_weights, CRITICAL), LIMITS, over=OVER)
    .but("0.995 times the bound", run=partial(_weights, CRITICAL, 0.995))
    .but(
        "the sum of the weights below sqrt(2k) up to oscillations of 1.27",
        run=partial(_weights, arb("1.27")),
    )
)

# ------------------------------------------------------------------------------- many heads


def _layers() -> dict[str, Inequality]:
    made = many_heads.one_layer(
        signed_columns.width_constant,
        (lambda: many_heads.two_tokens(16), lambda: many_heads.two_tokens(49)),
        (lambda: many_heads.family(2, 40), lambda: many_heads.family(9, 12)),
    )
    bounded = {"build": bounded_layer, "hypotheses": oscillations_bounded}
    return {name: replace(check, **bounded) for name, check in made.items()}


WIDTH = composite.refuted_at(_layers(), 0.7065, 0.99)


def _reached(share: float, d: int = 14_330) -> Verdict:
    """Whether share * K(x*, d) bounds the layer with large scores that violates the printed 4."""
    with ops.precision(distinct_entries.BITS):
        printed, D = distinct_entries.large(d)
        K = signed_columns.width_factor(critical_oscillation(), arb(d))
        ratio = 4 * printed / (K * share)
        holds = interval_cover.certain(ratio <= 1 and D <= critical_oscillation(), ratio > 1)
        return Verdict(holds, f"d = {d}: ratio {ratio.str(12)}", ratio=float(ratio.mid()))


LARGE = Decision(partial(_reached, 1.0), distinct_entries.LIMITS, "certified").but(
    "0.992 times the constant", run=partial(_reached, 0.992)
)

EQUAL = "these instances, with one plus token and equal minus tokens; concavity does the rest"

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.signed-columns": {
        "columns": COLUMNS,
        "one row": ROW,
        "sum of the weights": by_definition(
            definitions.weights, "a minus token more", more=1, limits=EQUAL, cases=5
        ),
        "weights": WEIGHTS,
        "entry by entry": by_definition(definitions.bounds, "1/sqrt(3) for 1/sqrt(2)", least=3),
    },
    "collapse.multi-head-width": {
        **WIDTH,
        "width 13884": distinct_entries.allowed(
            13_884, critical_oscillation, factor=signed_columns.width_factor
        ),
        "large scores": LARGE,
        "entry by entry": by_definition(definitions.widths, "the fifth root", root=5),
    },
}

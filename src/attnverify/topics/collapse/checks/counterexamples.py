"""Certified counterexamples: the gap of version 1, the condition, the printed many-heads bound.

And the anchor family of the condition against the bound that needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flint
import numpy as np

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Check, Decision
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, heads, norms
from attnverify.mathematics.softmax import oscillation
from attnverify.support.verdict import Verdict
from attnverify.topics.collapse.checks import distinct_entries, gamma_factor
from attnverify.topics.collapse.definitions import distinct_entries as wide_definitions
from attnverify.topics.collapse.definitions import layers as definitions

arb = flint.arb


def _gap(n: int) -> Verdict:
    E = ops.eye(n, ops.balls(np.array([[1]])))
    left, right = np.sum(oscillation(E)), 2 * norms.max_column_sum(E)
    holds = certain(left > right, left <= right)
    return Verdict(holds, f"E = I of size {n}: {left.str(5)} against {right.str(5)}")


def _counterexample(run: Callable, twin: tuple[str, Callable]) -> Decision:
    limits = "this instance, which refutes the statement"
    return Decision(run, limits, kind="certified").but(twin[0], run=twin[1])


PROOF_GAP = _counterexample(partial(_gap, 3), ("E = I of size 2 does it too", partial(_gap, 2)))


def _condition(k: int) -> Verdict:
    """Whether the ratio exceeds the factor of the statement, 1.565 cut off after three digits."""
    ratio = heads.unconditional_ratio(k)
    holds = certain(ratio > arb("1.565") and ratio < arb("1.566"), ratio <= 1)
    return Verdict(
        holds, f"{2 * k + 1} tokens: left/right = {ratio.str(6)}", ratio=float(ratio.mid())
    )


CONDITION = _counterexample(
    partial(_condition, 100_000), ("with 70,085 tokens already", partial(_condition, 35_042))
)


def _anchors(constant: Callable, k: int = 2**16) -> Verdict:
    """Whether constant(D) bounds the residual over beta ||R||^3 / sqrt(d_qk) at D = M = log 4k."""
    D = np.array([(4 * arb(k)).log()], dtype=object)
    reached, allowed = 4 * heads.unconditional_ratio(k, 2), constant(D)[0]
    holds = certain(reached <= allowed, reached > allowed)
    words = f"{2 * k + 1} tokens, D = {D[0].str(6)}: {reached.str(6)} of {allowed.str(6)}"
    return Verdict(holds, words, ratio=float((reached / allowed).mid()))


ANCHOR_LIMITS = "this instance"
ANCHORS = Decision(
    partial(_anchors, collapse.unconditional_constant), ANCHOR_LIMITS, kind="certified"
).but(
    "the constant sqrt 2 for every D",
    run=partial(_anchors, lambda D: ops.sqrt(ops.full((1,), 2, D))),
)


def _printed(d: int, low: str, high: str) -> Verdict:
    ratio = heads.printed_ratio(d)
    inside = ratio > arb(low) and ratio < arb(high)
    holds = certain(inside and ratio > 1, ratio < 1)
    with_gamma = ratio * arb(2).sqrt()
    words = f"d = {d}: left/right = {ratio.str(12)}, with gamma {with_gamma.str(12)}"
    return Verdict(holds, words, ratio=float(ratio.mid()))


def _smallest(d: int) -> Verdict:
    """Whether d is the smallest width where some t of the family breaks the bound with gamma = 1.

    The ratio rises to (y + 1/y) / 16, y = d^(1/4), as t falls to 0 (tanh(s) < s), and y + 1/y
    increases for y >= 1; so the test is y + 1/y > 16 at d and not at d - 1.
    """

    def limit(width: int):
        y = arb(width).root(4)
        return y + 1 / y - 16

    here, before = limit(d), limit(d - 1)
    holds = certain(here > 0 and before < 0, here < 0 or before > 0)
    return Verdict(holds, f"excess {here.str(4)} at d = {d}, {before.str(4)} at d = {d - 1}")


PRINTED = _counterexample(
    partial(_printed, 2**20, "2.0019", "2.0020"),
    ("d = 64500 does it too", partial(_printed, 64_500, "1", "9")),
)
SMALLEST = _counterexample(
    partial(_smallest, 64514), ("64513 is the smallest", partial(_smallest, 64513))
)

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.multi-head-as-printed": {
        "d = 2^20": PRINTED,
        "smallest width of two tokens": SMALLEST,
        **distinct_entries.PRINTED,
        **gamma_factor.PRINTED,
        "closed forms": by_definition(definitions.counterexamples, "5 in place of 4", factor=5),
        "distinct entries": by_definition(wide_definitions.families, "one token more", more=1),
    },
}

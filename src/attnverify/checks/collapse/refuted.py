"""Certified counterexamples: the gap of version 1, the condition, the printed many-heads bound.

And the anchor family of the condition against the bound that needs none.
"""

from __future__ import annotations

from collections.abc import Callable

import flint
import numpy as np

from attnverify import ops
from attnverify.checks.collapse import wide
from attnverify.evidence.forms import Check, Decision, Twin, Verdict
from attnverify.formulas import collapse, norms
from attnverify.formulas.softmax import oscillation

arb = flint.arb


def _gap(n: int) -> Callable[[], Verdict]:
    def run() -> Verdict:
        E = ops.eye(n, ops.balls(np.array([[1]])))
        left, right = np.sum(oscillation(E)), 2 * norms.max_column_sum(E)
        holds = True if left > right else False if left <= right else None
        return Verdict(holds, f"E = I of size {n}: {left.str(5)} against {right.str(5)}")

    return run


def _counterexample(run: Callable, twin: tuple[str, Callable]) -> Decision:
    limits = "this instance, which refutes the statement"
    twins = (Twin(twin[0], Decision(twin[1], limits, kind="certified")),)
    return Decision(run, limits, kind="certified", twins=twins)


PROOF_GAP = _counterexample(_gap(3), ("E = I of size 2 does it too", _gap(2)))


def unconditional_ratio(k: int, exponent: int = 4):
    """Left over right of the bound with constant 4 for 2k + 1 tokens, without D <= x*.

    One anchor token holds half of the softmax base; k tokens pull weight to themselves by a score
    M = log(2^exponent k); k tokens do nothing. The value map reads the anchor's feature alone. With
    ||R||_1 = ||R||_inf = 1, ||W_QK||_1 / sqrt(d_qk) = M, ||W_V||_{1,inf} = 1 the right side is 4 M.
    The one output column is 1/2 for k + 1 tokens and alpha = 2k / (4k - 1 + e^M) for k; its best
    center is the midpoint, which leaves (1/2 - alpha) sqrt((k + 1/2) / 2).
    """
    M = (arb(2) ** exponent * k).log()
    alpha = arb(2 * k) / (4 * k - 1 + M.exp())
    return (arb(1) / 2 - alpha) * ((arb(k) + arb(1) / 2) / 2).sqrt() / (4 * M)


def _condition(k: int) -> Callable[[], Verdict]:
    def run() -> Verdict:
        ratio = unconditional_ratio(k)
        holds = True if ratio > 1 else False if ratio <= 1 else None
        return Verdict(
            holds, f"{2 * k + 1} tokens: left/right = {ratio.str(6)}", ratio=float(ratio.mid())
        )

    return run


CONDITION = _counterexample(_condition(100_000), ("with 2001 tokens already", _condition(1000)))


def _anchors(constant: Callable, k: int = 2**16) -> Callable[[], Verdict]:
    """Whether constant(D) bounds the residual over beta ||R||^3 / sqrt(d_qk) at D = M = log 4k."""

    def run() -> Verdict:
        D = np.array([(4 * arb(k)).log()], dtype=object)
        reached, allowed = 4 * unconditional_ratio(k, 2), constant(D)[0]
        holds = True if reached <= allowed else False if reached > allowed else None
        words = f"{2 * k + 1} tokens, D = {D[0].str(6)}: {reached.str(6)} of {allowed.str(6)}"
        return Verdict(holds, words, ratio=float((reached / allowed).mid()))

    return run


ANCHOR_LIMITS = "this instance"
ANCHORS = Decision(
    _anchors(collapse.unconditional_constant),
    ANCHOR_LIMITS,
    kind="certified",
    twins=(
        Twin(
            "the constant sqrt 2 for every D",
            Decision(
                _anchors(lambda D: ops.sqrt(ops.full((1,), 2, D))), ANCHOR_LIMITS, kind="certified"
            ),
        ),
    ),
)


def printed_ratio(d: int, t=None):
    """Ratio of the printed many-heads bound with gamma = 1 in balls; t = 1/10 by default."""
    d = np.array([arb(d)], dtype=object)
    t = np.array([arb(1) / 10 if t is None else t], dtype=object)
    return collapse.many_heads_ratio(d, t)[0]


def _printed(d: int, low: str, high: str) -> Callable[[], Verdict]:
    def run() -> Verdict:
        ratio = printed_ratio(d)
        inside = ratio > arb(low) and ratio < arb(high)
        holds = True if inside and ratio > 1 else False if ratio < 1 else None
        with_gamma = ratio * arb(2).sqrt()
        words = f"d = {d}: left/right = {ratio.str(12)}, with gamma {with_gamma.str(12)}"
        return Verdict(holds, words, ratio=float(ratio.mid()))

    return run


def _smallest(d: int) -> Callable[[], Verdict]:
    """d is the smallest width at which some t of this family violates the bound with gamma = 1.

    The ratio rises to (y + 1/y) / 16, y = d^(1/4), as t falls to 0 (tanh(s) < s), and y + 1/y
    increases for y >= 1; so the test is y + 1/y > 16 at d and not at d - 1.
    """

    def run() -> Verdict:
        def limit(width: int):
            y = arb(width).root(4)
            return y + 1 / y - 16

        here, before = limit(d), limit(d - 1)
        holds = True if here > 0 and before < 0 else False if here < 0 or before > 0 else None
        return Verdict(holds, f"excess {here.str(4)} at d = {d}, {before.str(4)} at d = {d - 1}")

    return run


PRINTED = _counterexample(
    _printed(2**20, "2.0019", "2.0020"), ("d = 2^15 does it too", _printed(2**15, "1", "9"))
)
SMALLEST = _counterexample(_smallest(64514), ("64513 is the smallest", _smallest(64513)))

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.version-1-proof-gap": {"counterexample": PROOF_GAP},
    "collapse.multi-head-as-printed": {
        "d = 2^20": PRINTED,
        "smallest width of two tokens": SMALLEST,
        **wide.PRINTED,
    },
}

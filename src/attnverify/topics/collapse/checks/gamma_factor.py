"""Certified instances of the many-heads bounds with gamma: layers given by types of tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import both, certain
from attnverify.checking.check import Check
from attnverify.mathematics import collapse, heads
from attnverify.mathematics.softmax import critical_oscillation, oscillation
from attnverify.support.verdict import Verdict
from attnverify.topics.collapse.checks import distinct_entries

BIAS = 128.0  # leaves the tokens from e_3 on a weight of e^-128


class Layer(NamedTuple):
    """Quantities of a layer in balls: least residual of the output, sizes of heads, oscillation.

    total: sum_h gamma_h ||W_QK,h||_1 ||W_h||_{1,inf} / sqrt(d_qk); gamma, beta: the largest of
    gamma_h and of the other factors, beta over sqrt(d_qk). ||R||_{1,inf} = 1.
    """

    left: arb
    total: arb
    gamma: arb
    beta: arb
    D: arb

    @property
    def printed(self) -> arb:
        """Left over right side of the printed bound with H = 2 and this gamma."""
        return self.left / (4 * self.gamma * self.beta * 2)


def family(d: int, n: int, w: float) -> Layer:
    """Layer of the family with n tokens of width d; the best center of the input is 0.

    left encloses the minimum over all centers: from below by pairs of rows, from above by the
    value at the middle of the first pair.
    """
    i = heads.gamma_family_distinct(d, n, w, BIAS)
    rows, columns = i["rows"], i["columns"]
    Y = collapse.layer(i["X"], i["W_QK"], i["b_QK"], i["W"], heads.GAMMA_KEY_WIDTH)
    low = heads.paired_residual(Y, heads.gamma_family_pairs(n), columns)
    high = heads.repeated_composite(Y - (Y[0] + Y[1]) / 2, rows, columns)
    E = collapse.scores_of_residual(i["X"], i["W_QK"], heads.GAMMA_KEY_WIDTH)
    by_column, _ = heads.repeated_sums(E, rows, rows)  # X = I: ||W_QK||_1 / sqrt(d_qk) too
    sizes = by_column * heads.repeated_composite(i["W"], rows, columns)
    gamma = heads.score_gamma(E, rows)
    D = ops.amax(ops.amax(oscillation(E), -1), -1)
    total = ops.sum(gamma * sizes, -1)
    return Layer(low.union(high), total, ops.amax(gamma, -1), ops.amax(sizes, -1), D)


def _violates(d: int, n: int, w: float) -> Verdict:
    """Whether the printed bound with gamma fails at this layer, which meets D <= x*."""
    with ops.precision(distinct_entries.BITS):
        layer = family(d, n, w)
        met = layer.D <= critical_oscillation()
        holds = certain(met and layer.printed > 1, layer.printed < 1)
        words = f"d = {d}, n = {n}: left/right = {layer.printed.str(15)} with gamma"
        return Verdict(holds, words, ratio=float(layer.printed.mid()))


SIZES = ((4, 4), (8, 6), (179, 178), (7937, 4), (10_000, 1000))


def _two_tokens(d: int) -> Verdict:
    """Whether the printed bound with gamma = 1/sqrt(2) fails for two tokens +-2^-21 e_1."""
    with ops.precision(distinct_entries.BITS):
        ratio = heads.printed_ratio(d, arb(2) ** -20) * arb(2).sqrt()
        words = f"d = {d}, n = 2: left/right = {ratio.str(15)} with gamma"
        return Verdict(certain(ratio > 1, ratio < 1), words, ratio=float(ratio.mid()))


def _bounded(factor: Callable[[arb], arb]) -> Verdict:
    """Whether the factor at n d bounds the family at some sizes (d, n)."""
    with ops.precision(distinct_entries.BITS):
        layers = [(d * n, family(d, n, 2.0**-20)) for d, n in SIZES]
        ratios = [layer.left / (factor(arb(m)) * layer.total) for m, layer in layers]
        holds, cases, _ = both(*((certain(r <= 1, r > 1), 1) for r in ratios))
        worst = max(ratios, key=lambda r: float(r.mid()))
        words = f"largest ratio of {cases} sizes {worst.str(9)}"
        return Verdict(holds, words, cases=cases, ratio=float(worst.mid()))


def _allowed(entries: int) -> Verdict:
    """Whether the factor, which increases with n d >= 1, is at most 4 at this n d."""
    with ops.precision(distinct_entries.BITS):
        value = heads.gamma_factor(arb(entries))
        words = f"factor {value.str(15)} at n d = {entries}"
        return Verdict(certain(value <= 4, value > 4), words, ratio=float((value / 4).mid()))


NARROWEST = distinct_entries.certified(
    partial(_violates, 179, 178, 2.0**-14),
    "d = n = 178 does it too",
    partial(_violates, 178, 178, 2.0**-14),
)
FEWEST = distinct_entries.certified(
    partial(_violates, 7937, 4, distinct_entries.TINY),
    "n d = 31744 does it too",
    partial(_violates, 7936, 4, distinct_entries.TINY),
)
TWO_TOKENS = distinct_entries.certified(
    partial(_two_tokens, 15_874), "d = 15873 does it too", partial(_two_tokens, 15_873)
)
PRINTED: dict[str, Check] = {"layer with gamma, d = 179": NARROWEST}
CERTIFIED: dict[str, Check] = {
    "family": distinct_entries.certified(
        partial(_bounded, heads.gamma_factor),
        "n d / 2 in place of n d, times 0.999",
        partial(_bounded, lambda m: heads.gamma_factor(m / 2) * 0.999),
        5,
    ),
    "n d = 15873": distinct_entries.certified(
        partial(_allowed, 15_873), "n d = 15874 by the same bound", partial(_allowed, 15_874)
    ),
    "n d = 31748": TWO_TOKENS,
    "n d = 31748, four tokens": FEWEST,
    "width 179": NARROWEST,
}

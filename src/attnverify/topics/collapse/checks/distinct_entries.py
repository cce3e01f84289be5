"""Certified instances of the many-heads bounds at any width: layers given by distinct entries.

The layer is evaluated by :func:`attnverify.mathematics.collapse.layer` on its distinct tokens,
features and output columns. Why that is the same layer is explained in
:func:`attnverify.mathematics.heads.wide_family_distinct`, derived in the notebook and tested
against the dense layer at small sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import both, certain
from attnverify.checking.check import Check, Decision
from attnverify.mathematics import collapse, heads, norms
from attnverify.mathematics.softmax import critical_oscillation
from attnverify.support.verdict import Verdict

BITS = 256
LIMITS = "these instances"


class Layer(NamedTuple):
    """Quantities of a layer in balls: left side, ||R||, q_h ||W_h|| / sqrt(d_qk), D, gamma."""

    left: arb
    size: arb
    heads: Any
    D: arb
    gamma: arb

    @property
    def printed(self) -> arb:
        """Left over right side of the printed bound with gamma = 1."""
        beta = ops.amax(self.heads, -1)
        return self.left / collapse.cubic(4 * len(self.heads) * beta, self.size)

    def dimension(self, d: int) -> arb:
        """Left over right side of claim collapse.multi-head-dimension."""
        constant = heads.dimension_factor(self.D, d) * ops.sum(self.heads, -1)
        return self.left / collapse.cubic(constant, self.size)


def _layer(i: dict[str, Any], left: arb, key_width: int) -> Layer:
    """Quantities of the right sides for a layer whose tokens have the best center 0."""
    features = np.full(i["X"].shape[-1], arb(1), dtype=object)
    return Layer(
        left=left,
        size=heads.repeated_composite(i["X"], i["rows"], features),
        heads=heads.head_sizes(i) / arb(key_width).sqrt(),
        D=heads.largest_oscillation(i["X"], i["W_QK"], key_width),
        gamma=ops.amax(collapse.gamma(i["X"], i["W_QK"], key_width), -1),
    )


def _output(i: dict[str, Any], key_width: int) -> Any:
    return collapse.layer(i["X"], i["W_QK"], i["b_QK"], i["W"], key_width)


def family(
    d: int, n: int, w: float, bias: float = 128.0, after: Callable[[Any], Any] = lambda Y: Y
) -> Layer:
    """Layer of the family with n tokens e_1, e_2, 0, ..., 0 of width d.

    after: what follows the layer, the same map for equal rows and for equal columns.
    Rows 2, 3, ... of the output are equal: their scores are those of the base row. The least
    residual of the one row left has a closed form. Raises ArithmeticError outside its hypotheses.
    """
    i = heads.wide_family_distinct(d, n, w, bias)
    Y = after(_output(i, heads.WIDE_KEY_WIDTH))
    others, (first, other) = Y[1] - Y[2], Y[0] - Y[2]
    total = first + (d - 1) * other
    small = all(x.contains(0) and x.rad() < arb(2) ** (40 - BITS) for x in others)
    wide = (n - 1) * total >= 3 * d * first and first - other <= (n - 2) * other
    if not (small and wide and first >= other and other >= 0):
        raise ArithmeticError(f"d = {d}, n = {n}: outside the closed form of the residual")
    left = heads.spike_residual_squared(first, other, d, n).sqrt()
    return _layer(i, left, heads.WIDE_KEY_WIDTH)


def pair(d: int, t) -> Layer:
    """Layer of the family with two tokens, whose best center is the mean."""
    i = heads.pair_distinct(d, t)
    left = heads.repeated_composite(norms.mean_centered(_output(i, 1)), i["rows"], i["columns"])
    return _layer(i, left, 1)


def large(
    d: int, zeros: int = 10**13, key_width: int = 2**14, bias: float = 128.0, **scores: Any
) -> tuple[arb, arb]:
    """Left over right side of the printed bound, gamma = 1, and D, for the large scores.

    scores: its parameters where they are not :data:`attnverify.mathematics.heads.LARGE_SCORES`.
    Raises ArithmeticError where the residual's lower bound does not hold.
    """
    scores = heads.LARGE_SCORES | scores
    i = heads.large_family_distinct(d, zeros, key_width, bias=bias, **scores)
    Y = _output(i, key_width)
    column, row = heads.repeated_sums(Y - Y[-1], i["rows"], i["columns"])
    if not (row >= 3 * d * column / zeros and zeros >= d <= key_width):
        raise ArithmeticError(f"d = {d}, {zeros} tokens 0: outside the residual's lower bound")
    left = heads.pinned_residual_squared(column, row, d, zeros).union(column * row).sqrt()
    sizes = heads.head_sizes(i) / arb(key_width).sqrt()
    size = norms.composite(i["X"])  # every feature is 1 in one token, here as in the whole layer
    bound = collapse.cubic(4 * len(sizes) * ops.amax(sizes, -1), size)
    return left / bound, heads.largest_oscillation(i["X"], i["W_QK"], key_width)


def certified(
    run: Callable[[], Verdict], twin: str, other: Callable[[], Verdict], cases: int = 1
) -> Decision:
    return Decision(run, LIMITS, "certified", cases).but(twin, run=other)


def _violates(words: str, make: Callable[[], Layer]) -> Verdict:
    """Decision that the printed bound fails at a layer with D <= x*, with and without gamma."""
    with ops.precision(BITS):
        layer = make()
        ratio, with_gamma = layer.printed, layer.printed / layer.gamma
        met = layer.D <= critical_oscillation()
        holds = certain(met and ratio > 1 and with_gamma > 1, ratio < 1)
        text = f"{words}: left/right = {ratio.str(15)}, with gamma {with_gamma.str(15)}"
        return Verdict(holds, text, ratio=float(ratio.mid()))


def _violates_first(d: int) -> Verdict:
    """Whether the printed bound with gamma = 1 fails at the layer with large scores, D <= x*."""
    with ops.precision(BITS):
        ratio, D = large(d)
        holds = certain(D <= critical_oscillation() and ratio > 1, ratio < 1)
        words = f"d = {d}: left/right = {ratio.str(15)}, D = {D.str(12)}"
        return Verdict(holds, words, ratio=float(ratio.mid()))


def _family(d: int, n: int, w: float) -> Callable[[], Verdict]:
    return partial(_violates, f"d = {d}, n = {n}", partial(family, d, n, w))


def _pair(d: int) -> Callable[[], Verdict]:
    return partial(_violates, f"d = {d}, 2 tokens", lambda: pair(d, arb(1) / 10))


def _bounded(share: float) -> Verdict:
    """Whether share * K(D, d) bounds the family at four widths."""
    with ops.precision(BITS):
        sizes = ((2, 10**6), (4, 10**6), (100, 10**6), (20_000, 10**9))
        ratios = [family(d, n, 2.0**-10).dimension(d) / share for d, n in sizes]
        holds, cases, _ = both(*((certain(r <= 1, r > 1), 1) for r in ratios))
        worst = max(ratios, key=lambda r: float(r.mid()))
        words = f"largest ratio of {cases} widths {worst.str(12)}"
        return Verdict(holds, words, cases=cases, ratio=float(worst.mid()))


def _allowed(
    d: int, D: Callable[[], arb], factor: Callable[[arb, arb], arb] = heads.dimension_factor
) -> Verdict:
    """Whether K(D, d) <= 4 for a factor K that increases with D and d."""
    with ops.precision(BITS):
        K = factor(D(), arb(d))
        words = f"K = {K.str(12)} at d = {d}"
        return Verdict(certain(K <= 4, K > 4), words, ratio=float((K / 4).mid()))


def allowed(d: int, D: Callable[[], arb], **how: Any) -> Decision:
    """Decision that the bound by K(D, d) implies the printed one at width d, and not at d + 1."""
    return certified(
        partial(_allowed, d, D, **how),
        f"width {d + 1} by the same bound",
        partial(_allowed, d + 1, D, **how),
    )


def _small() -> arb:
    """An oscillation small enough for width 15,873."""
    return arb(2) ** -14


TINY = 2.0**-20  # w: the scores of the narrowest instance oscillate by 2^-19
NARROWEST = certified(
    _family(15_874, 10**13, TINY), "d = 15873 does it too", _family(15_873, 10**13, TINY)
)
LARGE_SCORES = certified(
    partial(_violates_first, 14_330),
    "d = 14329 does it too, by these parameters",
    partial(_violates_first, 14_329),
)
REACHED = certified(partial(_bounded, 1.0), "0.999 times the constant", partial(_bounded, 0.999), 4)

PRINTED: dict[str, Check] = {
    "layer of two tokens, d = 2^20": certified(
        _pair(2**20), "d = 64500 does it too", _pair(64_500)
    ),
    "layer, d = 20000": certified(
        _family(20_000, 10_000, 2.0**-6),
        "d = 15850 with more tokens does it too",
        _family(15_850, 100_000, 2.0**-6),
    ),
    "layer, d = 16000": certified(
        _family(16_000, 100_000, 2.0**-6),
        "33000 tokens do it too",
        _family(16_000, 33_000, 2.0**-6),
    ),
    "smallest width": NARROWEST,
    "large scores": LARGE_SCORES,
}
SMALL_WIDTH: dict[str, Check] = {
    "width 5206": allowed(5206, critical_oscillation),
    "width 15873": allowed(15_873, _small),
    "width 15874": NARROWEST,
    "width 14330": LARGE_SCORES,
}

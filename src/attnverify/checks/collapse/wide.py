"""Certified instances of the many-heads bounds at any width: layers given by distinct entries.

The layer is evaluated by :func:`attnverify.formulas.collapse.layer` on its distinct tokens,
features and output columns; why that is the same layer is said in
:func:`attnverify.formulas.heads.wide_family_distinct`, derived in the notebook and tested against
the dense layer at small sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from attnverify import ops
from attnverify.evidence.forms import Check, Decision, Twin, Verdict
from attnverify.formulas import collapse, heads, norms
from attnverify.formulas.softmax import critical_oscillation

BITS = 256
LIMITS = "these instances"


class Layer(NamedTuple):
    """In balls: left side, ||R||, q_h ||W_h|| over the root of d_qk by head, D, gamma."""

    left: arb
    size: arb
    heads: Any
    D: arb
    gamma: arb

    @property
    def printed(self) -> arb:
        """Left over right of the printed bound with gamma = 1."""
        beta = ops.amax(self.heads, -1)
        return self.left / collapse.cubic(4 * len(self.heads) * beta, self.size)

    def dimension(self, d: int) -> arb:
        """Left over right of claim collapse.multi-head-dimension."""
        constant = heads.dimension_factor(self.D, d) * ops.sum(self.heads, -1)
        return self.left / collapse.cubic(constant, self.size)


def _layer(i: dict[str, Any], left: arb, key_width: int) -> Layer:
    """The right sides' quantities of a layer whose tokens have the minimizing center 0."""
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


def family(d: int, n: int, w: float, bias: float = 128.0) -> Layer:
    """The family with tokens e_1, e_2, 0, ..., 0 at width d with n tokens.

    Rows 2, 3, ... of the output are equal: their scores are those of the base row. The least
    residual of the one row left has a closed form. Raises ArithmeticError outside its hypotheses.
    """
    i = heads.wide_family_distinct(d, n, w, bias)
    Y = _output(i, heads.WIDE_KEY_WIDTH)
    others, (first, other) = Y[1] - Y[2], Y[0] - Y[2]
    total = first + (d - 1) * other
    small = all(x.contains(0) and x.rad() < arb(2) ** (40 - BITS) for x in others)
    wide = (n - 1) * total >= 3 * d * first and first - other <= (n - 2) * other
    if not (small and wide and first >= other and other >= 0):
        raise ArithmeticError(f"d = {d}, n = {n}: outside the closed form of the residual")
    left = heads.spike_residual_squared(first, other, d, n).sqrt()
    return _layer(i, left, heads.WIDE_KEY_WIDTH)


def pair(d: int, t) -> Layer:
    """The family of two tokens; its best center is the mean."""
    i = heads.pair_distinct(d, t)
    left = heads.repeated_composite(norms.mean_centered(_output(i, 1)), i["rows"], i["columns"])
    return _layer(i, left, 1)


def _decision(run: Callable[[], Verdict], twin: str, other: Callable[[], Verdict]) -> Decision:
    return Decision(
        run, LIMITS, kind="certified", twins=(Twin(twin, Decision(other, LIMITS, "certified")),)
    )


def _violates(words: str, make: Callable[[], Layer]) -> Callable[[], Verdict]:
    """The printed bound is false at this layer, which meets D <= x*; with and without gamma."""

    def run() -> Verdict:
        with ops.precision(BITS):
            layer = make()
            ratio, with_gamma = layer.printed, layer.printed / layer.gamma
            met = layer.D <= critical_oscillation()
            holds = True if met and ratio > 1 and with_gamma > 1 else False if ratio < 1 else None
            text = f"{words}: left/right = {ratio.str(15)}, with gamma {with_gamma.str(15)}"
            return Verdict(holds, text, ratio=float(ratio.mid()))

    return run


def _family(d: int, n: int, w: float) -> Callable[[], Verdict]:
    return _violates(f"d = {d}, n = {n}", lambda: family(d, n, w))


def _pair(d: int) -> Callable[[], Verdict]:
    return _violates(f"d = {d}, 2 tokens", lambda: pair(d, arb(1) / 10))


def _bounded(share: float) -> Callable[[], Verdict]:
    """share * K(D, d) bounds the family, at four widths."""

    def run() -> Verdict:
        with ops.precision(BITS):
            sizes = ((2, 10**6), (4, 10**6), (100, 10**6), (20_000, 10**9))
            ratios = [family(d, n, 2.0**-10).dimension(d) / share for d, n in sizes]
            below = [True if r <= 1 else False if r > 1 else None for r in ratios]
            holds = False if False in below else None if None in below else True
            worst = max(ratios, key=lambda r: float(r.mid()))
            words = f"largest ratio of {len(ratios)} widths {worst.str(12)}"
            return Verdict(holds, words, cases=len(ratios), ratio=float(worst.mid()))

    return run


def _allowed(d: int, D: Callable[[], arb]) -> Callable[[], Verdict]:
    """K(D, d) <= 4; K increases with D and with d."""

    def run() -> Verdict:
        with ops.precision(BITS):
            K = heads.dimension_factor(D(), d)
            holds = True if K <= 4 else False if K > 4 else None
            return Verdict(holds, f"K = {K.str(12)} at d = {d}", ratio=float((K / 4).mid()))

    return run


TINY = 2.0**-20  # w: the scores of the narrowest instance oscillate by 2^-19
NARROWEST = _decision(
    _family(15_874, 10**13, TINY), "d = 15873 does it too", _family(15_873, 10**13, TINY)
)
REACHED = _decision(_bounded(1.0), "0.999 times the constant", _bounded(0.999))

PRINTED: dict[str, Check] = {
    "layer of two tokens, d = 2^20": _decision(_pair(2**20), "d = 2^15 does it too", _pair(2**15)),
    "layer, d = 20000": _decision(
        _family(20_000, 10_000, 2.0**-6),
        "d = 15000 with more tokens does it too",
        _family(15_000, 100_000, 2.0**-6),
    ),
    "layer, d = 16000": _decision(
        _family(16_000, 100_000, 2.0**-6),
        "2000 tokens do it too",
        _family(16_000, 2000, 2.0**-6),
    ),
    "smallest width": NARROWEST,
}
SMALL_WIDTH: dict[str, Check] = {
    "width 5206": _decision(
        _allowed(5206, critical_oscillation),
        "width 5207 by the same bound",
        _allowed(5207, critical_oscillation),
    ),
    "width 15873": _decision(
        _allowed(15_873, lambda: arb(2) ** -14),
        "width 15874 by the same bound",
        _allowed(15_874, lambda: arb(2) ** -14),
    ),
    "width 15874": NARROWEST,
}

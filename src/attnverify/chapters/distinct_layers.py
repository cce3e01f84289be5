"""Layers of any width in balls, by their distinct tokens, features and output columns.

The layer is evaluated by :func:`attnverify.mathematics.collapse.layer` on these. Why that is the
same layer is explained in :func:`attnverify.mathematics.heads.wide_family_distinct`, derived in the
notebooks and compared with the dense layer at small sizes. Widths d and numbers of tokens n are
whole numbers, sizes of scores numbers or balls. To be used within ``ops.precision(BITS)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.mathematics import collapse, heads, norms
from attnverify.mathematics.softmax import critical_oscillation
from attnverify.support.verdict import Verdict

BITS = 256
TINY = 2.0**-20  # w: the scores of the narrowest instance oscillate by 2^-19
LIMITS = "these instances"


class Layer(NamedTuple):
    """Quantities of a layer in balls.

    left: least residual of the output; size: ||R||; heads: q_h ||W_h|| / sqrt(d_qk) and gammas:
    gamma_h of each head; D: largest oscillation of a row of scores.
    """

    left: arb
    size: arb
    heads: Any
    D: arb
    gammas: Any

    def over(self, constant: arb) -> arb:
        """Left side over the bound constant ||R||^3."""
        return self.left / collapse.cubic(constant, self.size)

    @property
    def printed(self) -> arb:
        """Left over right side of the printed bound with gamma = 1."""
        return self.over(4 * len(self.heads) * ops.amax(self.heads, -1))

    @property
    def with_gamma(self) -> arb:
        """Left over right side of the printed bound with the largest gamma_h."""
        return self.printed / ops.amax(self.gammas, -1)


def _layer(i: dict[str, Any], left: arb, key_width: int) -> Layer:
    """Quantities of the right sides for a layer whose tokens have the best center 0."""
    features = np.full(i["X"].shape[-1], arb(1), dtype=object)
    return Layer(
        left=left,
        size=heads.repeated_composite(i["X"], i["rows"], features),
        heads=heads.head_sizes(i) / arb(key_width).sqrt(),
        D=heads.largest_oscillation(i["X"], i["W_QK"], key_width),
        gammas=collapse.gamma(i["X"], i["W_QK"], key_width),
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


def pair(d: int, t: Any) -> Layer:
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


def gamma_family(d: int, n: int, w: float) -> Layer:
    """Layer of the family for the bound with gamma, on n tokens of width d, R = X.

    left encloses the minimum over all centers: from below by pairs of rows, from above by the
    value at the middle of the first pair. A bias of 128 leaves the tokens from e_3 on a weight of
    e^-128.
    """
    i = heads.gamma_family_distinct(d, n, w, 128.0)
    key_width, rows, columns = heads.GAMMA_KEY_WIDTH, i["rows"], i["columns"]
    Y = _output(i, key_width)
    low = heads.paired_residual(Y, heads.gamma_family_pairs(n), columns)
    high = heads.repeated_composite(Y - (Y[0] + Y[1]) / 2, rows, columns)
    E = collapse.scores_of_residual(i["X"], i["W_QK"], key_width)
    return Layer(
        left=low.union(high),
        size=arb(1),  # X = I
        heads=heads.head_sizes({**i, "features": rows}) / arb(key_width).sqrt(),
        D=heads.largest_oscillation(i["X"], i["W_QK"], key_width),
        gammas=heads.score_gamma(E, rows),
    )


def violation(words: str, D: arb, ratio: arb, with_gamma: arb | None = None) -> Verdict:
    """Whether a bound fails at a layer with D <= x*, by left over right side.

    with_gamma: the same for the bound with gamma, if that has to fail, too.
    """
    both = ratio > 1 and (with_gamma is None or with_gamma > 1)
    holds = certain(D <= critical_oscillation() and both, ratio < 1)
    gamma = "" if with_gamma is None else f", with gamma {with_gamma.str(15)}"
    words = f"{words}: left/right = {ratio.str(15)}{gamma}"
    return Verdict(holds, words, ratio=float(ratio.mid()))

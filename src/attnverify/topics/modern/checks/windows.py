"""Checks of the sliding window: one layer, depth, the limit, growth with tokens, the horizon."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import comb, factorial

import flint
import numpy as np

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.layer_instances import KEY_WIDTH
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import mask_bounds, norms
from attnverify.support.verdict import Verdict
from attnverify.topics.modern.checks.masks import (
    LIMITS,
    Masked,
    after,
    alike_first,
    are_alike,
    feedback,
    in_the_limit,
    line,
    orbit,
    recursion,
    run_from_random,
    sizes,
)
from attnverify.topics.modern.definitions import masks as definitions

arb = flint.arb


def _binomial(X, alike: int, window: int | None = None):
    """Size N with the binomial coefficients of the causal mask, for a twin."""
    return mask_bounds.spread(X, alike)


def one_layer(window: int, *shapes: tuple[int, int, int]) -> Inequality:
    """Check of one layer with this window; shapes: tokens alike, others, width."""
    check, wrong = Masked(window), Masked(window, _binomial)
    m = shapes[0][0]
    places = [0.0] * m + [2.0**-8 * comb(i, m) for i in range(m, window + 1)]
    return (
        Inequality(
            left=check.left,
            right=check.right,
            sizes=tuple(sizes(*shape) for shape in shapes),
            build=alike_first,
            hypotheses=are_alike,
            extremal=(lambda: line([1.0] * m + [3.0], m),),
        )
        .times(0.9999)
        .but(
            "binomial coefficients beyond the window, too",
            left=wrong.left,
            right=wrong.right,
            extremal=(lambda: line(places, m),),
        )
    )


DEPTH = Inequality(
    left=after(3),
    right=partial(recursion, window=3),
    sizes=(sizes(1, 1, 2, 2), sizes(1, 4, 1, 3)),
    build=alike_first,
    hypotheses=are_alike,
    extremal=(lambda: feedback(3, 1.25, 0.5), lambda: feedback(6, 1.0, 1.0)),
).times(0.9999)

# (tokens, m, width, w)
WIDE = ((6, 1, 2, 3), (8, 1, 2, 5), (6, 2, 2, 4))
LIMIT = (
    Decision(partial(in_the_limit, WIDE), LIMITS, "certified", 3)
    .but(
        "1/w in place of 1/(m + 1)",
        run=partial(in_the_limit, ((8, 1, 2, 5),), rate=lambda m: arb(1) / 5),
    )
    .but(
        "binomial coefficients beyond the window, too",
        run=partial(in_the_limit, WIDE, u=lambda n, m, X, w: mask_bounds.shape(n, m, X)),
    )
)


NARROW_CASES = ((4, 1, 2), (5, 2, 3), (4, 2, 2), (5, 3, 2))  # (tokens, m, w), w <= m + 1


def _narrow(rate: Callable = lambda m, w: w, power: int = 0, layers: int = 400) -> Verdict:
    """Whether l (w d_l/d_(l-1) - 1) tends to n - m - 1, the power of l beside w^-l.

    (1 + 1/l)^k = 1 + k/l + ...: the power is a whole number, so an error below 1/4 tells it apart.
    In width 1; balls lose less than 6 bits a layer, so of 3,600 bits 1,200 are left.
    """
    off = arb(0)
    with ops.precision(bits := 3600):
        for seed, (n, m, w) in enumerate(NARROW_CASES):
            *_, before, now = run_from_random(n, m, 1, seed, layers, w, bits)
            ratio = norms.diameter(now) / norms.diameter(before)
            off = off.max(abs(layers * (rate(m, w) * ratio - 1) - (n - m - 1 + power)))
    return Verdict(certain(off < 0.25, off > 0.25), f"off by {off.str(3)}", len(NARROW_CASES))


NARROW = (
    Decision(_narrow, LIMITS, "certified", 4)
    .but("1/(m + 1) in place of 1/w", run=partial(_narrow, lambda m, w: m + 1))
    .but("the power n - m of l in place of n - m - 1", run=partial(_narrow, power=1))
)


def _every_place(more: int = 0, layers: int = 200) -> Verdict:
    """Whether y_i = (x_i - x_1)/(x_(m+1) - x_1) grows like l^k/(k + more)!, k = i - m - 1.

    Read off the k-th difference in l, which then tends to k!/(k + more)!. With w p_ij = 1 + r_l and
    |r_l| below a multiple of the diameter, y'_i - y_i = y_(i-1) + ... + y_(i-w+1) up to r_l times
    y. So y_i is a polynomial of degree k, with 1/k! at the top, up to a multiple of
    l^(2 (n - m - 1)) w^-l, here at most 200^4 2^-200 < 2^-169: 2^-60 is asked, 2^109 is left for
    what it multiplies. In width 1; of 1,800 bits 1,200 go as in :func:`_narrow`, 317 by the fall.
    """
    off = arb(0)
    with ops.precision(bits := 1800):
        for seed, (n, m, w) in enumerate(NARROW_CASES):
            _, Q, _, X = run_from_random(n, m, 1, seed, layers, w, bits)
            away = [(X - X[0])[:, 0]]
            for _ in range(n - m):
                _, X = orbit(X, Q, 1, w)
                away.append((X - X[0])[:, 0])
            off = off.max(abs(w * away[1][m] / away[0][m] - 1))  # lambda is neither 0 nor infinite
            for i in range(m, n):
                k = i - m
                y = [a[i] / a[m] for a in away[: k + 1]]
                top = sum(((-1) ** (k - j) * comb(k, j) * v for j, v in enumerate(y)), arb(0))
                off = off.max(abs(top / factorial(k) * factorial(k + more) - 1))
    near = certain(off < arb(2) ** -60, off > arb(2) ** -60)
    return Verdict(near, f"off by at most {off.str(3)}", len(NARROW_CASES))


PLACES = Decision(_every_place, LIMITS, "certified", 4).but(
    "(i - m)! in place of (i - m - 1)!", run=partial(_every_place, 1)
)


BRACKETED = ((3, 1), (4, 1), (9, 1), (32, 1), (4, 2), (12, 3))  # (w, m)


def _bracket(low: float = 1.0, high: float = 1.0) -> Verdict:
    """Whether g^(n - w - m + 1) <= u_n <= C(w - 1, m) g^(n - m - 1) for n up to 400.

    low, high: factors on g, left and right. At n = w + m - 1 the left side is 1 and u a whole
    number, so n starts at w + m.
    """
    cases = 0
    with ops.precision(2000):
        for w, m in BRACKETED:
            g = mask_bounds.growth(w, m, arb(1))
            u = mask_bounds.shape(400, m, g, w)
            for n in range(w + m, 401):
                left = (g * low) ** (n - w - m + 1)
                right = comb(w - 1, m) * (g * high) ** (n - m - 1)
                outside = u[n - 1] <= left or u[n - 1] >= right
                holds = certain(left < u[n - 1] < right, outside)
                if not holds:
                    return Verdict(holds, f"w = {w}, m = {m}, n = {n}", cases)
                cases += 1
    return Verdict(True, "strictly between both bounds", cases)


BRACKET = (
    Decision(
        _bracket,
        "these windows, up to 400 tokens; all are derived in the notebook",
        "certified",
        sum(401 - w - m for w, m in BRACKETED),
    )
    .but("g 1 % larger in the lower bound", run=partial(_bracket, 1.01))
    .but("g 1 % smaller in the upper bound", run=partial(_bracket, high=0.99))
)


def _approach(factor: float = 1.0) -> Verdict:
    """Whether theta < tau = w log g and f(tau) > f(theta) - 1/w, for f(x) = (1 - e^-x)/x.

    f(theta) = 1/(m + 1). The mean of g^-k over k < w is a left Riemann sum of e^(-tau s) on [0, 1]:
    above the integral f(tau) by less than 1/w. As f decreases, both together give tau -> theta.
    """
    cases = 0
    for m in (1, 2, 4):
        theta = mask_bounds.growth_limit(m, arb(1)) * factor
        for w in (m + 2, 64, 512, 4096):
            tau = w * mask_bounds.growth(w, m, arb(1)).log()
            near = (1 - (-tau).exp()) / tau - arb(1) / (m + 1) + arb(1) / w
            if not (tau > theta and near > 0):
                words = f"w = {w}, m = {m}: w log g - theta = {(tau - theta).str(3)}"
                return Verdict(certain(False, tau < theta or near < 0), words, cases)
            cases += 1
    return Verdict(True, "theta < w log g < f^-1(1/(m + 1) - 1/w)", cases)


APPROACH = Decision(_approach, "these windows", "certified", 3 * 4).but(
    "a theta 0.1 % larger", run=partial(_approach, 1.001)
)


def _horizon(more: int = 0) -> Verdict:
    """Whether the last token stays while l (w - 1) <= n - 2 and then moves; x_1 = 1, others 0.

    more: further layers for which a twin says that it stays.
    """
    cases = 0
    for n, w in ((5, 2), (6, 3), (9, 4), (7, 7), (8, 3)):
        X, Q = ops.balls(np.eye(n, 1)), ops.balls(np.array([[0.75]]))
        for layer in range(1, (n - 2) // (w - 1) + 2 + more):
            X = mask_bounds.layer(X, Q, ops.eye(1, X), KEY_WIDTH, w)
            fallen = 1 - norms.diameter(X)  # a weight of at least w^-l e^(-3 l/8) on token 1, or 0
            still = certain(abs(fallen) < arb(2) ** -40, fallen > arb(2) ** -40)
            if still is not (layer * (w - 1) <= n - 2 + more * (w - 1)):
                words = f"n = {n}, w = {w}, layer {layer}: diameter {norms.diameter(X).str(5)}"
                return Verdict(None if still is None else False, words, cases)
            cases += 1
    return Verdict(True, "the diameter is 1 up to the horizon and below 1 after it", cases)


HORIZON = Decision(
    _horizon, "these numbers; all are derived in the notebook", "certified", 4 + 3 + 3 + 1 + 4
).but("one layer longer", run=partial(_horizon, 1))

CHECKS: dict[str, dict[str, Check]] = {
    "modern.window-rate": {
        "one layer, w = 3": one_layer(3, (1, 1, 1), (1, 4, 2)),
        "one layer, w = 4": one_layer(4, (2, 1, 1), (2, 4, 2)),
        "over depth": DEPTH,
        "limit": LIMIT,
        "narrow windows": NARROW,
        "narrow windows, every token": PLACES,
        "what it costs": BRACKET,
        "wide windows": APPROACH,
        "horizon": HORIZON,
        "entry by entry": by_definition(definitions.window, "a window of four", width=4),
    },
}

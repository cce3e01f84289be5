"""Checks of the inversion of a characteristic function: its float values and its error bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.simulation_cases import CASES
from attnverify.checking.check import Check, Decision
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import chisquare
from attnverify.mathematics.quadrature import enclosure, reference, scalar
from attnverify.support.verdict import Verdict
from attnverify.topics.localization.definitions import scores

arb = flint.arb


def _inverted(change: Callable = lambda value: value, accuracy: float = 1e-8) -> Verdict:
    """Whether the float inversion agrees with quadrature in balls, at thresholds of some tokens."""
    worst, cases = 0.0, 0
    for case in CASES.values():
        for row in case.weights[[0, case.tokens // 2, -1]]:
            points = torch.tensor([case.thresholds], dtype=torch.float64)
            values, error = chisquare.distribution(row[None], points, accuracy)
            for x, value in zip(points[0], change(values[0]), strict=True):
                with ops.precision(128):
                    known = reference([arb(float(v)) for v in row], arb(float(x)))
                    off = abs(arb(float(value)) - known)
                if off > error:
                    return Verdict(False, f"off by {off.str(5)}, bound {error:.2g}", cases)
                if not off <= error:
                    return Verdict(None, f"known only as {known.str(5)}", cases)
                worst, cases = max(worst, float(off.upper()) / error), cases + 1
    return Verdict(True, f"largest error {worst:.2g} of its bound {accuracy:g}", cases, worst)


INVERSION_LIMITS = "these spectra and thresholds, against a quadrature in ball arithmetic"
INVERTED = Decision(_inverted, INVERSION_LIMITS, "certified", 30).but(
    "1.1e-8 added to the result", run=partial(_inverted, lambda value: value + 1.1e-8)
)


def _enclosed(bounds: Callable[[arb], arb]) -> Verdict:
    """Whether the sum with its two error bounds, in balls, contains the value by quadrature.

    bounds: changes the bounds, for a twin. A ball wider than the accuracy leaves the answer
    unknown, since NaN and [0, 1] contain every probability.
    """
    cases, accuracy = 0, 1e-4
    for case in CASES.values():
        row = case.weights[case.tokens // 3]
        for x in (*case.thresholds, float(row.sum())):
            with ops.precision(128):
                found = bounds(enclosure(ops.balls(row), arb(x), accuracy))
                known = reference([arb(float(v)) for v in row], arb(x))
            if not found.overlaps(known):
                return Verdict(False, f"{found.str(9)} misses {known.str(9)}", cases)
            if not (found.rad() <= accuracy and found.contains(known)):
                return Verdict(None, f"{found.str(9)} or {known.str(9)} is too wide", cases)
            cases += 1
    return Verdict(True, "the error bounds cover the quadrature's value", cases)


BOUNDS = Decision(partial(_enclosed, lambda ball: ball), INVERSION_LIMITS, "certified", 15).but(
    "the sum alone, without its error bounds", run=partial(_enclosed, lambda ball: arb(ball.mid()))
)


def _one_square(without_decay: bool) -> Verdict:
    """Whether the bounds hold for Q = z^2 at x = 0, where nearly all the error is truncation.

    Step 0.05 and 64 terms; P(Q <= 0) = 0.

    The tails beyond 2 pi/step are P(Q < -125) = 0 and P(Q > 125) = erfc(sqrt(125.6/2)).
    """
    with ops.precision(128):
        one, step, terms = ops.balls(np.ones(1)), arb(0.05), 64
        halves = ops.balls(np.arange(terms) + 0.5)
        value = chisquare.partial_sum(one, 0 * one, scalar(step), halves)[0]
        end = scalar(terms * step)
        size = chisquare.truncation(one, end)
        size = size * chisquare.decay(one, end[None]) if without_decay else size
        off, bound = abs(value - 0.5), size + (arb.pi() / step).sqrt().erfc()
    detail = f"error {float(off):.4f}, bound {float(bound):.4f}"
    return Verdict(
        certain(off <= bound, off > bound),
        detail,
        1,
        float(off) / float(bound),
    )


SQUARE_LIMITS = "one weight, one step, one number of terms"
SQUARE = Decision(partial(_one_square, False), SQUARE_LIMITS, "certified").but(
    "truncation without e", run=partial(_one_square, True)
)


def _two_squares(
    x: int, step: Callable[[], arb], terms: int, tail: float = 1.0, truncation: float = 1.0
) -> Verdict:
    """Whether the error for Q = z_1^2 + z_2^2 is within the two bounds, each times a factor.

    In balls, with P(Q > t) = e^(-t/2), for 0 <= x < 2 pi/step.
    """
    with ops.precision(64):
        two, size = ops.balls(np.ones(2)), step()
        halves = ops.balls(np.arange(terms) + 0.5)
        value = chisquare.partial_sum(two, ops.balls(np.array([x])), scalar(size), halves)[0]
        off = abs(arb(1) / 2 - (-arb(x) / 2).exp() + value)
        beyond = (-arb(x) / 2 - arb.pi() / size).exp()
        rest = chisquare.truncation(two, scalar(terms * size))
        ratio = off / (tail * beyond + truncation * rest)
    words = f"error {off.str(5)}, tail {beyond.str(5)}, truncation {rest.str(5)}"
    return Verdict(certain(ratio <= 1, ratio > 1), words, 1, float(ratio.mid()))


TWO_LIMITS = "two equal weights, one step, one number of terms"
_TAIL = partial(_two_squares, 2, lambda: 2 * arb.pi() / 14, 2**17)
_REST = partial(_two_squares, 0, lambda: arb(0.05), 256)
TAIL_ALONE = Decision(_TAIL, TWO_LIMITS, "certified").but(
    "0.99 times the tails", run=partial(_TAIL, tail=0.99)
)
TRUNCATION_ALONE = Decision(_REST, TWO_LIMITS, "certified").but(
    "0.99 times the truncation bound", run=partial(_REST, truncation=0.99)
)

#: P(Q > t) for t > 0: one square, an exponential law and a symmetric Laplace law.
CLOSED_TAILS: dict[str, tuple[list[float], Callable[[arb], arb]]] = {
    "z^2": ([1.0], lambda t: (t / 2).sqrt().erfc()),
    "two equal weights": ([1.0, 1.0], lambda t: (-t / 2).exp()),
    "both signs": ([1.0, 1.0, -1.0, -1.0], lambda t: (-t / 2).exp() / 2),
}


def _tails(linear: str) -> Verdict:
    """Whether P(Q > mean + reach) <= e^-y where the tail has a closed form.

    linear: what stands for 2 in 2 y m, for a twin.
    The lower tail of Q is the upper one of -Q.
    """
    ratios = []
    for weights, tail in CLOSED_TAILS.values():
        for y in (0.125, 1.0, 4.0, 20.0, 1e6):
            with ops.precision(128):
                balls = ops.balls(np.array(weights))
                _, above = chisquare.reach(balls, arb(y))
                ratio = tail(sum(balls) + above - (2 - arb(linear)) * arb(y)) / (-arb(y)).exp()
            if ratio > 1:
                return Verdict(False, f"ratio {ratio.str(4)} at y = {y}", len(ratios))
            if not ratio <= 1:
                return Verdict(None, f"ratio {ratio.str(5)} at y = {y}", len(ratios))
            ratios.append(float(ratio))
    return Verdict(True, "below e^-y in every case", len(ratios), max(ratios))


TAIL_LIMITS = "these laws with closed tails; the bound for all weights is derived in the notebook"
TAILS = Decision(partial(_tails, "2"), TAIL_LIMITS, "certified", 3 * 5).but(
    "1.99 y m in place of 2 y m", run=partial(_tails, "1.99")
)

CHECKS: dict[str, dict[str, Check]] = {
    "localization.inversion": {
        "floats": INVERTED,
        "bounds": BOUNDS,
        "one square": SQUARE,
        "the tail part is sharp": TAIL_ALONE,
        "the truncation part is sharp": TRUNCATION_ALONE,
        "tails": TAILS,
        "entry by entry": by_definition(scores.transforms, "s^2 in place of 4 s^2", factor=1),
    },
}

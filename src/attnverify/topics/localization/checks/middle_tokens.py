"""Checks of the normal approximation by its skewness, near the middle of the walk."""

from __future__ import annotations

from functools import partial

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.mathematics import chisquare, localization
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.localization.checks.exact_law import POWER_LIMITS
from attnverify.topics.localization.checks.normal_approximation import (
    FAST,
    equal_pairs,
    equal_weights,
    normal_gap,
    paired,
)
from attnverify.topics.localization.definitions import scores


def _many(first, score):
    """Instance of weights in [-1, 1], eight of them 1 and eight -1: stable rank at least 16."""
    ones = first.new_ones(len(first), 8)
    return {"weights": ops.join([ones, -ones, torch.tanh(first)], -1), "score": score}


def _bound(weights, score, cubic: float = 1.0, quartic: float = 1.0):
    third = ops.constant(cubic, weights) * chisquare.cubic_term(weights)
    return third + ops.constant(quartic, weights) * chisquare.quartic_term(weights)


def pairs(count: int) -> Instance:
    """Instance of equal pairs +-1 at the score of the largest error for many."""
    made = equal_pairs(count)
    return {"weights": paired(made["half"]), "score": made["score"]}


SKEWED = (
    Inequality(
        left=normal_gap,
        accuracy=FAST,
        right=_bound,
        sizes=tuple({"first": (n,), "score": (1,)} for n in (1, 8)),
        build=_many,
        hypotheses=lambda weights, score: [
            (ops.constant(8, weights) + 2.0**-30, chisquare.stable_rank(weights))
        ],
        extremal=(lambda: equal_weights(4096), lambda: pairs(512)),
    )
    .times(0.972)
    .but("0.95 times the skewness", right=partial(_bound, cubic=0.95))
    .but("0.84 times the second term", right=partial(_bound, quartic=0.84))
)


def _third_power(quarter: int = 3) -> Verdict:
    """Whether sum mu^3 = g (g^2 tr S^3 + 3/4 h^2 tr(S M M')), by the form in all steps, exactly."""
    cases = 0
    for T, d, seed in ((3, 2, 0), (4, 3, 1), (5, 2, 2)):
        M = ops.rationals(np.random.default_rng(seed).integers(-8, 9, (d, d)) / 4)
        S, h2 = (M + M.T) / flint.fmpq(2), flint.fmpq(T * T - 1, 12)
        for i in range(1, T + 1):
            g = flint.fmpq(2 * i - T - 1, 2)
            mixed = flint.fmpq(quarter, 4) * h2 * np.trace(S @ M @ M.T)
            stated = g * (g * g * scores.power_trace(S, 3) + mixed)
            if scores.power_trace(scores.whole_form(M, T, i), 3) != stated:
                return Verdict(False, f"differs at T = {T}, token {i}", cases)
            cases += 1
    return Verdict(True, "equal rationals at every token", cases)


THIRD = Decision(_third_power, POWER_LIMITS, "certified", 3 + 4 + 5).but(
    "1/2 in place of 3/4", run=partial(_third_power, 2)
)


def _numbers(M, g, h):
    """Instance with any matrix, any g and h > 1/8, since both sides depend on g/h alone."""
    return {"M": M, "g": g[..., 0], "h": 0.25 + torch.nn.functional.softplus(h[..., 0])}


def _near_zero() -> Instance:
    """Instance M = I at g/h = 2^-8, at equality up to a factor 1 + O(2^-16)."""
    return {
        "M": torch.eye(3, dtype=torch.float64),
        "g": torch.tensor(2.0**-8, dtype=torch.float64),
        "h": torch.tensor(1.0, dtype=torch.float64),
    }


def _by_rank(M, g, h):
    """Bound of a twin, with 1/R in place of 1/sqrt(R)."""
    one = ops.sqrt(ops.sum(ops.square(M), (-2, -1)))
    return localization.relative_cubes_bound(M, g, h) * spectral_norm(M) / one


CUBES = (
    Inequality(
        left=localization.relative_cubes,
        right=localization.relative_cubes_bound,
        sizes=({"M": (2, 2), "g": (1,), "h": (1,)}, {"M": (3, 3), "g": (1,), "h": (1,)}),
        build=_numbers,
        hypotheses=lambda M, g, h: [(ops.constant(0.125, h) + 0 * h, h)],
        extremal=(_near_zero,),
    )
    .times(0.999)
    .but("1/R in place of its root", right=_by_rank)
)

CHECKS: dict[str, dict[str, Check]] = {
    "localization.near-middle": {
        "bound": SKEWED,
        "third power": THIRD,
        "cubes in the model": CUBES,
    },
}

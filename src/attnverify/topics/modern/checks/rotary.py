"""Checks of rotary positions in the random-walk model: the law of a score at a distance."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.simulation_cases import within
from attnverify.checking.check import Check, Decision
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import rotary
from attnverify.support.verdict import Verdict
from attnverify.topics.modern.definitions import rotary as definitions

LIMITS = "these matrices; generic, so that no two quantities agree by chance"


def _norm_stays(orthonormal: bool) -> Verdict:
    """Whether |M(m)|_F is equal at 20 distances, to 2^-80; a twin's K is not orthonormal."""
    with ops.precision(128):
        draw = np.random.default_rng(5).integers(-9, 10, (5, 4)) / 8
        Q, K = ops.balls(draw), ops.balls(np.eye(5)[:, :4])
        if not orthonormal:
            K[0, 0] = arb(1.001)
        angles, worst, m = ops.balls(np.array([1.0, 0.25])), arb(0), 0
        first = ops.sum(ops.square(rotary.at_distance(Q, K, angles, 0)), (-2, -1))
        for m in range(1, 21):
            norm = ops.sum(ops.square(rotary.at_distance(Q, K, angles, m)), (-2, -1))
            worst = worst.max(abs(norm - first))
        same = certain(worst < arb(2) ** -80, worst > arb(2) ** -80)
    return Verdict(same, f"off by at most {worst.str(3)}", m)


NORM = Decision(partial(_norm_stays, True), LIMITS, "certified", 20).but(
    "one column longer by 0.1 percent", run=partial(_norm_stays, False)
)

SAMPLES = 200_000


def _law(turns: bool) -> Verdict:
    """Whether 8 scores in 200,000 walks have the stated mean and variance, to 4.5 standard errors.

    Right formulas stay within that at all 16 numbers but with probability 2e-4; the seed is fixed.
    The variance's own error is sqrt((m_4 - v^2)/n), its fourth moment estimated.
    """
    draw, T = torch.Generator().manual_seed(11), 8
    Q, K = (torch.randn(3, 4, dtype=torch.float64, generator=draw) for _ in range(2))
    angles = torch.tensor([0.9, 0.3], dtype=torch.float64)
    x = torch.randn(SAMPLES, T, 3, dtype=torch.float64, generator=draw).cumsum(1)
    deviations = []
    for i in range(1, T + 1):
        M = rotary.at_distance(Q, K, angles, T - i)
        score = torch.einsum("na,ab,nb->n", x[:, -1], M, x[:, i - 1])
        stated = rotary.score_moments(i, T, rotary.at_distance(Q, K, angles, (T - i) * turns))
        mean, variance = score.mean(), score.var()
        fourth = (score - mean).pow(4).mean()
        off = (mean - stated[0]).abs() / (variance / SAMPLES).sqrt()
        spread = (variance - stated[1]).abs() / ((fourth - variance**2) / SAMPLES).sqrt()
        deviations += [float(off), float(spread)]
    holds, worst = within(deviations, 4.5)
    return Verdict(holds, f"largest deviation {worst:.2f} standard errors", len(deviations))


LAW = Decision(partial(_law, True), "a simulation of these walks", "sampled", 2 * 8).but(
    "the matrix at distance 0 for all tokens", run=partial(_law, False)
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.rope-spectrum": {
        "norm at every distance": NORM,
        "moments of a score": LAW,
        "entry by entry": by_definition(definitions.rotary, "turned the other way", sign=-1),
    },
}

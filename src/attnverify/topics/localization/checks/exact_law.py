"""Checks of the exact law of a score, and of its weights at the middle token."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.chapters.simulation_cases import CASES, Case, within
from attnverify.checking.check import Check, Decision
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import localization
from attnverify.support.verdict import Verdict
from attnverify.topics.localization.definitions import scores

arb = flint.arb

ONE = flint.fmpq(1)
FAST = 1e-7  # accuracy of the exact probabilities


@cache
def _share_of_walks(name: str, samples: int) -> torch.Tensor:
    """What the walks of a case say, for the check and its twins: they differ in the exact law."""
    case = CASES[name]
    given = {"covariance": case.covariance, "samples": samples}
    return localization.probability(case.W, case.tokens, case.temperature, "simulation", **given)


def _simulated(weights: Callable, samples: int) -> Verdict:
    """Whether simulated walks agree with the exact law at every token of every case.

    A share of n independent walks has standard error sqrt(p (1 - p)/n); the largest of the
    deviations over all tokens, in these units, must stay below 4. With 40 tokens a correct law
    fails with probability 40 * 6.4e-5 = 0.3 percent, and the seed is fixed.
    """
    deviations, cases = [], 0
    for name, case in CASES.items():
        exact = localization.between(weights(case), *case.thresholds, FAST)
        seen = _share_of_walks(name, samples)
        error = (exact * (1 - exact) / samples).sqrt() + FAST
        deviations.append(float(((seen - exact).abs() / error).max()))
        cases += case.tokens
    holds, worst = within(deviations, 4)
    detail = f"largest deviation {worst:.2f} standard errors of {samples} walks"
    return Verdict(holds, detail, cases, None if holds is None else worst / 4)


def _scaled(case: Case):
    """Weights of a twin, with one percent more variance."""
    return 1.01 * case.weights


def _symmetric_part(case: Case):
    """Weights of a twin, with the symmetric part of W, which keeps x'Wx but not y'Wx."""
    product = (case.product + case.product.mT) / 2
    return localization.weights(product, case.tokens)


SIMULATION_LIMITS = "these spectra, as many walks as stated; agreement is statistical"


LAW = (
    Decision(partial(_simulated, lambda c: c.weights, 1_000_000), SIMULATION_LIMITS, "sampled", 40)
    .but("weights one percent larger", run=partial(_simulated, _scaled, 1_000_000))
    .but("the symmetric part of W in place of W", run=partial(_simulated, _symmetric_part, 100_000))
)


def _power_sums(scale: flint.fmpq = ONE) -> Verdict:
    """Power sums tr(B^n) of the stated matrix and of the quadratic form in all steps, in rationals.

    The form is sum_{s,s'} e_s' (c_s M) e_s'; its symmetric matrix has the same non-zero
    eigenvalues as the stated 2d x 2d matrix exactly if all power sums agree: n = 1..2d suffices,
    because the form, (c M) times the sum of all steps, has rank at most 2d as well.
    """
    cases = 0
    for T, d, seed in ((2, 1, 0), (3, 2, 1), (4, 2, 2)):
        random = np.random.default_rng(seed)
        W = ops.rationals(random.integers(-8, 9, (d, d)) / 4)
        for i in range(1, T + 1):
            direct, stated = scores.whole_form(W, T, i), _stated(W, T, i) * scale
            for power in range(1, 2 * d + 1):
                if scores.power_trace(direct, power) != scores.power_trace(stated, power):
                    return Verdict(False, f"power {power} differs at T = {T}, i = {i}", cases)
                cases += 1
    return Verdict(True, "all power sums are equal rationals", cases)


def _stated(W, T: int, i: int):
    """Matrix [[g M_s, M/2], [h^2 M'/2, 0]], similar to that of the claim, free of roots."""
    g, h2 = flint.fmpq(2 * i - T - 1, 2), flint.fmpq(T * T - 1, 12)
    half, zero = flint.fmpq(1, 2), ops.full(W.shape, 0, W)
    top = np.concatenate([(W + W.T) * (g * half), W * half], 1)
    return np.concatenate([top, np.concatenate([W.T * (h2 * half), zero], 1)], 0)


POWER_LIMITS = "these walks; the law for all of them is derived in the notebook"
POWERS = Decision(_power_sums, POWER_LIMITS, "certified", 2 * 2 + 3 * 4 + 4 * 4).but(
    "weights larger by 1/1000", run=partial(_power_sums, flint.fmpq(1001, 1000))
)


def _singular_values(square: Callable = lambda W: W @ W.T, less: int = 1) -> Verdict:
    """Whether the middle token's weights are +-h/2 times the singular values of W, by power sums.

    The odd ones are 0, the one of power 2n is 2 (h^2/4)^n tr (W W')^n; in rationals, from the
    quadratic form in all steps. square, less: what stands for W W', and h^2 = (T^2 - less)/12.
    """
    cases = 0
    for T, d, seed in ((3, 2, 0), (3, 3, 1), (5, 2, 2)):
        W = ops.rationals(np.random.default_rng(seed).integers(-8, 9, (d, d)) / 4)
        form = scores.whole_form(W, T, (T + 1) // 2)
        quarter = flint.fmpq(T * T - less, 48)
        for power in range(1, 2 * d + 1):
            even = 2 * quarter ** (power // 2) * scores.power_trace(square(W), max(1, power // 2))
            if scores.power_trace(form, power) != (even if power % 2 == 0 else 0):
                return Verdict(False, f"power {power} differs at T = {T}, d = {d}", cases)
            cases += 1
    return Verdict(True, "all power sums are equal rationals", cases)


def _square_of_symmetric_part(W):
    return (W + W.T) @ (W + W.T) / flint.fmpq(4)


SINGULAR = (
    Decision(_singular_values, POWER_LIMITS, "certified", 4 + 6 + 4)
    .but(
        "the symmetric part of W in place of its singular values",
        run=partial(_singular_values, _square_of_symmetric_part),
    )
    .but("h^2 = T^2/12", run=partial(_singular_values, less=0))
)


CHECKS: dict[str, dict[str, Check]] = {
    "localization.exact": {
        "simulation": LAW,
        "power sums": POWERS,
        "weights": by_definition(scores.weights, "weights not halved", scale=2),
        "root": by_definition(scores.roots, "the root not squared", power=1),
        "method": by_definition(scores.exact, "weights one percent larger", scale=1.01),
    },
}

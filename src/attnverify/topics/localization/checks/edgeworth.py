"""Checks of the first Edgeworth correction of the law of a score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import chisquare
from attnverify.support.verdict import Verdict
from attnverify.topics.localization.checks import normal_approximation
from attnverify.topics.localization.definitions import edgeworth as definitions

arb = flint.arb


def _gap(weights, score, skew: Callable = chisquare.skewness):
    """Error |P(Q <= x) - Phi(y) - correction| at x = mean + y sd; (..., m), (..., 1) -> (...)."""
    deviation = ops.sqrt(2 * ops.sum(ops.square(weights), -1, keepdims=True))
    x = ops.sum(weights, -1, keepdims=True) + score * deviation
    known = normal_approximation.distribution(
        weights, x, normal_approximation.FAST, normal_approximation.SURE
    )
    corrected = ops.normal_cdf(score) + chisquare.edgeworth_correction(
        score, skew(weights)[..., None]
    )
    return abs(known - corrected)[..., 0]


def _bound(weights, score):
    return chisquare.edgeworth_bound(weights)


def equal_pairs(count: int) -> dict[str, torch.Tensor]:
    """Instance of weights 1 and -1 at the largest error, where the bound loses 14 percent."""
    pairs = normal_approximation.equal_pairs(count)
    return {"weights": normal_approximation.paired(pairs["half"]), "score": pairs["score"]}


def _absolute(weights):
    """Absolute skewness, for a twin."""
    return abs(chisquare.skewness(weights))


def lower_side(count: int) -> dict[str, torch.Tensor]:
    """Instance of equal negative weights, at the mean."""
    return {
        "weights": -torch.ones(count, dtype=torch.float64),
        "score": torch.zeros(1, dtype=torch.float64),
    }


CORRECTED = (
    Inequality(
        left=_gap,
        right=_bound,
        sizes=tuple({"first": (m,), "score": (1,)} for m in (1, 8)),
        build=normal_approximation.many_weights,
        accuracy=normal_approximation.FAST,
        extremal=(lambda: equal_pairs(2048), lambda: lower_side(64)),
    )
    .times(0.864)
    .but("no correction", left=partial(_gap, skew=lambda weights: 0 * chisquare.skewness(weights)))
    .but("the correction with the size of the skewness", left=partial(_gap, skew=_absolute))
)


def _above(n: int, x: arb) -> arb:
    """Probability P(chi-square > x) for n = 2 b degrees of freedom: b terms of a Poisson law."""
    term = total = (-x / 2).exp()
    for k in range(1, n // 2):
        term = term * x / (2 * k)
        total += term
    return total


def _chi_square(factor: float) -> Verdict:
    """Whether the bound holds for n equal weights, by chi-square; factor: of the skewness."""
    worst, cases = 0.0, 0
    with ops.precision(128):
        for n, scores in CHI_SCORES.items():
            few = min(n, 256)  # the bound and the skewness see n through the stable rank alone
            kappa = chisquare.skewness(ops.balls(np.ones(few))) / (arb(n) / few).sqrt() * factor
            bound = _of_rank(n)
            for y in scores:
                size = np.array([arb(y)], dtype=object)
                near = (ops.normal_cdf(size) + chisquare.edgeworth_correction(size, kappa))[0]
                off = abs(1 - _above(n, n + arb(y) * (2 * arb(n)).sqrt()) - near)
                if off > bound:
                    return Verdict(False, f"{off.str(5)} above {bound.str(5)} at n = {n}", cases)
                if not off <= bound:
                    return Verdict(None, f"{off.str(5)} at n = {n}", cases)
                worst, cases = max(worst, float(off / bound)), cases + 1
    return Verdict(True, f"largest ratio {worst:.3f}", cases, worst)


def _of_rank(n: int) -> arb:
    """Bound for n equal weights, from its closed form in the stable rank r = n."""
    r = arb(n)
    pairs = ((r / 4).log() - (r / 4).digamma()) / (2 * arb.pi())
    return pairs + 8 / (9 * arb.pi() * r) + 6 / (5 * arb.pi().sqrt() * r * r.sqrt())


CHI_SCORES = {
    2: (-0.5, 0.0, 1.0, 3.0),
    16: (-1.5, -0.5, 0.0, 1.0, 3.0),
    256: (-1.5, -0.5, 0.0, 1.0, 3.0),
    1 << 18: (0.0, 1.5),
}
CHI_LIMITS = "an even number of equal weights, at some scores"
CHI_SQUARE = Decision(partial(_chi_square, 1.0), CHI_LIMITS, "certified", 16).but(
    "the skewness less one percent", run=partial(_chi_square, 0.99)
)

RANGE = Inequality(
    left=lambda weights: ops.square(chisquare.skewness(weights)) * chisquare.stable_rank(weights),
    right=lambda weights: 8 + 0 * weights[..., 0],
    sizes=({"weights": (2,)}, {"weights": (6,)}),
    extremal=(lambda: {"weights": torch.ones(6, dtype=torch.float64)},),
).times(0.999)


def _equal(count: int) -> dict[str, torch.Tensor]:
    return {"weights": torch.ones(count, dtype=torch.float64)}


BY_RANK = (
    Inequality(
        left=chisquare.edgeworth_bound,
        right=lambda weights: chisquare.edgeworth_rank_bound(chisquare.stable_rank(weights)),
        sizes=({"weights": (2,)}, {"weights": (6,)}),
        extremal=(partial(_equal, 64), partial(_equal, 1)),
    )
    .times(0.999)
    .but(
        "1/r^2 in place of r^(-3/2)",
        right=lambda weights: _square_order(chisquare.stable_rank(weights)),
    )
)


def _square_order(r):
    return (17 / r + 6 / ops.square(r)) / (9 * ops.pi(r)) + 6 / (5 * ops.square(r))


CHECKS: dict[str, dict[str, Check]] = {
    "localization.edgeworth": {
        "bound": CORRECTED,
        "equal weights": CHI_SQUARE,
        "range of the skewness": RANGE,
        "in the rank alone": BY_RANK,
        "entry by entry": by_definition(definitions.terms, "the square of the skewness", power=2),
        "tokens": by_definition(definitions.tokens, "h^2 in place of 3 h^2", part=1),
    },
}

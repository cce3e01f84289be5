"""Checks of the distance of the law of a score from the normal law."""

from __future__ import annotations

from functools import partial

import flint
import numpy as np
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import both, certain
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import chisquare, localization
from attnverify.mathematics.quadrature import enclosure
from attnverify.support.verdict import Verdict
from attnverify.topics.localization.checks.exact_law import SINGULAR
from attnverify.topics.localization.definitions import scores

FAST, SURE = 1e-7, 1e-9  # accuracy of searched and of certified probabilities
ROUGH = 1e-4  # and where inversion is slow


def normal_gap(weights, score, fast=FAST, sure=SURE):
    """Error |P(Q <= x) - Phi(score)| at x = mean + score sd; (..., m), (..., 1) -> (...).

    Floats for the search, rigorous balls for the certificate; fast and sure: their accuracies.
    """
    deviation = ops.sqrt(2 * ops.sum(ops.square(weights), -1, keepdims=True))
    x = ops.sum(weights, -1, keepdims=True) + score * deviation
    return abs(distribution(weights, x, fast, sure) - ops.normal_cdf(score))[..., 0]


def distribution(weights, x, fast, sure):
    if ops.is_torch(weights):
        return chisquare.distribution(weights, x, fast)[0]
    out = np.empty(x.shape, dtype=object)
    for index in np.ndindex(*x.shape):
        out[index] = enclosure(weights[index[:-1]], x[index], sure)
    return out


def many_weights(first, score):
    """Instance of weights in [-1, 1], eight of them 1: stable rank at least 8."""
    ones = first.new_ones(len(first), 8)
    return {"weights": ops.join([ones, torch.tanh(first)], -1), "score": score}


def equal_weights(count: int) -> dict[str, torch.Tensor]:
    """Instance of equal weights at the mean, where the bound is attained in the limit."""
    return {
        "weights": torch.ones(count, dtype=torch.float64),
        "score": torch.zeros(1, dtype=torch.float64),
    }


NORMAL = (
    Inequality(
        left=normal_gap,
        right=lambda weights, score: chisquare.normal_bound(weights),
        sizes=tuple({"first": (m,), "score": (1,)} for m in (1, 8)),
        accuracy=FAST,
        build=many_weights,
        hypotheses=lambda weights, score: [
            (ops.constant(6, weights) + 2.0**-30, chisquare.stable_rank(weights))
        ],
        extremal=(lambda: equal_weights(4096),),
    )
    .times(0.998)
    .but(
        "the number of weights in place of the stable rank",
        hypotheses=None,
        right=lambda weights, score: chisquare.normal_bound(
            ops.full((weights.shape[-1],), 1, weights) + 0 * weights
        ),
        extremal=(
            lambda: {
                "weights": torch.tensor([1.0] + [2.0**-10] * 63).double(),
                "score": torch.tensor([-0.7]).double(),
            },
        ),
    )
)


def _at_the_mean(extra: tuple[int, int]) -> Verdict:
    """Whether P(Q <= EQ) - 1/2 >= e^(extra/r) / (3 sqrt(pi r)) for r equal weights."""
    ratios = []
    for r in (1, 2, 3, 5, 8, 33, 1024, 2**20):
        with ops.precision(256):
            b = arb(r) / 2
            gap = arb(1) / 2 - b.gamma_upper(b, regularized=True)
            ratios.append((arb(flint.fmpq(*extra)) / r).exp() / (3 * (arb.pi() * r).sqrt()) / gap)
    holds, cases, _ = both(*((certain(x <= 1, x > 1), 1) for x in ratios))
    worst = max(ratios, key=lambda x: float(x.mid()))
    return Verdict(holds, f"largest ratio {worst.str(12)}", cases, float(worst.mid()))


EQUAL_LIMITS = "these numbers of weights; all of them are derived in the notebook"
EQUAL = Decision(partial(_at_the_mean, (-1, 6)), EQUAL_LIMITS, "certified", 8).but(
    "e^(1/(60 r)) in place of e^(-1/(6 r))", run=partial(_at_the_mean, (1, 60))
)


def paired(half):
    """Weights of a symmetric law, every entry and its negative; (..., m) -> (..., 2m)."""
    return ops.join([half, -half], -1)


def _pairs(first, score):
    """Instance of halves in [-1, 1], two of them 1: stable rank at least 4."""
    return {
        "half": ops.join([first.new_ones(len(first), 2), torch.tanh(first)], -1),
        "score": score,
    }


def _symmetric_gap(half, score):
    """Error of :func:`normal_gap` at lower accuracy, as inversion is slow at stable rank 4.

    The bound is above 0.01 for the sizes searched, so ROUGH moves a ratio by less than 0.01.
    """
    return normal_gap(paired(half), score, ROUGH, 1e-7)


def equal_pairs(count: int) -> dict[str, torch.Tensor]:
    """Instance of equal pairs at sqrt(3 - sqrt(6)) deviations, the largest error for many."""
    return {
        "half": torch.ones(count, dtype=torch.float64),
        "score": torch.tensor([(3 - 6**0.5) ** 0.5], dtype=torch.float64),
    }


MIDDLE = (
    Inequality(
        left=_symmetric_gap,
        right=lambda half, score: chisquare.symmetric_bound(paired(half)),
        sizes=tuple({"first": (m,), "score": (1,)} for m in (1, 6)),
        accuracy=ROUGH,
        build=_pairs,
        extremal=(lambda: equal_pairs(512), lambda: equal_pairs(2)),
    )
    .times(0.864)
    .but(
        "any law in place of a symmetric one",
        left=lambda half, score: normal_gap(ops.join([half, half], -1), score),
        extremal=(lambda: {**equal_pairs(64), "score": torch.zeros(1).double()},),
    )
    .but(
        "the number of weights in place of the stable rank",
        right=lambda half, score: chisquare.symmetric_bound(
            ops.full((2 * half.shape[-1],), 1, half) + 0 * paired(half)
        ),
        extremal=(
            lambda: {
                "half": torch.tensor([1.0] * 4 + [2.0**-10] * 60).double(),
                "score": torch.tensor([0.7]).double(),
            },
        ),
    )
)


def _last_of_many() -> dict[str, torch.Tensor]:
    """Instance of three equal eigenvalues at the last of 1,024 tokens.

    Both ranks are within 1 percent there.
    h is rounded; the inequality is for any g and h.
    """
    g, h = (1024 - 1) / 2, ((1024**2 - 1) / 12) ** 0.5
    return {k: torch.tensor(v).double() for k, v in {"w": [1.0] * 3, "g": [g], "h": [h]}.items()}


RANK = Inequality(
    left=lambda w, g, h: chisquare.stable_rank(w),
    right=lambda w, g, h: chisquare.stable_rank(
        localization.symmetric_weights(w, g[..., 0], h[..., 0])
    ),
    sizes=({"w": (1,), "g": (1,), "h": (1,)}, {"w": (4,), "g": (1,), "h": (1,)}),
    extremal=(_last_of_many,),
).times(0.994)

CHECKS: dict[str, dict[str, Check]] = {
    "localization.gaussian": {
        "bound": NORMAL,
        "stable rank": RANK,
        "equal weights": EQUAL,
        "closed forms": by_definition(scores.normal_bounds, "twice the bound", shift=1),
        "method": by_definition(scores.normal, "the lower tail twice", tails=2),
    },
    "localization.middle-token": {"bound": MIDDLE, "singular values": SINGULAR},
}

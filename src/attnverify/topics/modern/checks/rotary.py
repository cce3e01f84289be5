"""Checks of rotary positions in the random-walk model: query-key matrices at a distance."""

from __future__ import annotations

from functools import partial
from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import rotary
from attnverify.support.verdict import Verdict
from attnverify.topics.modern.checks.positions import by_planes
from attnverify.topics.modern.definitions import rotary as definitions
from attnverify.topics.shared.simulation_cases import within

arb = flint.arb
COUNT = 5  # distances, and tokens of a walk


def _inside(Q, K, angles) -> Instance:
    """Instance with angles between 0 and pi."""
    return {"Q": Q, "K": K, "angles": torch.pi * torch.sigmoid(angles)}


def _below_pi(Q, K, angles):
    zero = ops.full(tuple(angles.shape), 0, angles)
    return [(zero, angles), (angles, zero + ops.pi(angles))]


SIZES = tuple({"Q": (d, 2, p), "K": (d, 2, p), "angles": (p,)} for d, p in ((2, 1), (3, 2), (5, 2)))


def one_plane(angle: float, phase: float) -> Instance:
    """Instance Q = I and K = I turned by the phase: a_1 = 2 cos(phase), b_1 = 2 sin(phase)."""
    turn = torch.tensor([phase], dtype=torch.float64)
    c, s = torch.cos(turn), torch.sin(turn)
    K = torch.stack([torch.cat([c, s]), torch.cat([-s, c])])
    angles = torch.tensor([angle], dtype=torch.float64)
    return {"Q": torch.eye(2, dtype=torch.float64)[..., None], "K": K[..., None], "angles": angles}


def _size_of(mean: Any, count: int) -> Any:
    return by_planes(lambda Q, K, angles: abs(mean(Q, K, angles, count)))


def _limit(bound: Any, count: int) -> Any:
    return by_planes(lambda Q, K, angles: bound(Q, K, angles, count))


SIGNAL = (
    Inequality(
        left=_size_of(rotary.mean_signal, COUNT),
        right=_limit(rotary.mean_signal_bound, COUNT),
        sizes=SIZES,
        build=_inside,
        hypotheses=_below_pi,
        extremal=(lambda: one_plane(torch.pi / COUNT, (COUNT - 1) / 2 * torch.pi / COUNT),),
    )
    .times(0.9999)
    .but(
        "theta/2 in place of sin(theta/2)",
        right=by_planes(
            lambda Q, K, angles: (
                ops.sum(rotary.sizes(Q, K) / (angles / 2), -1) / ops.constant(COUNT, Q)
            )
        ),
    )
)
SCORES = (
    Inequality(
        left=_size_of(rotary.mean_score, COUNT),
        right=_limit(rotary.mean_score_bound, COUNT),
        sizes=SIZES,
        build=_inside,
        hypotheses=_below_pi,
        extremal=(lambda: one_plane(torch.pi * (1 - 2.0**-30), 0.0),),
    )
    .times(0.9999)
    .but(
        "without the term that vanishes with T",
        right=by_planes(
            lambda Q, K, angles: ops.sum(rotary.sizes(Q, K) / ops.sin(angles / 2), -1) / 2
        ),
    )
)
SQUARE = Inequality(
    left=by_planes(rotary.mean_square),
    right=by_planes(rotary.mean_square_bound),
    sizes=tuple({"Q": s["Q"], "K": s["K"]} for s in SIZES),
    extremal=(lambda: dict.fromkeys("QK", torch.eye(4, 2, dtype=torch.float64)[..., None]),),
).times(0.9999)


@by_planes
def _off_half(Q, K, angles, half: float = 0.5):
    """Distance of the mean square over some distances from ``half`` of the sum of s_p^2."""
    wanted = ops.constant(2 * half, Q) * rotary.mean_square(Q, K)
    return abs(rotary.mean_square_until(Q, K, angles, COUNT) - wanted)


def two_planes(*angles: float) -> Instance:
    """Instance Q = K with four orthonormal columns: a_p = 2, b_p = 0."""
    columns = torch.eye(5, 4, dtype=torch.float64).reshape(5, 2, 2)
    return {"Q": columns, "K": columns, "angles": torch.tensor(angles, dtype=torch.float64)}


SQUARES = (
    Inequality(
        left=_off_half,
        right=_limit(rotary.mean_square_error, COUNT),
        sizes=SIZES,
        build=_inside,  # equal angles have probability 0 and are not covered by the claim
        hypotheses=_below_pi,
        extremal=(lambda: one_plane(torch.pi / (2 * COUNT), (COUNT - 1) / 4 * torch.pi / COUNT),),
    )
    .times(0.9999)
    .but(
        "waves of two angles left out",
        right=by_planes(
            lambda Q, K, angles: rotary.own_waves(Q, K, angles) / ops.constant(COUNT, Q)
        ),
        extremal=(lambda: two_planes(1.5, 1.625),),
    )
    .but(
        "the sum of squares in place of half of it",
        left=partial(_off_half, half=1.0),
        extremal=(lambda: one_plane(torch.pi / 2, 0.0),),
    )
)

LIMITS = "these matrices; generic, so that no two quantities agree by chance"


def _norm_stays(orthonormal: bool) -> Verdict:
    """Whether |M(m)|_F is equal at 20 distances, to 2^-80; a twin's K is not orthonormal."""
    with ops.precision(128):
        draw = np.random.default_rng(5).integers(-9, 10, (5, 4)) / 8
        Q, K = ops.balls(draw), ops.balls(np.eye(5)[:, :4])
        if not orthonormal:
            K[0, 0] = arb(1.001)
        angles, worst = ops.balls(np.array([1.0, 0.25])), arb(0)
        first = ops.sum(ops.square(rotary.at_distance(Q, K, angles, 0)), (-2, -1))
        for m in range(1, 21):
            norm = ops.sum(ops.square(rotary.at_distance(Q, K, angles, m)), (-2, -1))
            worst = worst.max(abs(norm - first))
        same = certain(worst < arb(2) ** -80, worst > arb(2) ** -80)
    return Verdict(same, f"off by at most {worst.str(3)}", 20)


NORM = Decision(partial(_norm_stays, True), LIMITS, kind="certified").but(
    "one column longer by 0.1 percent", run=partial(_norm_stays, False)
)

DISTANCES = 200


def _quotient(columns: str) -> Verdict:
    """Whether (tr M(m)/|M(m)|_F)^2 has a mean of at most 1 over 200 distances, up to the error.

    columns: "own", Q = K orthonormal, where it is 1 but for the error; "any", a Q drawn and K
    orthonormal; "long", M(m) = diag(cos m, -cos 3m), where neither has columns of equal length. The
    error is that of the mean of the squared traces over the squared norm at m = 0.
    """
    angles, K = ops.balls(np.array([1.0, 3.0])), ops.balls(np.eye(5)[:, :4])
    Q = ops.balls(np.random.default_rng(7).integers(-9, 10, (5, 4)) / 8) if columns == "any" else K
    if columns == "long":
        Q, K = (ops.balls(np.diag([1.0, s, 0.0, 0.0])[:2]) for s in (1.0, -1.0))
    squares, norms = arb(0), []
    for m in range(DISTANCES):
        norms.append(ops.sum(ops.square(rotary.at_distance(Q, K, angles, m)), (-2, -1)))
        squares += rotary.signal(Q, K, angles, m) ** 2 / norms[-1]
    over, room = squares / DISTANCES - 1, rotary.mean_square_error(Q, K, angles, DISTANCES)
    room = room / norms[0]
    off = abs(over) if columns == "own" else over
    words = f"mean of the square {(over + 1).str(5)}, error at most {room.str(3)}"
    return Verdict(certain(off < room, off > room), words, DISTANCES)


def _quotients() -> Verdict:
    """Verdict on :func:`_quotient` in two cases with orthonormal columns of K."""
    own, drawn = _quotient("own"), _quotient("any")
    return drawn if own.holds else own


QUOTIENT = Decision(_quotients, LIMITS, kind="certified").but(
    "columns of different lengths in both", run=partial(_quotient, "long")
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
    return Verdict(holds, f"largest deviation {worst:.2f} standard errors", SAMPLES)


LAW = Decision(partial(_law, True), "a simulation of these walks", kind="sampled").but(
    "the matrix at distance 0 for all tokens", run=partial(_law, False)
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.rope-spectrum": {
        "mean over distances": SIGNAL,
        "mean of all scores": SCORES,
        "quadratic mean over distances": SQUARES,
        "quadratic mean": SQUARE,
        "quotient": QUOTIENT,
        "norm at every distance": NORM,
        "moments of a score": LAW,
        "entry by entry": by_definition(definitions.rotary, "turned the other way", sign=-1),
    },
}

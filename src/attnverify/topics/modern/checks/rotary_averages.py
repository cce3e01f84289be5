"""Checks of rotary positions in the random-walk model: averages over distances and tokens."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import rotary
from attnverify.support.verdict import Verdict
from attnverify.topics.modern.checks.positions import by_planes
from attnverify.topics.modern.definitions import rotary as definitions

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
    return Verdict(certain(off < room, off > room), words, len(norms))


def _quotients() -> Verdict:
    """Verdict on :func:`_quotient` in two cases with orthonormal columns of K."""
    own, drawn = _quotient("own"), _quotient("any")
    return replace(drawn, cases=own.cases + drawn.cases) if own.holds else own


QUOTIENT = Decision(_quotients, LIMITS, "certified", 2 * 200).but(
    "columns of different lengths in both", run=partial(_quotient, "long")
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.rope-averages": {
        "mean over distances": SIGNAL,
        "mean of all scores": SCORES,
        "quadratic mean over distances": SQUARES,
        "quadratic mean": SQUARE,
        "quotient": QUOTIENT,
        "entry by entry": by_definition(definitions.averages, "turned the other way", sign=-1),
    },
}

"""Checks of positions over depth: nearly equal tokens, and orbits.

Maps by planes are as in :mod:`attnverify.topics.modern.checks.positions`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flint
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition, largest
from attnverify.mathematics import collapse, norms, position_bounds, softmax
from attnverify.support.verdict import Verdict
from attnverify.topics.modern.checks.positions import by_planes, flat, in_plane, sizes
from attnverify.topics.modern.definitions import positions as definitions


def mixed(X, **maps):
    """Mixed tokens P X of one head."""
    return ops.softmax(position_bounds.logits(X, **maps))[..., 0, :, :] @ X


# --------------------------------------------------------------------- orbits of tokens over depth

arb = flint.arb

LIMITS = "these tokens, for this number of layers; the limit is derived in the notebook"


def _orbit(layers: int, X, **maps: Any) -> list[Any]:
    """Tokens before every layer and after the last, in balls, for one head with W = I."""
    states, maps = [ops.balls(X)], {name: ops.balls(value) for name, value in maps.items()}
    for _ in range(layers):
        states.append(mixed(states[-1], **maps))
    return states


def _plane_orbit(middle: float, layers: int) -> tuple[list[Any], Callable]:
    """Orbit of two tokens at (middle, -+1/2), turned by 1 radian, and the claim's factor."""
    instance = flat(in_plane(1.0, middle))
    del instance["W"]
    angle, q, m = (ops.balls(torch.tensor([v], dtype=torch.float64)) for v in (1.0, 1.0, middle))

    def factor(size):
        return position_bounds.plane_factor(size, m, angle, q, 2)[0]

    return _orbit(layers, **instance), factor


ORBIT_LAYERS = 60


def _attained(stretch: float) -> Verdict:
    """Whether every layer multiplies the distance by the factor at stretch times it, to 2^-200.

    A layer's balls grow by a factor below 8, as slopes are below 3 and balls forget that the two
    tokens move together: of 1,000 bits about 800 are left after 60 layers, less the 160 by which
    the distance has fallen.
    """
    with ops.precision(1000):
        states, factor = _plane_orbit(1.0, ORBIT_LAYERS)
        sizes, worst = [norms.diameter(X) for X in states], arb(0)
        for before, after in zip(sizes, sizes[1:], strict=False):
            worst = worst.max(abs(after / before - factor(arb(stretch) * before)))
        near = certain(worst < arb(2) ** -200, worst > arb(2) ** -200)
    return Verdict(near, f"ratios off by at most {worst.str(3)}", len(sizes) - 1)


def _stays_geometric(middle: float) -> Verdict:
    """Whether every ratio of distances is at least the claim's limit, sin^2 at m = 1, q = 1."""
    with ops.precision(1000):
        states, _ = _plane_orbit(middle, ORBIT_LAYERS // 10)
        _, factor = _plane_orbit(1.0, 0)
        sizes, limit = [norms.diameter(X) for X in states], factor(ops.balls(torch.zeros(1)))
        least = -largest(-b / a for a, b in zip(sizes, sizes[1:], strict=False))
        holds = certain(least > limit, least < limit)
    return Verdict(holds, f"least ratio {least.str(6)}, limit {limit.str(6)}", len(sizes) - 1)


ATTAINED = Decision(partial(_attained, 1.0), LIMITS, "certified", 60).but(
    "1.001 delta in place of delta", run=partial(_attained, 1.001)
)
GEOMETRIC = Decision(partial(_stays_geometric, 1.0), LIMITS, "certified", 6).but(
    "with the common token 0, which rotations leave where it is", run=partial(_stays_geometric, 0.0)
)

UNSEEN_LAYERS = 200


def _keeps(size, factor):
    """Distance one layer later, with the limit of the factor."""
    return factor(0 * size) * size


def _cubes(size, factor):
    """Distance one layer later that the sharp theorem allows, with q = 1 and d_qk = 2."""
    rate = 1 / (4 * ops.root(2, size))
    return collapse.two_token_step(size, rate, 1)


def _unseen(step: Callable) -> Verdict:
    """Whether the distance follows ``step`` for tokens that differ in a feature no score sees.

    The first two features are (1, 0) for both tokens and turn by 1 radian, the third is -+1/2. So
    the attention matrix is the same in every layer. Balls lose a few bits a layer.
    """
    eye, plane = torch.eye(3, 2, dtype=torch.float64), flat(in_plane(1.0, 1.0))
    del plane["W"]
    tokens = torch.tensor([[1.0, 0.0, -0.5], [1.0, 0.0, 0.5]], dtype=torch.float64)
    with ops.precision(2000):
        _, factor = _plane_orbit(1.0, 0)
        states = _orbit(UNSEEN_LAYERS, **{**plane, "X": tokens, "W_Q": eye[None], "W_K": eye[None]})
        sizes, worst = [norms.diameter(Y) for Y in states], arb(0)
        for before, after in zip(sizes, sizes[1:], strict=False):
            worst = worst.max(abs(after / step(before, factor) - 1))
        near = certain(worst < arb(2) ** -200, worst > arb(2) ** -200)
    return Verdict(near, f"off by at most {worst.str(3)} of the distance", len(sizes) - 1)


UNSEEN = Decision(partial(_unseen, _keeps), LIMITS, "certified", 200).but(
    "the step of the sharp theorem", run=partial(_unseen, _cubes)
)


def _fastest(of: Callable, layers: int = UNSEEN_LAYERS) -> Verdict:
    """Whether every ratio of diameters is of(P) for three tokens on an eigenvector of lambda_3.

    As in :func:`_unseen`, with a turn of 3 radians, so that token 1 scores token 3 nearly as itself
    and P is one matrix whose eigenvalue for (1, 0, -1) is the least, 1/80. The diameter falls by 7
    bits a layer at most: of 2,000 bits 600 are left at the end.
    """
    eye, plane = torch.eye(3, 2, dtype=torch.float64), flat(in_plane(1.0, 1.0, angle=3.0))
    maps = {name: plane[name] for name in ("b_Q", "b_K", "angles")}
    maps = {**maps, "W_Q": eye[None], "W_K": eye[None]}
    tokens = torch.tensor([[1.0, 0.0, k] for k in (-0.5, 0.0, 0.5)], dtype=torch.float64)
    with ops.precision(2000):
        states, worst = _orbit(layers, tokens, **maps), arb(0)
        P = ops.softmax(
            position_bounds.logits(states[0], **{k: ops.balls(v) for k, v in maps.items()})
        )
        sizes, wanted = [norms.diameter(Y) for Y in states], of(P[0])
        for before, after in zip(sizes, sizes[1:], strict=False):
            worst = worst.max(abs(after / before - wanted))
        near = certain(worst < arb(2) ** -200, worst > arb(2) ** -200)
    words = f"ratio {(sizes[1] / sizes[0]).str(6)}, off by {worst.str(3)}"
    return Verdict(near, words, len(sizes) - 1)


FASTEST = Decision(
    partial(_fastest, lambda P: position_bounds.moduli(P)[-1]), LIMITS, "certified", 200
).but("|lambda_2| from every input", run=partial(_fastest, lambda P: position_bounds.moduli(P)[0]))

RATE_LAYERS = 400


def _rate(of: Callable) -> Verdict:
    """Whether the last ratio of diameters is of(P_c), to 2^-100; four tokens that turn by 0.8.

    W_QK = I, and c is the mean of the last tokens. Those are as near to their limit as |lambda_2|^l
    says, and the ratio is off by a multiple of max(|lambda_3 / lambda_2|, |lambda_2|)^l, here
    0.67^400 < 2^-230: a factor of 2^130 is left for what it multiplies.
    """
    X = torch.tensor([[2.0, 0.5], [1.0, -0.25], [1.5, 1.0], [1.75, -1.0]], dtype=torch.float64)
    plane = flat(in_plane(1.0, 1.0, angle=0.8))
    maps = {name: plane[name] for name in ("W_Q", "W_K", "b_Q", "b_K", "angles")}
    with ops.precision(2000):
        *earlier, before, last = _orbit(RATE_LAYERS, X, **maps)
        ratio, c = norms.diameter(last) / norms.diameter(before), ops.sum(last, -2) / arb(4)
        exact = {name: ops.balls(value) for name, value in maps.items()}
        P = ops.softmax(position_bounds.logits(position_bounds.alone(last, c), **exact))[0]
        off = abs(ratio - of(P))
        near = certain(off < arb(2) ** -100, off > arb(2) ** -100)
    return Verdict(near, f"ratio {ratio.str(8)}, off by {off.str(3)}", len(earlier) + 1)


RATE = Decision(
    partial(_rate, lambda P: position_bounds.moduli(P)[0]), LIMITS, "certified", 400
).but(
    "the contraction coefficient of P_c in place of |lambda_2|",
    run=partial(_rate, lambda P: norms.contraction(P[None])[0]),
)


# ------------------------------------------------------------------------- nearly equal tokens


@by_planes
def _from_alone(X, c, **maps):
    """Difference |diam(SA(X)) - diam(P_c X)| for one head with W = I."""
    alone = (
        ops.softmax(position_bounds.logits(position_bounds.alone(X, c), **maps))[..., 0, :, :] @ X
    )
    return abs(norms.diameter(mixed(X, **maps)) - norms.diameter(alone))


@by_planes
def _allowed(X, c, half: int = 2, **maps):
    """Bound tanh(zeta/2) diam(X), by the total variation bound tanh(D/4) at D = half * zeta."""
    zeta = position_bounds.moved(X, c, **maps)[..., 0]
    return softmax.variation_bound(half * zeta) * norms.diameter(X)


def _around_zero(size: float) -> Instance:
    instance = in_plane(size, 0.0)
    del instance["W"]
    return {**instance, "c": torch.zeros(1, 2, dtype=torch.float64)}


NEAR = (
    Inequality(
        left=_from_alone,
        right=_allowed,
        sizes=tuple(sizes(*s, c=(1, s[1])) for s in ((2, 2, 1, 1), (3, 2, 1, 2), (4, 3, 1, 1))),
        extremal=(lambda: _around_zero(1.0), lambda: _around_zero(2.0**-6)),
    )
    .times(0.9999)
    .but("tanh(zeta/4), enough for a single row", right=partial(_allowed, half=1))
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.positions-end-cubic": {
        "nearly equal tokens": NEAR,
        "two tokens, layer after layer": ATTAINED,
        "not below the limit": GEOMETRIC,
        "a difference that no score sees": UNSEEN,
        "the fastest decay": FASTEST,
        "four tokens": RATE,
        "entry by entry": by_definition(
            definitions.equal_tokens, "the distance j - i in place of i - j", sign=-1
        ),
    },
}

"""Checks of a causal mask with positions: one layer, one weight, and relative positions.

Maps by planes are as in :mod:`attnverify.topics.modern.checks.positions`, for one head.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import causal_positions as formulas
from attnverify.mathematics import mask_bounds
from attnverify.topics.modern.checks.causal_position_orbits import ORBITS
from attnverify.topics.modern.checks.masks import alike_first, are_alike, tokens
from attnverify.topics.modern.checks.positions import by_planes
from attnverify.topics.modern.definitions import causal_positions as definitions

# ------------------------------------------------------------------------------------- one layer


def sizes(alike: int, others: int, width: int, planes: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the first tokens, which are equal, of the rest, and of the head's maps."""
    n, d, p = alike + others, width, planes
    maps = {"W_Q": (1, d, 2, p), "W_K": (1, d, 2, p), "b_Q": (1, 2, p), "b_K": (1, 2, p)}
    return {
        "first": (alike, d),
        "rest": (others, d),
        **maps,
        "angles": (1, p),
        "bias": (1, 2 * n - 1),
    }


def _of_equal(X, **maps):
    """Attention matrix of equal tokens, and the oscillation D of what moved its logits."""
    Z, equal = formulas.logits(X, **maps), formulas.logits_of_equal(X, **maps)
    return formulas.weights(equal), equal, Z


def _shape(X, P, alike: int):
    return formulas.shape(P, alike)


def without_positions(X, P, alike: int):
    """Shape u without positions, for a twin."""
    return mask_bounds.shape(X.shape[-2], alike, X) + 0 * P[..., 0]


@by_planes
def _after(first, rest, u: Callable = _shape, **maps):
    """Left side N(X') after one layer."""
    X, m = tokens(first, rest), first.shape[-2]
    P, _, Z = _of_equal(X, **maps)
    return formulas.spread(formulas.weights(Z) @ X, u(X, P, m), m)


def _own(P, alike: int):
    return P[..., alike, alike]


def plain_rate(P, alike: int):
    """Rate 1/(m + 1), which holds without positions, for a twin."""
    return 1 / (alike + 1 + 0 * P[..., 0, 0])


@by_planes
def _before(
    first, rest, u: Callable = _shape, rate: Callable = _own, share: float = 1.0, **maps: Any
):
    """Right side p e^D N(X); share: a multiple of D, for a twin."""
    X, m = tokens(first, rest), first.shape[-2]
    P, equal, Z = _of_equal(X, **maps)
    D = ops.constant(share, X) * formulas.moved(Z, equal, m)
    return rate(P, m) * ops.exp(D) * formulas.spread(X, u(X, P, m), m)


def places(alike: int, others: int, slope: float = 0.0, angle: float = 0.0, wave: float = 0.0):
    """Instance whose logits do not depend on tokens, which are the multiples u_i of one vector.

    slope: of ALiBi; angle and wave: the logit wave cos(angle (i - j)) of rotary positions.
    """
    n, like = alike + others, torch.zeros(1, dtype=torch.float64)
    distance = torch.arange(1 - n, n, dtype=torch.float64)
    unit = torch.tensor([[[1.0], [0.0]]], dtype=torch.float64)
    maps = {
        "W_Q": torch.zeros(1, 1, 2, 1, dtype=torch.float64),
        "W_K": torch.zeros(1, 1, 2, 1, dtype=torch.float64),
        "b_Q": wave * unit,
        "b_K": unit,
        "angles": angle + like[None],
        "bias": -slope * distance.abs()[None],
    }
    equal = {k: v.reshape(*v.shape[:-2], -1) if v.ndim > 2 else v for k, v in maps.items()}
    P = formulas.weights(formulas.logits(0 * like.expand(n, 1), **equal))
    X = formulas.shape(P, alike)[:, None]
    return {"first": X[:alike], "rest": X[alike:], **maps}


def line(start: float, alike: int, end: float, slope: float = 0.0) -> Instance:
    """Instance of tokens ``start``, the last one ``end``, with the logits x_i x_j/sqrt(2)."""
    given = places(alike, 1, slope)
    one = torch.tensor([[[[1.0], [0.0]]]], dtype=torch.float64)
    X = torch.tensor([[start]] * alike + [[end]], dtype=torch.float64)
    return {
        **given,
        "W_Q": one,
        "W_K": one,
        "b_K": 0 * given["b_K"],
        "first": X[:-1],
        "rest": X[-1:],
    }


SIZES = (sizes(1, 1, 1, 1), sizes(1, 3, 2, 1), sizes(2, 2, 3, 2), sizes(3, 1, 2, 1))
ONE_LAYER = (
    Inequality(
        left=_after,
        right=_before,
        sizes=SIZES,
        build=alike_first,
        hypotheses=are_alike,
        extremal=(
            lambda: places(1, 3, slope=0.5),
            lambda: places(2, 2),
            lambda: places(1, 4, angle=1.0, wave=2.0),
        ),
    )
    .times(0.9999)
    .but("the rate 1/(m + 1), whatever the positions are", right=partial(_before, rate=plain_rate))
    .but(
        "binomial coefficients for u, whatever the positions are",
        right=partial(_before, u=without_positions),
    )
    .but(
        "half of D",
        right=partial(_before, share=0.5),
        extremal=(lambda: line(0.5, 3, 1.5),),
    )
)


@by_planes
def _weight(first, rest, **maps):
    """Weight that token m + 1 gives itself."""
    X, m = tokens(first, rest), first.shape[-2]
    return _own(formulas.weights(formulas.logits(X, **maps)), m)


@by_planes
def _limits(first, rest, share: float = 1.0, **maps):
    """Bounds on that weight, by its value for equal tokens and D; share: a multiple of D."""
    X, m = tokens(first, rest), first.shape[-2]
    P, equal, Z = _of_equal(X, **maps)
    D = ops.constant(share, X) * formulas.moved(Z, equal, m)
    return formulas.tilted(_own(P, m), -D), formulas.tilted(_own(P, m), D)


def _below(**instance: Any):
    return ops.stack([_limits(**instance)[0], _weight(**instance)], -1)


def _above(share: float = 1.0, **instance: Any):
    return ops.stack([_weight(**instance), _limits(**instance, share=share)[1]], -1)


WEIGHT = (
    Inequality(
        left=_below,
        right=_above,
        sizes=SIZES,
        build=alike_first,
        hypotheses=are_alike,
        extremal=(lambda: line(0.5, 1, 1.0, 0.5), lambda: line(3.0, 2, 1.0, 0.25)),
    )
    .times(0.9999)
    .but("99 % of the oscillation", right=partial(_above, share=0.99))
)

# ------------------------------------------------------------------------------ relative positions


def _later(levels):
    return formulas.own_by_distance(levels)[..., 1:]


def _earlier(levels):
    return formulas.own_by_distance(levels)[..., :-1]


def _far(*levels: float) -> Callable[[], Instance]:
    return lambda: {"levels": torch.tensor(levels, dtype=torch.float64)}


def _raised(levels):
    """Own weights of later tokens whose logit of themselves is larger by 1, for a twin."""
    others = 1 / _later(levels) - 1
    return 1 / (1 + others * ops.exp(-ops.constant(1, levels)))


FALLS = (
    Inequality(
        left=_later,
        right=_earlier,
        sizes=({"levels": (2,)}, {"levels": (3,)}, {"levels": (6,)}),
        extremal=(_far(0.0, -40.0), _far(0.0, 0.0, -40.0)),
    )
    .times(0.9999)
    .but("a learned table that raises the own logit of every later token by 1", left=_raised)
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.causal-positions-rate": {
        "one layer": ONE_LAYER,
        "own weight": WEIGHT,
        "relative positions": FALLS,
        **ORBITS,
        "entry by entry": by_definition(
            definitions.head, "the distance j - i in place of i - j", sign=-1
        ),
        "shapes, entry by entry": by_definition(
            definitions.shapes, "the shape of another slope", slope_of_twin=1.125
        ),
    },
}

"""Checks of the limit of many tokens at a fixed temperature."""

from __future__ import annotations

from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import localization, walk
from attnverify.topics.collapse.definitions import depth


def _normal(T, t, xi, theta, asymmetry):
    """Normal approximation at position t, with scores in units of T ||M||_F."""
    i = t * T + ops.constant(1, T) / 2
    mean = walk.score_mean(i, T, xi) / T
    deviation = ops.sqrt(walk.score_variance(i, T, 1, asymmetry)) / T
    return localization.gaussian(mean, deviation, -theta / T, theta - theta / T)


def _rate(T, t, xi, theta, asymmetry):
    return 2 * localization.limit_rate(T)


def _from_normal(T, t, xi, theta, asymmetry, of=None):
    found = (localization.fixed_temperature if of is None else of)(t, xi, theta, T, asymmetry)
    return abs(_normal(T, t, xi, theta, asymmetry) - found)


def _free(T, t, xi, theta, asymmetry):
    """Instance with 2 <= T <= 66, 0 <= t <= 1, theta > 0, |gamma| < 1, for real T and t."""
    return {
        "T": 2 + 64 * torch.sigmoid(T),
        "t": torch.sigmoid(t),
        "xi": xi,
        "theta": torch.exp(theta.clamp(-8, 8)),
        "asymmetry": torch.tanh(asymmetry),
    }


def _within(T, t, xi, theta, asymmetry):
    one = 1 + 0 * t
    return [(2 * one, T), (0 * t, t), (t, one), (abs(asymmetry), one), (0 * t, theta)]


def _instance(**values: float) -> Instance:
    return {name: torch.tensor([value]).double() for name, value in values.items()}


def both_ends(tokens: int = 1025) -> Instance:
    """Instance of the token after the middle, with both ends at one standard deviation."""
    deviation = (1 / 12 + 2 / tokens**2) ** 0.5
    xi = deviation * (tokens - 2)
    t = 0.5 + 1 / tokens
    return {
        name: torch.tensor([value], dtype=torch.float64)
        for name, value in {
            "T": float(tokens),
            "t": t,
            "xi": xi,
            "theta": 2 * deviation,
            "asymmetry": 1.0,
        }.items()
    }


SIZES = ({name: (1,) for name in ("T", "t", "xi", "theta", "asymmetry")},)
NEAR = (
    Inequality(
        left=_from_normal,
        right=_rate,
        sizes=SIZES,
        build=_free,
        hypotheses=_within,
        extremal=(both_ends,),
    )
    .times(0.999)
    .but(
        "the window of infinitely many tokens",
        left=partial(
            _from_normal,
            of=lambda t, xi, theta, T, g: localization.fixed_temperature_limit(t, xi, theta, g),
        ),
        extremal=(lambda: _instance(T=65.0, t=0.5, xi=0.0, theta=2.0, asymmetry=1.0),),
    )
)


def _shift(T, t, xi, theta, asymmetry):
    found = localization.fixed_temperature(t, xi, theta, T, asymmetry)
    return abs(found - localization.fixed_temperature_limit(t, xi, theta, asymmetry))


def _without_upper(T, t, xi, theta, asymmetry):
    """Limit Phi(s xi/sqrt v) of a twin, without the upper threshold."""
    found = localization.fixed_temperature(t, xi, theta, T, asymmetry)
    return abs(found - localization.limit(t, xi, 0 * theta, asymmetry))


def _moved(T, t, xi, theta, asymmetry):
    return localization.fixed_temperature_rate(theta, T)


SHIFT = (
    Inequality(
        left=_shift,
        right=_moved,
        sizes=SIZES,
        build=_free,
        hypotheses=_within,
        extremal=(lambda: _instance(T=4096.0, t=0.5, xi=0.0, theta=2.0, asymmetry=1.0),),
    )
    .times(0.999)
    .but(
        "without the upper threshold",
        left=_without_upper,
        extremal=(lambda: _instance(T=64.0, t=0.5, xi=0.0, theta=0.5, asymmetry=1.0),),
    )
)

CHECKS: dict[str, dict[str, Check]] = {
    "localization.fixed-temperature": {
        "finite T": NEAR,
        "shift": SHIFT,
        "entry by entry": by_definition(depth.window, "1/11 in place of 1/12", least=11),
    },
}

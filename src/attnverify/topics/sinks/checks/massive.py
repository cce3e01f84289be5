"""Checks of the normalized tokens that have a massive coordinate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Inequality
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import layernorm, norms, sinks
from attnverify.topics.sinks import definitions


def _massive(X, e, center: Callable = definitions.mean):
    """Instance whose first coordinate is above the mean of the others by more than 1/64."""
    m = 2.0**-6 + torch.nn.functional.softplus(X[..., 0])
    first = (center(X[..., 1:]) + m)[..., None]
    return {"X": torch.cat([first, X[..., 1:]], -1), "e": torch.nn.functional.softplus(e)}


def _first_largest(X, e):
    """Instance whose first coordinate is above 1/64."""
    return _massive(X, e, lambda rest: 0 * rest[..., 0])


def _normalized(X, e, norm: Callable):
    return norm(X, ops.full((X.shape[-1],), 1, X), e[..., None])


def _chord_bound(X, e, tangent: Callable, size: Callable = sinks.chord):
    return ops.root(X.shape[-1], X) * size(tangent(X, e))


def _itself(tangent):
    return tangent


def _spread(X, e, norm: Callable):
    return norms.diameter(_normalized(X, e, norm))


def _spread_bound(X, e, tangent: Callable, size: Callable = sinks.double_chord):
    return ops.root(X.shape[-1], X) * size(ops.amax(tangent(X, e), -1))


def _about_norm(norm: Callable, tangent: Callable, build: Callable, width: int) -> dict[str, Check]:
    """The three bounds of one norm, for tokens of at least this width."""

    def form(left: Callable, right: Callable, first: float, rows: int) -> Inequality:
        sides = [[first, 1.0, -1.0], [first, -1.0, 1.0]][:rows]
        tokens = torch.tensor(sides, dtype=torch.float64)
        return Inequality(
            left=partial(left, norm=norm),
            right=partial(right, tangent=tangent),
            sizes=tuple({"X": (n, d), "e": (1,)} for n, d in ((2, width), (3, 4), (2, 5))),
            build=build,
            hypotheses=lambda X, e: [(0 * e, e), (0 * X[..., 0], tangent(X, e))],
            extremal=(lambda: {"X": tokens, "e": 0 * tokens[0, :1]},),
        ).times(0.9999)

    without = lambda X, e: tangent(X, 0 * e)  # noqa: E731
    distance = form(definitions.distances, _chord_bound, 4.0, 1)
    pairs = form(_spread, _spread_bound, 4.0, 2)
    return {
        "distance": distance.but("without epsilon", right=partial(_chord_bound, tangent=without)),
        "linear": form(definitions.distances, partial(_chord_bound, size=_itself), 1024.0, 1),
        "pairs": pairs.but(
            "the chord of one angle",
            right=partial(_spread_bound, tangent=tangent, size=sinks.chord),
        ),
    }


LAYER_NORM = _about_norm(layernorm.layer_norm, sinks.tangent_layer, _massive, 3)
RMS_NORM = _about_norm(layernorm.rms_norm, sinks.tangent_rms, _first_largest, 2)

CHECKS: dict[str, dict[str, Check]] = {
    "sinks.massive": {
        **{f"layer norm, {name}": check for name, check in LAYER_NORM.items()},
        **{f"RMS norm, {name}": check for name, check in RMS_NORM.items()},
        "angles": by_definition(definitions.angles, "d - 1 in place of d", less=1),
    },
}

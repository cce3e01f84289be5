"""Checks of the rate under a causal mask: one layer, one weight, several layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import flint
import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, mask_bounds
from attnverify.mathematics.spectral import spectral_norm
from attnverify.topics.modern.checks import limits
from attnverify.topics.modern.definitions import masks as definitions
from attnverify.topics.shared.instances import KEY_WIDTH

arb = flint.arb


def sizes(alike: int, others: int, width: int, *depth: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the first tokens, which are equal, of the rest, and of the layers' maps."""
    d = width
    maps = {"W_QK": (*depth, d, d), "W_V": (*depth, d, d)}
    return {"first": (alike, d), "rest": (others, d), **maps}


def alike_first(first, **others):
    """The first tokens made equal."""
    return {"first": first[:, :1] + 0 * first, **others}


def are_alike(first, **_) -> list[tuple[Any, Any]]:
    """x_1 = ... = x_m."""
    return [(abs(first - first[..., :1, :]), 0 * first)]


def tokens(first, rest):
    return ops.join([first, rest], -2)


@dataclass(frozen=True)
class Masked:
    """One layer's bound under the causal mask (window None) or a window."""

    window: int | None = None
    spread: Callable = mask_bounds.spread

    def left(self, first, rest, W_QK, W_V):
        """N(X')."""
        X = mask_bounds.layer(tokens(first, rest), W_QK, W_V, KEY_WIDTH, self.window)
        return self.spread(X, first.shape[-2], self.window)

    def right(self, first, rest, W_QK, W_V, more: int = 0):
        """||W_V|| N(X)/(1 + m e^(-D)); more: what is added to m in the denominator."""
        X, m = tokens(first, rest), first.shape[-2]
        D = mask_bounds.largest_oscillation(X, W_QK, KEY_WIDTH, self.window)
        factor = spectral_norm(W_V) * mask_bounds.tilted(D, m + more)
        return factor * self.spread(X, m, self.window)


def plain(X, alike: int, window: int | None = None):
    """The largest distance from the first token, all tokens counted alike."""
    away = X[..., alike:, :] - X[..., :1, :]
    return ops.amax(ops.sqrt(ops.sum(ops.square(away), -1)), -1)


def line(places: list[float], alike: int, scale: float = 1.0, depth: tuple[int, ...] = ()):
    """Tokens on a line, W_QK = scale, W_V = 1, width 1."""
    X = torch.tensor(places, dtype=torch.float64)[:, None]
    one = torch.ones(*depth, 1, 1, dtype=torch.float64)
    return {"first": X[:alike], "rest": X[alike:], "W_QK": scale * one, "W_V": one}


CAUSAL = Masked()
ONE_LAYER = (
    Inequality(
        left=CAUSAL.left,
        right=CAUSAL.right,
        sizes=(sizes(1, 1, 1), sizes(1, 3, 2), sizes(2, 2, 2), sizes(3, 1, 4)),
        build=alike_first,
        hypotheses=are_alike,
        extremal=(lambda: line([0.5, 1.0], 1), lambda: line([1.0, 1.0, 3.0, 3.0], 2)),
    )
    .times(0.9999)
    .but("m + 1 in place of m", right=partial(CAUSAL.right, more=1))
    .but(
        "all tokens counted alike, u_i = 1",
        left=Masked(spread=plain).left,
        right=Masked(spread=plain).right,
        extremal=(lambda: line([0.0, 2.0**-8, 2.0**-8], 1),),
    )
    .but(
        "first tokens that are not alike",
        build=lambda **free: free,
        hypotheses=None,
        extremal=(lambda: line([0.0, 1.0, 2.0**-8, 2.0**-8], 2, 2.0**-8),),
    )
)


def _own_weight(first, rest, W_QK):
    """p: the weight that token m + 1 gives itself."""
    Z = collapse.scores(tokens(first, rest), W_QK, KEY_WIDTH)
    m = first.shape[-2]
    return ops.softmax(Z, ops.causal(Z.shape[-1], Z))[..., m, m]


def _weight_limits(first, rest, W_QK, sharp: float = 1.0):
    """1/(1 + m e^D) and 1/(1 + m e^(-D))."""
    D, m = mask_bounds.largest_oscillation(tokens(first, rest), W_QK, KEY_WIDTH), first.shape[-2]
    D = ops.constant(sharp, D) * D
    return mask_bounds.tilted(-D, m), mask_bounds.tilted(D, m)


def _weights_below(**instance):
    return ops.stack([_weight_limits(**instance)[0], _own_weight(**instance)], -1)


def _weights_above(sharp: float = 1.0, **instance):
    low, high = _weight_limits(**instance, sharp=sharp)
    return ops.stack([_own_weight(**instance), high], -1)


def _no_values(W_V, **instance):
    return instance


def _pair(*places: float) -> Callable[[], Instance]:
    return lambda: _no_values(**line([*places], len(places) - 1))


WEIGHT = (
    Inequality(
        left=_weights_below,
        right=_weights_above,
        sizes=tuple(_no_values(**sizes(*s)) for s in ((1, 1, 1), (1, 3, 2), (3, 2, 2))),
        build=alike_first,
        hypotheses=are_alike,
        extremal=(_pair(0.5, 1.0), _pair(3.0, 3.0, 1.0), _pair(1.0, 1.0, 1.0, 3.0)),
    )
    .times(0.9999)
    .but("99 % of the oscillation", right=partial(_weights_above, sharp=0.99))
)


# ------------------------------------------------------------------------------------- depth


def after(window: int | None = None) -> Callable:
    """N of the output of several layers."""

    def left(first, rest, W_QK, W_V):
        X = tokens(first, rest)
        for i in range(W_QK.shape[-3]):
            X = mask_bounds.layer(X, W_QK[..., i, :, :], W_V[..., i, :, :], KEY_WIDTH, window)
        return mask_bounds.spread(X, first.shape[-2], window)

    return left


def recursion(first, rest, W_QK, W_V, window: int | None = None, bound=mask_bounds.over_depth):
    """The recursion of N and a, at the largest norms of the layers."""
    X, m = tokens(first, rest), first.shape[-2]
    q, v = (ops.amax(spectral_norm(W), -1) for W in (W_QK, W_V))
    a = mask_bounds.start(X, q, m, KEY_WIDTH, window)
    return bound(mask_bounds.spread(X, m, window), a, v, m, W_V.shape[-3])


def feedback(depth: int, value: float, score: float) -> Instance:
    """x_1 = e_1, x_2 = e_1 + 2^-16 e_2; the score of token 2 on itself is ``score`` at first.

    W_QK maps e_1 to e_2 and W_V = value I, so that the score grows by value^2 times the weight.
    """
    eye, small = torch.eye(2, dtype=torch.float64), 2.0**-16
    W_QK = torch.zeros(depth, 2, 2, dtype=torch.float64)
    W_QK[:, 0, 1] = score / small * KEY_WIDTH**0.5
    rest = torch.tensor([[1.0, small]], dtype=torch.float64)
    W_V = value * eye.repeat(depth, 1, 1)
    return {"first": eye[:1], "rest": rest, "W_QK": W_QK, "W_V": W_V}


def _slow(size, a, v, alike: int, depth: int):
    """The recursion with v in place of v^2 in a."""
    for _ in range(depth):
        factor = v * mask_bounds.tilted(a, alike)
        size, a = size * factor, a * factor
    return size


DEPTH = (
    Inequality(
        left=after(),
        right=recursion,
        sizes=(sizes(1, 1, 2, 2), sizes(1, 3, 1, 3), sizes(2, 2, 3, 2)),
        build=alike_first,
        hypotheses=are_alike,
        extremal=(lambda: feedback(3, 1.25, 0.5), lambda: feedback(6, 1.0, 1.0)),
    )
    .times(0.9999)
    .but("v in place of v^2 in the growth of a", right=partial(recursion, bound=_slow))
)


def _closed(a, v, m, share: float = 1.0, layers: int = 24):
    """The closed bound of N = 1; share: of the exponent."""
    one = 1 + 0 * a[..., 0]
    exact = mask_bounds.closed_bound(one, a[..., 0], v[..., 0], m.shape[-1], layers)
    if share == 1:
        return exact
    plain = mask_bounds.closed_bound(one, 0 * a[..., 0], v[..., 0], m.shape[-1], layers)
    return plain * ops.exp(ops.constant(share, a) * ops.log(exact / plain))


def _iterated(a, v, m, layers: int = 24):
    return mask_bounds.over_depth(1 + 0 * a[..., 0], a[..., 0], v[..., 0], m.shape[-1], layers)


def _meets(a, v, m):
    """a, and v^2 by a free share of 1 + m e^(-a); S stays below 64 e: no float overflows."""
    a = torch.exp(a.clamp(-12, 1))
    share = torch.sigmoid(v) * (1 - 2.0**-6)
    return {"a": a, "v": torch.sqrt(share * (1 + m.shape[-1] * torch.exp(-a))), "m": m}


def _condition(a, v, m) -> list[tuple[Any, Any]]:
    return [(0 * a, a), (v * v, 1 + m.shape[-1] * ops.exp(-a))]


def _scalars(a: float, v: float, m: int) -> Instance:
    ones = torch.ones(1, dtype=torch.float64)
    return {"a": a * ones, "v": v * ones, "m": ones.repeat(m)}


CLOSED = (
    Inequality(
        left=_iterated,
        right=_closed,
        sizes=tuple({"a": (1,), "v": (1,), "m": (m,)} for m in (1, 2, 5)),
        build=_meets,
        hypotheses=_condition,
        extremal=(lambda: _scalars(2.0**-20, 1.0, 1), lambda: _scalars(2.0**-20, 0.5, 3)),
    )
    .times(0.9999)
    .but(
        "99 % of the exponent",
        right=partial(_closed, share=0.99),
        extremal=(lambda: _scalars(2.0**-10, 1.0, 1),),
    )
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.causal-rate": {
        "one layer": ONE_LAYER,
        "own weight": WEIGHT,
        "over depth": DEPTH,
        "closed form": CLOSED,
        "limit": limits.LIMIT,
        "condition": limits.CONDITION,
        "entry by entry": by_definition(
            definitions.causal, "the mask turned round", sees=lambda i, j: j >= i
        ),
    },
}

"""Checks of the rate under a causal mask: one layer, one weight, depth, and the limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.layer_instances import KEY_WIDTH
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, mask_bounds, norms
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.modern.definitions import masks as definitions

arb = flint.arb

NEAR = arb(2) ** -20


def random_tokens(n: int, m: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random tokens whose first m are equal, and W_QK of size 1/4, in balls."""
    random = torch.Generator().manual_seed(seed)
    X = torch.randn(n, width, generator=random, dtype=torch.float64)
    X[:m] = X[0].clone()
    return ops.balls(X), ops.balls(torch.randn(width, width, generator=random).double() / 4)


def orbit(X, W_QK, layers: int, window: int | None = None):
    """Tokens before and after the last of ``layers`` layers with W_V = I."""
    eye, before = ops.eye(X.shape[-1], X), X
    for _ in range(layers):
        before, X = X, mask_bounds.layer(X, W_QK, eye, KEY_WIDTH, window)
    return before, X


@cache
def run_from_random(
    n: int, m: int, width: int, seed: int, layers: int, window: int | None, bits: int
) -> tuple[np.ndarray, ...]:
    """Random tokens, W_QK, and the tokens before and after the last layer, with this precision.

    A check and its twins differ in what they compare with, and look at the same layers.
    """
    with ops.precision(bits):
        X, Q = random_tokens(n, m, width, seed)
        return X, Q, *orbit(X, Q, layers, window)


def in_the_limit(
    cases: tuple[tuple[int, ...], ...],
    u: Callable = mask_bounds.shape,
    rate: Callable = lambda m: arb(1) / (m + 1),
    layers: int = 160,
) -> Verdict:
    """Whether the ratio of diameters, the places u_i on a line and lambda tend to the limit.

    The proof lets the deviation from the limit fall by (2 m + 2)/(2 m + 3) a layer in the end: for
    m = 3 by 2^-27 over 160 layers, of which 2^-20 is asked. Balls do not know that tokens move
    together, which costs less than 8 bits a layer; of 3,000 bits more than 1,500 are left.
    """
    off = arb(0)
    with ops.precision(bits := 3000):
        for seed, (n, m, width, *window) in enumerate(cases):
            w = window[0] if window else None
            X, Q, before, after = run_from_random(n, m, width, seed, layers, w, bits)
            off = off.max(abs(norms.diameter(after) / norms.diameter(before) - rate(m)))
            away, first = after - after[0], (after - after[0])[m]
            wanted = u(n, m, X, w)[:, None] * first
            off = off.max(norms.diameter(away - wanted) / (first @ first).sqrt())
            start = (X - X[0])[m]
            size = (first @ start) / (start @ start)  # the cosine is 1: token m + 1 keeps its line
            lam, S = size * arb(m + 1) ** layers, _sum_of_scores(X, Q, m, w)
            if not -S <= lam.log() <= S * m / (m + 1):
                return Verdict(None, f"lambda = {lam.str(5)} is not inside for certain", seed)
    return Verdict(certain(off < NEAR, off > NEAR), f"off by at most {off.str(3)}", len(cases))


def _sum_of_scores(X, Q, m: int, window: int | None):
    """Sum S of the claim for v = 1."""
    a = mask_bounds.start(X, spectral_norm(Q), m, KEY_WIDTH, window)
    return mask_bounds.total(a, ops.constant(1, X), m)


CASES = ((2, 1, 2), (5, 1, 3), (6, 1, 2), (4, 2, 2), (6, 3, 3))
LIMITS = "these tokens and weights; the limit is derived in the notebook"
LIMIT = (
    Decision(partial(in_the_limit, CASES), LIMITS, "certified", 5)
    .but("one half whatever m is", run=partial(in_the_limit, CASES, rate=lambda m: arb(1) / 2))
    .but(
        "equal spacing whatever m is",
        run=partial(in_the_limit, CASES, u=lambda n, m, X, w: _steps(n, m)),
    )
)


def _steps(n: int, m: int) -> np.ndarray:
    return np.array([arb(max(0, i + 1 - m)) for i in range(n)], dtype=object)


def _kept(share: float, layers: int = 60) -> Verdict:
    """Whether two tokens with W_V = sqrt(3/2) I keep the ratio 1/v, from a score near log 2 = a_0.

    The map of scores z -> v^2 z/(1 + e^-z) has the slope 1 + (log 2)/3 < 1.3 at its fixed point;
    balls lose less than 8 bits a layer, so 1,000 bits last for 60 layers.
    """
    with ops.precision(1000):
        v, z, eps = (arb(3) / 2).sqrt(), arb(2).log() * share, arb(2) ** -20
        X = np.array([[arb(1), arb(0)], [arb(1), eps]], dtype=object)
        Q = np.array([[arb(0), z / eps * arb(KEY_WIDTH).sqrt()], [arb(0), arb(0)]], dtype=object)
        room = abs(mask_bounds.start(X, spectral_norm(Q), 1, KEY_WIDTH) / arb(2).log() - 1)
        off, cases = arb(0), 0
        for _ in range(layers):
            before, X = X, mask_bounds.layer(X, Q, v * ops.eye(2, X), KEY_WIDTH)
            off = off.max(abs(norms.diameter(X) / norms.diameter(before) - 1 / v))
            cases += 1
    met = certain(off < arb(2) ** -40 and room < NEAR, off > arb(2) ** -40)
    words = f"off 1/v by {off.str(3)} in {layers} layers, a_0 off log 2 by {room.str(3)} of it"
    return Verdict(met, words, cases)


CONDITION = Decision(
    partial(_kept, 1.0),
    "v^2 = 3/2, this many layers; any v is derived in the notebook",
    "certified",
    60,
).but("from 0.99 of that score, too", run=partial(_kept, 0.99))


# --------------------------------------------------------------------------------------- one layer


def sizes(alike: int, others: int, width: int, *depth: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the first tokens, which are equal, of the rest, and of the layers' maps."""
    d = width
    maps = {"W_QK": (*depth, d, d), "W_V": (*depth, d, d)}
    return {"first": (alike, d), "rest": (others, d), **maps}


def alike_first(first, **others):
    """Instance with its first tokens made equal."""
    return {"first": first[:, :1] + 0 * first, **others}


def are_alike(first, **_) -> list[tuple[Any, Any]]:
    """Hypothesis x_1 = ... = x_m."""
    return [(abs(first - first[..., :1, :]), 0 * first)]


def tokens(first, rest):
    return ops.join([first, rest], -2)


@dataclass(frozen=True)
class Masked:
    """One layer's bound under the causal mask (window None) or a window."""

    window: int | None = None
    spread: Callable = mask_bounds.spread

    def left(self, first, rest, W_QK, W_V):
        """Left side N(X') after one layer."""
        X = mask_bounds.layer(tokens(first, rest), W_QK, W_V, KEY_WIDTH, self.window)
        return self.spread(X, first.shape[-2], self.window)

    def right(self, first, rest, W_QK, W_V, more: int = 0):
        """Right side ||W_V|| N(X)/(1 + m e^(-D)); more: added to m, for a twin."""
        X, m = tokens(first, rest), first.shape[-2]
        D = mask_bounds.largest_oscillation(X, W_QK, KEY_WIDTH, self.window)
        factor = spectral_norm(W_V) * mask_bounds.tilted(D, m + more)
        return factor * self.spread(X, m, self.window)


def plain(X, alike: int, window: int | None = None):
    """Largest distance from the first token, with u_i = 1, for a twin."""
    away = X[..., alike:, :] - X[..., :1, :]
    return ops.amax(ops.sqrt(ops.sum(ops.square(away), -1)), -1)


def line(places: list[float], alike: int, scale: float = 1.0, depth: tuple[int, ...] = ()):
    """Instance of tokens on a line, with W_QK = scale, W_V = 1 and width 1."""
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
    """Weight that token m + 1 gives itself."""
    Z = collapse.scores(tokens(first, rest), W_QK, KEY_WIDTH)
    m = first.shape[-2]
    return ops.softmax(Z, ops.causal(Z.shape[-1], Z))[..., m, m]


def _weight_limits(first, rest, W_QK, sharp: float = 1.0):
    """Bounds 1/(1 + m e^D) and 1/(1 + m e^(-D)) on that weight."""
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
    """Left side: N of the output of several layers."""

    def left(first, rest, W_QK, W_V):
        X = tokens(first, rest)
        for i in range(W_QK.shape[-3]):
            X = mask_bounds.layer(X, W_QK[..., i, :, :], W_V[..., i, :, :], KEY_WIDTH, window)
        return mask_bounds.spread(X, first.shape[-2], window)

    return left


def recursion(first, rest, W_QK, W_V, window: int | None = None, bound=mask_bounds.over_depth):
    """Right side: the recursion of N and a, at the largest norms of the layers."""
    X, m = tokens(first, rest), first.shape[-2]
    q, v = (ops.amax(spectral_norm(W), -1) for W in (W_QK, W_V))
    a = mask_bounds.start(X, q, m, KEY_WIDTH, window)
    return bound(mask_bounds.spread(X, m, window), a, v, m, W_V.shape[-3])


def feedback(depth: int, value: float, score: float) -> Instance:
    """Instance x_1 = e_1, x_2 = e_1 + 2^-16 e_2, where token 2 scores itself by ``score`` at first.

    W_QK maps e_1 to e_2 and W_V = value I, so that the score grows by value^2 times the weight.
    """
    eye, small = torch.eye(2, dtype=torch.float64), 2.0**-16
    W_QK = torch.zeros(depth, 2, 2, dtype=torch.float64)
    W_QK[:, 0, 1] = score / small * KEY_WIDTH**0.5
    rest = torch.tensor([[1.0, small]], dtype=torch.float64)
    W_V = value * eye.repeat(depth, 1, 1)
    return {"first": eye[:1], "rest": rest, "W_QK": W_QK, "W_V": W_V}


def _slow(size, a, v, alike: int, depth: int):
    """Recursion of a twin, with v in place of v^2 in a."""
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
    """Closed bound for N = 1; share: a twin's share of the exponent."""
    one = 1 + 0 * a[..., 0]
    exact = mask_bounds.closed_bound(one, a[..., 0], v[..., 0], m.shape[-1], layers)
    if share == 1:
        return exact
    plain = mask_bounds.closed_bound(one, 0 * a[..., 0], v[..., 0], m.shape[-1], layers)
    return plain * ops.exp(ops.constant(share, a) * ops.log(exact / plain))


def _iterated(a, v, m, layers: int = 24):
    return mask_bounds.over_depth(1 + 0 * a[..., 0], a[..., 0], v[..., 0], m.shape[-1], layers)


def _meets(a, v, m):
    """Instance with a free, v^2 a free share of 1 + m e^(-a), and S below 64 e (no overflow)."""
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
        "limit": LIMIT,
        "condition": CONDITION,
        "entry by entry": by_definition(
            definitions.causal, "the mask turned round", sees=lambda i, j: j >= i
        ),
    },
}

"""Checks of the cubic bounds over depth, in the composite value: one head and many heads.

All instances have two tokens, whose best center at every layer is their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.layer_instances import (
    KEY_WIDTH,
    bounded_layer,
    oscillations_bounded,
    power,
    two_token_layer,
)
from attnverify.checking.check import Decision, Inequality, Instance
from attnverify.mathematics import collapse, heads, norms
from attnverify.mathematics.softmax import critical_float, oscillation
from attnverify.support.verdict import Verdict

# Rounding in the first layer moves the scores of the second a little: more room below x*.
LIMIT = critical_float() * (1 - 2.0**-20)
ROOM = 2.0**-20  # by which drawn beta and gamma exceed the largest of the layers, for rounding
WIDE = 8.0  # oscillations drawn for the bounds that need no condition


def sizes(depth: int, width: int, heads: int = 1) -> dict[str, tuple[int, ...]]:
    """Shapes of a network's free parameters; s: the share of the largest allowed scores."""
    L, d, H = depth, width, heads
    maps = {"W_QK": (L, H, d, d), "b_QK": (L, H, d), "W": (L, H, d, d)}
    return {"u": (1, d), "x": (1, d), **maps, "s": (L, H)}


def bounded_network(u, x, W_QK, b_QK, W, s, limit: float = LIMIT, after: Callable | None = None):
    """Network on two tokens whose scores are scaled, layer by layer, at that layer's input.

    after: what follows layer i, a function of (i, tokens).
    """
    X, maps = torch.cat([u, -u], dim=-2) + x, []
    for i in range(W.shape[-4]):
        part = {"W_QK": W_QK[:, i], "b_QK": b_QK[:, i], "W": W[:, i]}
        R = norms.mean_centered(X)
        built = bounded_layer(x=X - R, s=s[:, i], R=R, limit=limit, **part)
        maps.append(built["W_QK"])
        X = collapse.layer(X, built["W_QK"], part["b_QK"], part["W"], KEY_WIDTH)
        X = X if after is None else after(i, X)
    X = torch.cat([u, -u], dim=-2) + x
    return {"X": X, "W_QK": torch.stack(maps, 1), "b_QK": b_QK, "W": W}


def states(X, W_QK, b_QK, W, after: Callable | None = None) -> Iterator[tuple[Any, Any, Any]]:
    """States (residual, W_QK, W) of every layer, and last the residual of the output."""
    for i in range(W.shape[-4]):
        Q, V = W_QK[..., i, :, :, :], W[..., i, :, :, :]
        yield norms.mean_centered(X), Q, V
        X = collapse.layer(X, Q, b_QK[..., i, :, :], V, KEY_WIDTH)
        X = X if after is None else after(i, X)
    yield norms.mean_centered(X), None, None


def inner(**instance: Any) -> list[tuple[Any, Any, Any]]:
    """States at the inputs of the layers."""
    return list(states(**instance))[:-1]


def residual(**instance: Any) -> Any:
    """Least composite value of the residual of the output."""
    return norms.composite(list(states(**instance))[-1][0])


def largest(function: Callable, layers: list[tuple[Any, ...]]) -> Any:
    """Largest value of a function of (R, W_QK, W) over the layers."""
    return ops.amax(ops.stack([function(*layer) for layer in layers], -1), -1)


def bound(constant: Callable, iterate: Callable = collapse.iterate) -> Callable:
    """Bound C^((3^L - 1)/2) ||res X||^(3^L) with the largest constant C of the layers."""

    def right(X, W_QK, b_QK, W):
        C = largest(lambda *at: constant(*at, KEY_WIDTH), inner(X=X, W_QK=W_QK, b_QK=b_QK, W=W))
        return iterate(C, norms.composite(norms.mean_centered(X)), W.shape[-4])

    return right


def within_condition(**instance: Any) -> list[tuple[Any, Any]]:
    """Hypothesis D_i <= x* at every layer."""
    return [p for R, Q, _ in inner(**instance) for p in oscillations_bounded(R, Q)]


def more(constant, size, depth: int):
    """Bound of a twin, constant^((3^L - 1)/2 + 1/25) size^(3^L)."""
    return collapse.iterate(constant, size, depth) * power(constant, 0.04)


MORE = "the exponent (3^L - 1)/2 + 0.04 in place of (3^L - 1)/2"


def two_layers(value: float = 1.0, heads: int = 1) -> Instance:
    """Network of two layers that both keep as much as a layer can.

    ||R||, ||R W|| and ||E|| are as large as allowed.
    Tokens +-e_1/256 with W_QK = e_1 e_1^T and W = value e_1 1^T; then +-t (1, 1) with W_QK = I and
    W = value 1 e_1^T. Several heads are alike.
    """
    one, eye = two_token_layer(2.0**-8), torch.eye(2, dtype=torch.float64)
    W = torch.stack([one["W"], one["W"].mT]).repeat(1, heads, 1, 1)
    W_QK = torch.stack([one["W_QK"], eye[None]]).repeat(1, heads, 1, 1)
    return {"X": one["R"], "W_QK": W_QK, "b_QK": 0 * W[..., 0], "W": value * W}


def one_layer() -> Instance:
    """Network of the first of :func:`two_layers` alone."""
    both = two_layers()
    return {name: value if name == "X" else value[:1] for name, value in both.items()}


def refuted(
    check: Inequality, right: Callable, factor: float, tiny: Callable[[], Instance]
) -> Inequality:
    """Check with its nearest false neighbors: a smaller factor, a larger exponent.

    right: the right side with ``iterate`` as a parameter; tiny: an instance with a tiny constant.
    """
    return check.times(factor).but(MORE, right=partial(right, iterate=more), extremal=(tiny,))


def cubed(constant: Callable, iterate: Callable = collapse.iterate, **instance: Any) -> Any:
    return bound(constant, iterate)(**instance)


# The factors are the fourth powers of 1/8 and 1/(4 sqrt 2), the best constants of one layer of two
# tokens over 4 and over 4 gamma; 1/sqrt(2) over the constant without a condition.
WITHOUT_GAMMA = refuted(
    Inequality(
        left=residual,
        right=bound(collapse.published_constant),
        sizes=(sizes(2, 1), sizes(2, 2)),
        build=bounded_network,
        hypotheses=within_condition,
        extremal=(two_layers,),
    ),
    partial(cubed, collapse.published_constant),
    0.000244,
    lambda: two_layers(2.0**-400),
)


# ------------------------------------------------------------------------------- with gamma


def _free_sizes(slack, **parameters):
    """Free beta and gamma, at least those of every layer; two tokens have gamma = 1/sqrt(2)."""
    made = bounded_network(**parameters)
    beta = largest(_beta, inner(**made))
    more = 1 + ROOM + slack.square()
    return {**made, "beta": beta[..., None] * more[..., :1], "gamma": more[..., 1:] / 2**0.5}


def _beta(R, W_QK, W):
    return collapse.published_constant(R, W_QK, W, 1) / ops.constant(4, R)


def _version_2(beta, gamma, iterate: Callable = collapse.iterate, **network):
    """Bound (4 gamma beta / sqrt(d_qk))^((3^L - 1)/2) ||res X||^(3^L) of version 2."""
    C = ops.constant(4, beta) * gamma[..., 0] * beta[..., 0] / ops.root(KEY_WIDTH, beta)
    X = network["X"]
    return iterate(C, norms.composite(norms.mean_centered(X)), network["W"].shape[-4])


def _any_sign(beta, gamma, **network) -> list[tuple[Any, Any]]:
    """Hypotheses D_i <= x*, beta_l <= beta and gamma_l <= gamma, in a form that E = 0 meets.

    The last one is sqrt(sum_i D_i max_i D_i) <= 2 gamma ||E||_1.
    """
    pairs = within_condition(**network)
    for R, Q, V in inner(**network):
        E = collapse.scores_of_residual(R, Q, KEY_WIDTH)[..., 0, :, :]
        D = oscillation(E)
        size = ops.sqrt(ops.sum(D, -1) * ops.amax(D, -1))
        allowed = ops.constant(2, E) * gamma[..., 0] * norms.max_column_sum(E)
        pairs += [(_beta(R, Q, V), beta[..., 0]), (size, allowed)]
    return pairs


def _hypotheses(beta, gamma, **network) -> list[tuple[Any, Any]]:
    return [(0 * gamma, gamma), *_any_sign(beta, gamma, **network)]


def no_scores(gamma: float) -> Instance:
    """Network of one layer with W_QK = 0, so E = 0, and beta = 1: gamma may be anything."""
    one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    return {
        "X": torch.tensor([[1.0], [-1.0]], dtype=torch.float64),
        "W_QK": 0 * one,
        "b_QK": 0 * one[0],
        "W": one,
        "beta": one[0, 0, 0],
        "gamma": gamma * one[0, 0, 0],
    }


def with_sizes(value: float = 1.0) -> Instance:
    """:func:`two_layers` with the smallest beta and gamma, but for rounding."""
    network = two_layers(value)
    beta = largest(_beta, inner(**{k: v[None] for k, v in network.items()}))
    gamma = torch.tensor([(1 + ROOM) / 2**0.5], dtype=torch.float64)
    return {**network, "beta": beta * (1 + ROOM), "gamma": gamma}


VERSION_2 = refuted(
    Inequality(
        left=lambda beta, gamma, **network: residual(**network),
        right=_version_2,
        sizes=tuple({**sizes(L, d), "slack": (2,)} for L, d in ((1, 2), (2, 1), (2, 2))),
        build=_free_sizes,
        hypotheses=_hypotheses,
        extremal=(with_sizes, lambda: no_scores(1.0)),
    ),
    _version_2,
    0.000976,
    lambda: with_sizes(2.0**-400),
).but(
    "gamma of any sign where all scores vanish",
    hypotheses=_any_sign,
    extremal=(lambda: no_scores(-1.0),),
)


# ------------------------------------------------------------------------------- many heads


def pulled_apart(share: float, tokens: int = 6, exponent: int = 10) -> Verdict:
    """Whether share times the constant bounds a layer of two equal heads on e_1, e_2, 0, ...

    W_QK,h = 2 w e_1 (e_1 - e_2)^T, d_qk = 4, W_h = I. The center 0 is the best one of the input,
    so ||R||_{1,inf} = 1. The rows 2, 3, ... of the output have equal scores and are equal; the
    least residual of the one row left has a closed form.
    """
    w, eye = 2.0**-exponent, torch.eye(tokens, 2, dtype=torch.float64)
    Q = torch.tensor([[[2 * w, -2 * w], [0.0, 0.0]]] * 2, dtype=torch.float64)
    b = torch.full((2, 2), 128.0, dtype=torch.float64)
    with ops.precision(256):
        X, Q, b, W = map(ops.balls, (eye, Q, b, torch.stack([eye[:2]] * 2)))
        Y = collapse.layer(X, Q, b, W, KEY_WIDTH)
        one, two = abs(Y[0] - Y[-1])
        first, other = one.max(two), one.min(two)
        met = (tokens - 1) * (one + two) >= 6 * first and first - other <= (tokens - 2) * other
        left = heads.spike_residual_squared(first, other, 2, tokens).sqrt()
        ratio = left / (share * heads.sums_constant(X, Q, W, KEY_WIDTH))
        holds = certain(met and ratio <= 1, met and ratio > 1)
    return Verdict(holds, f"left/right = {ratio.str(9)}", ratio=float(ratio.mid()))


def _many_heads(constant: Callable, factor: float, **changes: Any) -> Inequality:
    check = replace(
        WITHOUT_GAMMA,
        right=bound(constant),
        sizes=(sizes(2, 1, 2), sizes(2, 2, 3), sizes(3, 2, 2)),
        extremal=(lambda: two_layers(heads=2),),
        twins=(),
        **changes,
    )
    return refuted(check, partial(cubed, constant), factor, lambda: two_layers(2.0**-400, 2))


CORRECTED = _many_heads(collapse.corrected_constant, 0.000244)
SHARPENED = _many_heads(
    heads.sums_constant, 0.2499, build=partial(bounded_network, limit=WIDE), hypotheses=None
)
SIX = Decision(partial(pulled_apart, 1.0), "this instance, one layer", "certified").but(
    "0.99 times the constant", run=partial(pulled_apart, 0.99)
)

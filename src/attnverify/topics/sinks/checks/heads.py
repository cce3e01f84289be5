"""Checks of sinks, gates and softmax-plus-one."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.layer_instances import KEY_WIDTH
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, layernorm, norms, sinks
from attnverify.mathematics.softmax import oscillation
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.sinks import definitions

LEAST = 2.0**-6  # floor of a and of a + b in built instances

_tensor = partial(torch.tensor, dtype=torch.float64)

# ------------------------------------------------------------------ the weight of a sink


def _along(V, u, t):
    """V moved along u so that its rows have the projections t on u."""
    length = ops.sum(u * u, -1, keepdims=True).clamp_min(1e-300)
    return V + ((t - ops.sum(V * u, -1)) / length[..., 0])[..., None] * u


def _with_sink(z, s, V, v, u, t, g):
    """Instance whose keys have projections above 1/64 and whose sink lies lower by 1/64."""
    t = LEAST + torch.nn.functional.softplus(t)
    low = t.amin(-1, keepdim=True) - LEAST - torch.nn.functional.softplus(g)
    return {"z": z, "s": s, "V": _along(V, u, t), "v": _along(v, u, low), "u": u}


def _least(V, u, **_):
    return -ops.amax(-ops.sum(V * u, -1), -1)


def _most(V, u):
    return ops.amax(ops.sum(V * u, -1), -1)


def _below(v, u):
    """The b of the statement, less the sink's projection."""
    return -ops.sum(v * u, -1)[..., 0]


def _weights(z, s):
    return ops.softmax(ops.join([z, s], -1))


def _output(z, s, V, v, u):
    """Projection of the head's output on u, (...)."""
    return ops.sum(_weights(z, s) * ops.sum(ops.join([V, v], -2) * u, -1), -1)


def _sink_weight(z, s, **_):
    return _weights(z, s)[..., -1]


def _needed(z, s, V, v, u, value: Callable = _least, formula: Callable = sinks.needed_weight):
    return formula(value(V, u), _below(v, u), _output(z, s, V, v, u))


def _with_hypotheses(V, v, u, **_):
    a = _least(V, u)
    return [(0 * a, a), (-_below(v, u), a)]


def _silent(tokens: int) -> Instance:
    """Keys at 2, sink at -1, with unequal scores."""
    z = _tensor([0.5 * k for k in range(tokens)])
    V = torch.zeros(tokens, 2, dtype=torch.float64)
    V[:, 0], V[:, 1] = 2.0, z
    return {
        "z": z,
        "s": _tensor([3.0]),
        "V": V,
        "v": _tensor([[-1.0, 5.0]]),
        "u": _tensor([[1.0, 0.0]]),
    }


def _even(tokens: int) -> Instance:
    """The same with equal scores."""
    return _silent(tokens) | {"z": torch.zeros(tokens, dtype=torch.float64)}


SINK = tuple(
    {"z": (n,), "s": (1,), "V": (n, d), "v": (1, d), "u": (1, d), "t": (n,), "g": (1,)}
    for n, d in ((1, 2), (2, 1), (5, 4))
)


def _about_sink(left: Callable, right: Callable, extremal: Callable) -> Inequality:
    return Inequality(
        left=left,
        right=right,
        sizes=SINK,
        build=_with_sink,
        hypotheses=_with_hypotheses,
        extremal=(lambda: extremal(2), lambda: extremal(5)),
    ).times(0.9999)


def _mean_value(V, u):
    return definitions.mean(ops.sum(V * u, -1))


NEEDED = _about_sink(_needed, _sink_weight, _silent).but(
    "the mean of the values in place of the smallest", left=partial(_needed, value=_mean_value)
)
SUFFICIENT = _about_sink(_sink_weight, partial(_needed, value=_most), _silent).but(
    "the mean of the values in place of the largest", right=partial(_needed, value=_mean_value)
)

# ------------------------------------------------------------------ its score


def _odds(z, more: int = 0, **rest):
    """Number of keys times the odds that the sink needs."""
    return (z.shape[-1] + more) * _needed(z=z, formula=sinks.needed_odds, **rest)


def _lead(z, s, mean: Callable = definitions.mean, **_):
    return ops.exp(s[..., 0] - mean(z))


def _largest(x):
    return ops.amax(x, -1)


SCORE = (
    _about_sink(_odds, _lead, _even)
    .but("the lead over the largest score", right=partial(_lead, mean=_largest))
    .but("n + 1 in place of n", left=partial(_odds, more=1))
)
LENGTH = _about_sink(
    _odds, lambda z, s, **_: ops.exp(oscillation(ops.join([z, s], -1))), _even
).but(
    "the oscillation without the sink",
    right=lambda z, s, **_: ops.exp(oscillation(z)),
)

# ------------------------------------------------------------------ softmax-plus-one and gates


def _with_values(z, c, V, u, t):
    """Instance whose keys have projections above 1/64; c is also the logit of a gate."""
    t = LEAST + torch.nn.functional.softplus(t)
    return {"z": z, "c": c, "V": _along(V, u, t), "u": u}


def _plus_one_output(z, c, V, u):
    return ops.sum(sinks.plus_one(z[..., None, :], c)[..., 0, :] * ops.sum(V * u, -1), -1)


def _gated_output(z, c, V, u):
    return sinks.gate(c[..., 0]) * ops.sum(ops.softmax(z) * ops.sum(V * u, -1), -1)


def _odds_at_zero(z, c, V, u, value: Callable = _least, output: Callable = _plus_one_output):
    """(a - o)/o, the odds that a sink of value 0 needs."""
    o = output(z, c, V, u)
    return sinks.needed_odds(value(V, u), 0 * o, o)


def _share(z, c, mean: Callable = definitions.mean, more: int = 0, **_):
    return ops.exp(c[..., 0] - mean(z)) / (z.shape[-1] + more)


def _closed(c, **_):
    return ops.exp(-c[..., 0])


PLUS = tuple(
    {"z": (n,), "c": (1,), "V": (n, d), "u": (1, d), "t": (n,)} for n, d in ((1, 2), (3, 3), (5, 2))
)


def _about_plus(left: Callable, right: Callable) -> Inequality:
    def equal() -> Instance:
        return {
            "z": _tensor([0.25] * 3),
            "c": _tensor([1.5]),
            "V": _tensor([[2.0, 1.0], [2.0, 0.0], [2.0, -3.0]]),
            "u": _tensor([[1.0, 0.0]]),
        }

    return Inequality(
        left=left,
        right=right,
        sizes=PLUS,
        build=_with_values,
        hypotheses=lambda V, u, **_: [(0 * _least(V, u), _least(V, u))],
        extremal=(equal,),
    ).times(0.9999)


_GATED = partial(_odds_at_zero, output=_gated_output)
PLUS_NEEDED = (
    _about_plus(_odds_at_zero, _share)
    .but("the largest score in place of the mean", right=partial(_share, mean=_largest))
    .but("n + 1 in place of n", right=partial(_share, more=1))
)
PLUS_SUFFICIENT = _about_plus(
    partial(_share, mean=_largest), partial(_odds_at_zero, value=_most)
).but("the mean score in place of the largest", left=_share)
GATE_NEEDED = _about_plus(_GATED, _closed).but(
    "one over n, as with softmax-plus-one", right=lambda z, c, **_: _closed(c) / z.shape[-1]
)
GATE_SUFFICIENT = _about_plus(_closed, partial(_GATED, value=_most)).but(
    "the smallest value in place of the largest", right=_GATED
)

# ------------------------------------------------------------------ rows of any sums


def _mixed(P, X):
    return norms.diameter(P @ X)


def _contraction(P, X):
    """Dobrushin's coefficient times the diameter, which is a bound for rows of one sum only."""
    return norms.contraction(P) * norms.diameter(X)


SUBSTOCHASTIC = (
    Inequality(
        left=_mixed,
        right=sinks.substochastic_bound,
        sizes=tuple({"P": (m, n), "X": (n, d)} for m, n, d in ((2, 1, 2), (2, 3, 1), (4, 5, 3))),
        extremal=(
            lambda: {"P": _tensor([[0.75, 0.125], [0.25, 0.375]]), "X": _tensor([[1.0], [-0.5]])},
            lambda: {
                "P": _tensor([[3.0, -1.0, 0.5], [0.5, 0.25, -2.0]]),
                "X": _tensor([[3.0, 4.0], [1.5, 2.0], [3.0, 4.0]]),
            },
        ),
    )
    .times(0.9999)
    .but("the contraction coefficient times the diameter", right=_contraction)
)

# ------------------------------------------------------------------ a layer


def _layer_diameter(X, W_QK, t, c, W):
    return norms.diameter(sinks.layer(X, W_QK, t, c, W, KEY_WIDTH))


def _layer_bound(X, W_QK, t, c, W):
    return sinks.layer_bound(X, W_QK, W, KEY_WIDTH)


def _linear_bound(X, W_QK, t, c, W):
    D = sinks.hull_diameter(X)
    return collapse.rate(W_QK, KEY_WIDTH) * spectral_norm(W) * D * D * norms.diameter(X)


def _cubic_bound(X, W_QK, t, c, W):
    """The sharp bound for attention without a constant in the denominator."""
    v = spectral_norm(W)
    return collapse.two_token_step(norms.diameter(X), collapse.rate(W_QK, KEY_WIDTH), v)


def _length_bound(X, W_QK, t, c, W):
    """The bound with the largest length alone in the place of D_0."""
    D, v = layernorm.largest_length(X), spectral_norm(W)
    return v * D * ops.tanh(collapse.rate(W_QK, KEY_WIDTH) * norms.diameter(X) * D)


def _one_axis(tokens: list[float], score: float, shift: list[float], c: float) -> Instance:
    """Tokens on a line, with W_QK = score and W = 1."""
    return {
        "X": _tensor([[x] for x in tokens]),
        "W_QK": _tensor([[score]]),
        "t": _tensor(shift),
        "c": _tensor([c]),
        "W": _tensor([[1.0]]),
    }


def _near_equal() -> Instance:
    """Two tokens at 1 and 1 - 2^-16, which have half of the weight together."""
    half = -math.log(2) - 0.5  # the score is 1/2
    return _one_axis([1.0, 1 - 2.0**-16], 1.0, [half, half], 0.0)


def _apart() -> Instance:
    """A token at 2 and one at 0, whose scores balance zero's two keys: the bound is attained."""
    return _one_axis([2.0, 0.0], 1.0, [math.log(2) - 1, 0.0], 0.0)


def _close() -> Instance:
    """Tokens at 2 and 1, of which the first alone has weight: the bound is nearly attained."""
    return _one_axis([2.0, 1.0], 1.0, [0.0, -60.0], 1.5)


def _far() -> Instance:
    """Tokens at 2 and -1 in ordinary attention but for a small constant, with balanced scores."""
    return _one_axis([2.0, -1.0], 1.0, [-0.75, 0.75], -60.0)


def _opposite() -> Instance:
    """Tokens at 1 and -1, beside which the constant is small."""
    return _one_axis([1.0, -1.0], 1.0, [9.0, 9.0], 0.0)


LAYERS = tuple(
    {"X": (n, d), "W_QK": (d, d), "t": (n,), "c": (1,), "W": (d, d)}
    for n, d in ((2, 1), (3, 3), (4, 2))
)
LAYER = (
    Inequality(
        left=_layer_diameter,
        right=_layer_bound,
        sizes=LAYERS,
        extremal=(_apart, _near_equal, _close, _far, _opposite),
    )
    .times(0.9999)
    .but("the sharp bound for attention alone", right=_cubic_bound)
    .but("the largest length in place of D_0", right=_length_bound)
)
LINEAR = Inequality(
    left=_layer_diameter, right=_linear_bound, sizes=LAYERS, extremal=(_near_equal,)
).times(0.9999)

#: Score, constant and number of tokens.
SEPARATED = ((4, 8, 2), (4, 8, 5), (-2, 0, 2), (8, 9, 2), (40, 80, 3))
STEP = 2.0**-20  # largest |h_i|


def _relative(X):
    """Diameter over the length of the mean token."""
    mean = ops.sum(X, -2) / X.shape[-2]
    return norms.diameter(X) / ops.sqrt(ops.sum(mean * mean, -1))


def _growths(score: int, c: int | None, tokens: int) -> tuple[arb, arb]:
    """Growth of the relative diameter and of the diameter in a layer.

    The tokens are (1 + h_i) (3, 4)/5, with h of mean 0 up to STEP; without c, no constant.
    """
    steps = [STEP * arb(2 * k - tokens + 1) / (tokens - 1) for k in range(tokens)]
    X = np.array([[(1 + h) * 3 / 5, (1 + h) * 4 / 5] for h in steps], dtype=object)
    W_QK = score * KEY_WIDTH**0.5 * ops.eye(2, X)
    zero = ops.full((tokens,), 0, X)
    if c is None:
        Y = ops.softmax(collapse.scores(X, W_QK, KEY_WIDTH)) @ X
    else:
        Y = sinks.layer(X, W_QK, zero, ops.full((1,), c, X), ops.eye(2, X), KEY_WIDTH)
    return _relative(Y) / _relative(X), norms.diameter(Y) / norms.diameter(X)


def _limits(score: int, c: int, tokens: Any) -> tuple[arb, arb]:
    """Both limits (1 - r)|s| and r(1 - r)|s|, with what tokens up to STEP from equal can change.

    Token i of size b_i = 1 + h_i comes out with size w(b_i), w(u) = sum_j p_j(u) b_j, where p(u) is
    the row at the scores s u b_j. Then w' = s (r E b^2 - (r E b)^2), r the weight of all keys
    and E the mean under p/r. It lies between s r (1 - r) (E b)^2 and s r times STEP^2 more. By the
    mean value theorem differences grow by a value of |w'|. The mean token has a size r E b. All
    scores lie within |s| (2 STEP + STEP^2) of s, and E b within STEP of 1.
    """
    b = 1 + arb(0, STEP)
    r = sinks.gate(score * b * b + arb(tokens).log() - c)
    more = arb(STEP**2 / 2, STEP**2 / 2)
    slope = abs(score) * ((1 - r) * b * b + more)
    return r * slope / (r * b), r * slope


def _separates(
    more: float = 1.0, constant: Callable = lambda c: c, number: Callable = lambda n: n
) -> Verdict:
    """Whether both growths lie in the balls of :func:`_limits`, in every case."""
    with ops.precision(128):
        pairs = [
            (found, more * limit)
            for s, c, n in SEPARATED
            for found, limit in zip(
                _growths(s, constant(c), n), _limits(s, c, number(n)), strict=True
            )
        ]
        agrees = certain(
            all(limit.contains(found) for found, limit in pairs),
            any(not limit.overlaps(found) for found, limit in pairs),
        )
    grown = ", ".join(found.str(4, radius=False) for found, _ in pairs)
    return Verdict(agrees, f"relative and absolute growth {grown}", cases=len(pairs))


SEPARATES = (
    Decision(_separates, "these tokens; the limit is derived", "certified", 10)
    .but("5 percent more growth", run=partial(_separates, 1.05))
    .but("without the constant", run=partial(_separates, constant=lambda c: None))
    .but("the constant larger by 2", run=partial(_separates, constant=lambda c: c + 2))
    .but("the weight of one key for that of all", run=partial(_separates, number=lambda n: 1))
)

CHECKS: dict[str, dict[str, Check]] = {
    "sinks.necessary": {
        "needed": NEEDED,
        "sufficient": SUFFICIENT,
        "entry by entry": by_definition(definitions.weights, "a - b in place of a + b", sign=-1),
    },
    "sinks.score": {"lead": SCORE, "length": LENGTH},
    "sinks.plus-one": {
        "needed": PLUS_NEEDED,
        "sufficient": PLUS_SUFFICIENT,
        "gate needed": GATE_NEEDED,
        "gate sufficient": GATE_SUFFICIENT,
        "identities": by_definition(definitions.plus_one, "2 in place of 1", one=2),
    },
    "sinks.substochastic": {
        "rows": SUBSTOCHASTIC,
        "entry by entry": by_definition(definitions.lost_weight, "no term for the sums", lost=0),
    },
    "sinks.collapse": {
        "layer": LAYER,
        "linear": LINEAR,
        "entry by entry": by_definition(definitions.layers, "the score squared", power=2),
    },
    "sinks.separates": {"growth": SEPARATES},
}

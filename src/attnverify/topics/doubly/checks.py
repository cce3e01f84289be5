"""Checks of doubly normalized attention: totals, the sharp bound, two tokens, Sinkhorn's limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma
from attnverify.chapters.layer_instances import KEY_WIDTH, along_first_axis, two_tokens
from attnverify.chapters.permutations import mixture, second
from attnverify.checking.check import Check, Identity, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, doubly, norms, smoothing
from attnverify.mathematics.softmax import oscillation, variation_bound
from attnverify.mathematics.spectral import spectral_norm
from attnverify.topics.doubly import definitions as definitions

# ----------------------------------------------------------------------------------------- totals

SCORES = tuple({"S": (m, n)} for m, n in ((2, 2), (3, 2), (2, 4), (5, 3)))


def _least(P):
    return -ops.amax(-doubly.totals(P), -1)


def _one_over_keys(S):
    return 1 / (S.shape[-1] + 0 * S[..., 0, 0])


def dominated(queries: int, keys: int, size: float = 32.0) -> Instance:
    """Scores under which one query takes all keys, and the others only the last one."""
    S = torch.full((queries, keys), -2 * size, dtype=torch.float64)
    S[:, -1] = -size
    S[0] = 0
    return {"S": S}


FLOOR = (
    Inequality(
        left=_one_over_keys,
        right=lambda S: _least(doubly.attention(S)),
        sizes=SCORES,
        extremal=(partial(dominated, 2, 2), partial(dominated, 4, 3)),
    )
    .times(0.9999)
    .but("softmax attention", right=lambda S: _least(ops.softmax(S)))
    .but(
        "one over the number of queries",
        left=lambda S: 1 / (S.shape[-2] + 0 * S[..., 0, 0]),
        extremal=(partial(dominated, 2, 4),),
    )
)
CEILING = Inequality(
    left=lambda S: ops.amax(doubly.totals(doubly.attention(S)), -1),
    right=lambda S: S.shape[-2] - (S.shape[-1] - 1) * _one_over_keys(S),
    sizes=SCORES,
    extremal=(partial(dominated, 2, 2), partial(dominated, 4, 3)),
).times(0.9999)


def _by_key(S):
    """Largest oscillation of the scores of a key between queries."""
    return ops.amax(oscillation(ops.transpose(S)), -1)


def _by_query(S):
    return ops.amax(oscillation(S), -1)


def _bounded(S, spread: Callable = _by_key, bound: Callable = doubly.least_total):
    return bound(spread(S), *S.shape[-2:])


def _one_query(D, queries: int, keys: int):
    """Twin of the least total: k = 1."""
    return doubly.share(ops.exp(D / 2), 1, queries) / keys


def least(queries: int, keys: int, high: int, E: float) -> Instance:
    """Scores at the least total of the first key, with the root weight E at ``high`` queries."""
    root = torch.ones(queries, dtype=torch.float64)
    root[:high] = E
    first = root.square() / root.square().sum()
    rows = keys * root / root.sum()
    others = ((rows - first) / (keys - 1))[:, None].repeat(1, keys - 1)
    return {"S": torch.log(torch.cat([first[:, None], others], -1))}


BOUNDED = (
    Inequality(
        left=_bounded,
        right=lambda S: _least(doubly.attention(S)),
        sizes=SCORES,
        extremal=(
            partial(least, 2, 2, 1, 4.0),
            partial(least, 4, 4, 2, 1.25),
            partial(least, 5, 3, 2, 2.0),
            partial(least, 3, 5, 1, 2.0),
        ),
    )
    .times(0.9999)
    .but("k = 1 whatever m is", left=partial(_bounded, bound=_one_query))
    .but(
        "softmax attention",
        right=lambda S: _least(ops.softmax(S)),
        extremal=(lambda: {"S": torch.tensor([[8.0, 0.0, 0.0], [8.0, 0.0, 0.0]]).double()},),
    )
)


def _closed(D, q, k):
    return doubly.total_bound(D[..., 0], q.shape[-1], k.shape[-1])


def _exact(D, q, k):
    return doubly.least_total(D[..., 0], q.shape[-1], k.shape[-1])


def _range(D: float, queries: int) -> Instance:
    one = torch.ones(queries, dtype=torch.float64)
    return {"D": D * one[:1], "q": one, "k": one[:2]}


CLOSED = Inequality(
    left=_closed,
    right=_exact,
    sizes=({"D": (1,), "q": (2,), "k": (5,)}, {"D": (1,), "q": (6,), "k": (4,)}),
    build=lambda D, q, k: {"D": abs(D), "q": q, "k": k},
    hypotheses=lambda D, q, k: [(0 * D, D)],
    extremal=(partial(_range, 2 * math.log(2), 3), partial(_range, 2.0**-12, 2)),
).times(0.9999)


def _softmax_least(S, fewer: int = 1):
    D, n = _by_query(S), S.shape[-1]
    return S.shape[-2] / (1 + (n - fewer) * ops.exp(D))


def one_low(queries: int, keys: int, D: float) -> Instance:
    """Scores 0 of the first key and D of all others."""
    S = torch.full((queries, keys), D, dtype=torch.float64)
    S[:, 0] = 0
    return {"S": S}


ORDINARY = (
    Inequality(
        left=_softmax_least,
        right=lambda S: _least(ops.softmax(S)),
        sizes=SCORES,
        extremal=(partial(one_low, 2, 3, 1.0), partial(one_low, 4, 2, 3.0)),
    )
    .times(0.9999)
    .but("a key less", left=partial(_softmax_least, fewer=2))
)


def _weights_bound(S, *_):
    """Rounding bound of weights: two quotients of sums, of exponentials of shifted scores.

    A shifted score is off by 2 u max|s|, and its exponential by that share and a unit in the last
    place; each of the two sums adds its length. Both sides are at most 1.
    """
    n, u = sum(S.shape[-2:]), 2.0**-53
    size = abs(S).amax((-2, -1))[..., None, None]
    return (16 * size + 4 * n + 16) * u + 0 * S


def _added(S, b):
    return doubly.attention(S + b)


INVARIANCE = Identity(
    left=_added,
    right=lambda S, b: doubly.attention(S) + 0 * b,
    bound=lambda S, b: _weights_bound(S + b) + _weights_bound(S),
    sizes=({"S": (2, 3), "b": (1, 3)}, {"S": (4, 2), "b": (1, 2)}),
    arithmetic="ball",
).but("softmax attention", left=lambda S, b: ops.softmax(S + b))


def _totals_bound(S):
    return S.shape[-2] * _weights_bound(S)[..., 0, :] + gamma(S.shape[-2], S)


REVERSED = Identity(
    left=lambda S: doubly.totals(doubly.keys_first(S)),
    right=lambda S: 1 + 0 * S[..., 0, :],
    bound=_totals_bound,
    sizes=({"S": (2, 3)}, {"S": (4, 2)}),
    arithmetic="ball",
).but("the queries first", left=lambda S: doubly.totals(doubly.attention(S)))


def _turned(queries: int, keys: int) -> Instance:
    return {"S": dominated(keys, queries)["S"].mT.contiguous()}


RECEIVED = Inequality(
    left=lambda S: 1 / (S.shape[-2] + 0 * S[..., 0, 0]),
    right=lambda S: -ops.amax(-ops.sum(doubly.keys_first(S), -1), -1),
    sizes=SCORES,
    extremal=(partial(_turned, 2, 3), partial(_turned, 3, 2)),
).times(0.9999)

# --------------------------------------------------------------------------------------- collapse


def _after(X, W_QK, W, a, b):
    return norms.diameter(doubly.layer(X, W_QK, W, KEY_WIDTH, a[..., None] + b[..., None, :]))


def _sharp(X, W_QK, W, a, b, share: float = 1.0):
    delta = norms.diameter(X)
    rates = collapse.rate(W_QK, KEY_WIDTH) * ops.square(delta)[..., None]
    parts = spectral_norm(W) * ops.tanh(ops.constant(share, X) * rates)
    return delta * ops.sum(parts, -1)


def extremal_layer(size: float, heads: int) -> Instance:
    """Two tokens along the singular vectors of all maps, and biases of keys."""
    W = along_first_axis(2, 1, heads, 1.0)[0]
    number = torch.arange(1, heads + 1, dtype=torch.float64)[:, None, None]
    none = torch.zeros(heads, 2, dtype=torch.float64)
    maps = {"W_QK": W * number, "W": W / number}
    return {"X": two_tokens(2, size), **maps, "a": none, "b": none + number[..., 0]}


LAYER = (
    Inequality(
        left=_after,
        right=_sharp,
        sizes=tuple(
            {"X": (n, d), "W_QK": (H, d, d), "W": (H, d, d), "a": (H, n), "b": (H, n)}
            for n, d, H in ((2, 2, 1), (4, 3, 2), (3, 5, 1))
        ),
        extremal=(partial(extremal_layer, 1.0, 1), partial(extremal_layer, 2.0, 2)),
    )
    .times(0.9999)
    .but("99 % of the rate", right=partial(_sharp, share=0.99))
)


def _two(S, attention: Callable = doubly.attention):
    return norms.contraction(attention(S))


def _coefficient(S):
    return doubly.doubly_coefficient(doubly.difference(S), doubly.leaning(S))


def _softmax_coefficient(S):
    return doubly.ordinary_coefficient(doubly.difference(S), doubly.leaning(ops.transpose(S)))


def _coefficient_bound(S):
    """Rounding bound: differences of weights, and a quotient of hyperbolic functions of the scores.

    kappa and alpha are off by 8 u max|s|, which changes no coefficient by more than that; sinh
    cancels to within 4 u of cosh, which the denominator exceeds.
    """
    return 2 * _weights_bound(S)[..., 0, 0] + (32 * abs(S).amax((-2, -1)) + 64) * 2.0**-53


def _coefficients(left: Callable, right: Callable) -> Identity:
    return Identity(left, right, _coefficient_bound, ({"S": (2, 2)},), arithmetic="ball")


TWICE = _coefficients(_two, _coefficient).but(
    "that of softmax attention", right=_softmax_coefficient
)
ONCE = _coefficients(partial(_two, attention=ops.softmax), _softmax_coefficient).but(
    "alpha in place of beta",
    right=lambda S: doubly.ordinary_coefficient(doubly.difference(S), doubly.leaning(S)),
)


def _limits(S, half: float = 0.5):
    """Bounds tanh(|kappa|/2)/2 and tanh(|kappa|/4) of the coefficient of two tokens."""
    kappa = abs(doubly.difference(S))
    return ops.constant(half, S) * ops.tanh(kappa / ops.constant(2, S)), variation_bound(kappa)


def apart(kappa: float, alpha: float) -> Instance:
    """Scores of two tokens with this kappa and alpha = beta."""
    rows = [[kappa / 4 + alpha, -kappa / 4], [-kappa / 4, kappa / 4 - alpha]]
    return {"S": torch.tensor(rows, dtype=torch.float64)}


BETWEEN = (
    Inequality(
        left=lambda S: ops.stack([_limits(S)[0], _two(S)], -1),
        right=lambda S: ops.stack([_two(S), _limits(S)[1]], -1),
        sizes=({"S": (2, 2)},),
        extremal=(partial(apart, 1.0, 40.0), partial(apart, 2.0, 0.0)),
    )
    .times(0.9999)
    .but(
        "softmax attention",
        right=lambda S: ops.stack([_two(S, ops.softmax), _limits(S)[1]], -1),
    )
)


def _leaning_less(S, b):
    """Scores of two tokens with |alpha| <= |beta|: alpha is a share of beta."""
    alpha, beta = doubly.leaning(S), doubly.leaning(S.mT)
    change = (torch.tanh(b[..., 0]) * beta * (1 - 2.0**-40) - alpha) / 2
    sign = S.new_tensor([[1.0, 1.0], [-1.0, -1.0]])
    return {"S": S + sign * change[..., None, None], "b": b}


def _less(S, b):
    return [(abs(doubly.leaning(S)), abs(doubly.leaning(ops.transpose(S))))]


SLOWER = (
    Inequality(
        left=lambda S, b: _two(S, ops.softmax),
        right=lambda S, b: _two(S),
        sizes=({"S": (2, 2), "b": (1,)},),
        build=_leaning_less,
        hypotheses=_less,
        extremal=(
            lambda: {
                "S": torch.tensor([[0.5, -(2.0**-20)], [2.0**-20, 0.5 - 2.0**-9]]).double(),
                "b": torch.zeros(1, dtype=torch.float64),
            },
        ),
    )
    .times(0.9999)
    .but(
        "for any alpha",
        build=lambda S, b: {"S": S, "b": b},
        hypotheses=None,
        extremal=(
            lambda: {
                "S": torch.tensor([[4.5, 4.0], [-4.0, -3.5]]).double(),
                "b": torch.zeros(1, dtype=torch.float64),
            },
        ),
    )
)

# --------------------------------------------------------------------------------------- Sinkhorn

MIXTURES = tuple({"X": (n, d), "w": (math.factorial(n),)} for n, d in ((3, 5), (4, 6)))


def _matrix(X, w):
    return mixture(w, X.shape[-2])


def _kept(X, w, size: Callable = smoothing.distance):
    return size(_matrix(X, w) @ X)


def _by_spread(X, w, size: Callable = smoothing.distance, share: float = 1.0):
    """tanh(Delta/4) times a size of X, with Delta from the logarithms of the matrix."""
    delta = ops.constant(share, X) * doubly.spread(ops.log(_matrix(X, w)))
    return variation_bound(delta) * size(X)


def pair(score: float) -> Instance:
    """Two tokens and the doubly stochastic matrix with the weights softmax(score, 0)."""
    X = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    return {"X": X, "w": torch.tensor([score, 0.0], dtype=torch.float64)}


SECOND = Inequality(
    left=_kept,
    right=lambda X, w: second(_matrix(X, w)) * smoothing.distance(X),
    sizes=MIXTURES,
    extremal=(partial(pair, 1.0),),
).times(0.9999)
SINGULAR = (
    Inequality(
        left=lambda X, w: second(_matrix(X, w)) * smoothing.distance(X),
        right=_by_spread,
        sizes=MIXTURES,
        extremal=(partial(pair, 1.0), partial(pair, 0.25)),
    )
    .times(0.9999)
    .but("99 % of the spread", right=partial(_by_spread, share=0.99))
)
DIAMETER = Inequality(
    left=partial(_kept, size=norms.diameter),
    right=partial(_by_spread, size=norms.diameter),
    sizes=MIXTURES,
    extremal=(partial(pair, 1.0),),
).times(0.9999)


def _mean(Y):
    return ops.sum(Y, -2) / Y.shape[-2]


def _mean_bound(X, w):
    """Rounding bound: softmax of n! weights, sums of (n - 1)! of them and of n products, a mean."""
    n, u = X.shape[-2], 2.0**-53
    shares = 8 * abs(w).amax(-1)[..., None] + 2 * w.shape[-1] + 8 * n + 32
    return shares * u * ops.sum(abs(X), -2)


MEAN = Identity(
    left=lambda X, w: _mean(_matrix(X, w) @ X),
    right=lambda X, w: _mean(X),
    bound=_mean_bound,
    sizes=({"X": (2, 1), "w": (2,)}, {"X": (3, 2), "w": (6,)}),
    arithmetic="ball",
).but(
    "doubly normalized scores in place of the limit",
    left=lambda X, w: _mean(doubly.attention(X @ ops.transpose(X)) @ X),
)

CHECKS: dict[str, dict[str, Check]] = {
    "doubly.lower-bound": {
        "floor": FLOOR,
        "ceiling": CEILING,
        "bounded scores": BOUNDED,
        "closed form": CLOSED,
        "softmax": ORDINARY,
        "invariance": INVARIANCE,
        "keys first": REVERSED,
        "keys first, queries": RECEIVED,
        "entry by entry": by_definition(definitions.weights, "the keys first", first=1),
    },
    "doubly.collapse": {
        "layer": LAYER,
        "two tokens": TWICE,
        "two tokens, softmax": ONCE,
        "between": BETWEEN,
        "slower": SLOWER,
    },
    "doubly.sinkhorn": {
        "second singular value": SECOND,
        "spread": SINGULAR,
        "diameter": DIAMETER,
        "mean": MEAN,
        "entry by entry": by_definition(definitions.spreads, "a difference of rows", rows=1),
    },
}

"""Checks of the operator's parts, rollout's lengths and order, its distance, and relevance."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from math import comb

import numpy as np
import torch
from flint import fmpq

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma
from attnverify.checking.check import Check, Decision, Identity, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import norms, rollout
from attnverify.mathematics.paths import FixedAttention
from attnverify.support.verdict import Verdict
from attnverify.topics.rollout import definitions as definitions

# ------------------------------------------------------------------------------------ the operator

ONE = fmpq(1)
STACKS = ((1, 1, 2, 2, 1), (2, 2, 3, 2, 1), (3, 1, 2, 3, 2), (2, 3, 4, 3, 2))  # L, H, n, d, v
SIZES = tuple(
    {"X": (n, d), "C": (n, d), "P": (L, H, n, n), "W_V": (L, H, d, v), "W_O": (L, H, v, d)}
    for L, H, n, d, v in STACKS
)


def _stochastic(P, **rest) -> Instance:
    """Row-stochastic matrices from any arrays."""
    weights = abs(P) + ops.constant(0.125, P)
    return {"P": weights / ops.sum(weights, -1, keepdims=True), **rest}


def _fixed(X, P, W_V, W_O) -> FixedAttention:
    """The held network without biases; P gets the axis of a batch that X has."""
    P = P[:, :, None] if X.ndim == 3 else P
    b = ops.full((W_V.shape[0], X.shape[-1]), 0, X)
    return FixedAttention(P, W_V, W_O, b, skip=True)


def _paths(fixed: FixedAttention) -> list[tuple[int, ...]]:
    return list(itertools.product(fixed.indices(), repeat=fixed.depth))


def _path_parts(X, C, **maps):
    """<C, sum over paths of the term of one token alone>, for each token."""
    fixed, n = _fixed(X, **maps), X.shape[-2]
    one, found = ops.eye(n, X), []
    for j in range(n):
        alone = one[:, j : j + 1] * X
        found.append(ops.sum(C * sum(fixed.term(alone, p) for p in _paths(fixed)), (-2, -1)))
    return ops.stack(found, -1)


def _parts(X, C, **maps):
    return rollout.parts(_fixed(X, **maps), X, C)


def _turned(X, C, P, **maps):
    """Parts with attention matrices not transposed on the way back."""
    return _parts(X, C, P=ops.transpose(P), **maps)


def _roundings(P, W_V) -> int:
    """Of one chain: products of a layer, sums over heads, paths, tokens and width."""
    (L, H, n), (d, v) = P.shape[:-1], W_V.shape[-2:]
    return L * (d + n + H * v + v + 3) + (1 + H) ** L + n * d


def _parts_bound(X, C, P, W_V, W_O):
    """Both sides are sums of products: gamma_m times themselves in absolute values, each.

    The bound is computed in floats, so it is taken with 2 m and twice.
    """
    absolute = _parts(abs(X), abs(C), P=P, W_V=abs(W_V), W_O=abs(W_O))
    return 2 * gamma(2 * _roundings(P, W_V), X) * absolute


PARTS = Identity(
    left=_path_parts,
    right=_parts,
    bound=_parts_bound,
    sizes=SIZES,
    build=_stochastic,
    shared=("P", "W_V", "W_O"),
).but("attention not transposed on the way back", right=_turned)


def _equal_tokens(X, **maps):
    return _fixed(X, **maps).forward(X)


def _without_attention(X, P, W_V, W_O):
    for layer in range(len(W_V)):
        X = X + X @ ops.sum(W_V[layer] @ W_O[layer], 0)
    return X


def _as_equal(X, **rest) -> Instance:
    """Tokens that are all the first one."""
    return {"X": X[..., :1, :] + 0 * X, **_stochastic(**rest)}


ROW_SUMS = Identity(
    left=_equal_tokens,
    right=_without_attention,
    # the bound of the forward pass counts the sums of the rows of P and more products
    bound=lambda X, **maps: _fixed(X, **maps).rounding_bound(X, len(_paths(_fixed(X, **maps)))),
    sizes=tuple({k: v for k, v in size.items() if k != "C"} for size in SIZES),
    build=_as_equal,
    shared=("P", "W_V", "W_O"),
).but("tokens that differ", build=lambda X, **rest: {"X": X, **_stochastic(**rest)})

# ------------------------------------------------------------------------------------ lengths

LENGTHS = tuple({"P": (L, H, n, n), "a": (L,)} for L, H, n in ((1, 2, 2), (2, 1, 3), (3, 2, 4)))


def _chances(P, a) -> Instance:
    return {**_stochastic(P), "a": abs(a) / (1 + abs(a))}


def _mean(P):
    """Mean over heads of P (..., depth, heads, n, n)."""
    return ops.sum(P, -3) / P.shape[-3]


def _all_paths(P, a, share: int = 1):
    """Sum over all paths of rho_p A_p; share: the power of 1/H in it."""
    (L, H, n), found = P.shape[-4:-1], 0
    for path in itertools.product(range(H + 1), repeat=L):
        A, rho = ops.eye(n, P), 1
        for layer, h in enumerate(path):
            chance = a[..., layer, None, None]
            rho = rho * (chance / H**share if h else 1 - chance)
            A = P[..., layer, h - 1, :, :] @ A if h else A
        found = found + rho * A
    return found


def _chain_roundings(P) -> int:
    """Of one chain: a product, mean and mixing in each layer, rows that add up to 1, all paths."""
    L, H, n = P.shape[-4:-1]
    return L * (2 * n + H + 8) + (1 + H) ** L + n


PATH_SUM = Identity(
    left=_all_paths,
    right=lambda P, a: rollout.product(_mean(P), a),
    # all numbers are positive: gamma_m of itself for each side, and the bound is rounded, too
    bound=lambda P, a: 2 * gamma(2 * _chain_roundings(P), P) * rollout.product(_mean(P), a),
    sizes=LENGTHS,
    build=_chances,
).but("heads added, not averaged", left=partial(_all_paths, share=0))


def _by_row(P, a):
    return ops.sum(rollout.by_length(_mean(P), a), -1)


def _over_sets(P, a, at: Callable = lambda a: a):
    """Pr(N = l) for every row, over all sets of layers."""
    a, L = at(a), a.shape[-1]
    found = [0 * a[..., 0] for _ in range(L + 1)]
    for chosen in itertools.product((0, 1), repeat=L):
        chance = 1
        for layer, taken in enumerate(chosen):
            chance = chance * (a[..., layer] if taken else 1 - a[..., layer])
        found[sum(chosen)] = found[sum(chosen)] + chance
    return ops.stack(found, -1)[..., None] + 0 * P[..., 0, 0, :1, :]


def _averaged(a):
    """Every chance replaced by their mean."""
    return ops.sum(a, -1, keepdims=True) / a.shape[-1] + 0 * a


ROW_LAW = Identity(
    left=_by_row,
    right=_over_sets,
    bound=lambda P, a: 2 * gamma(2 * _chain_roundings(P), P) * _over_sets(P, a),
    sizes=LENGTHS,
    build=_chances,
).but("one mean chance in all layers", right=partial(_over_sets, at=_averaged))


def _tails(upper: fmpq = ONE, lower: Callable = lambda L: L + 1) -> Verdict:
    """Both bounds of the tail, in whole numbers, for all depths up to 64."""
    wrong, cases = 0, 0
    for L in range(1, 65):
        for length in range(L // 2 + 1):
            bound = fmpq(L**L, 2**L * length**length * (L - length) ** (L - length))
            tail = fmpq(sum(comb(L, k) for k in range(length + 1)), 2**L)
            wrong += not bound / lower(L) <= tail <= upper * bound
            cases += 1
    return Verdict(wrong == 0, f"{cases} tails, {wrong} outside", cases)


TAILS = (
    Decision(_tails, "depth up to 64; the derivation covers the rest", "certified")
    .but("0.9999 times the upper bound", run=partial(_tails, fmpq(9999, 10000)))
    .but("the lower bound without L + 1", run=partial(_tails, lower=lambda L: 1))
)

# ------------------------------------------------------------------------------------ order


def _rows(P, X, W, c):
    """Of every path the row of A_p of the first token and the values v_p, in two lists."""
    H, n = P.shape[-3], P.shape[-1]
    ways = [(0 * P[..., 0, 0, :1, :] + ops.eye(n, P)[:1], c[..., None], 1)]
    for layer in reversed(range(P.shape[-4])):
        heads = [
            (row @ P[..., layer, h, :, :], W[..., layer, h, :, :] @ v, H * count)
            for row, v, count in ways
            for h in range(H)
        ]
        ways = ways + heads
    rows = ops.stack([row[..., 0, :] for row, _, _ in ways], -2)
    values = ops.stack([count * (X @ v)[..., 0] for _, v, count in ways], -2)
    counts = [count for _, _, count in ways]
    return rows, values, counts


def _pairs(a, b):
    """a_j b_k for all j and k, in one axis."""
    both = a[..., :, None] * b[..., None, :]
    return both.reshape(*both.shape[:-2], -1)


def _positive_parts(P, X, W, c):
    """Rollout's row of the first token, the parts of all tokens, and all values."""
    rows, values, counts = _rows(P, X, W, c)
    T = sum(rows[..., p, :] * values[..., p, :] / counts[p] for p in range(len(counts)))
    half = ops.constant(0.5, P) + 0 * P[..., 0, 0, 0]
    return rollout.product(_mean(P), half)[..., 0, :], T, values, counts


def _less(P, X, W, c, counted: bool = True):
    R, T, v, counts = _positive_parts(P, X, W, c)
    v = v if counted else _uncounted(v, counts)
    least = -ops.amax(ops.amax(-v, -1), -1)
    return least[..., None] * _pairs(R, T)


def _more(P, X, W, c, counted: bool = True):
    R, T, v, counts = _positive_parts(P, X, W, c)
    v = v if counted else _uncounted(v, counts)
    return ops.amax(ops.amax(v, -1), -1)[..., None] * _pairs(T, R)


def _uncounted(v, counts):
    return ops.stack([v[..., p, :] / count for p, count in enumerate(counts)], -2)


def _positive(Z, X, W, c) -> Instance:
    return {"P": ops.softmax(Z), "X": ops.exp(X), "W": ops.exp(W), "c": ops.exp(c)}


def _step(heads: int, value: float) -> Instance:
    """Two tokens that attend to the second, with all heads equal."""
    one = torch.ones(1, 1, dtype=torch.float64)
    P = torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64).repeat(1, heads, 1, 1)
    return {"P": P, "X": one.repeat(2, 1), "W": value * one.repeat(1, heads, 1, 1), "c": one[0]}


ORDER = (
    Inequality(
        left=_less,
        right=_more,
        sizes=tuple(
            {"Z": (L, H, n, n), "X": (n, d), "W": (L, H, d, d), "c": (d,)}
            for L, H, n, d in ((1, 1, 2, 1), (2, 2, 3, 2), (3, 1, 2, 3))
        ),
        build=_positive,
        hypotheses=lambda P, X, W, c: [(0 * P, P), (0 * X, X), (0 * W, W), (0 * c, c)],
        extremal=(partial(_step, 1, 2.0), partial(_step, 2, 2.0)),
    )
    .times(0.9999)
    .but(
        "values without the number of heads",
        left=partial(_less, counted=False),
        right=partial(_more, counted=False),
        extremal=(partial(_step, 2, 1.0),),
    )
)


SURE = 64  # of a score: the weights of all other keys add up to less than 2^-80


def _gains(Z, z) -> Instance:
    return {"Z": Z, "w": ops.exp(z)}


def _positive_gains(Z, w) -> list:
    return [(0 * w, w)]


def bits(*w: float) -> Instance:
    """Every layer sets its own binary digit of a token's number: all paths end apart."""
    n = 2 ** len(w)
    Z = torch.zeros(len(w), n, n, dtype=torch.float64)
    for layer in range(len(w)):
        Z[layer, torch.arange(n), torch.arange(n) | 2**layer] = SURE
    return {"Z": Z, "w": torch.tensor(w, dtype=torch.float64)}


SPREAD = (partial(bits, 4.0), partial(bits, 2.0, 0.25), partial(bits, 0.5, 0.5, 4.0))


def _halves(w):
    return ops.constant(0.5, w) + 0 * w


def _above_one(w):
    """The product of the gains above 1."""
    return rollout.largest_ratio(ops.maximum(w, 1 + 0 * w))


def _both(Z, w):
    """Rollout's row of the first token, and the weights of the operator in it."""
    A = ops.softmax(Z)
    return rollout.product(A, _halves(w))[..., 0, :], rollout.held(A, w)[..., 0, :]


def _ratio(Z, w, ratio: Callable = rollout.largest_ratio):
    R, T = _both(Z, w)
    return ratio(w)[..., None] * _pairs(T, R)


GAIN_SIZES = tuple({"Z": (L, n, n), "z": (L,)} for L, n in ((1, 2), (2, 3), (3, 2), (2, 4)))
GAINS = (
    Inequality(
        left=lambda Z, w: _pairs(*_both(Z, w)),
        right=_ratio,
        sizes=GAIN_SIZES,
        build=_gains,
        hypotheses=_positive_gains,
        extremal=SPREAD,
    )
    .times(0.9999)
    .but("the gains above 1 alone", right=partial(_ratio, ratio=_above_one))
)


def _exact(values: list) -> np.ndarray:
    return ops.rationals(np.array(values, dtype=object))


def _signs(scale: fmpq = ONE) -> Verdict:
    """A token whose share by rollout is s and whose part is 0, for 19 shares s."""
    wrong = 0
    for k in range(1, 20):
        e = fmpq(k, 20)
        A = np.array([[[1 - e, e], [fmpq(0), fmpq(1)]]], dtype=object)
        own, w = rollout.product(A, _exact([fmpq(1, 2)]))[0, 0], _exact([-scale / (1 - e)])
        T = rollout.held(A, w)[0]
        wrong += not (own == 1 - e / 2 and T[0] == 0 and T[1] != 0)
    return Verdict(wrong == 0, f"19 layers, {wrong} otherwise", 19)


SIGNS = Decision(_signs, "19 shares; the derivation has all", "certified").but(
    "half the value", run=partial(_signs, fmpq(1, 2))
)

# ------------------------------------------------------------------------------------ shares


def _apart(Z, w):
    A = ops.softmax(Z)
    return norms.total_variation(rollout.shares(A, w), rollout.product(A, _halves(w)))


def _farthest(Z, w, bound: Callable = rollout.farthest):
    return bound(w)[..., None] + 0 * Z[..., 0, :, 0]


def _by_lengths(w):
    """Distance of the laws of the length alone."""
    return norms.total_variation(rollout.law(w / (1 + w)), rollout.law(_halves(w)))


SHARES = (
    Inequality(
        left=_apart,
        right=_farthest,
        sizes=GAIN_SIZES,
        build=_gains,
        hypotheses=_positive_gains,
        extremal=SPREAD,
    )
    .times(0.9999)
    .but("lengths alone, whatever the gains", right=partial(_farthest, bound=_by_lengths))
)


def _line(depth: int, value: float) -> Instance:
    """Each token attends to the next one, the last to itself."""
    Z = torch.diag(torch.full((depth,), float(SURE), dtype=torch.float64), 1)
    Z[-1, -1] = SURE
    return {"Z": Z.repeat(depth, 1, 1), "w": torch.tensor([value], dtype=torch.float64)}


def _everywhere(Z, w):
    return w + 0 * Z[..., 0, 0]


EQUAL = Inequality(
    left=lambda Z, w: _apart(Z, _everywhere(Z, w)),
    right=lambda Z, w: _farthest(Z, _everywhere(Z, w), _by_lengths),
    sizes=tuple({"Z": (L, n, n), "z": (1,)} for L, n in ((2, 2), (3, 4), (4, 3))),
    build=_gains,
    hypotheses=_positive_gains,
    extremal=(partial(_line, 2, 0.25), partial(_line, 4, 2.0)),
).times(0.9999)

# ------------------------------------------------------------------------------------ relevance


def _terms(G, s, by_length: bool = True):
    """Sum over all paths of their terms times s^length, or all times s."""
    (L, H, n), found, positive = G.shape[-4:-1], 0, (G + abs(G)) / 2
    for path in itertools.product(range(H + 1), repeat=L):
        heads = [(layer, h) for layer, h in enumerate(path) if h]
        A, factor = ops.eye(n, G), 1 + 0 * s
        for layer, h in heads:
            A = positive[..., layer, h - 1, :, :] @ A
        for _ in range(len(heads) if by_length else 1):
            factor = factor * s
        found = found + (factor / H ** len(heads))[..., None] * A
    return found


UNIT = Identity(
    left=lambda G, s: rollout.relevance(s[..., None, None, None] * G),
    right=_terms,
    # all numbers are at least 0: gamma_m of itself for each side, and the bound is rounded, too
    bound=lambda G, s: 2 * gamma(2 * _chain_roundings(G), G) * _terms(G, s),
    sizes=tuple({"G": (L, H, n, n), "s": (1,)} for L, H, n in ((1, 2, 2), (2, 1, 3), (3, 2, 2))),
    build=lambda G, s: {"G": G, "s": abs(s) + ops.constant(0.125, s)},
).but("all terms times s", right=partial(_terms, by_length=False))


def _two_layers(keys: list[list[int]], X: list, value: int) -> tuple[np.ndarray, np.ndarray]:
    """Parts and flows of the first output token; keys: to which token each attends, by layer."""
    n = len(X)
    P = _exact([[[[int(key == j) for j in range(n)] for key in layer]] for layer in keys])
    W, one = _exact([[[[value]]]] * 2), _exact([[[[1]]]] * 2)
    x, C = _exact([[v] for v in X]), _exact([[int(i == 0)] for i in range(n)])
    fixed = _fixed(x, P, W, one)
    return rollout.parts(fixed, x, C), rollout.flows(fixed, x, C)


def _reversed(times: fmpq) -> Verdict:
    """Whether relevance orders tokens 3 and 4 as their parts for y, and otherwise for times y."""
    T, G = _two_layers([[2, 3, 2, 3], [1, 1, 2, 3]], [1, 1, fmpq(5, 2), 1], 1)
    R, more = rollout.relevance(G)[0], rollout.relevance(times * G)[0]
    holds = T[2] > T[3] and R[2] > R[3] and more[2] < more[3]
    return Verdict(bool(holds), f"parts {T[2]}, {T[3]}; {R[2]}, {R[3]}; {more[2]}, {more[3]}")


REVERSED = Decision(partial(_reversed, fmpq(2)), "this network", "certified").but(
    "6/5 of y", run=partial(_reversed, fmpq(6, 5))
)


def _dropped(last: int) -> Verdict:
    """Relevance 1, 0, 0 of tokens whose parts are 0, -3 and ``last``."""
    T, G = _two_layers([[0, 2, 2], [1, 1, 2]], [1, 3, last], -1)
    R = rollout.relevance(G)[0]
    holds = list(T) == [0, -3, last] and list(R) == [1, 0, 0]
    return Verdict(holds, f"parts {', '.join(map(str, T))}; relevance {', '.join(map(str, R))}")


DROPPED = Decision(partial(_dropped, 2), "this network", "certified").but(
    "a third token of 4", run=partial(_dropped, 4)
)

CHECKS: dict[str, dict[str, Check]] = {
    "rollout.operator": {
        "parts": PARTS,
        "row sums": ROW_SUMS,
        "steps": by_definition(definitions.flows, "squares of what is lost", power=2),
    },
    "rollout.lengths": {
        "path sum": PATH_SUM,
        "law of a row": ROW_LAW,
        "tails": TAILS,
        "over all sets": by_definition(definitions.laws, "one success more", more=1),
    },
    "rollout.order": {"values": ORDER, "gains": GAINS, "signs": SIGNS},
    "rollout.shares": {"shares": SHARES, "equal gains": EQUAL},
    "rollout.relevance": {
        "unit": UNIT,
        "reversed": REVERSED,
        "dropped": DROPPED,
        "entry by entry": by_definition(definitions.relevance, "the negative part", sign=-1),
    },
}

"""Checks of the order of tokens by rollout, and of its distance from the shares."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from flint import fmpq

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.mathematics import norms, rollout
from attnverify.support.verdict import Verdict
from attnverify.topics.rollout.checks.lengths import ONE, mean


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
    return rollout.product(mean(P), half)[..., 0, :], T, values, counts


def _less(P, X, W, c):
    """Least value times R and 2^L, then times R_j T_k for all j and k."""
    R, T, v, _ = _positive_parts(P, X, W, c)
    least = -ops.amax(ops.amax(-v, -1), -1)[..., None]
    return ops.join([2 ** P.shape[-4] * least * R, T, least * _pairs(R, T)], -1)


def _more(P, X, W, c, counted: bool = True):
    """What :func:`_less` is compared with, with the largest value."""
    R, T, v, counts = _positive_parts(P, X, W, c)
    v = v if counted else _uncounted(v, counts)
    most = ops.amax(ops.amax(v, -1), -1)[..., None]
    return ops.join([T, 2 ** P.shape[-4] * most * R, most * _pairs(T, R)], -1)


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


CROSSED = ((2,), (1, fmpq(1, 4)), (fmpq(1, 2), 3), (fmpq(1, 2), fmpq(1, 3), 4), (2, fmpq(1, 5), 3))


def _crossed(times: fmpq = ONE) -> Verdict:
    """Two tokens whose rollout differs by the factor and whose parts are equal, for five w.

    As :func:`bits`, but in one layer with w >= 1 all tokens attend to one more token, too.
    """
    wrong = 0
    for gains in CROSSED:
        w = np.array([fmpq(v) for v in gains], dtype=object)
        L, n, factor = len(w), 2 ** len(w), times * rollout.largest_ratio(w)
        up = [layer for layer in range(L) if w[layer] >= 1]
        A = np.array([[[fmpq(0)] * (n + 1)] * (n + 1)] * L, dtype=object)
        for layer in range(L):
            A[layer, n, n] = fmpq(1)
            for i in range(n):
                A[layer, i, i | 2**layer] = 1 / factor if layer == up[0] else fmpq(1)
                A[layer, i, n] = 1 - A[layer, i, i | 2**layer]
        k = sum(2**layer for layer in up)
        R, T = rollout.product(A, 0 * w + fmpq(1, 2))[0], rollout.held(A, w)[0]
        wrong += not (R[n - 1 - k] == factor * R[k] and T[n - 1 - k] == T[k])
    return Verdict(wrong == 0, f"{len(CROSSED)} networks, {wrong} otherwise", len(CROSSED))


NO_SMALLER = Decision(_crossed, "five lists of gains; the derivation has all", "certified", 5).but(
    "1.0001 times the factor", run=partial(_crossed, fmpq(10001, 10000))
)


def _signs(scale: fmpq = ONE) -> Verdict:
    """A token whose share by rollout is s and whose part is 0, for 19 shares s.

    The values of the two tokens are 1 and -1.
    """
    wrong, k = 0, 0
    for k in range(1, 20):
        e = fmpq(k, 20)
        A = np.array([[[1 - e, e], [fmpq(0), fmpq(1)]]], dtype=object)
        own, w = rollout.product(A, np.array([fmpq(1, 2)]))[0, 0], np.array([-scale / (1 - e)])
        T = rollout.held(A, w)[0]
        wrong += not (own == 1 - e / 2 and T[0] == 0 and -T[1] > 0)
    return Verdict(wrong == 0, f"{k} layers, {wrong} otherwise", k)


SIGNS = Decision(_signs, "19 shares; the derivation has all", "certified", 19).but(
    "half the value", run=partial(_signs, fmpq(1, 2))
)


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

CHECKS: dict[str, dict[str, Check]] = {
    "rollout.order": {
        "values": ORDER,
        "gains": GAINS,
        "no smaller factor": NO_SMALLER,
        "signs": SIGNS,
    },
    "rollout.shares": {"shares": SHARES, "equal gains": EQUAL},
}

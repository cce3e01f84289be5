"""Checks of the random-walk model: moments of a score and the law of a row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma
from attnverify.checking.check import Check, Identity, Twin
from attnverify.mathematics import walk

# ``tokens`` is an array of which only the length T counts; the covariance is S = R R'
SIZES = tuple({"W": (d, d), "R": (d, d), "tokens": (T,)} for T, d in ((2, 2), (3, 1), (5, 3)))


def _innovations(tokens) -> np.ndarray:
    """Coefficients (T, T) of step s in x_i - mean(x); in x_T every coefficient is 1."""
    T = tokens.shape[-1]
    i, s = np.arange(1, T + 1)[:, None], np.arange(1, T + 1)[None, :]
    return (s <= i).astype(int) * T - (T - s + 1)  # times T, so that they are integers


def _brute(W, R, tokens):
    """Mean and variance of a score from the quadratic form in all T d steps; (..., T, 2).

    The score is y'Wx_T. With c the coefficients of y = x_i - mean(x) the form is sum_{s,s'} e_s'
    (c_s M) e_s', M = R'WR: mean sum_s c_s tr(M), variance half the squared norm of the form plus
    its transpose.
    """
    M, T = ops.transpose(R) @ W @ R, tokens.shape[-1]
    c = _like(_innovations(tokens), M) / ops.constant(T, M)  # (T, T)
    mean = _column(walk.trace(M)) * ops.sum(c, -1)
    # sum over s, s' of ||c_s M + c_s' M'||^2 / 2 = T sum_s c_s^2 ||M||^2 + (sum_s c_s)^2 tr(M^2)
    left = c[:, :, None, None, None] * M[..., None, None, None, :, :]
    right = c[:, None, :, None, None] * ops.transpose(M)[..., None, None, None, :, :]
    form = left + right
    variance = ops.sum(ops.square(form), (-4, -3, -2, -1)) / ops.constant(2, M)
    return ops.stack([mean, variance], -1)


def _column(value):
    """Array with a last axis of length 1, also for a single exact number."""
    return (value if ops.is_torch(value) else np.asarray(value, dtype=object))[..., None]


def _like(values: np.ndarray, like):
    """Integers in the arithmetic of ``like``."""
    if ops.is_torch(like):
        return like.new_tensor(values.tolist())
    return ops.full((), 1, like) * values


def _closed(W, R, tokens, spread: Callable | None = None):
    T, S = tokens.shape[-1], R @ ops.transpose(R)
    one = ops.constant(1, W)
    i, T = walk.indices(T, W), T * one
    trace, frobenius, square = (_column(v) for v in walk.traces(W, S))
    if spread is None:
        variance = walk.score_variance(i, T, frobenius, square)
    else:
        variance = spread(i, T) * T * frobenius + ops.square(walk.alignment(i, T)) * square
    return ops.stack([walk.score_mean(i, T, trace), variance], -1)


def _moment_bound(W, R, tokens):
    """Rounding bound from the formulas in absolute values.

    |M| needs 4d roundings an entry; a form entry 4 more, doubled by the square, then T^2 d^2
    summands. On the other side S needs 2d, a trace of four factors 8d + d^2, and 20 cover g and h.
    """
    T, d = tokens.shape[-1], W.shape[-1]
    M = abs(R).mT @ abs(W) @ abs(R)
    size = M.sum((-2, -1))
    roundings = 16 * d + T * T * d * d + 40
    largest = ops.stack([T * size, 4 * T * T * size.square()], -1)
    return 2 * gamma(roundings, W) * largest[..., None, :]


def _moments(right: Callable = _closed, twins=()) -> Identity:
    return Identity(_brute, right, _moment_bound, SIZES, twins=twins)


MOMENTS = _moments(
    twins=(
        Twin(
            "a_i with T^2 in place of 2 T^2",
            _moments(lambda **p: _closed(**p, spread=lambda i, T: walk.spread(i, T) - T / 6)),
        ),
        Twin(
            "the mean taken over the tokens up to i",
            _moments(lambda **p: _closed(**p, spread=lambda i, T: (i - 1) * (2 * i - 1) / (6 * i))),
        ),
        Twin(
            "tr(WSW'S) in the second term too",
            _moments(lambda W, R, tokens: _symmetrized(W, R, tokens)),
        ),
    ),
)


def _symmetrized(W, R, tokens):
    """Variance by the formula for symmetric W, used for any W by a twin."""
    T, S = tokens.shape[-1], R @ ops.transpose(R)
    i, T = walk.indices(T, W), T * ops.constant(1, W)
    trace, frobenius, _ = (_column(v) for v in walk.traces(W, S))
    variance = walk.score_variance(i, T, frobenius, frobenius)
    return ops.stack([walk.score_mean(i, T, trace), variance], -1)


def _spread_twice(tokens):
    T = tokens.shape[-1] * ops.constant(1, tokens)
    i = walk.indices(tokens.shape[-1], tokens)
    return walk.spread(i, T) * T - ops.square(walk.alignment(i, T)) + 0 * tokens


def _remainder(tokens, factor: int = 12):
    T = tokens.shape[-1] * ops.constant(1, tokens)
    return walk.remainder(T) * 12 / factor + 0 * tokens


def _same_spread(right: Callable = _remainder, twins=()) -> Identity:
    sizes = tuple({"tokens": (T,)} for T in (2, 3, 7, 64))
    # at most 12 roundings of numbers of size at most 6 T^2
    bound = lambda tokens: gamma(12, tokens) * 6 * tokens.shape[-1] ** 2 + 0 * tokens  # noqa: E731
    return Identity(_spread_twice, right, bound, sizes, exact_draws=1, twins=twins)


SAME = _same_spread(
    twins=(Twin("(T^2 - 1)/11", _same_spread(lambda tokens: _remainder(tokens, 11))),)
)


def _variance(W, R, tokens):
    """Variance over T^2 by the closed form; (..., T)."""
    T = tokens.shape[-1]
    return _closed(W, R, tokens)[..., 1] / ops.constant(T * T, W)


def _limit(W, R, tokens, finite: bool = True, middle: bool = True):
    """Limit tr(WSW'S) v_gamma(t_i) less the finite-size term, gamma tr(WSW'S) = tr(WSWS)."""
    T, S = tokens.shape[-1], R @ ops.transpose(R)
    i, T = walk.indices(T, W), T * ops.constant(1, W)
    _, frobenius, square = (_column(v) for v in walk.traces(W, S))
    t = walk.position(i, T) if middle else i / T
    symmetric, without = walk.limit_variance(t), walk.limit_variance(t, 0)
    value = without * frobenius + (symmetric - without) * square
    return value - frobenius / (12 * T * T) if finite else value


def _limit_check(right: Callable, twins=()) -> Identity:
    return Identity(_variance, right, lambda **p: _moment_bound(**p)[..., 1], SIZES, twins=twins)


LIMIT = _limit_check(
    _limit,
    (
        Twin("without the finite-size term", _limit_check(lambda **p: _limit(**p, finite=False))),
        Twin(
            "t = i/T in place of (i - 1/2)/T", _limit_check(lambda **p: _limit(**p, middle=False))
        ),
    ),
)


def _symmetric_variance(W, tokens):
    """Variance over T^2 plus tr(W^2)/(12 T^2), for S = I and the symmetric W + W'."""
    W = W + ops.transpose(W)
    T = tokens.shape[-1]
    size = _column(ops.sum(ops.square(W), (-2, -1)))
    eye = ops.eye(W.shape[-1], W)
    return _variance(W, eye, tokens) + size / ops.constant(12 * T * T, W)


def _polynomial(W, tokens, constant: int = 7):
    """Polynomial (2t^2 - 2t + 7/12) tr(W^2) of the symmetric limit."""
    W = W + ops.transpose(W)
    T = tokens.shape[-1] * ops.constant(1, W)
    t = walk.position(walk.indices(tokens.shape[-1], W), T)
    return (24 * t * t - 24 * t + constant) / 12 * _column(ops.sum(ops.square(W), (-2, -1)))


def _symmetric(right: Callable = _polynomial, twins=()) -> Identity:
    def bound(W, tokens):
        eye = ops.eye(W.shape[-1], W).expand(W.shape)
        return _moment_bound(abs(W) + abs(W).mT, eye, tokens)[..., 1]

    sizes = tuple({"W": (d, d), "tokens": (T,)} for T, d in ((2, 2), (5, 3)))
    return Identity(_symmetric_variance, right, bound, sizes, twins=twins)


SYMMETRIC = _symmetric(
    twins=(Twin("1/2 in place of 7/12", _symmetric(lambda **p: _polynomial(**p, constant=6))),)
)


CHECKS: dict[str, dict[str, Check]] = {
    "walk.moments": {"moments": MOMENTS, "remainder": SAME},
    "walk.limit": {"limit": LIMIT, "symmetric": SYMMETRIC},
}

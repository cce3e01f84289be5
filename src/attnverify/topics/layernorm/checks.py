"""Checks of layer norm: its two factorizations, affine forms, and how it escapes collapse."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.arithmetic.rounding import gamma, softmax_error, unit
from attnverify.chapters.layer_instances import KEY_WIDTH
from attnverify.checking.check import Check, Decision, Identity, Twin
from attnverify.mathematics import collapse, layernorm
from attnverify.support.verdict import Verdict

arb = flint.arb


def sigma_by_pairs(X, less: int = 0):
    """Standard deviation from pairs of features: root of sum_jk (x_j - x_k)^2 / (2 d (d - less)).

    It does not use deviations from the mean, and is as accurate, since nothing cancels.
    """
    d = X.shape[-1]
    squares = ops.sum(ops.square(X[..., :, None] - X[..., None, :]), (-2, -1))
    return ops.sqrt(squares / ops.constant(2 * d * (d - less), X))[..., None]


def _seven(X):
    """Array (rows, columns) with 7 and -7 in turn along the first row and 0 elsewhere.

    Random entries lie between -3 and 3, so adding it makes the first row differ from the others.
    """
    n, d = X.shape[-2:]
    signs = ops.stack([ops.constant(7 - 14 * (k % 2), X) for k in range(d)], 0)
    return ops.eye(n, X)[:, :1] * signs


def _tokens_apart(X, g, b):
    """Instance whose first feature is moved, so that no token has equal features only."""
    return {"X": X + ops.transpose(_seven(ops.transpose(X))), "g": g, "b": b}


def _centered_and_scaled(X, g):
    """Centered and scaled tokens X (I - 11^T/d) diag(g)."""
    d = X.shape[-1]
    center = ops.eye(d, X) - ops.full((d, d), 1, X) / ops.constant(d, X)
    return X @ center @ (ops.eye(d, X) * g)


def _factor_right(X, g, b, less: int = 0):
    """Factorization diag(1/sigma) X (I - 11^T/d) diag(g) + 1 b^T of layer norm."""
    left = ops.eye(X.shape[-2], X) / sigma_by_pairs(X, less)
    return left @ _centered_and_scaled(X, g) + b


def _factor_bound(X, g, b):
    """Rounding bound of both forms; s = |x| + mean |x| for each entry, gamma = gamma_m.

    Deviations from the mean are off by gamma s at most. So their root mean square sigma is off by
    at most the share r = gamma (rms(s) / sigma + 1), and the quotient by 2 gamma s / sigma +
    2 sqrt(d) r if r <= 1/2, as no true quotient exceeds sqrt(d). For larger r the two quotients,
    each at most sqrt(d), differ by no more than 4 sqrt(d) r. The other form has no cancellation
    in sigma and is off by gamma s / sigma. One more of each covers the scale and second order.
    m: sums over width^2 pairs, twice over the width, once over the tokens, and single operations.
    """
    n, d = X.shape[-2:]
    step, sigma = gamma(d * d + 2 * d + n + 20, X), sigma_by_pairs(X)
    size = abs(X) + abs(X).mean(-1, keepdim=True)
    share = step * (size.square().mean(-1, keepdim=True).sqrt() / sigma + 1)
    return (4 * step * size / sigma + 5 * d**0.5 * share) * abs(g) + step * abs(b)


def _left_factor(right: Callable, twins=()) -> Identity:
    sizes = tuple({"X": (n, d), "g": (1, d), "b": (1, d)} for n, d in ((2, 2), (3, 5)))
    return Identity(
        lambda X, g, b: layernorm.normalize(X) * g + b,
        right,
        _factor_bound,
        sizes,
        build=_tokens_apart,
        arithmetic="ball",
        twins=twins,
    )


LEFT_FACTOR = _left_factor(
    _factor_right,
    (
        Twin(
            "without the left factor", _left_factor(lambda X, g, b: _centered_and_scaled(X, g) + b)
        ),
        Twin(
            "d - 1 in place of d in the variance",
            _left_factor(lambda X, g, b: _factor_right(X, g, b, less=1)),
        ),
    ),
)


def _feature_right(Y, g, b, less: int = 0):
    """Affine form Y A + 1 c^T with A = diag(g/s), c = b - m A and s_k from pairs of tokens."""
    n, d = Y.shape[-2:]
    s = ops.transpose(sigma_by_pairs(ops.transpose(Y), less))  # (..., 1, d)
    A = ops.eye(d, Y) * (g / s)
    mean = ops.sum(Y, -2, keepdims=True) / ops.constant(n, Y)
    return Y @ A + (b - mean @ A)


def _feature_bound(Y, g, b):
    """Rounding bound of both forms; t = |y| + mean |y| for each entry, gamma = gamma_m.

    The first is off as in :func:`_factor_bound`, tokens and features exchanged: 2 gamma t / s + 2
    sqrt(n) r with the share r = gamma (rms(t) / s + 1) if r <= 1/2, else 4 sqrt(n) r. In the other
    nothing cancels in s; Y A and m A have one term that is not zero in each sum, so their
    difference is off by 2 gamma t / s. One more of each covers the scale and second order; either
    adds gamma |b|. m: sums over tokens^2 pairs, twice the tokens, twice the width, and single
    operations.
    """
    n, d = Y.shape[-2:]
    step, s = gamma(n * n + 2 * n + 2 * d + 20, Y), ops.transpose(sigma_by_pairs(Y.mT))
    size = abs(Y) + abs(Y).mean(-2, keepdim=True)
    share = step * (size.square().mean(-2, keepdim=True).sqrt() / s + 1)
    return (5 * step * size / s + 5 * n**0.5 * share) * abs(g) + 2 * step * abs(b)


def _features_apart(Y, g, b):
    """Instance whose first token is moved, so that no feature is equal in all tokens."""
    return {"Y": Y + _seven(Y), "g": g, "b": b}


def _by_feature(right: Callable, left: Callable = layernorm.normalize_features, twins=()):
    sizes = tuple({"Y": (n, d), "g": (1, d), "b": (1, d)} for n, d in ((2, 3), (5, 3), (4, 6)))
    return Identity(
        lambda Y, g, b: left(Y) * g + b,
        right,
        _feature_bound,
        sizes,
        build=_features_apart,
        arithmetic="ball",
        twins=twins,
    )


BY_FEATURE = _by_feature(
    _feature_right,
    twins=(
        Twin("statistics of each token", _by_feature(_feature_right, layernorm.normalize)),
        Twin(
            "n - 1 in place of n in the variance",
            _by_feature(lambda Y, g, b: _feature_right(Y, g, b, less=1)),
        ),
    ),
)


def _three_tokens(multiples: tuple[int, int, int]) -> Verdict:
    """Whether no A, b give LN(X) = X A + 1 b^T for three tokens k u on one line.

    The differences of tokens are multiples of u, so u A is fixed by the first two tokens, and the
    third must fit. Exact: u = (1, -1) has mean 0 and variance 1.
    """
    u = np.array([arb(1), arb(-1)], dtype=object)
    X = np.stack([k * u for k in multiples])
    N = layernorm.normalize(X)
    k = multiples
    u_A = (N[1] - N[0]) / arb(k[1] - k[0])
    gap: list[arb] = [abs(g) for g in N[2] - N[0] - (k[2] - k[0]) * u_A]
    holds = certain(any(g > 0 for g in gap), all(g == 0 for g in gap))
    return Verdict(holds, f"tokens {k} times u: misfit {gap[0].str(5)}")


def _two_tokens(second: tuple[int, int, int]) -> Verdict:
    """Whether no diagonal A and b fit two tokens that agree in feature 1, but not after LN."""
    X = np.array([[arb(0), arb(1), arb(-1)], [arb(k) for k in second]], dtype=object)
    N = layernorm.normalize(X)
    gap = abs(N[0, 0] - N[1, 0])
    holds = certain(gap > 0, gap == 0)
    return Verdict(holds, f"feature 1 equal before, apart by {gap.str(8)} after")


def _refutation(run: Callable, twin: tuple[str, Callable]) -> Decision:
    limits = "these tokens, which refute the statement"
    return Decision(run, limits, "certified").but(twin[0], run=twin[1])


ANY_MATRIX = _refutation(
    partial(_three_tokens, (1, 2, -1)),
    ("tokens u, 2u, 3u do it too", partial(_three_tokens, (1, 2, 3))),
)
DIAGONAL = _refutation(
    partial(_two_tokens, (0, 3, 0)),
    ("the second token (0, 2, -2) does it too", partial(_two_tokens, (0, 2, -2))),
)


def _opposite(z, q):
    """Instance X = (u, -u), with u normalized from z, and q > 0."""
    u = layernorm.normalize(layernorm.normalize(z))  # twice: the first loses digits to the mean
    return {"X": ops.stack([u[..., 0, :], -u[..., 0, :]], -2), "q": abs(q) + ops.constant(0.125, q)}


def _attended(X, q):
    """Output of one head with W_QK = q I and W_V = I."""
    eye = ops.eye(X.shape[-1], X)
    W_QK = (q[..., None] * eye)[..., None, :, :]
    return collapse.layer(X, W_QK, 0 * W_QK[..., 0, :], eye + 0 * W_QK, KEY_WIDTH)


def _opposite_factor(X, q):
    """Factor tanh(q ||u||^2 / sqrt(d_qk)) = tanh(q d / sqrt(d_qk)) of opposite tokens."""
    a = q * ops.constant(X.shape[-1], X) / ops.root(KEY_WIDTH, X)
    return ops.tanh(a)


def _opposite_error(X, q):
    """Bound on the error of the attended tokens: weights times entries of X, and their sum."""
    d = X.shape[-1]
    a = (q * d / KEY_WIDTH**0.5)[..., 0]
    P = torch.ones(*a.shape, 2, dtype=a.dtype, device=a.device)
    # logits are inner products of length d; u itself is normalized to within (2 d + 12) u
    weights = softmax_error(P, gamma(6 * d + 30, a) * a, a)[..., :1, None]
    return (weights + (2 * d + 20) * unit(X)) * abs(X).amax((-1, -2), keepdim=True)


def _escape_bound(X, q):
    """Layer norm divides by tanh(a): relative errors of the attended tokens grow by 1 / tanh(a)."""
    size = abs(X).amax((-1, -2), keepdim=True)
    factor = _opposite_factor(X, q)[..., None]
    d = X.shape[-1]
    return (4 * _opposite_error(X, q) / factor + gamma(6 * d + 40, X) * 2 * d**0.5) * (1 + size)


def _escape(left: Callable, right: Callable, bound: Callable, twins=()) -> Identity:
    # W_QK = q I has rank d, so d <= d_qk
    sizes = ({"z": (1, 2), "q": (1,)}, {"z": (1, KEY_WIDTH), "q": (1,)})
    return Identity(left, right, bound, sizes, build=_opposite, arithmetic="ball", twins=twins)


def _fixed(X, q):
    return layernorm.normalize(_attended(X, q))


def _longer(X):
    return ops.constant(1.001, X) * X


ESCAPE = _escape(
    _fixed,
    lambda X, q: X,
    _escape_bound,
    (
        Twin("without layer normalization", _escape(_attended, lambda X, q: X, _escape_bound)),
        Twin(
            "1.001 times the tokens are a fixed point too",
            _escape(lambda X, q: _fixed(_longer(X), q), lambda X, q: _longer(X), _escape_bound),
        ),
    ),
)
WITHOUT = _escape(
    _attended,
    lambda X, q: _opposite_factor(X, q)[..., None] * X,
    _opposite_error,
    (
        Twin(
            "0.999 times the logit",
            _escape(
                _attended,
                lambda X, q: _opposite_factor(X, ops.constant(0.999, q) * q)[..., None] * X,
                _opposite_error,
            ),
        ),
    ),
)

CHECKS: dict[str, dict[str, Check]] = {
    "layernorm.as-printed": {"any matrix": ANY_MATRIX, "diagonal": DIAGONAL},
    "layernorm.left-factor": {"identity": LEFT_FACTOR},
    "layernorm.by-feature": {"identity": BY_FEATURE},
    "layernorm.escape": {"fixed point": ESCAPE, "without": WITHOUT},
}

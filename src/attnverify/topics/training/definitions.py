"""Definitions of what a query-key matrix gains from a loss, entry by entry.

A derivative is compared with a central difference quotient of step t = 2^-40. Along a line in the
logits, with logits that move by w, the third derivative of a mean of z under softmax is the
cumulant E[z w^3] - 3 E[z w] E[w^2] of centered z and w, at most 4 osc(z) osc(w)^3. So the quotient
is off by at most (2/3) t^2 osc(z) osc(w)^3, for the numbers below less than 2^-70.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total, within
from attnverify.mathematics import gradients
from attnverify.topics.softmax.definitions import softmax_row

STEP, NEAR = arb(2) ** -40, 2.0**-70


def _quotient(function: Callable[[Any], Any], at: np.ndarray, direction: np.ndarray) -> Any:
    """Central difference quotient of ``function`` at a point."""
    return (function(at + STEP * direction) - function(at - STEP * direction)) / (2 * STEP)


def _slopes(function: Callable[[Any], Any], at: np.ndarray) -> np.ndarray:
    """Difference quotients in all entries of a matrix."""

    def unit(i: int, j: int) -> np.ndarray:
        return table(lambda k, m: arb(int((i, j) == (k, m))), *at.shape)

    return table(lambda i, j: _quotient(function, at, unit(i, j)), *at.shape)


def _apart(found: np.ndarray, known: np.ndarray) -> tuple[list[arb], list[arb]]:
    """Zeros where two arrays agree to within NEAR, and zeros."""
    pairs = list(zip(found.flat, known.flat, strict=True))
    return [within(NEAR, a, b) for a, b in pairs], [arb(0)] * len(pairs)


def covariances(counted: int = 2) -> Iterator[Pair]:
    """Covariances over pairs of tokens, the Jacobian of softmax, and v(H) from the two weights."""
    u, K, V = (v / 4 for v in drawn(1, (4,), (4, 2), (4, 3)))
    a, some = softmax_row(u), range(4)
    products = lambda A, B, k, m: total(  # noqa: E731
        a[i] * a[j] * (A[i, k] - A[j, k]) * (B[i, m] - B[j, m]) / counted
        for i in some
        for j in some
    )
    C = table(lambda k, m: products(K, V, k, m), 2, 3)
    yield "keys and values", gradients.cross_covariance(u, K, V), C
    own = table(lambda k, m: products(V, V, k, m), 3, 3)
    yield "covariance", gradients.covariance(u, V), own
    jacobian = table(lambda i, j: a[i] * (int(i == j) - a[j]), 4, 4)
    yield "Jacobian", gradients.softmax_jacobian(u), jacobian
    for factor in (1, 8):  # below one half, and above
        P = largest([*softmax_row(factor * u), arb(1) / 2])
        yield "largest weight", gradients.weight_variance(factor * u[None]), [P * (1 - P)]
    p = np.array([arb(k) / 16 for k in (9, 12, 15)])
    H = -p * ops.log(p) - (1 - p) * ops.log(1 - p)
    yield "v", gradients.entropy_variance(H), p * (1 - p)
    yield (
        "v from log 2 on",
        gradients.entropy_variance(np.array([arb(1), arb(3)])),
        [arb(1) / 4] * 2,
    )
    size = largest(total((V[i] - V[j]) ** 2) for i in some for j in some)
    bound = (1 - total(b * b for b in a)) * size / 2
    yield "trace", gradients.trace_bound(u[None], V[None]), [bound]


def _row(x, X, W) -> list[arb]:
    """Weights of one query's row, key width 4."""
    inner = lambda y: total(x[k] * W[k, m] * y[m] for k in range(len(x)) for m in range(len(y)))  # noqa: E731
    return softmax_row([inner(y) / 2 for y in X])


def output(power: int = 1) -> Iterator[Pair]:
    """The change of a row's output in a direction of W_QK, and of a mean in the logits."""
    x, X, W, D = (v / 8 for v in drawn(2, (2,), (3, 2), (2, 2), (2, 2)))
    y = lambda W: np.array(_row(x, X, W)) @ X  # noqa: E731
    change = gradients.output_change(x, X, W, D, 4**power)
    yield "output", *_apart(change, _quotient(y, W, D))
    u, z, w = (v / 8 for v in drawn(3, (4,), (4,), (4,)))
    mean = lambda u: total(p * b for p, b in zip(softmax_row(u), z, strict=True))  # noqa: E731
    along = np.array([total(gradients.softmax_jacobian(u) @ z * w)])
    yield "logits", *_apart(along, np.array([_quotient(mean, u, w)]))


def losses(seen: int = 1) -> Iterator[Pair]:
    """Gradient of a linear loss in W_QK, with all keys and under a causal mask."""
    X, W_QK, W, g = (v / 8 for v in drawn(4, (3, 2), (2, 2), (2, 2), (3, 2)))
    for causal in (False, True):

        def attended(i: int, causal: bool = causal) -> slice:
            return slice(0, i + seen if causal else 3)

        def loss(M: np.ndarray, attended: Callable[[int], slice] = attended) -> arb:
            parts = [
                total(np.array(_row(X[i], X[attended(i)], M)) @ X[attended(i)] @ W * g[i])
                for i in range(3)
                if attended(i).stop
            ]
            return total(parts)

        scores = X @ W_QK @ X.T / 2
        found = gradients.loss_gradient(scores, X, W, g, 4, causal)
        yield "query-key matrix", *_apart(found, _slopes(loss, W_QK))


def maps(back: int = 1) -> Iterator[Pair]:
    """Gradients in the query map, with queries and keys turned by position, and in the key map."""
    X, W_Q, b_Q, W_K, b_K = (v / 8 for v in drawn(5, (3, 2), (2, 2), (2,), (2, 2), (2,)))
    V, g = (v / 8 for v in drawn(6, (3, 2), (3, 2)))
    angles = [(arb(i).cos(), arb(i).sin()) for i in range(3)]
    turns = [np.array([[c, s], [-s, c]]) for c, s in angles]

    def turned(Y: np.ndarray) -> np.ndarray:
        return np.stack([y @ turn for y, turn in zip(Y, turns, strict=True)])

    def loss(Q: np.ndarray, K: np.ndarray) -> arb:
        rows = [softmax_row([total(q * k) / 2 for k in K]) for q in Q]
        return total(total(np.array(row) @ V * g[i]) for i, row in enumerate(rows))

    Q, K = X @ W_Q + b_Q, X @ W_K + b_K
    scores = turned(Q) @ turned(K).T / 2
    parts = [
        gradients.query_gradient(scores[i : i + 1], X[i : i + 1], turned(K), V, g[i : i + 1], 4)
        @ (turns[i].T if back else np.eye(2, dtype=int))
        for i in range(3)
    ]
    slopes = _slopes(lambda W: loss(turned(X @ W + b_Q), turned(K)), W_Q)
    yield "query map", *_apart(total(parts), slopes)
    found = gradients.key_gradient(Q @ K.T / 2, X, Q, V, g, 4)
    yield "key map", *_apart(found, _slopes(lambda W: loss(Q, X @ W + b_K), W_K))
    moved = loss(Q, K) - loss(Q, X @ W_K)
    yield "a key bias without positions", *_apart(np.array([moved]), np.array([arb(0)]))

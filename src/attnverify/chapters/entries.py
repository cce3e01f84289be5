"""Rows, entry by entry in balls: what the formulas of several chapters are compared with.

Nothing here shares code with ``attnverify.mathematics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import largest, table


def softmax(u: Iterable[arb]) -> np.ndarray:
    """Weights of a row of logits u (n,): 1 / sum_j e^(u_j - u_i) at i; balls (n,)."""
    u = list(u)
    return np.array([1 / sum((v - w).exp() for v in u) for w in u], dtype=object)


def entropy(p: Iterable[arb]) -> arb:
    """Entropy -sum p log p of positive weights p (n,), balls."""
    return -sum((a * a.log() for a in p), arb(0))


def relative_entropy(p: Iterable[arb], q: Iterable[arb]) -> arb:
    """Relative entropy sum p log(p/q) of positive weights p, q (n,), balls."""
    return sum((a * (a / b).log() for a, b in zip(p, q, strict=True)), arb(0))


def scores(X, Q, key_width: int) -> np.ndarray:
    """Scores x_i' Q_h x_j / sqrt(d_qk) at (h, i, j); X (n, d), Q (heads, d, d), balls."""
    (n, d), root = X.shape, arb(key_width).sqrt()

    def score(h: int, i: int, j: int) -> arb:
        return sum(X[i, k] * Q[h, k, m] * X[j, m] for k in range(d) for m in range(d)) / root

    return table(score, len(Q), n, n)


def logits(X, W_Q, W_K, b_Q, b_K, angles, bias, sign: int = 1) -> np.ndarray:
    """Logits with positions at (h, i, j), plane by plane, balls.

    X (n, d), W_Q, W_K (heads, d, d_qk), b_Q, b_K (heads, d_qk), angles (heads, d_qk/2) and bias
    (heads, 2 reach - 1), whose entry reach - 1 + i - j is added; sign: of the distance i - j by
    which a query is turned against a key.
    """
    n, planes, reach = len(X), angles.shape[1], (bias.shape[1] + 1) // 2

    def products(h: int, i: int, j: int) -> Iterator[arb]:
        query, key = X[i] @ W_Q[h] + b_Q[h], X[j] @ W_K[h] + b_K[h]
        for p in range(planes):
            (a, b), (c, e), turn = query[p::planes], key[p::planes], sign * (i - j) * angles[h, p]
            yield (a * c + b * e) * turn.cos() - (b * c - a * e) * turn.sin()

    def logit(h: int, i: int, j: int) -> arb:
        return sum(products(h, i, j)) / arb(2 * planes).sqrt() + bias[h, reach - 1 + i - j]

    return table(logit, len(W_Q), n, n)


def attention(
    X, Q, b, key_width: int, sees: Callable[[int, int], bool] = lambda i, j: True
) -> np.ndarray:
    """Weights P_h,ij over the keys j that token i sees, from (x_i' Q_h x_j + b_h' x_j)/sqrt(d_qk).

    X (n, d), Q (heads, d, d), b (heads, d), balls; (heads, n, n).
    """
    E, n, P = scores(X, Q, key_width), len(X), np.full((len(Q), len(X), len(X)), arb(0))
    for h, i in np.ndindex(len(Q), n):
        seen = [j for j in range(n) if sees(i, j)]
        bias = (sum(x * y for x, y in zip(b[h], X[j], strict=True)) for j in seen)
        P[h, i, seen] = softmax(E[h, i, seen] + [a / arb(key_width).sqrt() for a in bias])
    return P


def layer(X, Q, b, W, key_width: int) -> np.ndarray:
    """Output sum_h sum_j P_h,ij sum_k X_jk W_h,km (n, d) of a layer; W (heads, d, d)."""
    P, (n, d) = attention(X, Q, b, key_width), X.shape
    indices = [(h, j, k) for h in range(len(Q)) for j in range(n) for k in range(d)]
    return table(lambda i, m: sum(P[h, i, j] * X[j, k] * W[h, k, m] for h, j, k in indices), n, d)


def column_sum(A) -> arb:
    """Largest column sum ||A||_1 of absolute values; that of A.T is ||A||_inf."""
    return largest(sum((abs(v) for v in column), arb(0)) for column in A.T)


def gammas(E) -> list[arb]:
    """sqrt(sum_i D_i max_i D_i) / (2 ||E_h||_1) of heads, D_i the oscillations; E (heads, n, n)."""
    D = [[largest(row) + largest(-row) for row in head] for head in E]
    return [(sum(d) * largest(d)).sqrt() / (2 * column_sum(e)) for d, e in zip(D, E, strict=True)]

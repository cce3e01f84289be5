"""Attention normalized twice: over the queries, then over the keys, and Sinkhorn's limit.

Scores S (..., queries, keys). Ordinary attention is softmax over the keys. Doubly normalized
attention divides first by the sum over the queries of a key and then by the sum over the keys of a
query, so that its rows sum to 1. The total of a key is the sum of its weights over all queries. The
formulas serve the claims doubly.* and work in any arithmetic of :mod:`attnverify.arithmetic.ops`.

>>> import torch
>>> from attnverify.mathematics import doubly
>>> S = torch.tensor([[4.0, 2.0], [2.0, 1.0]], dtype=torch.float64)
>>> doubly.totals(torch.softmax(S, -1)).round(decimals=3).tolist()
[1.612, 0.388]
>>> doubly.totals(doubly.attention(S)).round(decimals=3).tolist()
[0.854, 1.146]
"""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics import collapse


def over_queries(S):
    """Weights e^(s_ij) over their sum over the queries i; columns sum to 1."""
    return ops.transpose(ops.softmax(ops.transpose(S)))


def attention(S):
    """Doubly normalized attention: over the queries, then over the keys; rows sum to 1."""
    Q = over_queries(S)
    return Q / ops.sum(Q, -1, keepdims=True)


def keys_first(S):
    """Attention normalized over the keys, then over the queries; columns sum to 1."""
    A = ops.softmax(S)
    return A / ops.sum(A, -2, keepdims=True)


def totals(P):
    """Sum of the weights of each key over all queries; (..., queries, keys) -> (..., keys)."""
    return ops.sum(P, -2)


def share(E, high: int, queries: int):
    """Ratio (k E + m - k)^2/(k E^2 + m - k) for k of m queries with the root weight E, others 1."""
    low = queries - high
    return ops.square(high * E + low) / (high * ops.square(E) + low)


def least_total(D, queries: int, keys: int):
    """Least total of a key if the scores of each key oscillate by at most D; shape of D."""
    E = ops.exp(D / ops.constant(2, D))
    shares = [-share(E, k, queries) for k in range(1, queries)]
    return -ops.amax(ops.stack(shares, -1), -1) / keys


def total_bound(D, queries: int, keys: int):
    """Bound (m/n) sech(D/4)^2 on the least total; shape of D."""
    return queries * (1 - ops.square(ops.tanh(D / ops.constant(4, D)))) / keys


def layer(X, W_QK, W, key_width: int, added=0):
    """Layer sum_h P_h X W_h with doubly normalized heads; W_QK, W (..., heads, width, width).

    added: what biases add to the scores, a number of each query and one of each key.
    """
    Y = X[..., None, :, :]
    return ops.sum(attention(collapse.scores(Y, W_QK, key_width) + added) @ Y @ W, -3)


# -------------------------------------------------------------------------------------- two tokens


def difference(S):
    """Double difference kappa = s_11 - s_12 - s_21 + s_22 of two tokens, (...)."""
    return S[..., 0, 0] - S[..., 0, 1] - S[..., 1, 0] + S[..., 1, 1]


def leaning(S):
    """Mean alpha = (s_11 - s_21 + s_12 - s_22)/2 over the keys of the queries' difference."""
    return (S[..., 0, 0] - S[..., 1, 0] + S[..., 0, 1] - S[..., 1, 1]) / ops.constant(2, S)


def _hyperbolic(x):
    """Hyperbolic cosine and sine."""
    up, down, two = ops.exp(x), ops.exp(-x), ops.constant(2, x)
    return (up + down) / two, (up - down) / two


def ordinary_coefficient(kappa, beta):
    """Contraction coefficient of softmax attention, sinh(|kappa|/2)/(cosh beta + cosh(kappa/2)).

    beta: the mean over the queries of the keys' difference, ``leaning`` of transposed scores.
    """
    k, size = _hyperbolic(abs(kappa) / ops.constant(2, kappa))
    return size / (_hyperbolic(beta)[0] + k)


def doubly_coefficient(kappa, alpha):
    """Contraction coefficient of doubly normalized attention of two tokens."""
    k, size = _hyperbolic(abs(kappa) / ops.constant(2, kappa))
    c = _hyperbolic(alpha)[0]
    return size * (c + k) / (1 + 2 * k * c + k * k)


# ---------------------------------------------------------------------------- doubly stochastic


def spread(S):
    """Largest double difference |s_ij - s_il - s_kj + s_kl| of scores, (...)."""
    rows = [S - S[..., i : i + 1, :] for i in range(S.shape[-2])]
    apart = ops.stack(rows, -3)  # (..., i, k, keys)
    size = ops.amax(apart, -1) + ops.amax(-apart, -1)
    return ops.amax(ops.amax(size, -1), -1)

"""Collapse under a causal mask with positions: the weights of equal tokens decide the rate.

If the first m tokens are equal, all tokens tend to them. The rate is the weight that token m + 1
gives itself among tokens that are all equal, if no later token gives itself as much. The formulas
serve the claim modern.causal-positions-rate.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`. One head with W_h = I: X (...,
tokens, width); logits Z (..., tokens, tokens), of which a query sees those of keys that are not
after it; maps as in :func:`attnverify.mathematics.position_bounds.logits`, with one head.
``alike``: the number m of first tokens that are equal.
"""

from __future__ import annotations

from typing import Any

from attnverify.arithmetic import ops
from attnverify.mathematics import position_bounds
from attnverify.mathematics.softmax import oscillation

# ---------------------------------------------------------------- a layer


def weights(Z):
    """Attention matrix of logits Z under the causal mask, shape of Z."""
    return ops.softmax(Z, ops.causal(Z.shape[-1], Z))


def logits(X, **maps):
    """Logits of the one head, (..., tokens, tokens)."""
    return position_bounds.logits(X, **maps)[..., 0, :, :]


def layer(X, **maps):
    """Tokens after one layer, shape of X."""
    return weights(logits(X, **maps)) @ X


def logits_of_equal(X, **maps):
    """Logits of tokens that are all the first one of X, (..., tokens, tokens)."""
    return logits(position_bounds.alone(X, X[..., :1, :]), **maps)


# ---------------------------------------------------------------- sizes of the theorem


def own(P):
    """Weights p_ii that tokens give themselves, (..., tokens)."""
    return ops.stack([P[..., i, i] for i in range(P.shape[-1])], -1)


def shape(P, alike: int):
    """Shape u (..., tokens): eigenvector of P for p_ii at i = m + 1, which is 1 there.

    u_i = sum over m < j < i of p_ij u_j, over p_(m+1)(m+1) - p_ii, for i > m + 1; 0 for i <= m.
    """
    m, rate = alike, P[..., alike, alike]
    u = [0 * rate for _ in range(m)] + [1 + 0 * rate]
    for i in range(m + 1, P.shape[-1]):
        below = sum(P[..., i, j] * u[j] for j in range(m, i))
        u.append(below / (rate - P[..., i, i]))
    return ops.stack(u, -1)


def spread(X, u, alike: int):
    """Size N(X) = max over i > m of |x_i - x_1|_2 / u_i, (...)."""
    away = X[..., alike:, :] - X[..., :1, :]
    return ops.amax(ops.sqrt(ops.sum(ops.square(away), -1)) / u[..., alike:], -1)


def moved(Z, equal, alike: int):
    """Largest oscillation D over rows i > m and keys j <= i of Z - equal, (...)."""
    T, n = Z - equal, Z.shape[-1]
    rows = [oscillation(T[..., i, : i + 1]) for i in range(alike, n)]
    return ops.amax(ops.stack(rows, -1), -1)


def tilted(weight, D):
    """Largest weight p/(p + (1 - p) e^(-D)) that p becomes if its row's logits oscillate by D."""
    return weight / (weight + (1 - weight) * ops.exp(-D))


# ---------------------------------------------------------------- relative positions


def own_by_distance(levels):
    """Weights 1/(1 + sum over 0 < t < i of e^(l(t) - l(0))) of equal tokens on themselves.

    levels (..., tokens): the logits l(t) of equal tokens at distance t = 0, 1, ...; result (...,
    tokens), for i = 1, 2, ...
    """
    total, found = 0, []
    for t in range(levels.shape[-1]):
        total = total + ops.exp(levels[..., t] - levels[..., 0])
        found.append(1 / total)
    return ops.stack(found, -1)


def level(query, key, turn):
    """Logit of a query, turned by ``turn`` (..., planes), and a key (..., 2 planes), and no bias.

    The sum over planes of q . k cos + q x k sin, over sqrt(d_qk), with q x k = q_1 k_2 - q_2 k_1.
    """
    planes = query.shape[-1] // 2
    (a, b), (c, e) = ((v[..., :planes], v[..., planes:]) for v in (query, key))
    waves = (a * c + b * e) * ops.cos(turn) + (a * e - b * c) * ops.sin(turn)
    return ops.sum(waves, -1) / ops.root(query.shape[-1], query)


def levels(x, tokens: int, W_Q, W_K, b_Q, b_K, angles, bias):
    """Logits l(t) of equal tokens x (..., 1, width) at distance t = 0, 1, ..., (..., tokens)."""
    head, reach = (..., 0, slice(None)), (bias.shape[-1] + 1) // 2
    query, key = ((x @ W[..., 0, :, :])[..., 0, :] + b[head] for W, b in ((W_Q, b_Q), (W_K, b_K)))
    at = lambda t: level(query, key, t * angles[head]) + bias[..., 0, reach - 1 + t]  # noqa: E731
    return ops.stack([at(t) for t in range(tokens)], -1)


def alibi_rate(slope, alike: int) -> Any:
    """Rate (1 - e^(-b))/(1 - e^(-b (m + 1))) of ALiBi with slope b > 0."""
    return ops.expm1(-slope) / ops.expm1(-slope * (alike + 1))


def alibi_shape(slope, tokens: int, alike: int) -> Any:
    """Shape u of ALiBi with slope b > 0, (..., tokens).

    u_i is the product over k = 1, ..., m of (e^(b (i - k)) - 1)/(e^(b k) - 1): for small b the
    binomial coefficient C(i - 1, m), for i <= m the number 0.
    """
    u = []
    for i in range(1, tokens + 1):
        factor = 1 + 0 * slope
        for k in range(1, alike + 1):
            factor = factor * ops.expm1(slope * (i - k)) / ops.expm1(slope * k)
        u.append(factor)  # it is 0 for i <= m, by the factor with k = i
    return ops.stack(u, -1)

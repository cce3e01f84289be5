"""Collapse under a causal mask or a sliding window: bounds on it, its rate and its limit.

Under a causal mask all tokens tend to the first one. Their distances from it tend to fixed ratios,
the shape u, and fall by a factor that depends on how many first tokens are equal.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`. One head without biases: X
(..., tokens, width), W_QK and W_V (..., width, width). ``alike``: the number m of first tokens that
are equal; ``window``: the number w of keys that a query sees, itself the last; None is the causal
mask. Every formula is that of the claims modern.causal-rate and modern.window-rate, and takes m + 2
<= w.
"""

from __future__ import annotations

import math
from typing import Any

from attnverify.arithmetic import ops
from attnverify.mathematics.collapse import masked_layer, scores
from attnverify.mathematics.softmax import oscillation
from attnverify.support.errors import require


def layer(X, W_QK, W_V, key_width: int, window: int | None = None):
    """Output of one masked head, shape of X."""
    return masked_layer(X, W_QK, key_width, window=window) @ W_V


def largest_oscillation(X, W_QK, key_width: int, window: int | None = None):
    """Largest oscillation D of a row's logits over the keys that it sees, (...)."""
    Z, n = scores(X, W_QK, key_width), X.shape[-2]
    own = ops.sum(ops.where(ops.causal(n, X, 1), Z, 0 * Z), -1, keepdims=True)
    return ops.amax(oscillation(ops.where(ops.causal(n, X, window), Z, own + 0 * Z)), -1)


def shape(tokens: int, alike: int, like: Any, window: int | None = None) -> Any:
    """Shape u, (tokens,): the limit of the tokens' distances from token 1, up to a common factor.

    u_i = C(i - 1, m) for i <= w, and (m + 1)/(w - m - 1) times the sum of the w - 1 before it for
    i > w. Then the mean of u over what token i sees is u_i / (m + 1), for every i.
    """
    m, w = alike, tokens if window is None else window
    require(1 <= m < tokens, "alike", m, f"a whole number from 1 to {tokens - 1}")
    require(w >= min(m + 2, tokens), "window", w, f"at least {m + 2}")
    u = [ops.constant(math.comb(i, m), like) for i in range(min(w, tokens))]
    for i in range(w, tokens):
        u.append(sum(u[i - w + 1 : i]) * (m + 1) / (w - m - 1))
    return ops.stack(u, 0)


def spread(X, alike: int, window: int | None = None):
    """Size N(X) = max over i > m of |x_i - x_1|_2 / u_i, (...)."""
    away = X[..., alike:, :] - X[..., :1, :]
    u = shape(X.shape[-2], alike, X, window)[alike:]
    return ops.amax(ops.sqrt(ops.sum(ops.square(away), -1)) / u, -1)


def tilted(a, alike: int):
    """Largest tilted mean, 1/(1 + m e^(-a)), of values in [0, 1] with the plain mean 1/(m + 1).

    The weights of the tilted mean are a softmax whose logits oscillate by a.
    """
    return 1 / (1 + alike * ops.exp(-a))


def start(X, q, alike: int, key_width: int, window: int | None = None):
    """Start a_0 = q K M N(X) / sqrt(d_qk) of the recursion, K = u_n + u_(n-1).

    M is the length of the longest token.
    """
    u = shape(X.shape[-2], alike, X, window)
    longest = ops.amax(ops.sqrt(ops.sum(ops.square(X), -1)), -1)
    return q * (u[-1] + u[-2]) * longest * spread(X, alike, window) / ops.root(key_width, X)


def over_depth(size, a, v, alike: int, depth: int):
    """Bound on N after ``depth`` layers: N <- v N/(1 + m e^(-a)), a <- v^2 a/(1 + m e^(-a))."""
    for _ in range(depth):
        factor = v * tilted(a, alike)
        size, a = size * factor, a * v * factor
    return size


def closed_bound(size, a, v, alike: int, depth: int):
    """Closed bound (v/(m + 1))^L e^(m S/(m + 1)) N on N, with S of :func:`total`.

    It needs v^2 < 1 + m e^(-a).
    """
    m = ops.constant(alike, a)
    for _ in range(depth):
        size = size * v / (m + 1)
    return size * ops.exp(m / (m + 1) * total(a, v, alike))


def total(a, v, alike: int):
    """Sum S = a/(1 - v^2/(1 + m e^(-a))), at least a_0 + a_1 + ... of the recursion."""
    return a / (1 - v * v * tilted(a, alike))


def growth(window: int, alike: int, like: Any) -> Any:
    """Growth g > 1 of the shape in a window: the mean of 1, 1/g, ..., g^-(w - 1) is 1/(m + 1).

    In balls.
    u_n lies between g^(n - w - m + 1) and C(w - 1, m) g^(n - m - 1).
    """
    w, m = window, alike
    require(w >= m + 2 >= 3, "window", w, f"at least {m + 2}, for {m} >= 1 tokens alike")

    def excess(g):
        return (1 - g**-w) * (m + 1) - w * (1 - 1 / g)  # of the same sign as that of the mean

    # the mean is below g/(w (g - 1)), which is 1/(m + 1) at g = w/(w - m - 1) <= m + 2
    return _root(excess, 1 + ops.constant(1, like) / (2 * w), ops.constant(m + 2, like))


def growth_limit(alike: int, like: Any) -> Any:
    """Limit theta of log g^w for large w, as a ball: theta = (m + 1)(1 - e^-theta) > 0."""
    m = alike  # the excess is positive at log(m + 1) <= m, and negative at m + 1
    start = ops.constant(m + 1, like).log()
    return _root(lambda t: (m + 1) * (1 - (-t).exp()) - t, start, ops.constant(m + 1, like))


def _root(excess: Any, low: Any, high: Any) -> Any:
    """A ball around a zero of a function that is positive at ``low`` and negative at ``high``."""
    ends = excess(low), excess(high)
    require(ends[0] > 0 > ends[1], "low, high", ends, "a change of sign")
    while True:
        middle = ((low + high) / 2).mid()
        value = excess(middle)
        if value > 0:
            low = middle
        elif value < 0:
            high = middle
        else:
            return low.union(high)

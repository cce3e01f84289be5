"""What a head's output and a loss gain from a change of its query-key matrix.

A row of attention is a = softmax(s). It gives the output y = sum_j a_j x_j, and y depends on the
query-key matrix through the covariance C = sum_j a_j (x_j - y)' (x_j - y) of the tokens under the
weights of the row: in the direction D of that matrix, y changes by x D C / sqrt(d_qk), where x is
the query's token. C is small if the tokens are nearly equal (rank collapse) and if the row has one
large weight (entropy collapse). Its largest eigenvalue is at most v(H) diam(X)^2, with the entropy
H of the row in nats and v(H) = p (1 - p), where 1/2 <= p <= 1 and the two weights p, 1 - p have the
entropy min(H, log 2). This module serves the claims ``training.*`` on gradients.

Shapes: logits (..., keys), tokens X (..., keys, width), query x (..., width). Functions whose
logits are (..., queries, keys) say so. All work in any arithmetic of
:mod:`attnverify.arithmetic.ops`.

>>> import torch
>>> import attnverify as av
>>> X = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)  # 5 apart
>>> logits = torch.zeros(2, dtype=torch.float64)  # weights 1/2 and 1/2
>>> round(torch.linalg.matrix_norm(av.gradients.covariance(logits, X), 2).item(), 9)
6.25
>>> round(av.gradients.gauge(logits, X).item(), 9)
6.25
"""

from __future__ import annotations

import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import takes
from attnverify.mathematics import entropy, norms
from attnverify.support.errors import require
from attnverify.support.vocabulary import counted

# ------------------------------------------------------------------ the covariance under a row


@takes("logits", "X")
def covariance(logits, X):
    """Covariance C = sum_j a_j (x_j - y)' (x_j - y) of the tokens; (..., width, width)."""
    return cross_covariance(logits, X, X)


def cross_covariance(logits, K, V):
    """Covariance sum_j a_j (k_j - k)' (v_j - v) with the means k, v; (..., width of K, of V)."""
    a = ops.softmax(logits)[..., None]
    K, V = (Y - ops.sum(a * Y, -2, keepdims=True) for Y in (K, V))
    return ops.transpose(K) @ (a * V)


def softmax_jacobian(logits):
    """Derivative diag(a) - a'a of softmax in its logits; (..., keys, keys)."""
    a = ops.softmax(logits)
    return a[..., None] * (ops.eye(a.shape[-1], a) - a[..., None, :])


# ------------------------------------------------------------------ what bounds it


def lesser_weight(logits):
    """q = 1 - P with P = max(1/2, largest weight of the row): the weight of all others; (...)."""
    a, n = ops.softmax(logits), logits.shape[-1]
    others = ops.full((n, n), 1, logits) - ops.eye(n, logits)
    rest = -ops.amax(-ops.sum(a[..., None, :] * others, -1), -1)  # a sum, which keeps its digits
    return -ops.maximum(-rest, 0 * rest - ops.constant(1, logits) / 2)


def weight_variance(logits):
    """P (1 - P): what bounds the variance of a row whose values lie within an interval of length 1.

    Here P = max(1/2, largest weight of the row); shape (...).
    """
    q = lesser_weight(logits)
    return q * (1 - q)


def binary_entropy(q):
    """Entropy -q log q - (1 - q) log(1 - q) of two weights, in nats, for 0 < q < 1; shape of q."""
    return -q * ops.log(q) - (1 - q) * ops.log1p(-q)


def _two_weights(y):
    """Product p (1 - p) of the two weights p, 1 - p = softmax(y, 0)."""
    share = ops.exp(-y) / (1 + ops.exp(-y))
    return share * (1 - share)


@takes("H")
def entropy_variance(H):
    """v(H) = p (1 - p), where 1/2 <= p <= 1 and weights p, 1 - p have the entropy min(H, log 2).

    H: entropies in nats, >= 0 (...); shape (...). v rises from v(0) = 0 to v(log 2) = 1/4, is
    convex there, and v' <= 1/2. p is the larger weight of softmax(y, 0), and y is found by
    bisection. Raises InputError for a negative entropy (below -1e-9, which rounding may give).

    >>> import torch
    >>> import attnverify as av
    >>> H = torch.tensor([0.0, 0.1, 0.6931471805599453, 3.0], dtype=torch.float64)
    >>> [round(v, 4) for v in av.gradients.entropy_variance(H).tolist()]
    [0.0, 0.0201, 0.25, 0.25]
    """
    if ops.is_torch(H):
        bad = H[H < -1e-9].detach()
        many = bad.numel()
        given = f"{counted(many, 'entry')}, the least {float(bad.min())}" if many else ""
        require(not many, "H", given, "entropies in nats, numbers >= 0")
    H = -ops.maximum(-H, 0 * H - ops.log(ops.constant(2, H)))
    y = _gap(H) + 0 * H
    # To first order in floats. In balls an enclosure, because 0 <= v' <= 1/2.
    slope = _slope(y) if ops.is_torch(H) else arb(0.25, 0.25)
    return _two_weights(y) + slope * (H - entropy.floor(y, 2))


def _gap(H):
    """Gap y at which softmax(y, 0) has the entropy H, to about 1e-15, as exact numbers."""
    if not ops.is_torch(H):
        middle = torch.tensor([float(value) for value in H.flat], dtype=torch.float64)
        return ops.balls(_gap(middle)).reshape(H.shape)
    low = torch.zeros_like(H.detach())
    high = torch.full_like(low, 800.0)  # exp(-800) is below the smallest float64
    for _ in range(64):
        middle = (low + high) / 2
        above = entropy.floor(middle, 2) > H.detach()
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return low


def _slope(y):
    """dv/dH = tanh(y/2)/y, with its limit 1/2 at y = 0."""
    y = y.clamp_min(1e-150)
    return torch.tanh(y / 2) / y


@takes("logits", "X")
def gauge(logits, X):
    """v(H) diam(X)^2: at least the largest eigenvalue of :func:`covariance`; (...)."""
    return entropy_variance(entropy.entropy(logits)) * ops.square(norms.diameter(X))


def trace_bound(logits, X):
    """(1 - sum_j a_j^2) diam(X)^2 / 2: at least the trace of :func:`covariance`; (...)."""
    spread = 1 - ops.sum(ops.square(ops.softmax(logits)), -1)
    return spread * ops.square(norms.diameter(X)) / 2


# ------------------------------------------------------------------ the query-key matrix


def query_logits(x, X, W_QK, key_width: int):
    """Logits x W_QK x_j' / sqrt(d_qk) of one query x (..., width); (..., keys)."""
    return (X @ (x[..., None, :] @ W_QK)[..., 0, :, None])[..., 0] / ops.root(key_width, X)


def output_change(x, X, W_QK, D, key_width: int):
    """Derivative x D C / sqrt(d_qk) of y in the direction D of W_QK; shape of x."""
    C = covariance(query_logits(x, X, W_QK, key_width), X)
    return (x[..., None, :] @ D @ C)[..., 0, :] / ops.root(key_width, X)


def rows(logits, causal: bool):
    """For each query its number, the keys that it sees, as a slice, and its logits at them.

    logits (..., queries, keys).
    """
    keys = logits.shape[-1]
    for i in range(logits.shape[-2]):
        seen = slice(0, i + 1 if causal else keys)
        yield i, seen, logits[..., i, seen]


def loss_gradient(logits, X, W, g, key_width: int, causal: bool = False):
    """Gradient sum_i x_i' (g_i W') C_i / sqrt(d_qk) of a loss in W_QK; (..., width, width).

    logits (..., tokens, tokens), W (..., width, width) the value map, g (..., tokens, width) the
    gradient of the loss in the outputs y_i W.
    """
    return query_gradient(logits, X, X, X, g @ ops.transpose(W), key_width, causal)


def query_gradient(logits, X, K, V, g, key_width: int, causal: bool = False):
    """Gradient sum_i x_i' g_i (C_i^kv)' / sqrt(d_qk) of a loss in W_Q, for keys K and values V.

    logits (..., tokens, tokens), g (..., tokens, width of V) the gradient of the loss in the
    outputs; shape (..., width, width of K). With rotary positions row i is yet to be turned back.
    """
    return _outer(
        X,
        lambda i, seen, row: cross_covariance(row, K[..., seen, :], V[..., seen, :]),
        g,
        logits,
        key_width,
        causal,
    )


def key_gradient(logits, X, Q, V, g, key_width: int, causal: bool = False):
    """Gradient sum_i C_i^xv g_i' q_i / sqrt(d_qk) of a loss in W_K, for queries Q and values V.

    Without rotary positions; shape (..., width, width of Q).
    """
    return ops.transpose(
        _outer(
            Q,
            lambda i, seen, row: cross_covariance(row, X[..., seen, :], V[..., seen, :]),
            g,
            logits,
            key_width,
            causal,
        )
    )


def _outer(left, covariance_of, g, logits, key_width: int, causal: bool):
    """Sum over the queries of left_i' (g_i C_i') / sqrt(d_qk)."""
    parts = [
        ops.transpose(left[..., i : i + 1, :])
        @ (g[..., i : i + 1, :] @ ops.transpose(covariance_of(i, seen, row)))
        for i, seen, row in rows(logits, causal)
    ]
    return ops.sum(ops.stack(parts, 0), 0) / ops.root(key_width, g)


def gradient_bound(logits, left, K, V, g, key_width: int, causal: bool = False):
    """Bound sum_i |left_i| |g_i| P (1 - P) diam(K_i) diam(V_i)/sqrt(d_qk) on a nuclear norm; (...).

    ``left`` has the tokens or the queries, K the keys or the tokens that a row's weights average.
    :func:`weight_variance` P (1 - P) of row i is at most v(H_i), and costs less.
    """
    sizes = length(left) * length(g)
    parts = [
        sizes[..., i]
        * weight_variance(row)
        * norms.diameter(K[..., seen, :])
        * norms.diameter(V[..., seen, :])
        for i, seen, row in rows(logits, causal)
    ]
    return ops.sum(ops.stack(parts, 0), 0) / ops.root(key_width, g)


def length(X):
    """Euclidean length of the vectors along the last axis; (...)."""
    return ops.sqrt(ops.sum(ops.square(X), -1))


def depth_bound(size, beta, token, value, layers: int, key_width: int):
    """Bound on the change of a layer's output in its own W_QK, ``layers`` layers above the input.

    It is value token size^2 r^(3^layers - 1) / (4 sqrt(d_qk)) with r = beta size^2/(4 sqrt(d_qk)),
    where size is the diameter of the network's input, beta bounds sum_h |W_QK,h| |W_h| of each
    layer, token is the length of the query's token there and value the norm of the value map.
    """
    r = beta * ops.square(size) / (4 * ops.root(key_width, size))
    bound = value * token * ops.square(size) / (4 * ops.root(key_width, size))
    for _ in range(3**layers - 1):
        bound = bound * r
    return bound

"""What heads can compute: the best key, a nearest neighbor, a clipped line, mixtures, copying.

Formulas of the claims heads.*, in any arithmetic of :mod:`attnverify.arithmetic.ops`. A key that
wins by a gap leaves the odds of all others to be counted; most formulas here are such odds.

>>> import torch
>>> from attnverify.mathematics import copying
>>> one = torch.ones(1, dtype=torch.float64)
>>> round(copying.share(copying.rivals(one, 3)).item(), 6)  # 3 e^-1 / (1 + 3 e^-1)
0.524633
>>> T = torch.eye(3, dtype=torch.float64)[[0, 1, 2, 0]]  # A B C A
>>> output = copying.induction(T, 60 * one, 3 * one)
>>> [round(weight, 3) for weight in output.tolist()]  # on B, but for e^-3 and less
[0.05, 0.95, 0.0]
"""

from __future__ import annotations

from flint import arb

from attnverify.arithmetic import ops
from attnverify.mathematics.spectral import spectral_norm

# ----------------------------------------------------------------------------- the best key


def share(odds):
    """Weight odds/(1 + odds) that is not on a key."""
    return 1 / (1 + 1 / odds)


def rivals(z, keys: int):
    """Odds n e^{-z} of n keys whose scores lie lower by z."""
    return keys * ops.exp(-z)


def lost_score(keys: int) -> arb:
    """W((n - 1)/e), the largest score that softmax over n keys loses, as a ball."""
    return (arb(keys - 1) / arb(1).exp()).lambertw()


# ----------------------------------------------------------------------------- nearest neighbor


def least_eigenvalue(S):
    """Smallest eigenvalue of symmetric S (..., d, d): f - ||f I - S||_2, f its Frobenius norm."""
    f = ops.sqrt(ops.sum(ops.square(S), (-2, -1), keepdims=True))
    return f[..., 0, 0] - spectral_norm(f * ops.eye(S.shape[-1], S) - S)


def read(q, K, V, W, root):
    """Output softmax(q W K^T / root) V for queries q (..., queries, d); keys K, values V."""
    return ops.softmax(q @ W @ ops.transpose(K) / root) @ V


# ----------------------------------------------------------------------------- a clipped line


def staircase(x, v, beta):
    """Attention to values v with the scores beta (x v_k - v_k^2 / 2).

    x (..., points), v (..., keys), beta (..., 1); shape of x.
    """
    logits = x[..., None] * v[..., None, :] - ops.square(v)[..., None, :] / 2
    return ops.sum(ops.softmax(beta[..., None] * logits) * v[..., None, :], -1)


def first_cell(u, t, keys: int):
    """Mean of 0, ..., n - 1 under the weights e^{-t (j - u)^2 / 2}; u, t and result (...)."""
    j = ops.counting(keys, u)
    weights = ops.softmax(-t[..., None] * ops.square(j - u[..., None]) / 2)
    return ops.sum(weights * j, -1)


def half_step(t, keys: int):
    """Bound 1/2 + sum_i i e^{-t i^2 / 2}, 0 < i < n - 1, on the error in steps; shape of t."""
    return (
        sum((i * ops.exp(-t * (i * i) / 2) for i in range(1, keys - 1)), 0 * t + 1)
        - (0 * t + 1) / 2
    )


# ----------------------------------------------------------------------------- mixtures


def gated(X, W_QK, gates, W_V, W_O):
    """Heads with a gate for every token and value: sum_h (g_h * P_h X W_V,h) W_O,h, (..., n, c).

    X (..., n, d), W_QK (..., H, d, d) with 1/sqrt(d_qk) in it, gates (..., H, n, a),
    W_V (..., H, d, a), W_O (..., H, a, c).
    """
    Y = X[..., None, :, :]
    mixed = ops.softmax(Y @ W_QK @ ops.transpose(Y)) @ Y @ W_V
    return ops.sum((gates * mixed) @ W_O, -3)


def experts(X, W_V, W_O):
    """Experts (x_j W_V,h)_a (W_O,h)_ac, (..., H, n, a, c)."""
    return (X[..., None, :, :] @ W_V)[..., None] * W_O[..., None, :, :]


# ----------------------------------------------------------------------------- two layers


def _placed(block, row: int, column: int, size: int):
    """Square matrix of blocks of unequal size with one block other than 0, at these offsets."""
    below, right = (size - at - n for at, n in zip((row, column), block.shape[-2:], strict=True))
    wide = ops.join(
        [
            ops.full((block.shape[-2], column), 0, block),
            block,
            ops.full((block.shape[-2], right), 0, block),
        ],
        -1,
    )
    zeros = [ops.full((k, size), 0, block) for k in (row, below)]
    return ops.join([zeros[0], wide, zeros[1]], -2)


def induction(T, beta, gamma, match: int = 0, back: int = 1):
    """Output of the last of n + 1 tokens after two causal layers that copy, (..., words).

    T (..., n + 1, words) one-hot rows, beta and gamma (..., 1). A token is [word | position | 0].
    Layer 1 has the score beta for the position before, and adds the mean word to the last block.
    Layer 2 has the score (n + 1) gamma for each unit in which that block agrees with the query's
    word, and gamma for each position; its values are the words. Twins have match other than 0,
    which is added to n + 1, or look ``back`` another number of positions.
    """
    N, words = T.shape[-2:]
    size = 2 * words + N
    place, word = ops.eye(N, T), ops.eye(words, T)
    X = ops.join([T, place + 0 * T[..., :1], 0 * T], -1)
    before = place[:, back:]  # column i of it is position i + back
    before = ops.join([ops.transpose(before), 0 * place[:back]], -2)
    W_1 = beta[..., None] * _placed(ops.transpose(before), words, words, size)
    keep = ops.causal(N, T)
    copied = ops.softmax(X @ W_1 @ ops.transpose(X), keep) @ X @ _placed(word, 0, words + N, size)
    Y = X + copied
    later = 0 * place + ops.counting(N, T)
    W_2 = gamma[..., None] * (
        (N + match) * _placed(word, 0, words + N, size) + _placed(later, words, words, size)
    )
    P = ops.softmax(Y[..., -1:, :] @ W_2 @ ops.transpose(Y))
    return (P @ Y[..., :words])[..., 0, :]


def follower(T):
    """One-hot word after the last earlier occurrence of the last word; 0 if there is none."""
    agrees = ops.sum(T[..., :-1, :] * T[..., -1:, :], -1)
    found, open_ = 0 * T[..., 0, :], 1 + 0 * agrees[..., :1]
    for j in reversed(range(agrees.shape[-1])):
        found = found + open_ * agrees[..., j : j + 1] * T[..., j + 1, :]
        open_ = open_ * (1 - agrees[..., j : j + 1])
    return found


def copying_odds(n: int, beta, gamma):
    """Odds e^{2 (n + 1) gamma E} (1 - e^{-n gamma}) / (e^gamma - 1), E = n / (e^beta + n)."""
    misplaced = 1 / (1 + ops.exp(beta) / n)
    levels = (1 - ops.exp(-n * gamma)) / ops.expm1(gamma)
    return ops.exp(2 * (n + 1) * gamma * misplaced) * levels

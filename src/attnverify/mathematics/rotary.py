"""Query-key matrices under rotary positions: W(m) = W_Q R_m W_K^T at distance m.

They decide the scores of random-walk tokens (:mod:`attnverify.mathematics.walk`) with rotary
positions. The formulas serve the claims modern.rope-spectrum and modern.rope-averages.

R_m turns plane p of the queries, the features p and p + planes of a row, counterclockwise by
m theta_p. Q = S^(1/2) W_Q and K = S^(1/2) W_K, (..., width, key_width), hold the covariance S of a
token's step; angles (..., planes). Formulas work in any arithmetic of
:mod:`attnverify.arithmetic.ops`.
"""

from __future__ import annotations

import itertools

from attnverify.arithmetic import ops
from attnverify.mathematics.positions import rotated
from attnverify.mathematics.walk import traces


def at_distance(Q, K, angles, m: int):
    """Query-key matrix M(m) = Q R_m K^T at distance m, (..., width, width)."""
    return rotated(Q, m * angles[..., None, :]) @ ops.transpose(K)


def weights(Q, K):
    """a_p, b_p with tr M(m) = sum_p a_p cos(m theta_p) + b_p sin(m theta_p), (..., planes) each."""
    planes = Q.shape[-1] // 2
    (u, v), (f, g) = ((A[..., :planes], A[..., planes:]) for A in (Q, K))
    return ops.sum(u * f + v * g, -2), ops.sum(u * g - v * f, -2)


def signal(Q, K, angles, m: int):
    """Trace of M(m), (...)."""
    a, b = weights(Q, K)
    return ops.sum(a * ops.cos(m * angles) + b * ops.sin(m * angles), -1)


def sizes(Q, K):
    """Amplitudes sqrt(a_p^2 + b_p^2) of the planes, (..., planes)."""
    a, b = weights(Q, K)
    return ops.sqrt(ops.square(a) + ops.square(b))


def mean_signal(Q, K, angles, distances: int):
    """The mean of tr M(m) over m = 0, ..., distances - 1."""
    found = [signal(Q, K, angles, m) for m in range(distances)]
    return ops.sum(ops.stack(found, -1), -1) / ops.constant(distances, Q)


def mean_signal_bound(Q, K, angles, distances: int):
    """Bound on :func:`mean_signal`: sum_p sqrt(a_p^2 + b_p^2) / sin(theta_p / 2) over distances."""
    return ops.sum(sizes(Q, K) / ops.sin(angles / 2), -1) / ops.constant(distances, Q)


def mean_score(Q, K, angles, tokens: int):
    """Expected mean of the last token's scores, (1/T) sum_i i tr M(T - i)."""
    found = [i * signal(Q, K, angles, tokens - i) for i in range(1, tokens + 1)]
    return ops.sum(ops.stack(found, -1), -1) / ops.constant(tokens, Q)


def mean_score_bound(Q, K, angles, tokens: int):
    """Bound (1/2) sum_p sqrt(a_p^2 + b_p^2) (1 + 1/(T s_p)) / s_p, s_p = sin(theta_p/2)."""
    sines = ops.sin(angles / 2)
    more = 1 + 1 / (ops.constant(tokens, Q) * sines)
    return ops.sum(sizes(Q, K) * more / sines, -1) / 2


def mean_square(Q, K):
    """Mean of tr(M(m))^2 over all m for distinct angles, (1/2) sum_p (a_p^2 + b_p^2)."""
    a, b = weights(Q, K)
    return ops.sum(ops.square(a) + ops.square(b), -1) / 2


def mean_square_until(Q, K, angles, distances: int):
    """The mean of tr(M(m))^2 over m = 0, ..., distances - 1."""
    found = [ops.square(signal(Q, K, angles, m)) for m in range(distances)]
    return ops.sum(ops.stack(found, -1), -1) / ops.constant(distances, Q)


def mean_square_error(Q, K, angles, distances: int):
    """Bound on the distance of :func:`mean_square_until` from :func:`mean_square`.

    It is one over the number of distances, times the sum over planes of s_p^2/(2 sin theta_p) and
    over pairs of s_p s_q (1/|sin((theta_p - theta_q)/2)| + 1/sin((theta_p + theta_q)/2)).
    """
    return (own_waves(Q, K, angles) + _mixed_waves(Q, K, angles)) / ops.constant(distances, Q)


def own_waves(Q, K, angles):
    """Bound sum_p s_p^2/(2 sin theta_p) on what the squares of single waves add to the sum."""
    return ops.sum(ops.square(sizes(Q, K)) / ops.sin(angles), -1) / 2


def _mixed_waves(Q, K, angles):
    s, planes = sizes(Q, K), angles.shape[-1]
    total = 0 * s[..., 0]
    for p, q in itertools.combinations(range(planes), 2):
        a, b = angles[..., p], angles[..., q]
        waves = 1 / abs(ops.sin((a - b) / 2)) + 1 / ops.sin((a + b) / 2)
        total = total + s[..., p] * s[..., q] * waves
    return total


def mean_square_bound(Q, K):
    """Bound (1/2) sum_p |Q_p|^2 |K_p|^2 on :func:`mean_square`, in norms of the planes' columns."""
    planes = Q.shape[-1] // 2
    columns = (ops.sum(ops.square(A), -2) for A in (Q, K))
    q, k = (c[..., :planes] + c[..., planes:] for c in columns)
    return ops.sum(q * k, -1) / 2


def score_moments(i, T, M):
    """Mean and variance of a score: i tr M and i T |M|_F^2 + i^2 tr(M^2), M = M(T - i)."""
    trace, frobenius, square = traces(M, ops.eye(M.shape[-1], M))
    return i * trace, i * T * frobenius + i * i * square

"""Entropy of a softmax row in nats, and lower bounds on it (floors) from the sizes of its logits.

A row of attention with low entropy attends to few tokens; entropy collapse makes training unstable
(Zhai et al. 2023). One floor uses the Euclidean norm of the logits, as in that paper, the other
their spread, largest less smallest. Both are sharp, and both follow from norms of the query-key
matrix and the tokens. They serve the claims entropy.*.

Formulas act on the last axis and work in any arithmetic of :mod:`attnverify.arithmetic.ops`. K(s,
D) is the relative entropy to q of the row p ~ q_j e^(D [j in S]) with q(S) = s, for D > 0.

``lower_bound`` checks its arguments and raises InputError; the others are formulas.

>>> import torch
>>> import attnverify as av
>>> row = torch.tensor([0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
>>> round(av.entropy.entropy(row).item(), 6)  # log 4
1.386294
>>> round(float(av.entropy.lower_bound(sigma=2.0, tokens=4)), 6)
0.790945
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import takes
from attnverify.mathematics import eigenspectrum as spectrum
from attnverify.mathematics import norms, walk
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.errors import require


@takes("logits")
def entropy(logits):
    """Entropy -sum p_j log p_j of p = softmax(logits); (..., T) -> (...)."""
    top = ops.amax(logits, -1, keepdims=True)
    weights = ops.exp(logits - top)
    total = ops.sum(weights, -1)
    return ops.log(total) - ops.sum(weights * (logits - top), -1) / total


@takes("logits")
def deficit(logits):
    """Entropy that a row lacks, log T - H: its relative entropy to the uniform row; (...)."""
    return ops.log(ops.constant(logits.shape[-1], logits)) - entropy(logits)


def floor(gap, tokens):
    """Entropy of softmax(gap, 0, ..., 0) with T logits, as a function of the gap.

    It is log(1 + (T-1) e^-gap) + gap (T-1) e^-gap / (1 + (T-1) e^-gap).
    """
    rest = (tokens - 1) * ops.exp(-gap)
    return ops.log1p(rest) + gap * rest / (1 + rest)


def widest_gap(sigma, tokens: int):
    """Gap sigma sqrt(T/(T-1)) of the row (gap, 0, ..., 0) whose centered norm is sigma."""
    return sigma * ops.root(tokens, sigma) / ops.root(tokens - 1, sigma)


def logits(w, X, temperature):
    """Logits X W x_T/lambda of the last token; w (..., d, d), X (..., T, d) -> (..., T)."""
    return (X @ (w @ X[..., -1, :, None]))[..., 0] / temperature


def logit_norm_bound(w, X, temperature):
    """Bound ||W||_F ||x_T||_2 ||X||_2/lambda on the Euclidean norm of :func:`logits`; (...)."""
    size = ops.sqrt(spectrum.squared_norm(w) * ops.sum(ops.square(X[..., -1, :]), -1))
    return size * spectral_norm(X) / temperature


def lower_bound(sigma: int | float | Float[Tensor, "..."], tokens: int) -> Float[Tensor, "..."]:
    """Smallest entropy (nats) of a softmax row of ``tokens`` logits of Euclidean norm <= sigma.

    Zhai et al. (2023), Theorem 3.1; it is attained by one large logit. Raises InputError for
    sigma < 0 or fewer than 2 tokens.
    """
    require(isinstance(tokens, int) and tokens >= 2, "tokens", tokens, "an integer >= 2")
    sigma = torch.as_tensor(sigma, dtype=torch.float64)
    bad = sigma[~((sigma >= 0) & sigma.isfinite())]
    given = f"{bad.numel()} bad entries, the first {float(bad[0])}" if bad.numel() else ""
    require(not bad.numel(), "sigma", given, "finite numbers >= 0")
    return floor(widest_gap(sigma, tokens), tokens)


def logit_spread_bound(w, X, temperature):
    """Bound ||W||_2 ||x_T||_2 diam(X)/lambda on the spread of the last token's logits; (...)."""
    return _logit_size(w, X) * norms.diameter(X) / temperature


def centered_norm_bound(w, X, temperature):
    """Bound ||W||_2 ||x_T||_2 ||X - 1 mean'||_2/lambda on the centered logits' norm; (...)."""
    return _logit_size(w, X) * spectral_norm(norms.mean_centered(X)) / temperature


def _logit_size(w, X):
    return spectral_norm(w) * ops.sqrt(ops.sum(ops.square(X[..., -1, :]), -1))


# --------------------------------------------------------- the floor from the spread of the logits


def relative_entropy(e, base):
    """Relative entropy KL(p || q) of p = softmax(base + e) and q = softmax(base); (...)."""
    p, total = ops.softmax(base + e), ops.sum(ops.softmax(base) * ops.exp(e), -1)
    return ops.sum(p * e, -1) - ops.log(total)


def two_levels(s, D):
    """Relative entropy K(s, D) = P D - log(1 - s + s e^D) with P = s e^D/(1 - s + s e^D)."""
    other = (1 - s) * ops.exp(-D)  # over e^D, so that no exponential overflows
    return -D * other / (s + other) - ops.log(s + other)


def widest_deficit(D, tokens: int):
    """Most entropy that a row of T logits of spread D lacks: max_k K(k/T, D); (...) -> (...)."""
    shares = walk.indices(tokens - 1, D) / tokens
    return ops.amax(two_levels(shares, D[..., None]), -1)


def widest_divergence(base, D):
    """Largest K(q(S), D) over all 2^T - 2 proper sets S of tokens, with q = softmax(base).

    base (..., T), D (...) -> (...).
    """
    q = ops.softmax(base)
    shares = [0 * q[..., 0]]
    for token in range(q.shape[-1]):
        shares += [s + q[..., token] for s in shares]
    return ops.amax(two_levels(ops.stack(shares[1:-1], -1), D[..., None]), -1)


def tilt(D):
    """Total weight a = D/(1 - e^-D) = 1 - s + s e^D at the share s of :func:`best_share`."""
    return -D / ops.expm1(-D)


def best_share(D):
    """Share s = (a - 1)/(e^D - 1) at which K(s, D) is largest; it is below one half."""
    return (tilt(D) - 1) / ops.expm1(D)


def spread_constant(D):
    """Constant c(D) = max_s K(s, D) = a - 1 - log a: the entropy is at least log T - c(D)."""
    a = tilt(D)
    return a - 1 - ops.log(a)


def floor_of_spread(D: float | Float[Tensor, "..."], tokens: int) -> Float[Tensor, "..."]:
    """Smallest entropy (nats) of a softmax row of ``tokens`` logits of spread at most D.

    It is attained by logits with two values. Raises InputError for D < 0 or fewer than 2 tokens.
    """
    require(isinstance(tokens, int) and tokens >= 2, "tokens", tokens, "an integer >= 2")
    D = torch.as_tensor(D, dtype=torch.float64)
    bad = D[~((D >= 0) & D.isfinite())]
    given = f"{bad.numel()} bad entries, the first {float(bad[0])}" if bad.numel() else ""
    require(not bad.numel(), "D", given, "finite numbers >= 0")
    return torch.tensor(float(tokens)).double().log() - widest_deficit(D, tokens)

"""The entropy floor of a softmax row from the spread of its logits.

K(s, D) is the relative entropy to q of the row p ~ q_j e^(D [j in S]) with q(S) = s. Formulas work
in any arithmetic of :mod:`attnverify.arithmetic.ops`, in nats, for D > 0.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.mathematics import walk
from attnverify.support.errors import require


def relative_entropy(e, base):
    """KL(p || q) of p ~ q_j e^(e_j) from the row q = softmax(base); (..., T) twice -> (...)."""
    p, total = ops.softmax(base + e), ops.sum(ops.softmax(base) * ops.exp(e), -1)
    return ops.sum(p * e, -1) - ops.log(total)


def two_levels(s, D):
    """K(s, D) = P D - log(1 - s + s e^D), P = s e^D/(1 - s + s e^D); shapes broadcast."""
    other = (1 - s) * ops.exp(-D)  # over e^D, so that no exponential overflows
    return -D * other / (s + other) - ops.log(s + other)


def widest_deficit(D, tokens: int):
    """max_k K(k/T, D), k = 1..T-1: the most entropy a row of spread D lacks; (...) -> (...)."""
    shares = walk.indices(tokens - 1, D) / tokens
    return ops.amax(two_levels(shares, D[..., None]), -1)


def widest_divergence(base, D):
    """max_S K(q(S), D) of q = softmax(base), over all 2^T - 2 proper sets S of its T tokens.

    base (..., T), D (...) -> (...).
    """
    q = ops.softmax(base)
    shares = [0 * q[..., 0]]
    for token in range(q.shape[-1]):
        shares += [s + q[..., token] for s in shares]
    return ops.amax(two_levels(ops.stack(shares[1:-1], -1), D[..., None]), -1)


def tilt(D):
    """a = D/(1 - e^-D), the total weight 1 - s + s e^D at the best share s."""
    return -D / ops.expm1(-D)


def best_share(D):
    """The share s at which K(s, D) is largest, (a - 1)/(e^D - 1), below one half."""
    return (tilt(D) - 1) / ops.expm1(D)


def spread_constant(D):
    """c(D) = a - 1 - log a = max_s K(s, D): log T - c(D) bounds the entropy for every T."""
    a = tilt(D)
    return a - 1 - ops.log(a)


def floor_of_spread(D: float | Float[Tensor, "..."], tokens: int) -> Float[Tensor, "..."]:
    """The smallest entropy (nats) of a softmax row of ``tokens`` logits of spread at most D.

    Attained by two values. Errors: InputError for D < 0 or fewer than 2 tokens.
    """
    require(isinstance(tokens, int) and tokens >= 2, "tokens", tokens, "an integer >= 2")
    D = torch.as_tensor(D, dtype=torch.float64)
    bad = D[~((D >= 0) & D.isfinite())]
    given = f"{bad.numel()} bad entries, the first {float(bad[0])}" if bad.numel() else ""
    require(not bad.numel(), "D", given, "finite numbers >= 0")
    return torch.tensor(float(tokens)).double().log() - widest_deficit(D, tokens)

"""Checks of what clipped scores guarantee: small scores, more entropy, a covariance that stays."""

from __future__ import annotations

from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.mathematics import clipping, entropy, gradients, norms
from attnverify.mathematics.softmax import oscillation
from attnverify.mathematics.spectral import spectral_norm
from attnverify.topics.training.checks.gradient import two_tokens

_tensor = partial(torch.tensor, dtype=torch.float64)

LIMIT = 2.0  # of the scores


def _largest(scores):
    """Largest score in size; (..., queries, keys) -> (...)."""
    return ops.amax(ops.amax(ops.maximum(scores, -scores), -1), -1)


def _largest_clipped(Q, K):
    """Largest score in size after clipping."""
    scale, limit = 1 / ops.root(Q.shape[-1], Q), ops.constant(LIMIT, Q)
    factor = clipping.factor(Q, K, scale, limit)[..., None, None]
    return _largest((factor * Q) @ ops.transpose(K) * scale)


def _limit(Q, K):
    return ops.constant(LIMIT, Q) + 0 * ops.sum(Q, (-2, -1))


def aligned() -> Instance:
    """A query along its key, with a score of 25/sqrt 2 before clipping."""
    Q = _tensor([[3.0, 4.0], [0.0, 1.0]])
    return {"Q": Q, "K": Q.clone()}


SCORES = (
    Inequality(
        left=_largest_clipped,
        right=_limit,
        sizes=tuple({"Q": (n, d), "K": (n, d)} for n, d in ((2, 1), (4, 3))),
        extremal=(aligned,),
    )
    .times(0.9999)
    .but(
        "the mean of the squared lengths in place of the largest",
        left=lambda Q, K: _with_mean(Q, K),
    )
)


def _with_mean(Q, K):
    """Largest score where the factor is that of root mean squared lengths."""
    n, scale, limit = ops.constant(Q.shape[-2], Q), 1 / ops.root(Q.shape[-1], Q), LIMIT
    queries, keys = (ops.sqrt(ops.sum(ops.square(Y), (-2, -1)) / n) for Y in (Q, K))
    bound = queries * keys * scale
    factor = limit / ops.maximum(bound, 0 * bound + limit)
    return _largest((factor[..., None, None] * Q) @ ops.transpose(K) * scale)


def _scaled(logits, s, most: float = 1.0):
    """Instance with a factor between 0 and ``most``."""
    return {"logits": logits, "t": most * torch.sigmoid(s[..., 0])}


def _at_most(logits, t, most: float = 1.0):
    """The factor is between 0 and ``most``."""
    return [(0 * t, t), (t, 0 * t + most)]


ENTROPY = (
    Inequality(
        left=lambda logits, t: entropy.entropy(logits),
        right=lambda logits, t: entropy.entropy(t[..., None] * logits),
        sizes=tuple({"logits": (n,), "s": (1,)} for n in (2, 5)),
        build=_scaled,
        hypotheses=_at_most,
        extremal=(lambda: {"logits": _tensor([1.0, 0.0, 0.0]), "t": _tensor(1.0)},),
    )
    .times(0.9999)
    .but(
        "entropy rises at least as the factor falls",
        left=lambda logits, t: entropy.entropy(logits) / t,
    )
    .but(
        "a factor of up to 1.1",
        build=partial(_scaled, most=1.1),
        hypotheses=partial(_at_most, most=1.1),
    )
)


def _spread(logits, X, D):
    """Instance whose logits spread by softplus(D) at most."""
    size = torch.nn.functional.softplus(D[..., 0])
    wide = oscillation(logits)[..., None].clamp_min(1e-300)
    return {"logits": logits * (size[..., None] / wide), "X": X}


def _least(logits, X, share=clipping.least_share):
    return share(oscillation(logits), X.shape[-2]) * ops.square(norms.diameter(X))


def _variance(logits, X):
    return spectral_norm(gradients.covariance(logits, X))


def low_pair(tokens: int) -> Instance:
    """Two low tokens 5 apart, all others at their midpoint with logits higher by 2."""
    X = _tensor([[0.0, 0.0], [3.0, 4.0]] + [[1.5, 2.0]] * (tokens - 2))
    return {"logits": _tensor([0.0, 0.0] + [2.0] * (tokens - 2)), "X": X}


COVARIANCE = (
    Inequality(
        left=_least,
        right=_variance,
        sizes=tuple({"logits": (n,), "X": (n, d), "D": (1,)} for n, d in ((2, 1), (3, 2), (5, 4))),
        build=_spread,
        extremal=(two_tokens, partial(low_pair, 3), partial(low_pair, 5)),
    )
    .times(0.9999)
    .but(
        "one low token: 1/(2 + e^D + e^-D + (n - 2)(e^D + 1))",
        left=partial(_least, share=lambda D, n: _one_low(D, n)),
    )
    .but(
        "the least weight over 2, with one low token",
        left=partial(_least, share=lambda D, n: 1 / (2 * (1 + (n - 1) * ops.exp(D / 2)))),
    )
)


def _one_low(D, tokens: int):
    """The share where one of the two tokens is low and the other high."""
    return 1 / (2 + ops.exp(D) + ops.exp(-D) + (tokens - 2) * (ops.exp(D) + 1))


CHECKS: dict[str, dict[str, Check]] = {
    "training.clipped-scores": {
        "scores": SCORES,
        "entropy": ENTROPY,
        "covariance": COVARIANCE,
    },
}

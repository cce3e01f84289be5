"""Entropy of a softmax row and its floor (Zhai et al. 2023), in nats.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`, on the last axis.

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
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.errors import require


@takes("logits")
def entropy(logits):
    """H = -sum p_j log p_j of p = softmax(logits); (..., T) -> (...)."""
    top = ops.amax(logits, -1, keepdims=True)
    weights = ops.exp(logits - top)
    total = ops.sum(weights, -1)
    return ops.log(total) - ops.sum(weights * (logits - top), -1) / total


@takes("logits")
def deficit(logits):
    """log T - H, the relative entropy to the uniform row; (..., T) -> (...)."""
    return ops.log(ops.constant(logits.shape[-1], logits)) - entropy(logits)


def floor(gap, tokens):
    """Entropy of the row (gap, 0, ..., 0) of T logits, as a function of its gap.

    log(1 + (T-1) e^-gap) + gap (T-1) e^-gap / (1 + (T-1) e^-gap).
    """
    rest = (tokens - 1) * ops.exp(-gap)
    return ops.log1p(rest) + gap * rest / (1 + rest)


def widest_gap(sigma, tokens: int):
    """sigma sqrt(T/(T-1)): the gap of a row (gap, 0, ..., 0) whose centered norm is sigma."""
    return sigma * ops.root(tokens, sigma) / ops.root(tokens - 1, sigma)


def logits(w, X, temperature):
    """The last token's row X W x_T/lambda; w (..., d, d), X (..., T, d) -> (..., T)."""
    return (X @ (w @ X[..., -1, :, None]))[..., 0] / temperature


def logit_norm_bound(w, X, temperature):
    """||W||_F ||x_T||_2 ||X||_2/lambda >= the norm of :func:`logits`; (...)."""
    size = ops.sqrt(spectrum.squared_norm(w) * ops.sum(ops.square(X[..., -1, :]), -1))
    return size * spectral_norm(X) / temperature


def lower_bound(sigma: int | float | Float[Tensor, "..."], tokens: int) -> Float[Tensor, "..."]:
    """The smallest entropy (nats) of a softmax row of ``tokens`` logits of Euclidean norm <= sigma.

    Zhai et al. (2023), Theorem 3.1; attained by one large logit. Errors: InputError for
    sigma < 0 or fewer than 2 tokens.
    """
    require(isinstance(tokens, int) and tokens >= 2, "tokens", tokens, "an integer >= 2")
    sigma = torch.as_tensor(sigma, dtype=torch.float64)
    bad = sigma[~((sigma >= 0) & sigma.isfinite())]
    given = f"{bad.numel()} bad entries, the first {float(bad[0])}" if bad.numel() else ""
    require(not bad.numel(), "sigma", given, "finite numbers >= 0")
    return floor(widest_gap(sigma, tokens), tokens)

"""The last token's softmax row on random-walk tokens, and the exponential row that is near it.

The last token's logits are omega_i/lambda, i = 1..T. With xi, eta, gamma as in the claims
localization.limit and localization.asymmetric and the slope a = xi/eta the row is near
pi_i ~ e^(a i/T). Entropies are in nats. Formulas work in any arithmetic of
:mod:`attnverify.arithmetic.ops`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.mathematics import walk
from attnverify.mathematics.entropy import tilt


def slope_logits(a, tokens: int):
    """Logits a i/T, i = 1..T, of the exponential row; (...) -> (..., T)."""
    return a[..., None] * walk.indices(tokens, a) / tokens


def profile_deficit(a):
    """Relative entropy A - 1 - a + log A of the density ~ e^(a t) on [0, 1], A = a/(1 - e^-a).

    For a != 0; K(0) = 0 is its limit.
    """
    A = tilt(a)
    return A - 1 - a + ops.log(A)


def profile_contrast(a, share):
    """Weight that the density ~ e^(a t) puts on the last share of [0, 1] less that on the first.

    It is (cosh(a/2) - cosh(a (1/2 - share)))/sinh(a/2) for a != 0, and tends to 0 as a does.
    """
    whole, rest = a / 2, a / 2 - share * a
    up, down = ops.exp(whole), ops.exp(-whole)
    return (up + down - ops.exp(rest) - ops.exp(-rest)) / (up - down)


def contrast(p, share: int):
    """Weight of the last ``share`` tokens less that of the first; (..., T) -> (...)."""
    return ops.sum(p[..., -share:], -1) - ops.sum(p[..., :share], -1)


def pair_spread(p):
    """Sum of p_i p_j d (1 - d) over i, j, d = |i - j|/T: twice the mean variance of a bridge."""
    T = p.shape[-1]
    i = walk.indices(T, p)
    apart = abs(i[:, None] - i) / T
    return ops.sum(p[..., :, None] * p[..., None, :] * apart * (1 - apart), (-2, -1))


def position_variance(p):
    """Variance of the relative position i/T under a row p; (..., T) -> (...)."""
    t = walk.indices(p.shape[-1], p) / p.shape[-1]
    mean = ops.sum(p * t, -1, keepdims=True)
    return ops.sum(p * ops.square(t - mean), -1)


def divergence_bound(T, eta, asymmetry: float = 1):
    """Bound (1 - 1/T^2)(2 + gamma)/(24 eta^2) on the mean of KL(pi || p)."""
    return (1 - 1 / (T * T)) * (2 + asymmetry) / (24 * eta * eta)


def variation_bound(T, eta, asymmetry: float = 1):
    """Bound on the mean of TV(p, pi): the root of half of :func:`divergence_bound`."""
    return (divergence_bound(T, eta, asymmetry) / 2) ** 0.5


def entropy_bound(T, eta, a, asymmetry: float = 1):
    """Bound |a| V + 1/(12 eta^2) + sqrt(1 + gamma) V/eta on the mean of |H(p) - H(pi)|.

    V is :func:`variation_bound`.
    """
    V = variation_bound(T, eta, asymmetry)
    return abs(a) * V + 1 / (12 * eta * eta) + (1 + asymmetry) ** 0.5 * V / eta


def sample_logits(
    product: Tensor, tokens: int, scale: float, samples: int, random: torch.Generator
) -> Tensor:
    """Random logits omega/lambda for lambda = T scale, drawn by their law given the last token.

    They are r b(i/T) + m i/T with r = |M z|/scale and m = z'Mz/scale. product: M (d, d) float64; z
    standard normal, b a Brownian bridge. Shape (samples, tokens).
    """
    z = torch.randn(samples, len(product), generator=random, dtype=torch.float64)
    steps = torch.randn(samples, tokens, generator=random, dtype=torch.float64)
    t = walk.indices(tokens, product) / tokens
    path = steps.cumsum(-1) / tokens**0.5
    bridge = path - t * path[:, -1:]
    image = z @ product.mT
    size, drift = image.norm(dim=-1, keepdim=True), (z * image).sum(-1, keepdim=True)
    return (size * bridge + drift * t) / scale

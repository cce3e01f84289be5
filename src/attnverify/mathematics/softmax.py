"""How far a softmax row moves when its logits move: the published lemma and the sharp bounds.

The bounds of rank collapse rest on these: entrywise bounds (Dong, Cordonnier, Loukas 2021), total
variation, and the error of the linearization and of the piecewise linear softmax of Bao, Hataya and
Karakida (2024). They serve the claims softmax.*.

All formulas act on the last axis and work in any arithmetic of :mod:`attnverify.arithmetic.ops`.

>>> import torch
>>> import attnverify as av
>>> D = av.softmax.oscillation(torch.tensor([0.0, 2.0], dtype=torch.float64))
>>> round(av.softmax.variation_bound(D).item(), 6)  # tanh(1/2)
0.462117
>>> round(av.softmax.critical_float(), 6)
1.256431
"""

from __future__ import annotations

from typing import Any

import flint

from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import takes


@takes("v")
def oscillation(v):
    """Oscillation max v - min v along the last axis; (..., T) -> (...)."""
    return ops.amax(v, -1) + ops.amax(-v, -1)


def critical_oscillation(like: Any = None) -> Any:
    """Positive root x* of e^x = 1 + 2x, -1/2 - W_{-1}(-e^{-1/2} / 2), as a ball.

    like: an array whose arithmetic the root is given in instead.
    """
    if like is not None and ops.is_torch(like):
        return ops.constant(critical_float(), like)
    half = (flint.arb(1) if like is None else ops.constant(1, like)) / 2
    return -half - (-(-half).exp() / 2).lambertw(-1)


def critical_float() -> float:
    """Root x* of :func:`critical_oscillation` as a float."""
    return float(critical_oscillation())


@takes("base", "e")
def upper_deviation(base, e):
    """Growth P_j - r_j of each weight, P = softmax(base + e), r = softmax(base); shape of base."""
    return ops.softmax(base + e) - ops.softmax(base)


@takes("base", "e")
def upper_deviation_bound(base, e):
    """Bound 2 D r_j on the growth while D = osc(e) <= x* (Dong et al. 2021, appendix)."""
    return 2 * oscillation(e)[..., None] * ops.softmax(base)


@takes("base", "e")
def lower_deviation_bound(base, e):
    """Bound D r_j on the fall r_j - P_j of each weight, D = osc(e) (Dong et al. 2021)."""
    return oscillation(e)[..., None] * ops.softmax(base)


def variation_bound(D):
    """Bound tanh(D/4) on the total variation of softmax rows whose logits differ by osc D."""
    return ops.tanh(D / ops.constant(4, D))


@takes("u")
def linearized(u):
    """Linearization (1 + u_i - mean(u)) / T of softmax at equal logits; shape of u."""
    T, one = ops.constant(u.shape[-1], u), ops.constant(1, u)
    return (one + u - ops.sum(u, -1, keepdims=True) / T) / T


@takes("u")
def linearization_error(u):
    """Error |softmax(u)_i - (1 + u_i - mean(u)) / T| of the linearization; shape of u."""
    return abs(ops.softmax(u) - linearized(u))


@takes("u")
def piecewise_linear(u):
    """The linearization cut to [0, 1] (Bao et al. 2024); shape of u."""
    zero = 0 * u
    return -ops.maximum(-ops.maximum(linearized(u), zero), zero - ops.constant(1, u))


@takes("u")
def linearization_bound(u):
    """Bound D^2 e^D / (2 T), D = osc(u), on the error of the linearization; shape (...)."""
    D = oscillation(u)
    return ops.square(D) * ops.exp(D) / ops.constant(2 * u.shape[-1], u)


@takes("u")
def linearization_bound_sharp(u):
    """Bound (e^D - 1 - D) / T, D = osc(u), the best one in D alone that holds for every T."""
    D = oscillation(u)
    return (ops.expm1(D) - D) / ops.constant(u.shape[-1], u)


def mass_lost(a, q):
    """Loss a - a q^2 / (a q^2 + 1 - a) of a mass a whose odds shrink by the factor q^2.

    Plain arithmetic, so it also takes sympy symbols.
    """
    return a - a * q**2 / (a * q**2 + 1 - a)

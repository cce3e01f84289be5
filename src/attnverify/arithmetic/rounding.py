"""Rounding-error bounds in the standard model of floating point (Higham 2002, chapter 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from attnverify.support.errors import require


def unit(x: Tensor) -> float:
    """Unit roundoff u of the dtype of x: half the spacing of the floats at 1."""
    return torch.finfo(x.dtype).eps / 2


def gamma(roundings: int, x: Tensor) -> float:
    """Bound gamma_m = m u / (1 - m u) on the relative error after m roundings.

    Raises InputError for m u >= 1, where the standard model bounds nothing.
    """
    m = roundings * unit(x)
    few = f"fewer roundings than 1/u = {1 / unit(x):,.0f}, or a finer dtype"
    require(m < 1, "dtype", f"{x.dtype} with {roundings:,} roundings", few)
    return m / (1 - m)


def softmax_error(P: Tensor, logit_error: Tensor, largest: Tensor) -> Tensor:
    """Bound on the difference of two float softmaxes whose exact values agree.

    P: (..., n), one of the two; logit_error: bound on the error of the logits that either gets
    (...); largest: bound on the size of the logits (...). Either softmax subtracts the maximum
    (error u per entry of size at most 2 * largest), so its logits are off by
    e = logit_error + 2 u largest. Logits off by at most e change a softmax entry by a factor of at
    most exp(2e) (claim softmax.perturbation, before its linear bounds). Exponentials are off by at
    most 2 ulp = 4u, numerator and sum; the sum of n terms adds n u and the division u: (n + 9) u.
    Two softmaxes double all this; 2.02 covers the products of these small factors; the smallest
    normal number covers underflow.
    """
    n, u = P.shape[-1], unit(P)
    e = logit_error + 2 * u * largest
    relative = 2.02 * (torch.expm1(2 * e) + (n + 9) * u)
    return relative[..., None] * P + torch.finfo(P.dtype).tiny

"""Checks of fixed stochastic matrices, the triangle that collapses whole, and causal masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import flint
import numpy as np
import torch

from attnverify import ops
from attnverify.checks.instances import KEY_WIDTH, two_tokens
from attnverify.evidence.forms import Check, Decision, Identity, Inequality, Twin, Verdict
from attnverify.evidence.rounding import softmax_error, unit
from attnverify.formulas import collapse, norms
from attnverify.formulas.spectral import spectral_norm

arb = flint.arb


def _contracted(power: int = 1) -> Callable:
    def right(Z, Y, X):
        both = norms.contraction(ops.softmax(Z)) * norms.contraction(ops.softmax(Y))
        out = norms.diameter(X)
        for _ in range(power):
            out = out * both
        return out

    return right


def _exchange() -> dict[str, torch.Tensor]:
    """P = [[1 - a, a], [a, 1 - a]] twice."""
    Z = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    return {"Z": Z, "Y": Z, "X": two_tokens(2, 1.0)}


PRODUCTS = Inequality(
    left=lambda Z, Y, X: norms.diameter(ops.softmax(Z) @ (ops.softmax(Y) @ X)),
    right=_contracted(),
    sizes=({"Z": (3, 3), "Y": (3, 3), "X": (3, 2)}, {"Z": (4, 4), "Y": (4, 4), "X": (4, 3)}),
    extremal=(_exchange,),
)
PRODUCTS = replace(
    PRODUCTS,
    twins=(Twin("the square of the contraction", replace(PRODUCTS, right=_contracted(2))),),
)


def triangle(rho):
    """Corners of an equilateral triangle around the origin with circumradius ``rho`` (..., 1)."""
    half, height = rho / ops.constant(2, rho), rho * ops.root(3, rho) / ops.constant(2, rho)
    zero = 0 * rho
    rows = [
        ops.stack([rho[..., 0], zero[..., 0]], -1),
        ops.stack([-half[..., 0], height[..., 0]], -1),
        ops.stack([-half[..., 0], -height[..., 0]], -1),
    ]
    return ops.stack(rows, -2)


def triangle_factor(a):
    """(e^a - e^(-a/2)) / (e^a + 2 e^(-a/2)), in the form (1 - z)/(1 + 2 z) with z = e^(-3a/2)."""
    z = ops.expm1(-3 * a / ops.constant(2, a))  # z - 1, which loses no digits for small a
    return -z / (ops.constant(3, a) + 2 * z)


def _on_triangle(q, rho, move: float = 0.0):
    X = triangle(rho)
    X = X + ops.constant(move, X)
    W_QK = (q[..., None] * ops.eye(2, X))[..., None, :, :]
    eye = ops.eye(2, X)[None] + 0 * W_QK
    return collapse.layer(X, W_QK, 0 * W_QK[..., 0, :], eye, KEY_WIDTH)


def _triangle_scaled(q, rho):
    a = q * ops.square(rho) / ops.root(KEY_WIDTH, rho)
    return triangle_factor(a)[..., None] * triangle(rho)


def _triangle_bound(q, rho):
    """Weights off by softmax_error with logits up to a (6 roundings), times tokens of size rho.

    The products and sums of three terms add 5 u rho, the scalar factor 8 u rho.
    """
    a = (q * rho * rho / KEY_WIDTH**0.5)[..., 0]
    P = torch.ones(*a.shape, 3, dtype=a.dtype, device=a.device)
    weights = softmax_error(P, 6 * unit(a) * a, a)[..., :1]
    return ((3 * weights + 13 * unit(a)) * rho)[..., None]


def _positive(**parameters):
    """Parameters as absolute values plus 1/8."""
    return {k: abs(v) + ops.constant(0.125, v) for k, v in parameters.items()}


def _triangle_check(left: Callable, twins=()) -> Identity:
    return Identity(
        left,
        _triangle_scaled,
        _triangle_bound,
        ({"q": (1,), "rho": (1,)},),
        build=_positive,
        arithmetic="ball",
        twins=twins,
    )


TRIANGLE = _triangle_check(
    _on_triangle,
    (
        Twin(
            "the triangle moved off the origin",
            _triangle_check(lambda q, rho: _on_triangle(q, rho, move=0.25)),
        ),
    ),
)


def masked_layer(X, W_QK, causal: bool = True):
    """One head with W_V = I under a causal mask."""
    scores = X @ W_QK @ ops.transpose(X) / ops.root(KEY_WIDTH, X)
    n = X.shape[-2]
    keep = torch.ones(n, n, dtype=torch.bool).tril() if causal else None
    if causal and ops.is_torch(X):
        keep = keep.to(X.device)
    return ops.softmax(scores, keep if ops.is_torch(X) or keep is None else keep.numpy()) @ X


def _distance_from_half(causal: bool) -> Callable:
    def left(X, W_QK):
        ratio = norms.diameter(masked_layer(X, W_QK, causal)) / norms.diameter(X)
        return abs(ratio - ops.constant(0.5, X))

    return left


def _mask_bound(X, W_QK):
    last = ops.sqrt(ops.sum(ops.square(X[..., -1, :]), -1))
    z = spectral_norm(W_QK) * last * norms.diameter(X) / ops.root(KEY_WIDTH, X)
    # tanh(z / 2) / 2 through the total variation bound tanh(D / 4)
    return collapse.variation_bound(2 * z) / ops.constant(2, X)


MASK = Inequality(
    left=_distance_from_half(causal=True),
    right=_mask_bound,
    sizes=({"X": (2, 2), "W_QK": (2, 2)}, {"X": (2, 3), "W_QK": (3, 3)}),
    extremal=(
        lambda: {
            "X": torch.tensor([[0.5, 0.0], [1.0, 0.0]], dtype=torch.float64),
            "W_QK": torch.eye(2, dtype=torch.float64),
        },
    ),
)
MASK = replace(
    MASK,
    twins=(
        Twin(
            "0.999 times the bound",
            replace(MASK, right=lambda **i: ops.constant(0.999, i["X"]) * _mask_bound(**i)),
        ),
    ),
)


def _unmasked_ratio(causal: bool) -> Verdict:
    """Ratio of successive distances at distance 2^-20: near 1/2 with the mask, near 0 without."""
    X = ops.balls(torch.tensor([[1.0], [1.0 + 2.0**-20]], dtype=torch.float64))[None]
    q = np.full((1, 1, 1), arb(1), dtype=object)
    ratio = (norms.diameter(masked_layer(X, q, causal)) / norms.diameter(X))[0]
    near = abs(ratio - arb(1) / 2) < arb(2) ** -20
    return Verdict(
        True if near else False if ratio < 0.25 else None,
        f"ratio {ratio.str(12)}",
        ratio=float(ratio.mid()),
    )


MASK_LIMITS = "this pair of tokens"
HALF = Decision(
    partial(_unmasked_ratio, True),
    MASK_LIMITS,
    kind="certified",
    twins=(
        Twin(
            "without the mask the ratio is 1/2 too",
            Decision(partial(_unmasked_ratio, False), MASK_LIMITS, kind="certified"),
        ),
    ),
)

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.stochastic-products": {"two products": PRODUCTS},
    "collapse.absolute-not-relative": {"triangle": TRIANGLE},
    "collapse.causal-mask": {"ratio": MASK, "near one half": HALF},
}

"""Checks of fixed stochastic matrices, the triangle that collapses whole, and causal masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flint
import numpy as np
import torch

from attnverify import ops
from attnverify.checks.definitions import collapse as definitions
from attnverify.checks.definitions.agree import by_definition
from attnverify.checks.instances import KEY_WIDTH, two_tokens
from attnverify.evidence.cover import certain
from attnverify.evidence.forms import Check, Decision, Identity, Inequality, Twin
from attnverify.evidence.rounding import softmax_error, unit
from attnverify.formulas import collapse, families, norms, softmax
from attnverify.formulas.spectral import spectral_norm
from attnverify.verdict import Verdict

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
).but("the square of the contraction", right=_contracted(2))


def _on_triangle(q, rho, move: float = 0.0):
    X = families.triangle(rho)
    X = X + ops.constant(move, X)
    W_QK = (q[..., None] * ops.eye(2, X))[..., None, :, :]
    eye = ops.eye(2, X)[None] + 0 * W_QK
    return collapse.layer(X, W_QK, 0 * W_QK[..., 0, :], eye, KEY_WIDTH)


def _triangle_scaled(q, rho):
    a = q * ops.square(rho) / ops.root(KEY_WIDTH, rho)
    return families.triangle_factor(a)[..., None] * families.triangle(rho)


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


def _distance_from_half(causal: bool) -> Callable:
    def left(X, W_QK):
        ratio = norms.diameter(collapse.masked_layer(X, W_QK, KEY_WIDTH, causal)) / norms.diameter(
            X
        )
        return abs(ratio - ops.constant(0.5, X))

    return left


def _mask_bound(X, W_QK):
    last = ops.sqrt(ops.sum(ops.square(X[..., -1, :]), -1))
    z = spectral_norm(W_QK) * last * norms.diameter(X) / ops.root(KEY_WIDTH, X)
    # tanh(z / 2) / 2 through the total variation bound tanh(D / 4)
    return softmax.variation_bound(2 * z) / ops.constant(2, X)


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
).times(0.9999)


def _unmasked_ratio(causal: bool) -> Verdict:
    """Ratio of successive distances at distance 2^-20: near 1/2 with the mask, near 0 without."""
    X = ops.balls(torch.tensor([[1.0], [1.0 + 2.0**-20]], dtype=torch.float64))[None]
    q = np.full((1, 1, 1), arb(1), dtype=object)
    ratio = (norms.diameter(collapse.masked_layer(X, q, KEY_WIDTH, causal)) / norms.diameter(X))[0]
    near = abs(ratio - arb(1) / 2) < arb(2) ** -20
    return Verdict(
        certain(near, ratio < 0.25),
        f"ratio {ratio.str(12)}",
        ratio=float(ratio.mid()),
    )


MASK_LIMITS = "this pair of tokens"
HALF = Decision(partial(_unmasked_ratio, True), MASK_LIMITS, kind="certified").but(
    "without the mask the ratio is 1/2 too", run=partial(_unmasked_ratio, False)
)

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.stochastic-products": {"two products": PRODUCTS},
    "collapse.absolute-not-relative": {
        "triangle": TRIANGLE,
        "sides": by_definition(definitions.triangle, "sides sqrt 2 rho", third=2),
    },
    "collapse.causal-mask": {
        "ratio": MASK,
        "near one half": HALF,
        "token by token": by_definition(
            definitions.masked, "the mask turned round", sees=lambda i, j: j >= i
        ),
    },
}

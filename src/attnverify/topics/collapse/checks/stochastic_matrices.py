"""Checks of fixed stochastic matrices, the triangle that collapses whole, and causal masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.arithmetic.rounding import softmax_error, unit
from attnverify.chapters import layer_instances
from attnverify.chapters.layer_instances import KEY_WIDTH, two_tokens
from attnverify.checking.check import Check, Decision, Identity, Inequality, Twin
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, heads, norms, softmax
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.collapse.definitions import layers as definitions

arb = flint.arb


def _mixed(Z, X):
    """Diameter of P_L ... P_1 X, P_l = softmax(Z_l); Z (..., L, n, n), X (..., n, d)."""
    for layer in range(Z.shape[-3]):
        X = ops.softmax(Z[..., layer, :, :]) @ X
    return norms.diameter(X)


def _contracted(Z, X, power: float = 1):
    """Bound (tau(P_L) ... tau(P_1))^power diam(X); a twin has another power."""
    out = norms.diameter(X)
    for layer in range(Z.shape[-3]):
        tau = norms.contraction(ops.softmax(Z[..., layer, :, :]))
        out = out * (tau if power == 1 else layer_instances.power(tau, power))
    return out


def _exchange(layers: int) -> dict[str, torch.Tensor]:
    """Instance of layers P = [[1 - a, a], [a, 1 - a]] with ever smaller a."""
    Z = torch.stack([(1 + 0.25 * k) * torch.eye(2, dtype=torch.float64) for k in range(layers)])
    return {"Z": Z, "X": two_tokens(2, 1.0)}


PRODUCTS = (
    Inequality(
        left=_mixed,
        right=_contracted,
        sizes=tuple({"Z": (L, n, n), "X": (n, d)} for L, n, d in ((2, 3, 2), (3, 4, 3), (5, 3, 1))),
        extremal=(lambda: _exchange(2), lambda: _exchange(7)),
    )
    .times(0.9999)
    .but("the power 1.001 of the contraction", right=partial(_contracted, power=1.001))
)


def _on_triangle(q, rho, move: float = 0.0):
    X = heads.triangle(rho)
    X = X + ops.constant(move, X)
    W_QK = (q[..., None] * ops.eye(2, X))[..., None, :, :]
    eye = ops.eye(2, X)[None] + 0 * W_QK
    return collapse.layer(X, W_QK, 0 * W_QK[..., 0, :], eye, KEY_WIDTH)


def _triangle_scaled(q, rho):
    a = q * ops.square(rho) / ops.root(KEY_WIDTH, rho)
    return heads.triangle_factor(a)[..., None] * heads.triangle(rho)


def _triangle_bound(q, rho):
    """Rounding bound: weights off by softmax_error (logits up to a, 6 roundings), times rho.

    The products and sums of three terms add 5 u rho, the scalar factor 8 u rho.
    """
    a = (q * rho * rho / KEY_WIDTH**0.5)[..., 0]
    P = torch.ones(*a.shape, 3, dtype=a.dtype, device=a.device)
    weights = softmax_error(P, 6 * unit(a) * a, a)[..., :1]
    return ((3 * weights + 13 * unit(a)) * rho)[..., None]


def _positive(**parameters):
    """Instance with absolute values plus 1/8 as parameters."""
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


TRIANGLE_LAYERS = 8


def _deep_triangle(power: int = 2) -> Verdict:
    """Whether X_l = s(a_0) ... s(a_(l-1)) X_0 in every layer, a_(l+1) = s(a_l)^power a_l.

    Three pairs (q, rho), from a slow first layer to a fast one; the layers run in balls. a < 2^-600
    ends an orbit early: later layers are 0 to all bits. A relative error grows by at most 3 a
    layer, so 1,024 bits leave all that 2^-40 asks for.
    """
    cases, worst = 0, arb(0)
    with ops.precision(1024):
        for q, rho in ((1.0, 4.0), (0.5, 1.5), (8.0, 2.0)):
            size = np.array([arb(rho)], dtype=object)
            X, expected = heads.triangle(size), heads.triangle(size)
            W_QK, a = arb(q) * ops.eye(2, X)[None], arb(q) * size**2 / arb(KEY_WIDTH).sqrt()
            for _ in range(TRIANGLE_LAYERS):
                X = collapse.layer(X, W_QK, 0 * W_QK[..., 0, :], ops.eye(2, X)[None], KEY_WIDTH)
                s = heads.triangle_factor(a)
                expected, a = s * expected, a * s**power
                off = norms.diameter(X - expected) / norms.diameter(expected)
                off = off + ops.amax(abs(ops.sum(X, -2)), -1) / norms.diameter(expected)
                worst, cases = worst.max(off), cases + 1
                if a[0] < arb(2) ** -150:
                    break
    near = certain(worst < arb(2) ** -40, worst > arb(2) ** -40)
    return Verdict(near, f"off by at most {worst.str(3)} of the diameter in {cases} layers", cases)


DEEP_TRIANGLE = Decision(
    _deep_triangle, "these three triangles; all layers are derived in the notebook", "certified", 21
).but("a_(l+1) = s(a_l) a_l", run=partial(_deep_triangle, 1))


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


def _masked_network(X, W_QK):
    """Tokens after every layer under the causal mask; W_QK (..., L, d, d)."""
    for layer in range(W_QK.shape[-3]):
        X = collapse.masked_layer(X, W_QK[..., layer, :, :], KEY_WIDTH)
        yield X


def _last_from_half(X, W_QK):
    """Distance of the last ratio of distances from 1/2."""
    *before, last = X, *_masked_network(X, W_QK)
    return abs(norms.diameter(last) / norms.diameter(before[-1]) - ops.constant(0.5, X))


def _allowed_from_half(X, W_QK):
    """Bound tanh(q m a/(2 sqrt(d_qk)))/2, m = max |x_i|, q = max ||W_QK||_2, a >= last distance.

    x_2 stays on the segment between the two tokens, so its length is at most m; by one layer's
    bound a distance a becomes at most (1 + tanh(q m a/(2 sqrt(d_qk)))) a/2.
    """
    m = ops.amax(ops.sqrt(ops.sum(ops.square(X), -1)), -1)
    z = ops.amax(spectral_norm(W_QK), -1) * m / ops.root(KEY_WIDTH, X)
    a, two = norms.diameter(X), ops.constant(2, X)
    for _ in range(W_QK.shape[-3] - 1):
        a = a * (1 + softmax.variation_bound(two * z * a)) / two
    return softmax.variation_bound(two * z * a) / two


def _slowest(layers: int) -> dict[str, torch.Tensor]:
    """Instance with x_1 = 0, where the second token moves along its own line."""
    X = torch.tensor([[0.0, 0.0], [2.0**-8, 0.0]], dtype=torch.float64)
    return {"X": X, "W_QK": torch.eye(2, dtype=torch.float64).repeat(layers, 1, 1)}


MASKED_DEPTH = Inequality(
    left=_last_from_half,
    right=_allowed_from_half,
    sizes=({"X": (2, 2), "W_QK": (2, 2, 2)}, {"X": (2, 3), "W_QK": (4, 3, 3)}),
    extremal=(lambda: _slowest(1),),
).times(0.9999)


def _deep_ratio(limit: str) -> Verdict:
    """Whether the last of 64 ratios of distances is near ``limit``; W_QK = 2, -2 in turn."""
    with ops.precision(1024):
        X = ops.balls(torch.tensor([[1.0], [-2.0]], dtype=torch.float64))[None]
        q = np.array([[[[(-1) ** k * arb(2)]] for k in range(64)]], dtype=object)
        *before, last = _masked_network(X, q)
        off = abs((norms.diameter(last) / norms.diameter(before[-1]))[0] - arb(limit))
    near = certain(off < arb(2) ** -30, off > arb(2) ** -30)
    return Verdict(near, f"the ratio is off {limit} by {off.str(3)}", ratio=float(off))


MASK_LIMITS = "this pair of tokens over 64 layers; the limit is derived in the notebook"
HALF = Decision(partial(_deep_ratio, "0.5"), MASK_LIMITS, kind="certified").but(
    "0.5001 in place of 1/2", run=partial(_deep_ratio, "0.5001")
)

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.stochastic-products": {"products": PRODUCTS},
    "collapse.absolute-not-relative": {
        "triangle": TRIANGLE,
        "layer after layer": DEEP_TRIANGLE,
        "sides": by_definition(definitions.triangle, "sides sqrt 2 rho", third=2),
    },
    "collapse.causal-mask": {
        "ratio": MASK,
        "ratio after several layers": MASKED_DEPTH,
        "near one half": HALF,
        "token by token": by_definition(
            definitions.masked, "the mask turned round", sees=lambda i, j: j >= i
        ),
    },
}

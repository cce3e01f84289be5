"""Checks of the sharp theorem: layer, depth, global collapse, threshold, examples, masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import flint
import numpy as np
import torch

from attnverify import collapse, norms, ops
from attnverify.evidence.catalog.instances import (
    INSIDE,
    KEY_WIDTH,
    extremal_network,
    two_tokens,
    unit_value_map,
)
from attnverify.evidence.checks import Check, Decision, Identity, Inequality, Twin, Verdict
from attnverify.evidence.rounding import softmax_error, unit
from attnverify.spectral import spectral_norm

arb = flint.arb


def _sizes(tokens: int, width: int, depth: int, heads: int, **more: tuple[int, ...]):
    n, d, L, H = tokens, width, depth, heads
    return {"X": (n, d), "W_QK": (L, H, d, d), "b_QK": (L, H, d), "W": (L, H, d, d), **more}


def output_diameter(X, W_QK, b_QK, W):
    """diam(SAN(X))."""
    return norms.diameter(collapse.network(X, W_QK, b_QK, W, KEY_WIDTH))


# ------------------------------------------------------------------------------------- one layer


def _tanh_bound(factor: float = 1.0) -> Callable:
    """diam(X) sum_h v_h tanh(c_h diam^2), the rates multiplied by ``factor``."""

    def right(X, W_QK, b_QK, W):
        size = norms.diameter(X)
        c = ops.constant(factor, X) * collapse.rate(W_QK[..., 0, :, :, :], KEY_WIDTH)
        return size * collapse.sharp_factor(size, c, spectral_norm(W[..., 0, :, :, :]))

    return right


def _beta(W_QK, W):
    """beta_2 / (4 sqrt(d_qk)), the largest of all layers."""
    return ops.amax(ops.sum(collapse.rate(W_QK, KEY_WIDTH) * spectral_norm(W), -1), -1)


def _cubic(X, W_QK, b_QK, W):
    return collapse.cubic(_beta(W_QK, W), norms.diameter(X))


LAYER_SIZES = (_sizes(2, 2, 1, 1), _sizes(2, 2, 1, 2), _sizes(4, 3, 1, 2))

LAYER = Inequality(
    left=output_diameter,
    right=_tanh_bound(),
    sizes=LAYER_SIZES,
    extremal=(lambda: extremal_network(2.0, 1, 1.0), lambda: extremal_network(2.0**-8, 1, 1.0)),
)
LAYER = replace(
    LAYER,
    twins=(
        Twin("0.2499 in place of 1/4", replace(LAYER, right=_tanh_bound(4 * 0.2499))),
        Twin("the largest head in place of the sum over heads",
             replace(LAYER, right=lambda X, W_QK, b_QK, W: norms.diameter(X) * ops.amax(
                 spectral_norm(W[..., 0, :, :, :]) * collapse.variation_bound(
                     4 * collapse.rate(W_QK[..., 0, :, :, :], KEY_WIDTH)
                     * ops.square(norms.diameter(X))[..., None]), -1))),
    ),
)  # fmt: skip
CUBIC = Inequality(
    left=output_diameter,
    right=_cubic,
    sizes=LAYER_SIZES,
    extremal=(lambda: extremal_network(2.0**-10, 1, 1.0),),
)
CUBIC = replace(
    CUBIC,
    twins=(
        Twin("the exponent 3.1 in place of 3",
             replace(CUBIC, right=lambda **i: _cubic(**i) * _power(norms.diameter(i["X"])))),
    ),
)  # fmt: skip


def _power(size):
    """size^(1/10)."""
    return ops.exp(ops.log(size) / ops.constant(10, size))


# ------------------------------------------------------------------------------------ many layers


def _iterated(iterate: Callable) -> Callable:
    return lambda X, W_QK, b_QK, W: iterate(_beta(W_QK, W), norms.diameter(X), W.shape[-4])


def _half_more(constant, size, depth: int):
    """constant^(3^L / 2) size^(3^L)."""
    return collapse.iterate(constant, size, depth) * ops.sqrt(constant)


DEPTH = Inequality(
    left=output_diameter,
    right=_iterated(collapse.iterate),
    sizes=(_sizes(2, 2, 2, 1), _sizes(3, 2, 2, 2)),
    extremal=(lambda: extremal_network(2.0**-10, 2, 1.0),),
)
DEPTH = replace(
    DEPTH,
    twins=(Twin("exponent 3^L / 2 in place of (3^L - 1) / 2",
                replace(DEPTH, right=_iterated(_half_more))),),
)  # fmt: skip


def _largest_rate(W_QK):
    return ops.amax(ops.amax(collapse.rate(W_QK, KEY_WIDTH), -1), -1)


def _geometric(v: Callable, power: float = 1.0) -> Callable:
    """(v tanh(c diam^2))^L diam."""

    def right(X, W_QK, b_QK, W, **rest):
        size = norms.diameter(X)
        factor = collapse.two_token_step(size, _largest_rate(W_QK), v(X, **rest)) / size
        bound = size
        for _ in range(W.shape[-4]):
            bound = bound * factor
        return bound if power == 1.0 else bound * ops.constant(power, X)

    return right


def _one(X, **_):
    return ops.constant(1, X)


def _unit_values(size: float = 1.0) -> Callable:
    return lambda X, W_QK, b_QK, W: {
        "X": X, "W_QK": W_QK, "b_QK": b_QK, "W": unit_value_map(W, size)
    }  # fmt: skip


GLOBAL = Inequality(
    left=output_diameter,
    right=_geometric(_one),
    sizes=(_sizes(2, 2, 1, 1), _sizes(3, 2, 3, 1)),
    build=_unit_values(),
    hypotheses=lambda X, W_QK, b_QK, W: [
        (spectral_norm(W), ops.full(tuple(W.shape[:-2]), 1, W))
    ],
    extremal=(lambda: extremal_network(2.0, 1, 1 - 2.0**-45),),
)  # fmt: skip
GLOBAL = replace(
    GLOBAL,
    twins=(Twin("||W_V||_2 <= 1.01", replace(GLOBAL, build=_unit_values(1.01), hypotheses=None)),),
)


def _below_threshold(reach: float) -> Callable:
    """v > 1, value maps of norm at most v, scores such that c diam^2 < reach * artanh(1/v)."""

    def build(X, W_QK, b_QK, W, v, s):
        v = 1 + torch.exp(v)
        size = norms.diameter(X)[..., None]
        allowed = (
            reach * INSIDE * torch.sigmoid(s) * torch.atanh(1 / v) / size.clamp_min(1e-300) ** 2
        )
        now = collapse.rate(W_QK, KEY_WIDTH).clamp_min(1e-300)
        return {
            "X": X,
            "W_QK": W_QK * (allowed[..., None] / now)[..., None, None],
            "b_QK": b_QK,
            "W": unit_value_map(W, v[..., None]),
            "v": v,
        }

    return build


def _value_norm(X, v):
    return v[..., 0]


def _is_below(X, W_QK, b_QK, W, v):
    step = collapse.two_token_step(norms.diameter(X), _largest_rate(W_QK), v[..., 0])
    norm = ops.amax(ops.amax(spectral_norm(W), -1), -1)
    return [(step, norms.diameter(X)), (norm, v[..., 0])]


def _two() -> torch.Tensor:
    """v = 2; the value maps stay just below it, so that balls can tell."""
    return torch.tensor([2.0], dtype=torch.float64)


THRESHOLD = Inequality(
    left=lambda v, **i: output_diameter(**i),
    right=_geometric(_value_norm),
    sizes=(_sizes(2, 2, 1, 1, v=(1,), s=(1,)), _sizes(3, 2, 3, 1, v=(1,), s=(1,))),
    build=_below_threshold(1.0),
    hypotheses=_is_below,
    extremal=(
        lambda: {**extremal_network(1.0, 1, 2 - 2.0**-45), "v": _two()},
        lambda: {**extremal_network(2.125, 3, 2 - 2.0**-45), "v": _two()},
    ),
)
THRESHOLD = replace(
    THRESHOLD,
    extremal=THRESHOLD.extremal[:1],
    twins=(
        Twin("a threshold 5% larger in the square",
             replace(THRESHOLD, build=_below_threshold(1.05), hypotheses=None,
                     extremal=THRESHOLD.extremal)),
    ),
)  # fmt: skip

ORBIT_LAYERS = 1000


def _orbit(start: tuple[int, int]) -> Callable[[], Verdict]:
    """Two tokens at start * delta_*, W_QK = 1, W_V = 2, width 1: do they stay for 1,000 layers?

    The attention itself is iterated in balls. An error grows by at most the slope of the map at the
    fixed point, below 3, in every layer; 4,000 bits cover 1,000 layers.
    """

    def run() -> Verdict:
        with ops.precision(4000):
            v = np.full((1, 1, 1), arb(2), dtype=object)
            q = np.full((1, 1, 1), arb(1), dtype=object)
            star = (4 * arb(KEY_WIDTH).sqrt() * (arb(1) / 2).atanh()).sqrt()
            size = star * start[0] / start[1]
            X = np.array([[size / 2], [-size / 2]], dtype=object)
            worst = arb(0)
            for _ in range(ORBIT_LAYERS):
                X = collapse.layer(X, q, 0 * q[..., 0], v, KEY_WIDTH)
                worst = worst.max(abs(norms.diameter(X) / star - 1))
            tiny = arb(2) ** -1000
            holds = True if worst < tiny else False if worst > arb("1e-3") else None
            words = (
                f"relative distance from delta_* at most {worst.str(3)} over {ORBIT_LAYERS} layers"
            )
        return Verdict(holds, words, ORBIT_LAYERS)

    return run


ORBIT_LIMITS = "this orbit, for this number of layers"
ORBIT = Decision(
    _orbit((1, 1)),
    ORBIT_LIMITS,
    kind="certified",
    twins=(Twin("a start at 0.999 delta_* stays too",
                Decision(_orbit((999, 1000)), ORBIT_LIMITS, kind="certified")),),
)  # fmt: skip

# --------------------------------------------------------------------------- fixed matrices, masks


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
    rows = [ops.stack([rho[..., 0], zero[..., 0]], -1), ops.stack([-half[..., 0], height[..., 0]], -1),
            ops.stack([-half[..., 0], -height[..., 0]], -1)]  # fmt: skip
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
    return Identity(left, _triangle_scaled, _triangle_bound, ({"q": (1,), "rho": (1,)},),
                    build=_positive, arithmetic="ball", twins=twins)  # fmt: skip


TRIANGLE = _triangle_check(
    _on_triangle,
    (Twin("the triangle moved off the origin",
          _triangle_check(lambda q, rho: _on_triangle(q, rho, move=0.25))),),
)  # fmt: skip


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
    sizes=({"X": (2, 1), "W_QK": (1, 1)}, {"X": (2, 3), "W_QK": (3, 3)}),
    extremal=(lambda: {"X": torch.tensor([[0.5], [1.0]], dtype=torch.float64),
                       "W_QK": torch.tensor([[1.0]], dtype=torch.float64)},),
)  # fmt: skip
MASK = replace(
    MASK,
    twins=(Twin("0.999 times the bound",
                replace(MASK, right=lambda **i: ops.constant(0.999, i["X"]) * _mask_bound(**i))),),
)  # fmt: skip


def _unmasked_ratio(causal: bool) -> Callable[[], Verdict]:
    """Ratio of successive distances at distance 2^-20: near 1/2 with the mask, near 0 without."""

    def run() -> Verdict:
        X = ops.balls(torch.tensor([[1.0], [1.0 + 2.0**-20]], dtype=torch.float64))[None]
        q = np.full((1, 1, 1), arb(1), dtype=object)
        ratio = (norms.diameter(masked_layer(X, q, causal)) / norms.diameter(X))[0]
        near = abs(ratio - arb(1) / 2) < arb(2) ** -20
        return Verdict(True if near else False if ratio < 0.25 else None, f"ratio {ratio.str(12)}",
                       ratio=float(ratio.mid()))  # fmt: skip

    return run


MASK_LIMITS = "this pair of tokens"
HALF = Decision(
    _unmasked_ratio(True),
    MASK_LIMITS,
    kind="certified",
    twins=(Twin("without the mask the ratio is 1/2 too",
                Decision(_unmasked_ratio(False), MASK_LIMITS, kind="certified")),),
)  # fmt: skip

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.stochastic-products": {"two products": PRODUCTS},
    "collapse.sharp-layer": {"tanh": LAYER, "cubic": CUBIC},
    "collapse.sharp-depth": {"two layers": DEPTH},
    "collapse.global": {"unit value maps": GLOBAL},
    "collapse.threshold": {"below": THRESHOLD, "orbit": ORBIT},
    "collapse.absolute-not-relative": {"triangle": TRIANGLE},
    "collapse.causal-mask": {"ratio": MASK, "near one half": HALF},
}

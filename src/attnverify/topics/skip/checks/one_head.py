"""Checks of skip connections: no collapse, the sharp lower bound, the polynomial rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flint
import torch

from attnverify.arithmetic import interval_cover, ops
from attnverify.arithmetic.rounding import gamma, softmax_error
from attnverify.chapters import full_layer
from attnverify.chapters.layer_instances import (
    INSIDE,
    KEY_WIDTH,
    extremal_network,
    network_sizes,
    unit_value_map,
    with_rate,
)
from attnverify.checking.check import Check, Decision, Identity, Inequality, Twin
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict

arb = flint.arb


def _skip_residual(X, W, b, W_QK=None):
    """Mean-centered X + SA(X), with W_QK = 0 unless given and any query bias."""
    W_QK = 0 * W if W_QK is None else W_QK
    return norms.mean_centered(X + collapse.layer(X, W_QK, b, W, KEY_WIDTH))


def _skip_bound(X, W, b):
    """Rounding bound: entries are sums of tokens + width + heads + 6 rounded products, centered.

    A matrix product may round equal rows of logits b.x_j / sqrt(d_qk), sums of width terms,
    differently: the rows of P then differ by a share softmax_error of themselves.
    """
    m = X.shape[-2] * 2 + X.shape[-1] + W.shape[-3] + 20
    largest = abs(X).amax((-1, -2))
    logit = abs(b).sum(-1).amax(-1) * largest / KEY_WIDTH**0.5
    one = torch.ones(*logit.shape, X.shape[-2], dtype=X.dtype, device=X.device)
    rows = softmax_error(one, gamma(X.shape[-1] + 4, X) * logit, logit)[..., 0]
    size = largest * (1 + X.shape[-1] * abs(W).sum(-3).amax((-1, -2)))
    return 2 * ((gamma(m, X) + rows) * size)[..., None, None]


def _kept(left: Callable, twins=()) -> Identity:
    sizes = tuple({"X": (n, d), "W": (H, d, d), "b": (H, d)} for n, d, H in ((2, 2, 1), (4, 3, 2)))
    return Identity(
        left,
        lambda X, W, b: norms.mean_centered(X),
        _skip_bound,
        sizes,
        arithmetic="ball",
        twins=twins,
    )


def _thousandth(X):
    return ops.constant(0.001, X) * X


def _small(X, W):
    """Residual of a twin with W_QK = I/1000 for every head."""
    return _thousandth(ops.eye(X.shape[-1], X) + 0 * W)


NO_COLLAPSE = _kept(
    _skip_residual,
    (
        Twin(
            "0.999 times the skip connection",
            _kept(lambda X, W, b: _skip_residual(X, W, b) - norms.mean_centered(_thousandth(X))),
        ),
        Twin("with W_QK = I/1000", _kept(lambda X, W, b: _skip_residual(X, W, b, _small(X, W)))),
    ),
)


def skip_diameter(X, W_QK, b_QK, W):
    """Diameter of the output of layers with skip connections."""
    return norms.diameter(collapse.network(X, W_QK, b_QK, W, KEY_WIDTH, skip=True))


def _shrinking(size: float, depth: int, v: float) -> dict[str, torch.Tensor]:
    """Network of two tokens +-(size/2) e_1, W_QK = e_1 e_1^T and W_V = -v I in every layer."""
    network = extremal_network(size, depth, -v)
    return {**network, "W": -v * torch.eye(2, dtype=torch.float64) + 0 * network["W"]}


def _lowest(factor: float = 1.0) -> Callable:
    """Lower bound diam(X) (1 - sum_h v_h tanh(c_h diam^2)), with rates times ``factor``."""

    def left(X, W_QK, b_QK, W):
        size = norms.diameter(X)
        c = ops.constant(factor, X) * collapse.rate(W_QK[..., 0, :, :, :], KEY_WIDTH)
        one = ops.constant(1, X)
        return size * (one - collapse.sharp_factor(size, c, spectral_norm(W[..., 0, :, :, :])))

    return left


LOWER = (
    Inequality(
        left=_lowest(),
        right=skip_diameter,
        sizes=(network_sizes(2, 2, 1, 1), network_sizes(2, 2, 1, 2), network_sizes(4, 3, 1, 2)),
        extremal=(
            lambda: _shrinking(2.0, 1, 0.5),
            lambda: extremal_network(1.5, 1, -0.5, heads=3),
        ),
    )
    .times(0.9999)
    .but("0.2499 in place of 1/4", left=_lowest(4 * 0.2499))
)


def critical_value_slope(y):
    """Slope tanh y + 2 y sech^2 y, whose largest value is 1 / v*."""
    t = y.tanh()
    return t + 2 * y * (1 - t * t)


V_STAR = 0.62436  # lower end of the enclosure decided below


def _slope_maximum(low: str, high: str) -> Verdict:
    """Whether low < v* < high: the slope stays below 1/low and exceeds 1/high somewhere.

    For y >= 4 the slope is at most 1 + 8 y e^(-2y), which decreases there.
    """
    with ops.precision(128):
        top = 1 / arb(low)
        below = interval_cover.positive(lambda y: top - critical_value_slope(y), arb(0), arb(4))
        tail = interval_cover.beyond(lambda y: top - 1 - 8 * y * (-2 * y).exp(), arb(4))
        at = critical_value_slope(arb("0.9902")) - 1 / arb(high)
        reached = (interval_cover.certain(at > 0, at < 0), 1)
        found = interval_cover.both(interval_cover.joined(below, tail), reached)
    return found.verdict(f"{low} < v* < {high}, cover of [0, 4] and a tail bound")


def _square_lemma(slope: flint.fmpq) -> Verdict:
    """Whether (1 - x)^-2 <= 1 + slope x on [0, 1/2].

    That is (1 + slope x)(1 - x)^2 - 1 >= 0. The left side is x (slope - 2 + (1 - 2 slope) x + slope
    x^2); for slope 6 its second factor is 6 (x - 1/2)(x - 4/3), which is >= 0 on [0, 1/2].
    """
    q = flint.fmpq_poly([slope - 2, 1 - 2 * slope, slope])
    found: Any = q.numer().complex_roots()  # pairs (root, multiplicity)
    roots = [r for r, _ in found if r.imag.is_zero()]
    inside = [r.real for r in roots if r.real > 0 and r.real < arb(1) / 2]
    start, end = q(flint.fmpq(0)), q(flint.fmpq(1, 2))
    holds = bool(start >= 0 and end >= 0 and not inside)
    return Verdict(holds, f"second factor {q}, value {end} at 1/2, {len(inside)} roots inside")


LEMMA = "the scalar lemma; the step to networks is derived in the notebook"
V_STAR_CHECK = Decision(
    partial(_slope_maximum, "0.62436", "0.62437"), LEMMA, over=(((arb(0), arb.pos_inf()),),)
).but("0.62437 < v*", run=partial(_slope_maximum, "0.62437", "0.62438"))
SQUARE = Decision(partial(_square_lemma, flint.fmpq(6)), LEMMA).but(
    "5.99 in place of 6", run=partial(_square_lemma, flint.fmpq(599, 100))
)


def _inverse_square_growth(v, **i):
    """Growth delta_0^2 / delta_L^2 - 1 of the inverse square of the diameter.

    The claim delta_L >= delta_0 / sqrt(1 + K v c L delta_0^2) is delta_0^2 / delta_L^2 - 1 <=
    K v c L delta_0^2. In this form the ratio of the two sides sees K;
    that of the diameters tends to 1 with delta_0 whatever K is.
    """
    return ops.square(norms.diameter(i["X"]) / skip_diameter(**i)) - ops.constant(1, v)


def _slow_decay(X, W_QK, b_QK, W, v):
    """Bound 6 v c L delta_0^2 on the growth."""
    c = ops.amax(ops.amax(collapse.rate(W_QK, KEY_WIDTH), -1), -1)
    depth = ops.constant(6 * W.shape[-4], X)
    return depth * v[..., 0] * c * ops.square(norms.diameter(X))


def _slow(X, W_QK, b_QK, W, v, s):
    """Instance with v <= v*, value maps of norm at most v and v c delta_0^2 <= 1/2."""
    v = V_STAR * INSIDE * torch.sigmoid(v)
    size = norms.diameter(X)[..., None]
    allowed = INSIDE * torch.sigmoid(s) / (2 * v * size.clamp_min(1e-300) ** 2)
    return {
        "X": X,
        "W_QK": with_rate(W_QK, allowed),
        "b_QK": b_QK,
        "W": unit_value_map(W, v[..., None]),
        "v": v,
    }


def _slow_hypotheses(X, W_QK, b_QK, W, v):
    c = ops.amax(ops.amax(collapse.rate(W_QK, KEY_WIDTH), -1), -1)
    norm = ops.amax(ops.amax(spectral_norm(W), -1), -1)
    half = ops.full(tuple(c.shape), 0.5, X)
    return [
        (v[..., 0] * c * ops.square(norms.diameter(X)), half),
        (norm, v[..., 0]),
        (v[..., 0], ops.full(tuple(c.shape), V_STAR, X)),
    ]


def slow_orbit(depth: int) -> dict[str, torch.Tensor]:
    """Network of tokens +-e_1/16 with W_V = -I/2, where 1/delta^2 grows by 2 v c a layer."""
    return _contracting(0.125, depth, 0.5)


def largest_start() -> dict[str, torch.Tensor]:
    """Network with v near v* and v c delta_0^2 near 1/2, where a layer costs nearly all it may."""
    return _contracting(2.53, 1, 0.62435)


def _contracting(size: float, depth: int, v: float) -> dict[str, torch.Tensor]:
    network = _shrinking(size, depth, v * (1 - 2.0**-45))
    return {**network, "v": torch.tensor([v], dtype=torch.float64)}


RATE = Inequality(
    left=_inverse_square_growth,
    right=_slow_decay,
    sizes=(network_sizes(2, 2, 1, 1, v=(1,), s=(1,)), network_sizes(3, 2, 3, 1, v=(1,), s=(1,))),
    build=_slow,
    hypotheses=_slow_hypotheses,
    extremal=(largest_start, lambda: slow_orbit(1), lambda: slow_orbit(64)),
).times(0.64)


def _orbit_rate(rate: str) -> Verdict:
    """Whether 0.999 < delta_L^2 rate v c L < 1 for the extremal orbit at L = 100,000, in balls."""
    with ops.precision(256):
        size, c, v, L, cases = arb(1) / 2, arb(1) / 8, arb(1) / 2, 100_000, 0
        for _ in range(L):
            size, cases = size * (1 - v * (c * size * size).tanh()), cases + 1
        value = size * size * arb(rate) * v * c * L
        inside = value > arb("0.999") and value < 1
        outside = value < arb("0.999") or value > 1
    holds = interval_cover.certain(inside, outside)
    return Verdict(holds, f"delta_L^2 {rate} v c L = {value.str(8)}", cases)


ORBIT_LIMITS = "this orbit of two tokens, for this depth"
ORBIT = Decision(partial(_orbit_rate, "2"), ORBIT_LIMITS, "certified", 100_000).but(
    "the constant 2.002 in place of 2", run=partial(_orbit_rate, "2.002")
)

CHECKS: dict[str, dict[str, Check]] = {
    "skip.no-collapse": {"residual": NO_COLLAPSE},
    "skip.lower-bound": {"one layer": LOWER, "all biases": full_layer.LOWER},
    "skip.polynomial-rate": {
        "decay": RATE,
        "critical value": V_STAR_CHECK,
        "square": SQUARE,
        "extremal orbit": ORBIT,
    },
}

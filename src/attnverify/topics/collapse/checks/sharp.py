"""Checks of the sharp theorem: one layer, depth, global collapse, threshold."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters import full_layer
from attnverify.chapters.layer_instances import (
    INSIDE,
    KEY_WIDTH,
    extremal_network,
    network_sizes,
    output_diameter,
    power,
    unit_value_map,
    with_rate,
)
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.collapse.definitions import layers as definitions

arb = flint.arb


# ------------------------------------------------------------------------------------- one layer


def _tanh_bound(X, W_QK, b_QK, W):
    """Sharp bound diam(X) sum_h v_h tanh(c_h diam^2) of one layer."""
    size, c = norms.diameter(X), collapse.rate(W_QK[..., 0, :, :, :], KEY_WIDTH)
    return size * collapse.sharp_factor(size, c, spectral_norm(W[..., 0, :, :, :]))


def _beta(W_QK, W):
    """Largest beta_2 / (4 sqrt(d_qk)) of all layers."""
    return ops.amax(ops.sum(collapse.rate(W_QK, KEY_WIDTH) * spectral_norm(W), -1), -1)


def _cubic(X, W_QK, b_QK, W):
    return collapse.cubic(_beta(W_QK, W), norms.diameter(X))


def _norm_over_heads(X, W_QK, b_QK, W, p: float = 1.01):
    """Bound of a twin, with the p-norm over the heads in place of their sum."""
    size = norms.diameter(X)
    c = collapse.rate(W_QK[..., 0, :, :, :], KEY_WIDTH)
    falls = spectral_norm(W[..., 0, :, :, :]) * collapse.falls(size, c)
    p = ops.constant(p, X)
    return size * ops.exp(ops.log(ops.sum(ops.exp(p * ops.log(falls)), -1)) / p)


LAYER_SIZES = (network_sizes(2, 2, 1, 1), network_sizes(2, 2, 1, 2), network_sizes(4, 3, 1, 2))

LAYER = (
    Inequality(
        left=output_diameter,
        right=_tanh_bound,
        sizes=LAYER_SIZES,
        extremal=(
            lambda: extremal_network(2.0, 1, 1.0),
            lambda: extremal_network(2.0**-8, 1, 1.0),
            lambda: extremal_network(1.5, 1, 1.0, heads=3),
        ),
    )
    .times(0.9999)
    .but("the 1.01-norm over the heads in place of their sum", right=_norm_over_heads)
)
CUBIC = (
    Inequality(
        left=output_diameter,
        right=_cubic,
        sizes=LAYER_SIZES,
        extremal=(
            lambda: extremal_network(2.0**-10, 1, 1.0),
            lambda: extremal_network(2.0**-10, 1, 1.0, heads=3),
        ),
    )
    .times(0.9999)
    .but(
        "the exponent 3.001 in place of 3",
        right=lambda **i: _cubic(**i) * power(norms.diameter(i["X"]), 0.001),
    )
)


# ------------------------------------------------------------------------------------ many layers


def _iterated(iterate: Callable) -> Callable:
    return lambda X, W_QK, b_QK, W: iterate(_beta(W_QK, W), norms.diameter(X), W.shape[-4])


def _more(constant, size, depth: int):
    """Bound of a twin, constant^((3^L - 1)/2 + 1/1000) size^(3^L)."""
    return collapse.iterate(constant, size, depth) * power(constant, 0.001)


DEPTH = (
    Inequality(
        left=output_diameter,
        right=_iterated(collapse.iterate),
        sizes=(network_sizes(2, 2, 2, 1), network_sizes(3, 2, 2, 3)),
        extremal=(lambda: extremal_network(2.0**-10, 2, 1.0),),
    )
    .times(0.9999)
    .but("the exponent (3^L - 1)/2 + 0.001 in place of (3^L - 1)/2", right=_iterated(_more))
)


def _largest_rate(W_QK):
    return ops.amax(ops.amax(collapse.rate(W_QK, KEY_WIDTH), -1), -1)


def _geometric(v: Callable) -> Callable:
    """Geometric bound (v tanh(c diam^2))^L diam."""

    def right(X, W_QK, b_QK, W, **rest):
        size = norms.diameter(X)
        factor = collapse.two_token_step(size, _largest_rate(W_QK), v(X, **rest)) / size
        bound = size
        for _ in range(W.shape[-4]):
            bound = bound * factor
        return bound

    return right


def _one(X, **_):
    return ops.constant(1, X)


def _unit_values(size: float = 1.0) -> Callable:
    return lambda X, W_QK, b_QK, W: {
        "X": X,
        "W_QK": W_QK,
        "b_QK": b_QK,
        "W": unit_value_map(W, size),
    }


GLOBAL = (
    Inequality(
        left=output_diameter,
        right=_geometric(_one),
        sizes=(network_sizes(2, 2, 1, 1), network_sizes(3, 2, 3, 1)),
        build=_unit_values(),
        hypotheses=lambda X, W_QK, b_QK, W: [
            (spectral_norm(W), ops.full(tuple(W.shape[:-2]), 1, W))
        ],
        extremal=(lambda: extremal_network(2.0, 1, 1 - 2.0**-45),),
    )
    .times(0.9999)
    .but(
        "||W_V||_2 <= 1.001",
        build=_unit_values(1.001),
        hypotheses=None,
        extremal=(lambda: extremal_network(2.0, 1, 1.001),),
    )
)


def _below_threshold(reach: float) -> Callable:
    """Instance with v > 1, value maps of norm at most v, and c diam^2 < reach * artanh(1/v)."""

    def build(X, W_QK, b_QK, W, v, s):
        v = 1 + torch.exp(v)
        size = norms.diameter(X)[..., None]
        allowed = (
            reach * INSIDE * torch.sigmoid(s) * torch.atanh(1 / v) / size.clamp_min(1e-300) ** 2
        )
        return {
            "X": X,
            "W_QK": with_rate(W_QK, allowed),
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


def _near_two(size: float, depth: int) -> dict[str, torch.Tensor]:
    """Instance with v = 2, where value maps stay just below it so that balls can decide."""
    v = torch.tensor([2.0], dtype=torch.float64)
    return {**extremal_network(size, depth, 2 - 2.0**-45), "v": v}


THRESHOLD = (
    Inequality(
        left=lambda v, **i: output_diameter(**i),
        right=_geometric(_value_norm),
        sizes=(
            network_sizes(2, 2, 1, 1, v=(1,), s=(1,)),
            network_sizes(3, 2, 3, 1, v=(1,), s=(1,)),
        ),
        build=_below_threshold(1.0),
        hypotheses=_is_below,
        extremal=(lambda: _near_two(1.0, 1),),
    )
    .times(0.9999)
    .but(
        "a threshold 1% larger in the square",
        build=_below_threshold(1.01),
        hypotheses=None,
        extremal=(lambda: _near_two(2.1, 3),),
    )
)

ORBIT_LAYERS = 1000


def _orbit(start: tuple[int, int]) -> Verdict:
    """Whether two tokens at start * delta_* stay there for 1,000 layers; W_QK = 1, W_V = 2.

    The attention itself is iterated in balls. Their radii grow by a factor below 8 a layer (the
    slope of the map is below 3; a ball forgets that the two tokens move together), so 4,000 bits
    leave about 1,000 after 1,000 layers.
    """
    with ops.precision(4000):
        v = np.full((1, 1, 1), arb(2), dtype=object)
        q = np.full((1, 1, 1), arb(1), dtype=object)
        star = (4 * arb(KEY_WIDTH).sqrt() * (arb(1) / 2).atanh()).sqrt()
        size = star * start[0] / start[1]
        X = np.array([[size / 2], [-size / 2]], dtype=object)
        worst, cases = arb(0), 0
        for _ in range(ORBIT_LAYERS):
            X = collapse.layer(X, q, 0 * q[..., 0], v, KEY_WIDTH)
            worst, cases = worst.max(abs(norms.diameter(X) / star - 1)), cases + 1
        tiny = arb(2) ** -1000
        holds = certain(worst < tiny, worst > arb("1e-3"))
        words = f"relative distance from delta_* at most {worst.str(3)} over {ORBIT_LAYERS} layers"
    return Verdict(holds, words, cases)


ORBIT_LIMITS = "this orbit, for this number of layers"
ORBIT = Decision(partial(_orbit, (1, 1)), ORBIT_LIMITS, "certified", 1000).but(
    "a start at 0.999 delta_* stays too", run=partial(_orbit, (999, 1000))
)

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.sharp-layer": {
        "tanh": LAYER,
        "cubic": CUBIC,
        "all biases": full_layer.LAYER,
        "entry by entry": by_definition(definitions.sharp, "1/5 in place of 1/4", quarter=5),
    },
    "collapse.sharp-depth": {"two layers": DEPTH},
    "collapse.global": {"unit value maps": GLOBAL},
    "collapse.threshold": {
        "below": THRESHOLD,
        "orbit": ORBIT,
        "closed form": by_definition(definitions.threshold, "1/5 in place of 1/4", quarter=5),
    },
}

"""Checks of the threshold of many heads: the recursion, what is below, the orbit at it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.layer_instances import (
    INSIDE,
    KEY_WIDTH,
    extremal_network,
    network_sizes,
    output_diameter,
    unit_value_map,
    with_rates,
)
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, depth_bounds, norms
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.collapse.definitions import depth

arb = flint.arb


def _largest(W_QK, W):
    """Largest c_h and v_h of all layers, (..., heads) each."""
    return ops.amax(collapse.rate(W_QK, KEY_WIDTH), -2), ops.amax(spectral_norm(W), -2)


def _bound(formula: Callable) -> Callable:
    """Right side from a formula of diameter, rates, value norms and depth."""

    def right(X, W_QK, b_QK, W, **rest):
        c, v = _largest(W_QK, W)
        return formula(norms.diameter(X), c, v, W.shape[-4])

    return right


def _largest_head(size, c, v, depth: int):
    """Recursion of a twin, with the largest head in place of the sum over heads."""
    for _ in range(depth):
        size = size * ops.amax(
            v * depth_bounds.variation_bound(4 * c * ops.square(size)[..., None]), -1
        )
    return size


RECURSION = (
    Inequality(
        left=output_diameter,
        right=_bound(depth_bounds.recursion),
        sizes=(network_sizes(2, 2, 2, 2), network_sizes(4, 3, 2, 3), network_sizes(3, 2, 3, 1)),
        extremal=(
            lambda: extremal_network(1.5, 1, 1.0, heads=3),
            lambda: extremal_network(2.0, 4, 1.5, heads=3),
            lambda: extremal_network(2.5, 3, 2.0, heads=2),
        ),
    )
    .times(0.9996)
    .but("the largest head in place of the sum over heads", right=_bound(_largest_head))
)


def _below(reach: float) -> Callable:
    """Instance with free rates and shares of heads, and value norms that make F(diam) < 1.

    reach: what the rates are multiplied by afterwards, 1 for the claim.
    """

    def build(X, W_QK, b_QK, W, y, share, s):
        y = torch.exp(y).clamp(1e-6, 20.0)  # c_h diam^2
        size = norms.diameter(X)[..., None]
        fall = depth_bounds.variation_bound(4 * y)
        v = torch.softmax(share, -1) * INSIDE * torch.sigmoid(s) / fall
        c = reach * y / size.clamp_min(1e-150).square()
        return {
            "X": X,
            "W_QK": with_rates(W_QK, c[..., None, :]),
            "b_QK": b_QK,
            "W": unit_value_map(W, v[..., None, :]),
        }

    return build


def _is_below(X, W_QK, b_QK, W):
    """Hypothesis F(diam X) <= 1 with the largest rates and value norms of the layers."""
    c, v = _largest(W_QK, W)
    factor = collapse.sharp_factor(norms.diameter(X), c, v)
    return [(factor, ops.full(tuple(factor.shape), 1, X))]


def _heads_at(reach: float, depth: int) -> Instance:
    """Instance of three unlike heads, two tokens at squared distance reach * delta_*^2."""
    made = extremal_network(1.0, depth, 2.0, heads=3)
    q = [0.5 * k for k in (1, 2, 3)]  # c_h diam^2 = h/8 at diameter 1, so q_h = h in units of 1/8
    star = depth_bounds.heads_threshold(q, [2.0, 1.0, 2 / 3], KEY_WIDTH) / 2**0.5
    made["X"] = made["X"] * (star * reach**0.5)
    return made


BELOW = (
    Inequality(
        left=output_diameter,
        right=_bound(depth_bounds.geometric),
        sizes=tuple(
            network_sizes(n, d, L, H, y=(H,), share=(H,), s=(1,))
            for n, d, L, H in ((2, 2, 1, 3), (3, 2, 3, 2))
        ),
        build=_below(1.0),
        hypotheses=_is_below,
        extremal=(lambda: _heads_at(0.75, 1), lambda: _heads_at(0.999, 1)),
    )
    .but(
        "a threshold 0.5% larger in the square",
        hypotheses=None,
        build=_below(1.005),
        extremal=(lambda: _heads_at(1.005, 3),),
    )
    .times(0.999)
)


def _by_mean(size, c, v):
    return depth_bounds.mean_factor(size[..., 0], c, v)


def _scalars(size, c, v):
    """Instance of positive rates and value norms within the range of floats."""
    return {name: torch.exp(value.clamp(-9, 9)) for name, value in locals().items()}


def _equal_rates() -> Instance:
    """Instance at equality in balls: rates 1/2, 1/2 and value norms 1/2, 1, all powers of 2."""
    values = {"size": [1.0], "c": [0.5, 0.5], "v": [0.5, 1.5]}
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


MEAN = Inequality(
    left=lambda size, c, v: collapse.sharp_factor(size[..., 0], c, v),
    right=_by_mean,
    sizes=({"size": (1,), "c": (2,), "v": (2,)}, {"size": (1,), "c": (5,), "v": (5,)}),
    build=_scalars,
    hypotheses=lambda **scalars: [(0 * value, value) for value in scalars.values()],
    extremal=(_equal_rates,),
).times(0.999)

LAYERS = 300


def _three_heads(start: tuple[int, int]) -> Verdict:
    """Two tokens at start times delta_* = 1 under three heads of different rates: do they stay?

    W_QK,h = h and v_1 = v_2 = 1; v_3 is chosen so that F(1) = 1. The attention is iterated in
    balls. Slope of the map below 3 and a ball's forgetting that the two tokens move together cost
    less than 4 bits a layer, so of 2,400 bits about 1,200 are left after 300 layers.
    """
    with ops.precision(2400):
        q = np.array([arb(1), arb(2), arb(3)], dtype=object)
        falls = [(k / (4 * arb(KEY_WIDTH).sqrt())).tanh() for k in q]
        v = np.array([arb(1), arb(1), (1 - falls[0] - falls[1]) / falls[2]], dtype=object)
        q, v = q[:, None, None], v[:, None, None]
        half = arb(start[0]) / start[1] / 2
        X, worst, cases = np.array([[half], [-half]], dtype=object), arb(0), 0
        for _ in range(LAYERS):
            X = collapse.layer(X, q, 0 * q[..., 0], v, KEY_WIDTH)
            worst, cases = worst.max(abs(norms.diameter(X) - 1)), cases + 1
        holds = certain(worst < arb(2) ** -1000, worst > arb("1e-3"))
    words = f"distance from delta_* = 1 at most {worst.str(3)} over {LAYERS} layers, three heads"
    return Verdict(holds, words, cases)


ORBIT = Decision(
    partial(_three_heads, (1, 1)), "this orbit, for this number of layers", "certified", 300
).but("a start at 0.999 delta_* stays too", run=partial(_three_heads, (999, 1000)))


def _computed_root(shift: float = 0.0) -> Verdict:
    """The package's threshold encloses a sign change of F - 1 within a relative 2^-40.

    Halving ends at neighboring floats; F is a sum of rounded products and passes an error of some
    units of 2^-53 to the root with a factor that is below 2^10 for these norms.
    """
    cases = (([1, 2, 3], [1, 1, 1]), ([0.5, 8], [0.75, 0.5]), ([1], [2]), ([4, 1, 0], [1, 0.1, 9]))
    for q, v in cases:
        star = arb(depth_bounds.heads_threshold(q, v, KEY_WIDTH) * (1 + shift))
        y = star * star / (4 * arb(KEY_WIDTH).sqrt())
        near = [y * (1 + sign * arb(2) ** -40) for sign in (-1, 1)]
        low, high = (
            sum((b * (arb(a) * z).tanh() for a, b in zip(q, v, strict=True)), arb(0)) for z in near
        )
        if not (low < 1 and high > 1):
            outside = low > 1 or high < 1
            return Verdict(False if outside else None, f"F = {low.str(9)}, {high.str(9)}", 1)
    return Verdict(True, "F - 1 changes its sign within a relative 2^-40", len(cases))


ROOT = Decision(_computed_root, "these norms", "certified", 4).but(
    "a root one in 10^9 larger", run=partial(_computed_root, 1e-9)
)

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.threshold-heads": {
        "recursion": RECURSION,
        "below": BELOW,
        "equal rates": MEAN,
        "orbit": ORBIT,
        "root": ROOT,
        "entry by entry": by_definition(depth.recursion, "the cube of the size", power=3),
    },
}

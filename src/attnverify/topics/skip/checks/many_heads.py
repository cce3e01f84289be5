"""Checks of skip connections with many heads: the rate, finite sums, a direction that is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import flint
import numpy as np
import torch

from attnverify.arithmetic import interval_cover, ops
from attnverify.arithmetic.rounding import gamma
from attnverify.chapters.layer_instances import (
    INSIDE,
    KEY_WIDTH,
    extremal_network,
    network_sizes,
    with_rates,
)
from attnverify.checking.check import Check, Decision, Identity, Inequality, Instance
from attnverify.mathematics import collapse, depth_bounds, norms
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict

arb = flint.arb

#: Values of V with K(V) rounded up and down, decided below; the third is v* rounded down.
CONSTANTS = {
    "0.5": ("3.2381", "3.2382"),
    "0.62436": ("4.5811", "4.5813"),
    "0.9": ("34.988", "34.989"),
}
V_STAR = 0.62436
START = {"low": "3.8417", "high": "3.8419"}  # around K*, at V = V_STAR and x = 1/2


def _cost(V: str) -> Callable[[arb], arb]:
    """Cost of a layer in y = x/V > 0: (2 - s) (tanh(y)/y) / (1 - s)^2 with s = V tanh y."""
    v = arb(V)

    def at(y: arb) -> arb:
        s = v * y.tanh()
        share = y.tanh() / y if not y.contains(0) else 1 - (y * y / 3).union(arb(0))
        return (2 - s) * share / (1 - s) ** 2

    return at


def _constants(shift: float = 0.0) -> Verdict:
    """Whether the decimals of K(V) hold: a cover of 0 <= y <= 20, a tail bound, a point above.

    For y >= 20 the cost is at most (2 - V)/(1 - V)^2/y. On a ball around 0,
    tanh(y)/y lies in [1 - y^2/3, 1].
    """
    parts = []
    with ops.precision(128):
        for V, (low, high) in CONSTANTS.items():
            top, cost = arb(high) - arb(shift), _cost(V)
            most = (2 - arb(V)) / (1 - arb(V)) ** 2
            below = interval_cover.positive(lambda y, t=top, f=cost: t - f(y), arb(0), arb(20))
            tail = interval_cover.beyond(lambda y, t=top, m=most: t - m / y, arb(20))
            parts.append(interval_cover.joined(below, tail))
            best = max((cost(arb(k) / 64) - arb(low) for k in range(1, 320)), key=float)
            parts.append((interval_cover.certain(best > 0, best < 0), 1))
    return interval_cover.both(*parts).verdict(f"K(V) at V = {', '.join(CONSTANTS)}")


SCALAR = "the scalar function; the step to networks is derived in the notebook"
POSITIVE = ((arb(0), arb.pos_inf()),)
DECIMALS = Decision(_constants, SCALAR, over=(POSITIVE,) * 3).but(
    "K(1/2) < 3.2381", run=partial(_constants, 1e-4)
)


def _growth(X, W_QK, b_QK, W):
    """Growth delta_0^2 / delta_L^2 - 1, which is claimed to be at most K delta_0^2 sum_l m_l."""
    after = norms.diameter(collapse.network(X, W_QK, b_QK, W, KEY_WIDTH, skip=True))
    return ops.square(norms.diameter(X) / after) - ops.constant(1, X)


def _rates(W_QK, W):
    """Rates m_l = sum_h v_h c_h of the layers; (..., depth)."""
    return ops.sum(collapse.rate(W_QK, KEY_WIDTH) * spectral_norm(W), -1)


def _allowed(constant: str) -> Callable:
    """Bound constant (m_1 + ... + m_L) delta_0^2."""

    def right(X, W_QK, b_QK, W):
        k = ops.constant(float(constant), X)
        return k * ops.sum(_rates(W_QK, W), -1) * ops.square(norms.diameter(X))

    return right


def _scaled_values(V: float) -> Callable:
    """Instance whose value maps' largest singular values add up to less than V in every layer."""

    def build(X, W_QK, b_QK, W):
        total = ops.sum(spectral_norm(W), -1, keepdims=True).clamp_min(1e-300)
        return {"X": X, "W_QK": W_QK, "b_QK": b_QK, "W": W * (INSIDE * V / total)[..., None, None]}

    return build


def _values_below(V: float) -> Callable:
    def hypotheses(X, W_QK, b_QK, W):
        total = ops.sum(spectral_norm(W), -1)
        return [(total, ops.full(tuple(total.shape), V, X))]

    return hypotheses


def costly(V: float, y: float, depth: int = 1) -> Instance:
    """Network of two tokens, W_V = -V e_1 e_1^T and c diam^2 = y in every layer.

    V is approached from below, and c = 1/8 in the first layer.
    A layer leaves the share 1 - V tanh(y) of the diameter, so c grows by its inverse square.
    """
    made = extremal_network((8 * y) ** 0.5, depth, -V * (1 - 2.0**-45))
    growth = [(1 - V * math.tanh(y)) ** (-2 * layer) for layer in range(depth)]
    scale = torch.tensor(growth, dtype=torch.float64)[:, None, None, None]
    return {**made, "W_QK": made["W_QK"] * scale}


def _rate(V: str, y: float, depth: int) -> Inequality:
    """Check of the rate at one V, as a float just below it; y: where one layer costs most.

    depth: layers in which two tokens pay most, each with its own rate.
    """
    high, v = CONSTANTS[V][1], float(V)
    return Inequality(
        left=_growth,
        right=_allowed(high),
        sizes=(network_sizes(2, 2, 1, 3), network_sizes(3, 2, 3, 2), network_sizes(4, 3, 1, 2)),
        build=_scaled_values(v),
        hypotheses=_values_below(v),
        extremal=(
            lambda: costly(v, y, depth),
            lambda: extremal_network(0.125, 16, -v / 2, heads=2),
        ),
    ).times(0.995)


def _close(X, W_QK, b_QK, W, s):
    """Instance with sum v_h <= v* and sum v_h c_h delta_0^2 <= 1/2 in every layer."""
    made = _scaled_values(V_STAR)(X, W_QK, b_QK, W)
    size = norms.diameter(X)[..., None, None]
    now = collapse.rate(W_QK, KEY_WIDTH)
    mean = (now * spectral_norm(made["W"])).sum(-1, keepdim=True).clamp_min(1e-300)
    target = INSIDE * torch.sigmoid(s)[..., None] / (2 * size.clamp_min(1e-150).square())
    return {**made, "W_QK": with_rates(W_QK, now * target / mean)}


def _close_hypotheses(X, W_QK, b_QK, W):
    start = _rates(W_QK, W) * ops.square(norms.diameter(X))[..., None]
    return [*_values_below(V_STAR)(X, W_QK, b_QK, W), (start, ops.full(tuple(start.shape), 0.5, X))]


CLOSE = Inequality(
    left=_growth,
    right=_allowed(START["high"]),
    sizes=(network_sizes(2, 2, 1, 3, s=(1,)), network_sizes(3, 2, 3, 2, s=(1,))),
    build=_close,
    hypotheses=_close_hypotheses,
    extremal=(lambda: costly(V_STAR, 0.5 / V_STAR * (1 - 2.0**-20)),),
).times(0.995)

MANY = 20_000  # layers, after which 0.01 m L is far above the logarithm


def _equal_rates(slope: float = 2.0) -> Verdict:
    """Whether two tokens keep 1/diam^2 below the bound at equal rates, in balls."""
    parts = []
    with ops.precision(192):
        m, start = arb(1) / 8, arb(1)
        for V in (arb(1) / 8, arb(1) / 2):
            size, layers = np.array([1 / start.sqrt()]), 0
            for _ in range(MANY):
                size, layers = size - size * depth_bounds.saturating(m * size * size, V), layers + 1
            found = 1 / (size * size)
            one = ops.full((1,), 1, size)
            bound = depth_bounds.equal_rates(one * start, one * m, one * V, MANY, slope)
            parts.append(
                (interval_cover.certain(found[0] <= bound[0], found[0] > bound[0]), layers)
            )
    return interval_cover.both(*parts).verdict(f"two tokens, {MANY:,} layers, V = 1/8 and 1/2")


def _inverse(X, W_QK, b_QK, W):
    after = norms.diameter(collapse.network(X, W_QK, b_QK, W, KEY_WIDTH, skip=True))
    return 1 / ops.square(after)


def _equal_bound(X, W_QK, b_QK, W):
    m = ops.amax(_rates(W_QK, W), -1)
    start = 1 / ops.square(norms.diameter(X))
    return depth_bounds.equal_rates(start, m, ops.constant(0.5, m), W.shape[-4])


EQUAL = Inequality(
    left=_inverse,
    right=_equal_bound,
    sizes=(network_sizes(2, 2, 1, 3), network_sizes(3, 2, 3, 2), network_sizes(4, 3, 1, 2)),
    build=_scaled_values(0.5),
    hypotheses=_values_below(0.5),
    extremal=(lambda: extremal_network(2.0**-10, 2, -0.25),),
).times(0.9999)
ORBIT = Decision(
    _equal_rates, "two tokens, these V, m and this depth", "certified", 2 * 20_000
).but("1.99 m L in place of 2 m L", run=partial(_equal_rates, 1.99))

ORBIT_LIMITS = "these orbits of two tokens, for this depth"


def _inverse_square(exponent: int) -> tuple[arb, int]:
    """Value of 1/diam^2 after 2,000 layers with m_l = l^-exponent, and how many layers those were.

    The two tokens start at distance 1.
    """
    V, size, layer = arb(1) / 2, arb(1), 0
    for layer in range(1, 2001):
        size = size - size * depth_bounds.saturating(arb(layer) ** -exponent * size * size, V)
    return 1 / (size * size), layer


def _stays(exponent: int) -> Verdict:
    """Whether 1/diam^2 stays below 1 + K(1/2) pi^2/6, as sum l^-2 = pi^2/6; K(1/2) < 3.2382."""
    with ops.precision(256):
        (found, layers), most = _inverse_square(exponent), 1 + arb("3.2382") * arb.pi() ** 2 / 6
    holds = interval_cover.certain(found < most, found > most)
    return Verdict(holds, f"1/diam^2 = {found.str(6)}", layers)


def _falls(exponent: int) -> Verdict:
    """Whether 1/diam^2 exceeds 1 + sum 2 m_l/(1 + 2 m_l), as derived with tanh z >= z/(1 + z)."""
    with ops.precision(256):
        found, layers = _inverse_square(exponent)
        least = sum((2 / arb(layer + 2) for layer in range(1, 2001)), arb(1))
    holds = interval_cover.certain(found > least, found < least)
    return Verdict(holds, f"1/diam^2 = {found.str(6)}", layers)


FINITE = Decision(partial(_stays, 2), ORBIT_LIMITS, "certified", 2000).but(
    "m_l = 1/l in place of 1/l^2", run=partial(_stays, 1)
)
INFINITE = Decision(partial(_falls, 1), ORBIT_LIMITS, "certified", 2000).but(
    "m_l = 1/l^2 in place of 1/l", run=partial(_falls, 2)
)


# ---------------------------------------------------------------------- a direction that is kept


def _along(X, u):
    return norms.mean_centered(X @ u[..., None])


def _avoiding(V, u):
    """Value maps V_h (|u|^2 I - u u^T), which map u to 0; V (..., L, H, d, d), u (..., d)."""
    square = ops.sum(u * u, -1, keepdims=True)[..., None]
    P = square * ops.eye(u.shape[-1], u) - u[..., :, None] * u[..., None, :]
    return V @ P[..., None, None, :, :]


def _after(X, W_QK, b_QK, V, u, writes: int = 0):
    """Mean-centered X_L u, where value maps write nothing to u, or 1/``writes`` of V for a twin."""
    W = _avoiding(V, u)
    if writes:
        W = W + V / ops.constant(writes, V)
    return _along(collapse.network(X, W_QK, b_QK, W, KEY_WIDTH, skip=True), u)


def _along_bound(X, W_QK, b_QK, V, u):
    """Rounding bound of X_L u: entries of a layer's input times u, and of W_h u, nearly 0.

    size: largest entry of X; every layer adds at most width * heads * w times itself, w the largest
    entry of W_h. An entry of X_L is a sum of at most m rounded products for m as below, and so is
    one of W_h u; times u that is a sum of width terms, and centering doubles it.
    """
    n, (L, H, d) = X.shape[-2], V.shape[-4:-1]
    m = L * (n + 4 * d + H + 20)
    w = 2 * d * abs(V).amax((-1, -2, -3, -4)) * (u * u).sum(-1)
    size = abs(X).amax((-1, -2)) * (1 + d * H * w) ** L
    return (4 * gamma(m, X) * d * size * abs(u).amax(-1))[..., None, None]


KEPT = Identity(
    left=_after,
    right=lambda X, W_QK, b_QK, V, u: _along(X, u),
    bound=_along_bound,
    sizes=tuple(
        {"X": (n, d), "W_QK": (L, H, d, d), "b_QK": (L, H, d), "V": (L, H, d, d), "u": (d,)}
        for n, d, L, H in ((2, 2, 1, 1), (4, 3, 2, 2))
    ),
    arithmetic="ball",
).but("value maps that write one part in 1024 of V to u", left=partial(_after, writes=1024))

RATES = {f"V = {at[0]}": _rate(*at) for at in (("0.5", 1.138, 3), ("0.9", 2.557, 1))}
CHECKS: dict[str, dict[str, Check]] = {
    "skip.polynomial-rate-heads": {**RATES, "close tokens": CLOSE, "constants": DECIMALS},
    "skip.equal-rates": {"networks": EQUAL, "two tokens": ORBIT},
    "skip.summable": {"V = 0.5": RATES["V = 0.5"], "finite": FINITE, "infinite": INFINITE},
    "skip.any-scores": {"along u": KEPT},
}

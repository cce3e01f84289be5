"""Checks of what stops collapse: skip connections, MLPs, layer normalization."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import flint
import numpy as np
import torch

from attnverify import collapse, layernorm, norms, ops
from attnverify.evidence import cover
from attnverify.evidence.catalog.instances import (
    INSIDE,
    KEY_WIDTH,
    extremal_network,
    unit_value_map,
)
from attnverify.evidence.checks import Check, Decision, Identity, Inequality, Twin, Verdict
from attnverify.evidence.rounding import gamma, softmax_error, unit
from attnverify.spectral import spectral_norm

arb = flint.arb

# ------------------------------------------------------------------------------ skip connections


def _skip_residual(X, W, W_QK=None):
    """Mean-centered X + SA(X) with W_QK = 0 unless given."""
    W_QK = 0 * W if W_QK is None else W_QK
    b = 0 * W[..., 0, :]
    return norms.mean_centered(X + collapse.layer(X, W_QK, b, W, KEY_WIDTH))


def _skip_bound(X, W):
    """Entries of X + SA(X) are sums of tokens + width + heads + 6 rounded products, centered."""
    m = X.shape[-2] * 2 + X.shape[-1] + W.shape[-3] + 20
    size = abs(X).amax((-1, -2)) * (1 + X.shape[-1] * abs(W).sum(-3).amax((-1, -2)))
    return 2 * gamma(m, X) * size[..., None, None]


def _kept(left: Callable, twins=()) -> Identity:
    sizes = ({"X": (2, 2), "W": (1, 2, 2)}, {"X": (4, 3), "W": (2, 3, 3)})
    return Identity(left, lambda X, W: norms.mean_centered(X), _skip_bound, sizes,
                    arithmetic="ball", twins=twins)  # fmt: skip


NO_COLLAPSE = _kept(
    _skip_residual,
    (
        Twin("without the skip connection",
             _kept(lambda X, W: norms.mean_centered(
                 collapse.layer(X, 0 * W, 0 * W[..., 0, :], W, KEY_WIDTH)))),
        Twin("with W_QK = I", _kept(lambda X, W: _skip_residual(
            X, W, ops.eye(X.shape[-1], X) + 0 * W))),
    ),
)  # fmt: skip


def _sizes(tokens: int, width: int, depth: int, heads: int, **more: tuple[int, ...]):
    n, d, L, H = tokens, width, depth, heads
    return {"X": (n, d), "W_QK": (L, H, d, d), "b_QK": (L, H, d), "W": (L, H, d, d), **more}


def skip_diameter(X, W_QK, b_QK, W):
    """diam of the output of layers with skip connections."""
    return norms.diameter(collapse.network(X, W_QK, b_QK, W, KEY_WIDTH, skip=True))


def _lowest(factor: float = 1.0) -> Callable:
    """diam(X) (1 - sum_h v_h tanh(c_h diam^2)), the rates multiplied by ``factor``."""

    def left(X, W_QK, b_QK, W):
        size = norms.diameter(X)
        c = ops.constant(factor, X) * collapse.rate(W_QK[..., 0, :, :, :], KEY_WIDTH)
        one = ops.constant(1, X)
        return size * (one - collapse.sharp_factor(size, c, spectral_norm(W[..., 0, :, :, :])))

    return left


LOWER = Inequality(
    left=_lowest(),
    right=skip_diameter,
    sizes=(_sizes(2, 2, 1, 1), _sizes(2, 2, 1, 2), _sizes(4, 3, 1, 2)),
    extremal=(lambda: extremal_network(2.0, 1, -0.5),),
)
# In this inequality the bound stands on the left, so its twins change the left side.
LOWER = replace(
    LOWER, twins=(Twin("0.2499 in place of 1/4", replace(LOWER, left=_lowest(4 * 0.2499))),)
)


def critical_value_slope(y):
    """tanh y + 2 y sech^2 y, whose largest value is 1 / v*."""
    t = y.tanh()
    return t + 2 * y * (1 - t * t)


V_STAR = 0.62436  # lower end of the enclosure decided below


def _slope_maximum(low: str, high: str) -> Callable[[], Verdict]:
    """low < v* < high: the slope stays below 1/low for all y >= 0 and exceeds 1/high somewhere.

    For y >= 4 the slope is at most 1 + 8 y e^(-2y) <= 1 + 32 e^-8, since y e^(-2y) decreases.
    """

    def run() -> Verdict:
        with ops.precision(128):
            top = 1 / arb(low)
            below = cover.positive(lambda y: top - critical_value_slope(y), arb(0), arb(4))
            tail = top - 1 - 32 * arb(-8).exp()
            tail = (True if tail > 0 else False if tail < 0 else None, 1)
            at = critical_value_slope(arb("0.9902")) - 1 / arb(high)
            reached = (True if at > 0 else False if at < 0 else None, 1)
            holds, cases = cover.both(below, tail, reached)
        return Verdict(holds, f"{low} < v* < {high}, cover of [0, 4] and a tail bound", cases)

    return run


def _square_lemma(slope: int) -> Callable[[], Verdict]:
    """(1 - x)^-2 <= 1 + slope x on [0, 1/2], i.e. (1 + slope x)(1 - x)^2 - 1 >= 0.

    The left side is x (slope - 2 + (1 - 2 slope) x + slope x^2); for slope 6 its second factor is
    6 (x - 1/2)(x - 4/3), which is >= 0 on [0, 1/2].
    """

    def run() -> Verdict:
        q = flint.fmpq_poly([slope - 2, 1 - 2 * slope, slope])
        roots = [r for r, _ in q.complex_roots() if r.imag.is_zero()]
        inside = [r.real for r in roots if r.real > 0 and r.real < arb(1) / 2]
        start, end = q(flint.fmpq(0)), q(flint.fmpq(1, 2))
        holds = bool(start >= 0 and end >= 0 and not inside)
        return Verdict(holds, f"second factor {q}, value {end} at 1/2, {len(inside)} roots inside")

    return run


LEMMA = "the scalar lemma; the step to networks is derived in the notebook"
V_STAR_CHECK = Decision(
    _slope_maximum("0.62436", "0.62437"),
    LEMMA,
    twins=(Twin("0.62437 < v*", Decision(_slope_maximum("0.62437", "0.62438"), LEMMA)),),
)
SQUARE = Decision(
    _square_lemma(6), LEMMA, twins=(Twin("5 in place of 6", Decision(_square_lemma(5), LEMMA)),)
)


def _slow_decay(constant: float) -> Callable:
    """delta_0 / sqrt(1 + constant v c L delta_0^2)."""

    def left(X, W_QK, b_QK, W, v):
        size = norms.diameter(X)
        c = ops.amax(ops.amax(collapse.rate(W_QK, KEY_WIDTH), -1), -1)
        depth = ops.constant(constant * W.shape[-4], X)
        return size / ops.sqrt(ops.constant(1, X) + depth * v[..., 0] * c * ops.square(size))

    return left


def _slow(X, W_QK, b_QK, W, v, s):
    """v <= v*, value maps of norm at most v, v c delta_0^2 <= 1/2."""
    v = V_STAR * INSIDE * torch.sigmoid(v)
    size = norms.diameter(X)[..., None]
    allowed = INSIDE * torch.sigmoid(s) / (2 * v * size.clamp_min(1e-300) ** 2)
    now = collapse.rate(W_QK, KEY_WIDTH).clamp_min(1e-300)
    return {"X": X, "W_QK": W_QK * (allowed[..., None] / now)[..., None, None], "b_QK": b_QK,
            "W": unit_value_map(W, v[..., None]), "v": v}  # fmt: skip


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
    """Two tokens with W_V = -v I, v = 1/2, close enough for 1/delta^2 to grow by about 2 v c."""
    network = extremal_network(0.125, depth, -0.5 + 2.0**-45)
    return {**network, "v": torch.tensor([0.5], dtype=torch.float64)}


RATE = Inequality(
    left=_slow_decay(6.0),
    right=lambda v, **i: skip_diameter(**i),
    sizes=(_sizes(2, 2, 1, 1, v=(1,), s=(1,)), _sizes(3, 2, 3, 1, v=(1,), s=(1,))),
    build=_slow,
    hypotheses=_slow_hypotheses,
    extremal=(lambda: slow_orbit(1), lambda: slow_orbit(64)),
)
RATE = replace(
    RATE, twins=(Twin("1.9 v c in place of 6 v c", replace(RATE, left=_slow_decay(1.9))),)
)


def _orbit_rate(low: str, high: str) -> Callable[[], Verdict]:
    """delta_L^2 * 2 v c L of the extremal orbit at L = 100,000, by its scalar recursion in balls."""

    def run() -> Verdict:
        with ops.precision(256):
            size, c, v, L = arb(1) / 2, arb(1) / 8, arb(1) / 2, 100_000
            for _ in range(L):
                size = size * (1 - v * (c * size * size).tanh())
            value = size * size * 2 * v * c * L
            inside = value > arb(low) and value < arb(high)
            outside = value < arb(low) or value > arb(high)
        return Verdict(True if inside else False if outside else None, f"delta_L^2 2vcL = {value.str(8)}",
                       L)  # fmt: skip

    return run


ORBIT_LIMITS = "this orbit of two tokens, for this depth"
ORBIT = Decision(
    _orbit_rate("0.99", "1"),
    ORBIT_LIMITS,
    kind="certified",
    twins=(Twin("the constant 3 in place of 2",
                Decision(_orbit_rate("0.65", "0.68"), ORBIT_LIMITS, kind="certified")),),
)  # fmt: skip

# ------------------------------------------------------------------------------------------ MLPs


def mlp(X, W_1, b_1, W_2):
    """relu(X W_1 + b_1) W_2, row by row."""
    hidden = X @ W_1 + b_1
    return ops.maximum(hidden, 0 * hidden) @ W_2


def _lipschitz(X, W_1, b_1, W_2):
    return spectral_norm(W_1) * spectral_norm(W_2) * norms.diameter(X)


MLP_SIZES = ({"X": (2, 2), "W_1": (2, 2), "b_1": (1, 2), "W_2": (2, 2)},
             {"X": (4, 3), "W_1": (3, 5), "b_1": (1, 5), "W_2": (5, 3)})  # fmt: skip


def _pass_through() -> dict[str, torch.Tensor]:
    """Positive tokens through identity maps: relu does nothing."""
    eye = torch.eye(2, dtype=torch.float64)
    X = torch.tensor([[1.0, 1.0], [2.0, 1.0]], dtype=torch.float64)
    return {"X": X, "W_1": eye, "b_1": torch.zeros(1, 2, dtype=torch.float64), "W_2": eye}


MLP_DIAMETER = Inequality(
    left=lambda **i: norms.diameter(mlp(**i)),
    right=_lipschitz,
    sizes=MLP_SIZES,
    extremal=(_pass_through,),
)
MLP_DIAMETER = replace(
    MLP_DIAMETER,
    twins=(Twin("0.999 times the bound",
                replace(MLP_DIAMETER,
                        right=lambda **i: ops.constant(0.999, i["X"]) * _lipschitz(**i))),),
)  # fmt: skip


def _entrywise(X, x, W_1, b_1, W_2):
    return norms.composite(abs(W_1) @ abs(W_2)) * norms.composite(X - x)


def _spectral_composite(X, x, W_1, b_1, W_2):
    return spectral_norm(W_1) * spectral_norm(W_2) * norms.composite(X - x)


MLP_COMPOSITE = Inequality(
    left=lambda X, x, W_1, b_1, W_2: norms.composite(mlp(X, W_1, b_1, W_2) - mlp(x, W_1, b_1, W_2)),
    right=_entrywise,
    sizes=tuple({**size, "x": (1, size["X"][1])} for size in MLP_SIZES),
    extremal=(lambda: {**_pass_through(), "x": torch.tensor([[1.0, 1.0]], dtype=torch.float64)},),
)
MLP_COMPOSITE = replace(
    MLP_COMPOSITE,
    twins=(Twin("the l2-Lipschitz constant in place of the entrywise matrix",
                replace(MLP_COMPOSITE, right=_spectral_composite)),),
)  # fmt: skip

# --------------------------------------------------------------------------- layer normalization


def _factor_right(X, g, b):
    """diag(1/sigma) X (I - 11^T/d) diag(g) + 1 b^T."""
    d = X.shape[-1]
    center = ops.eye(d, X) - ops.full((d, d), 1, X) / ops.constant(d, X)
    return (X @ center) / layernorm.standard_deviation(X) * g + b


def _factor_bound(X, g, b):
    """Sums of width terms of X in either order, over the same sigma: gamma of 2 width + 12."""
    m = 2 * X.shape[-1] + 12
    size = (abs(X) + abs(X).mean(-1, keepdim=True)) / layernorm.standard_deviation(X)
    return 2 * gamma(m, X) * (size * abs(g) + abs(b))


def _left_factor(right: Callable, twins=()) -> Identity:
    sizes = tuple({"X": (n, d), "g": (1, d), "b": (1, d)} for n, d in ((2, 2), (3, 5)))
    return Identity(lambda X, g, b: layernorm.normalize(X) * g + b, right, _factor_bound, sizes,
                    arithmetic="ball", twins=twins)  # fmt: skip


def _without_left_factor(X, g, b):
    return _factor_right(X, g, b) * layernorm.standard_deviation(X)


LEFT_FACTOR = _left_factor(
    _factor_right, (Twin("without the left factor", _left_factor(_without_left_factor)),)
)


def _three_tokens(multiples: tuple[int, int, int]) -> Callable[[], Verdict]:
    """Tokens k u on one line: is there no A, b with LN(X) = X A + 1 b^T?

    The differences of tokens are multiples of u, so u A is fixed by the first two tokens, and the
    third must fit. Exact: u = (1, -1) has mean 0 and variance 1.
    """

    def run() -> Verdict:
        u = np.array([arb(1), arb(-1)], dtype=object)
        X = np.stack([k * u for k in multiples])
        N = layernorm.normalize(X)
        k = multiples
        u_A = (N[1] - N[0]) / arb(k[1] - k[0])
        gap = abs(N[2] - N[0] - (k[2] - k[0]) * u_A)
        holds = True if any(g > 0 for g in gap) else False if all(g == 0 for g in gap) else None
        return Verdict(holds, f"tokens {k} times u: misfit {gap[0].str(5)}")

    return run


def _two_tokens(second: tuple[int, int, int]) -> Callable[[], Verdict]:
    """Tokens that agree in feature 1 and differ there after LN: no diagonal A, no b fits."""

    def run() -> Verdict:
        X = np.array([[arb(0), arb(1), arb(-1)], [arb(k) for k in second]], dtype=object)
        N = layernorm.normalize(X)
        gap = abs(N[0, 0] - N[1, 0])
        holds = True if gap > 0 else False if gap == 0 else None
        return Verdict(holds, f"feature 1 equal before, apart by {gap.str(8)} after")

    return run


def _refutation(run: Callable, twin: tuple[str, Callable]) -> Decision:
    limits = "these tokens, which refute the statement"
    return Decision(run, limits, kind="certified",
                    twins=(Twin(twin[0], Decision(twin[1], limits, kind="certified")),))  # fmt: skip


ANY_MATRIX = _refutation(
    _three_tokens((1, 2, -1)), ("tokens u, 2u, 3u do it too", _three_tokens((1, 2, 3)))
)
DIAGONAL = _refutation(
    _two_tokens((0, 3, 0)), ("the second token (0, 2, -2) does it too", _two_tokens((0, 2, -2)))
)


def _opposite(z, q):
    """X = (u, -u) with u normalized from z, and q > 0."""
    u = layernorm.normalize(z)
    return {"X": ops.stack([u[..., 0, :], -u[..., 0, :]], -2), "q": abs(q) + ops.constant(0.125, q)}


def _attended(X, q):
    """One head with W_QK = q I and W_V = I."""
    eye = ops.eye(X.shape[-1], X)
    W_QK = (q[..., None] * eye)[..., None, :, :]
    return collapse.layer(X, W_QK, 0 * W_QK[..., 0, :], eye + 0 * W_QK, KEY_WIDTH)


def _opposite_factor(X, q):
    """tanh(q ||u||^2 / sqrt(d_qk)) = tanh(q d / sqrt(d_qk))."""
    a = q * ops.constant(X.shape[-1], X) / ops.root(KEY_WIDTH, X)
    return ops.tanh(a)


def _opposite_error(X, q):
    """Bound on the error of the attended tokens: weights times entries of X, and their sum."""
    d = X.shape[-1]
    a = (q * d / KEY_WIDTH**0.5)[..., 0]
    P = torch.ones(*a.shape, 2, dtype=a.dtype, device=a.device)
    # logits are inner products of length d; u itself is normalized to within (2 d + 12) u
    weights = softmax_error(P, gamma(6 * d + 30, a) * a, a)[..., :1, None]
    return (weights + (2 * d + 20) * unit(X)) * abs(X).amax((-1, -2), keepdim=True)


def _escape_bound(X, q):
    """Layer norm divides by tanh(a): relative errors of the attended tokens grow by 1 / tanh(a)."""
    size = abs(X).amax((-1, -2), keepdim=True)
    factor = _opposite_factor(X, q)[..., None]
    d = X.shape[-1]
    return (4 * _opposite_error(X, q) / factor + gamma(6 * d + 40, X) * 2 * d**0.5) * (1 + size)


def _escape(left: Callable, right: Callable, bound: Callable, twins=()) -> Identity:
    sizes = ({"z": (1, 2), "q": (1,)}, {"z": (1, 5), "q": (1,)})
    return Identity(left, right, bound, sizes, build=_opposite, arithmetic="ball", twins=twins)


def _fixed(X, q):
    return layernorm.normalize(_attended(X, q))


ESCAPE = _escape(
    _fixed,
    lambda X, q: X,
    _escape_bound,
    (
        Twin("without layer normalization", _escape(_attended, lambda X, q: X, _escape_bound)),
        Twin("twice the tokens are a fixed point too",
             _escape(lambda X, q: _fixed(2 * X, q), lambda X, q: 2 * X, _escape_bound)),
    ),
)  # fmt: skip
WITHOUT = _escape(
    _attended,
    lambda X, q: _opposite_factor(X, q)[..., None] * X,
    _opposite_error,
    (
        Twin("half the logit", _escape(
            _attended, lambda X, q: _opposite_factor(X, q / 2)[..., None] * X, _opposite_error)),
    ),
)  # fmt: skip

CHECKS: dict[str, dict[str, Check]] = {
    "skip.no-collapse": {"residual": NO_COLLAPSE},
    "skip.lower-bound": {"one layer": LOWER},
    "skip.polynomial-rate": {"decay": RATE, "critical value": V_STAR_CHECK, "square": SQUARE,
                             "extremal orbit": ORBIT},
    "mlp.lipschitz": {"diameter": MLP_DIAMETER, "composite": MLP_COMPOSITE},
    "layernorm.as-printed": {"any matrix": ANY_MATRIX, "diagonal": DIAGONAL},
    "layernorm.left-factor": {"identity": LEFT_FACTOR},
    "layernorm.escape": {"fixed point": ESCAPE, "without": WITHOUT},
}  # fmt: skip

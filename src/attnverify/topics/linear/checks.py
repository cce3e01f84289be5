"""Checks of linear attention: one row, layers, Taylor's polynomial, any polynomial."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import sympy as sp
import torch
from flint import fmpq_mat

from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import (
    INSIDE,
    KEY_WIDTH,
    along_first_axis,
    two_tokens,
    unit_value_map,
)
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, kernels, norms
from attnverify.mathematics.softmax import variation_bound
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.support.vocabulary import counted
from attnverify.topics.linear import definitions

_tensor = partial(torch.tensor, dtype=torch.float64)

# -------------------------------------------------------------------------------------------- rows


def _replaced(s, t, x, V):
    """Relative errors below delta = sigmoid(x)."""
    delta = torch.sigmoid(x)
    return {"s": s, "t": INSIDE * delta * torch.tanh(t), "x": delta, "V": V}


def _allowed(s, t, x, V):
    return [(abs(t), x + 0 * t), (x, 1 + 0 * x)]


def _moved(s, t, x, V):
    """Total variation and the length of the outputs' difference, side by side; (..., 2)."""
    p, other = ops.softmax(s), kernels.weights(s, 1 + t)
    mean = ops.sum((p - other)[..., None] * V, -2)
    return ops.stack([norms.total_variation(p, other), ops.sqrt(ops.sum(mean * mean, -1))], -1)


def _row_bound(s, t, x, V, bound=kernels.variation):
    found = bound(x[..., 0])
    return ops.stack([found, found * norms.diameter(V)], -1)


def _groups(high: int, low: int, delta: float) -> Instance:
    """Keys of which ``high`` are too heavy by delta; both groups' scores balance at the bound."""
    ratio = math.sqrt((1 - delta) / (1 + delta)) * low / high  # the weight of a heavy key
    s = [math.log(ratio)] * high + [0.0] * low
    sign = _tensor([1.0] * high + [-1.0] * low)
    return {"s": _tensor(s), "t": delta * sign, "x": _tensor([delta]), "V": sign[:, None]}


ROW = (
    Inequality(
        left=_moved,
        right=_row_bound,
        sizes=tuple(
            {"s": (n,), "t": (n,), "x": (1,), "V": (n, m)} for n, m in ((2, 3), (3, 1), (8, 2))
        ),
        build=_replaced,
        hypotheses=_allowed,
        extremal=(partial(_groups, 1, 1, 0.25), partial(_groups, 2, 5, 0.75)),
    )
    .times(0.9999)
    .but("delta/2", right=partial(_row_bound, bound=lambda delta: delta / 2))
)

# ------------------------------------------------------------------------------------------ layers

LAYER_SIZES = tuple(
    {"X": (n, d), "W_QK": (H, d, d), "W": (H, d, d), "T": (H, n, n), "x": (1,)}
    for n, d, H in ((2, 2, 1), (4, 3, 2), (3, 5, 1))
)


def _approximate(X, W_QK, W, T, x):
    delta = torch.sigmoid(x)
    room = delta.reshape(*delta.shape, *(1,) * (T.ndim - delta.ndim))
    return {"X": X, "W_QK": W_QK, "W": W, "T": INSIDE * room * torch.tanh(T), "x": delta}


def _below(T, x, **_):
    most = ops.amax(ops.amax(ops.amax(abs(T), -1), -1), -1)
    return [(most, x[..., 0]), (x, 1 + 0 * x)]


def _width(X, W_QK, W, T, x):
    return norms.diameter(kernels.layer(X, W_QK, W, T, KEY_WIDTH))


def _contracted(X, W_QK, W, T, x, factor=kernels.factor):
    delta = norms.diameter(X)
    rates = collapse.rate(W_QK, KEY_WIDTH) * ops.square(delta)[..., None]
    return delta * ops.sum(spectral_norm(W) * factor(rates, x), -1)


def _aligned(size: float, heads: int, delta: float) -> Instance:
    """Two tokens along the singular vectors of all maps, each query too heavy on its own key."""
    W = along_first_axis(2, 1, heads, 1.0)[0]
    number = torch.arange(1, heads + 1, dtype=torch.float64)[:, None, None]
    T = delta * _tensor([[1.0, -1.0], [-1.0, 1.0]]).repeat(heads, 1, 1)
    maps = {"W_QK": W * number, "W": W / number}
    return {"X": two_tokens(2, size), **maps, "T": T, "x": _tensor([delta])}


COLLAPSE = (
    Inequality(
        left=_width,
        right=_contracted,
        sizes=LAYER_SIZES,
        build=_approximate,
        hypotheses=_below,
        extremal=(partial(_aligned, 1.0, 1, 0.25), partial(_aligned, 2.0, 2, 0.5)),
    )
    .times(0.9999)
    .but(
        "one row's error in place of both rows': t + eta",
        right=partial(
            _contracted, factor=lambda rate, delta: ops.tanh(rate) + kernels.variation(delta)
        ),
    )
)

DEEP = tuple(
    {"X": (n, d), "W_QK": (L, d, d), "W": (L, d, d), "T": (L, n, n), "x": (1,), "c": (1,)}
    for n, d, L in ((2, 2, 1), (4, 3, 2), (3, 2, 4))
)


def _deep(X, W_QK, W, T, x, c):
    """Layers with value maps of norm 1 and rates just below c, which is at most 1."""
    c = torch.sigmoid(c)
    now = collapse.rate(W_QK, KEY_WIDTH).clamp_min(1e-300)
    scaled = W_QK * (INSIDE * c / now)[..., None, None]
    return {**_approximate(X, scaled, unit_value_map(W, 1.0), T, x), "c": c}


def _small_maps(X, W_QK, W, T, x, c):
    values, rates = spectral_norm(W), collapse.rate(W_QK, KEY_WIDTH)
    return [*_below(T=T, x=x), (values, 1 + 0 * values), (rates, c + 0 * rates)]


def _apart(X, W_QK, W, T, x, c):
    """Largest distance between a token of the exact network and that of the approximate one."""
    exact = other = X
    for i in range(W.shape[-3]):
        maps = W_QK[..., i : i + 1, :, :], W[..., i : i + 1, :, :]
        weights = T[..., i : i + 1, :, :]
        exact = kernels.layer(exact, *maps, 0 * weights, KEY_WIDTH)
        other = kernels.layer(other, *maps, weights, KEY_WIDTH)
    return kernels.longest(exact - other)


def _deep_bound(X, W_QK, W, T, x, c, **_):
    return kernels.error_after(X, c[..., 0], x[..., 0], W.shape[-3])


def _one_layer(delta: float, depth: int = 1) -> Instance:
    """Two tokens whose scores balance the errors, so that the first error is eta D_0.

    The rate is 1/8 for unit maps, so the squared diameter is 4 artanh(delta); every query is too
    light on its own key. The maps are a little inside what the statement allows.
    """
    W = along_first_axis(1, depth, 1, 1 - 2.0**-45)[:, 0]
    T = delta * _tensor([[-1.0, 1.0], [1.0, -1.0]]).repeat(depth, 1, 1)
    X = two_tokens(1, math.sqrt(4 * math.atanh(delta)))
    return {"X": X, "W_QK": W, "W": W, "T": T, "x": _tensor([delta]), "c": _tensor([0.125])}


def _equal_scores() -> Instance:
    """One token and two equal ones, which keep an error of eta D_0 = 1/3 over four layers."""
    W = along_first_axis(2, 4, 1, 1 - 2.0**-45)[:, 0]
    T = 0.6 * _tensor([1.0, -1.0, -1.0]).expand(4, 3, 3)
    X = _tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    return {"X": X, "W_QK": 0 * W, "W": W, "T": T, "x": _tensor([0.6]), "c": _tensor([2.0**-20])}


DEPTH = (
    Inequality(
        left=_apart,
        right=_deep_bound,
        sizes=DEEP,
        build=_deep,
        hypotheses=_small_maps,
        extremal=(partial(_one_layer, 0.5), partial(_one_layer, 0.125), _equal_scores),
    )
    .times(0.9999)
    .but(
        "delta/2 in place of eta",
        right=lambda X, x, c, **_: norms.diameter(X) * x[..., 0] / 2,
    )
)
ANY_DEPTH = Inequality(
    left=_deep_bound,
    right=lambda X, x, c, **_: kernels.error_at_any_depth(X, c[..., 0], x[..., 0]),
    sizes=DEEP,
    build=_deep,
    hypotheses=_small_maps,
    extremal=(lambda: {**_one_layer(0.5, 3), "X": two_tokens(1, 2.0**-10)},),
).times(0.9999)

# ------------------------------------------------------------------------------------- polynomials

DEGREES = (1, 2, 3, 4)


def _inside(s, r):
    r = torch.nn.functional.softplus(r)
    return {"s": INSIDE * r * torch.tanh(s), "r": r}


def _range(s, r):
    return [(abs(s), r + 0 * s)]


def _errors(s, r):
    """Relative errors of the polynomials of the degrees 1 to 4, the largest over the scores."""
    return ops.stack([ops.amax(abs(kernels.relative(s, p) - 1), -1) for p in DEGREES], -1)


def _largest_errors(s, r, sign: int = -1):
    """The error at s = -r; the twin's is that at s = r."""
    if sign < 0:
        return ops.stack([kernels.taylor_error(r[..., 0], p) for p in DEGREES], -1)
    return ops.stack([abs(kernels.relative(r[..., 0], p) - 1) for p in DEGREES], -1)


ERROR = (
    Inequality(
        left=_errors,
        right=_largest_errors,
        sizes=({"s": (3,), "r": (1,)}, {"s": (1,), "r": (1,)}),
        build=_inside,
        hypotheses=_range,
        extremal=(
            lambda: {"s": _tensor([0.5, -1.0]), "r": _tensor([1.0])},
            lambda: {"s": _tensor([-4.0]), "r": _tensor([4.0])},
        ),
    )
    .times(0.9999)
    .but("the error at s = r", right=partial(_largest_errors, sign=1))
)
REMAINDER = Inequality(
    left=lambda s, r: _largest_errors(s, r),
    right=lambda s, r: ops.stack(
        [ops.exp(r[..., 0]) * _power(r[..., 0], p + 1) / math.factorial(p + 1) for p in DEGREES], -1
    ),
    sizes=({"s": (1,), "r": (1,)},),
    build=_inside,
    hypotheses=_range,
    extremal=(lambda: {"s": _tensor([0.0]), "r": _tensor([2.0**-14])},),
).times(0.9999)


def _power(x, exponent: int):
    value = x
    for _ in range(exponent - 1):
        value = value * x
    return value


def _roots(degree: int) -> Verdict:
    """Whether Taylor's polynomial has no real root if the degree is even, and one if it is odd."""
    x = sp.Symbol("x")
    polynomial = sp.Poly(sum(x**k / sp.factorial(k) for k in range(degree + 1)), x)
    roots = int(polynomial.count_roots())
    return Verdict(bool(roots == 0), f"{counted(roots, 'real root')} at degree {degree}", 1)


def _even(degrees: tuple[int, ...]) -> Verdict:
    found = [_roots(p) for p in degrees]
    return Verdict(all(v.holds for v in found), "; ".join(v.argument for v in found), len(found))


SIGN = Decision(partial(_even, (2, 4, 6, 8, 10)), "no other degrees", "certified", 5).but(
    "the degree 5", run=partial(_even, (2, 5))
)


def _taylor_rows(s, r, degree: int):
    return norms.total_variation(ops.softmax(s), kernels.weights(s, kernels.relative(s, degree)))


def _taylor_bound(s, r, degree: int):
    return variation_bound(kernels.taylor_spread(r[..., 0], degree))


def _by_error(s, r, degree: int):
    """Twin: half the relative error at s = r."""
    return abs(kernels.relative(r[..., 0], degree) - 1) / 2


def _positive(s, r, limit: float):
    """Scores with |s| <= r <= limit, where the polynomial is positive."""
    r = limit * torch.sigmoid(r)
    return {"s": INSIDE * r * torch.tanh(s), "r": r}


def _balanced(degree: int, low: int) -> Instance:
    """``low`` keys with the score -r and one with r (even) or 0 (odd), in balance at the bound.

    The odds of the one are e^(2r)/low or e^r/low. They must be e^(spread/2), which the errors
    divide by e^spread, or e^(-spread/2), which they multiply. Bisection finds r; the ratio is then
    1 up to the square of its error.
    """
    step, sign, least, most = (2, 1, 0.0, 4.0) if degree % 2 == 0 else (1, -1, 0.0, 1.5)
    r = _tensor(most)
    for _ in range(60):
        r = _tensor((least + most) / 2)
        odds = step * r - math.log(low) - sign * kernels.taylor_spread(r, degree) / 2
        least, most = (least, float(r)) if odds > 0 else (float(r), most)
    other = [float(r)] if degree % 2 == 0 else [0.0]
    return {"s": _tensor([-float(r)] * low + other), "r": r[None]}


def _rows_of(degree: int, limit: float, low: tuple[int, ...]) -> Inequality:
    return (
        Inequality(
            left=partial(_taylor_rows, degree=degree),
            right=partial(_taylor_bound, degree=degree),
            sizes=({"s": (3,), "r": (1,)}, {"s": (8,), "r": (1,)}),
            build=partial(_positive, limit=limit),
            hypotheses=_range,
            extremal=tuple(partial(_balanced, degree, k) for k in low),
        )
        .times(0.9999)
        .but("half the error at s = r", right=partial(_by_error, degree=degree))
    )


# ---------------------------------------------------------------------------------- any polynomial


def _points(c, s):
    """Points that rise by more than 1/16."""
    return {"c": c, "s": torch.cumsum(0.0625 + torch.sigmoid(s), -1) - 0.25 * s.shape[-1]}


def _at_points(c, s):
    """Largest relative error at the points; the last coefficient is not used."""
    value = 0 * s
    for k in range(c.shape[-1] - 2, -1, -1):
        value = value * s + c[..., k : k + 1]
    return ops.amax(abs(1 - ops.exp(-s) * value), -1)


def _leveled(points: list[float]) -> Instance:
    """The polynomial whose relative errors at the points alternate and are equal in size."""
    c = kernels.leveled(_tensor(points))
    return {"c": torch.cat([c, 0 * c[:1]]), "s": _tensor(points)}


ANY = (
    Inequality(
        left=lambda c, s: kernels.least_error(s),
        right=_at_points,
        sizes=tuple({"c": (n,), "s": (n,)} for n in (3, 4, 6)),
        build=_points,
        extremal=(partial(_leveled, [-1.0, 0.25, 1.0]), partial(_leveled, [-2.0, -1.0, 0.5, 2.0])),
    )
    .times(0.9999)
    .but(
        "one point less",
        left=lambda c, s: kernels.least_error(s[..., :-1]),
    )
)


def _rank(count: Callable[[int, int], int]) -> Verdict:
    """Whether T_p(x_i . x_j) at more points than features has the rank ``count(width, degree)``."""
    found = []
    for width, degree in ((1, 4), (2, 3), (3, 2)):
        most, random = kernels.features(width, degree) + 2, np.random.default_rng(degree)
        X = ops.rationals(random.integers(-9, 10, (most, width)) + np.arange(most)[:, None] / 4)
        G = kernels.taylor(X @ ops.transpose(X), degree)
        found.append((fmpq_mat(most, most, list(G.flat)).rank(), count(width, degree)))
    return Verdict(all(a == b for a, b in found), f"ranks and numbers {found}", len(found))


FEATURES = Decision(
    partial(_rank, kernels.features), "no other widths and degrees", "certified", 3
).but("monomials of degree p alone", run=partial(_rank, lambda d, p: kernels.features(d - 1, p)))

CHECKS: dict[str, dict[str, Check]] = {
    "linear.truncation": {
        "row": ROW,
        "entry by entry": by_definition(definitions.rows, "without the root", half=1),
    },
    "linear.depth": {
        "collapse": COLLAPSE,
        "error": DEPTH,
        "any depth": ANY_DEPTH,
        "entry by entry": by_definition(definitions.layers, "R in place of 2 R", twice=1),
    },
    "linear.taylor": {
        "error": ERROR,
        "remainder": REMAINDER,
        "sign": SIGN,
        "rows, degree 2": _rows_of(2, 3.0, (3, 6)),
        "rows, degree 3": _rows_of(3, 1.25, (2, 3)),
        "any polynomial": ANY,
        "features": FEATURES,
        "entry by entry": by_definition(definitions.polynomials, "without the 1", skipped=1),
    },
}

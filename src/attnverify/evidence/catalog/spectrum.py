"""Checks of the eigenspectrum claims: xi, the regularizer, piecewise linear softmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sympy as sp
import torch

from attnverify import ops, softmax, spectrum, walk
from attnverify.evidence.catalog.softmax import one_large_logit
from attnverify.evidence.checks import Check, Decision, Identity, Inequality, Twin, Verdict
from attnverify.evidence.rounding import gamma


def _root_width(W, exponent: float = 0.5):
    """sqrt(d), or another power of d for a twin."""
    d = W.shape[-1]
    return ops.root(d, W) if exponent == 0.5 else ops.constant(float(d) ** exponent, W)


def _trace_bound(W, factor: float = 1.0, size: Callable = spectrum.squared_norm):
    return ops.constant(factor, W) * _root_width(W) * ops.sqrt(size(W))


def _symmetric(W):
    return {"W": (W + W.mT) / 2}


def _identity() -> dict[str, torch.Tensor]:
    return {"W": 0.75 * torch.eye(3, dtype=torch.float64)}


XI_GENERAL = Inequality(
    left=lambda W: abs(walk.trace(W)),
    right=_trace_bound,
    sizes=tuple({"W": (d, d)} for d in (2, 3, 6)),
    extremal=(_identity,),
)
XI_GENERAL = replace(
    XI_GENERAL,
    twins=(
        Twin("tr(W^2) in place of ||W||_F^2", replace(
            XI_GENERAL, right=lambda W: _trace_bound(W, size=lambda A: abs(
                spectrum.square_trace(A))))),
        Twin("0.999 sqrt(d)", replace(XI_GENERAL, right=lambda W: _trace_bound(W, 0.999))),
    ),
)  # fmt: skip

XI = replace(XI_GENERAL, build=_symmetric, twins=())
XI = replace(
    XI,
    twins=(
        Twin("0.999 sqrt(d)", replace(XI, right=lambda W: _trace_bound(W, 0.999))),
        Twin("xi without its square root, tr(W)/tr(W^2) <= sqrt(d)", replace(
            XI, right=lambda W: _root_width(W) * spectrum.squared_norm(W))),
        Twin("d^0.49 in place of sqrt(d)", replace(
            XI, right=lambda W: _root_width(W, 0.49) * ops.sqrt(spectrum.squared_norm(W)))),
    ),
)  # fmt: skip


def _rotated(w, v):
    """H diag(w) H with the reflection H = I - 2 v v'/(v'v): eigenvalues w."""
    eye = ops.eye(w.shape[-1], w)
    outer = v[..., :, None] * v[..., None, :]
    H = eye - 2 * outer / ops.sum(v * v, -1, keepdims=True)[..., None]
    return H @ (eye * w[..., None, :]) @ H


def _squared_trace(w, v):
    """tr(W)^2 (m^2 + s^2), m and s^2 the mean and variance of the eigenvalues w."""
    d = ops.constant(w.shape[-1], w)
    m = ops.sum(w, -1) / d
    s2 = ops.sum(ops.square(w - ops.sum(w, -1, keepdims=True) / d), -1) / d
    return ops.square(walk.trace(_rotated(w, v))) * (m * m + s2)


def _width_times(w, v, power: int = 1):
    """d m^2 tr(W^2), so that xi^2 = d/(1 + CV^2); power: of the mean's square, for a twin."""
    d = ops.constant(w.shape[-1], w)
    m2 = ops.square(ops.sum(w, -1) / d)
    size = spectrum.squared_norm(_rotated(w, v))
    return d**power * m2 * size


def _spread_bound(w, v):
    """Relative error in |w|: H has entries at most 3 with 2d + 6 roundings, W 4d + 12 more."""
    d = w.shape[-1]
    size = (9 * d * abs(w).sum(-1)).square() * abs(w).sum(-1).square()
    return 2 * gamma(16 * d + d * d + 60, w) * size * (d + 1)


def _variation(right: Callable = _width_times, twins=()) -> Identity:
    sizes = tuple({"w": (d,), "v": (d,)} for d in (2, 4))
    return Identity(_squared_trace, right, _spread_bound, sizes, twins=twins)


VARIATION = _variation(twins=(
    Twin("d^2 in place of d", _variation(lambda w, v: _width_times(w, v, 2))),
))  # fmt: skip


def _sum_of_squares(W):
    return spectrum.squared_norm(W)


def _nearest_scalar(W, power: int = 1):
    """tr(W)^2/d + ||W - (tr W/d) I||_F^2."""
    d = ops.constant(W.shape[-1] ** power, W)
    return ops.square(walk.trace(W)) / d + spectrum.distance_to_scalar(W)


def _square_bound(W):
    """At most 2 d^2 + 12 roundings on either side of sums of squares of size (sum |W|)^2."""
    d = W.shape[-1]
    return 4 * gamma(2 * d * d + 12, W) * abs(W).sum((-2, -1)).square()


def _pythagoras(build: Callable, power: int = 1, twins=()) -> Identity:
    return Identity(
        _sum_of_squares, lambda W: _nearest_scalar(W, power), _square_bound,
        tuple({"W": (d, d)} for d in (2, 3, 5)), build=build, twins=twins,
    )  # fmt: skip


def _exactly_symmetric(W):
    return {"W": (W + ops.transpose(W)) / 2}


LOCATER = _pythagoras(_exactly_symmetric, twins=(
    Twin("d^2 in place of d", _pythagoras(_exactly_symmetric, 2)),
))  # fmt: skip
FROBENIUS = _pythagoras(lambda W: {"W": W}, twins=(
    Twin("d^2 in place of d", _pythagoras(lambda W: {"W": W}, 2)),
))  # fmt: skip


def _skew_part(W, half: int = 2):
    difference = W - ops.transpose(W)
    return spectrum.squared_norm(difference) / ops.constant(half, W)


def _asymmetric(half: int = 2, twins=()) -> Identity:
    return Identity(
        lambda W: spectrum.squared_norm(W) - spectrum.square_trace(W),
        lambda W: _skew_part(W, half), _square_bound,
        tuple({"W": (d, d)} for d in (2, 3, 5)), twins=twins,
    )  # fmt: skip


SKEW = _asymmetric(twins=(Twin("without the 1/2", _asymmetric(1)),))


def _unbounded(skew: bool) -> Callable[[], Verdict]:
    """tr(W^2) of (c/d) I plus s times a skew (or symmetric) 2x2 block, for all c, s and d >= 2.

    The block is traceless and its product with I too, so tr(W^2) = c^2/d -+ 2 s^2.
    """

    def run() -> Verdict:
        c, s, d = sp.symbols("c s d", positive=True)
        block = sp.Matrix([[0, s], [-s if skew else s, 0]])
        corner = c / d * sp.eye(2) + block
        total = sp.expand((corner**2).trace() + (d - 2) * (c / d) ** 2)
        low = sp.limit(total, s, sp.oo)
        return Verdict(low == -sp.oo, f"tr(W^2) = {sp.simplify(total)}")

    return run


BLOCK_LIMITS = "this family of matrices; it is enough for unboundedness"
UNBOUNDED = Decision(_unbounded(True), BLOCK_LIMITS, twins=(
    Twin("a symmetric block", Decision(_unbounded(False), BLOCK_LIMITS)),
))  # fmt: skip

PIECEWISE = Inequality(
    left=lambda u: abs(ops.softmax(u) - softmax.piecewise_linear(u)),
    right=lambda u: softmax.linearization_bound_sharp(u)[..., None] * ops.full(
        (u.shape[-1],), 1, u),
    sizes=tuple({"u": (T,)} for T in (2, 8, 64)),
    extremal=(lambda: one_large_logit(1 << 14, 1.0),),
)  # fmt: skip
PIECEWISE = replace(
    PIECEWISE,
    twins=(
        Twin("0.999 times the bound", replace(
            PIECEWISE, right=lambda u: ops.constant(0.999, u) * PIECEWISE.right(u))),
        Twin("never cut at 0", replace(
            PIECEWISE, left=lambda u: softmax.linearized(u) - ops.softmax(u),
            right=lambda u: softmax.piecewise_linear(u) - ops.softmax(u))),
    ),
)  # fmt: skip


def _blocked(u, s, threshold: float = 1.0):
    """The first logit lowered until u_1 <= mean(u) - threshold, with a little room for rounding."""
    rest, T = u[..., 1:], u.shape[-1]
    gap = threshold * (1 + 2.0**-40) + torch.nn.functional.softplus(s)
    first = rest.mean(-1, keepdim=True) - gap * T / (T - 1)
    return {"u": torch.cat([first, rest], -1)}


def _is_blocked(u):
    T = ops.constant(u.shape[-1], u)
    return [(u[..., 0] + 1, ops.sum(u, -1) / T)]


def _others_equal() -> dict[str, torch.Tensor]:
    tokens = 1 << 14
    u = torch.zeros(tokens, dtype=torch.float64)
    u[0] = -tokens / (tokens - 1) * (1 + 2.0**-40)
    return {"u": u}


def _share(u, factor: float = 1.0):
    """factor/(e T)."""
    return ops.constant(factor, u) * ops.exp(-ops.full(u.shape[:1], 1, u)) / u.shape[-1]


BLOCKED = Inequality(
    left=lambda u: ops.softmax(u)[..., 0],
    right=_share,
    sizes=tuple({"u": (T,), "s": (1,)} for T in (2, 8, 64)),
    build=_blocked,
    hypotheses=_is_blocked,
    extremal=(_others_equal,),
)
BLOCKED = replace(
    BLOCKED,
    twins=(
        Twin("0.999/(e T)", replace(BLOCKED, right=lambda u: _share(u, 0.999))),
        Twin("blocked from -0.99 on", replace(
            BLOCKED, build=lambda u, s: _blocked(u, s, 0.99), hypotheses=None,
            extremal=(lambda: {"u": 0.99 * _others_equal()["u"]},))),
    ),
)  # fmt: skip


def _mass(u):
    """The sum of the model's weights; (...)."""
    return ops.sum(softmax.piecewise_linear(u), -1)


def _all_but_one() -> dict[str, torch.Tensor]:
    """Four logits so far above the fifth that each has weight 1 in the model."""
    return {"u": torch.tensor([4.0, 4.0, 4.0, 4.0, -16.0], dtype=torch.float64)}


MASS_SIZES = tuple({"u": (T,)} for T in (3, 8))
ONE_AT_LEAST = Inequality(
    left=lambda u: ops.full(u.shape[:1], 1 - 2.0**-40, u),  # equality for equal logits
    right=_mass,
    sizes=MASS_SIZES,
)
ONE_AT_LEAST = replace(
    ONE_AT_LEAST,
    twins=(Twin("1.001 in place of 1", replace(
        ONE_AT_LEAST, left=lambda u: ops.full(u.shape[:1], 1.001, u))),),
)  # fmt: skip
ALL_BUT_ONE = Inequality(
    left=_mass,
    right=lambda u: ops.full(u.shape[:1], u.shape[-1] - 1, u),
    sizes=MASS_SIZES,
    extremal=(_all_but_one,),
)
ALL_BUT_ONE = replace(
    ALL_BUT_ONE,
    twins=(Twin("T - 1.01 in place of T - 1", replace(
        ALL_BUT_ONE, right=lambda u: ops.full(u.shape[:1], u.shape[-1] - 1.01, u))),),
)  # fmt: skip

CHECKS: dict[str, dict[str, Check]] = {
    "softmax.piecewise-linear": {"error": PIECEWISE, "blocked": BLOCKED, "least mass": ONE_AT_LEAST,
                                  "largest mass": ALL_BUT_ONE},
    "eigenspectrum.xi-bound": {"bound": XI, "variation": VARIATION},
    "eigenspectrum.locater": {"pythagoras": LOCATER},
    "eigenspectrum.locater-general": {"pythagoras": FROBENIUS, "skew": SKEW,
                                      "unbounded": UNBOUNDED},
}  # fmt: skip

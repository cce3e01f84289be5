"""Checks of the eigenspectrum claims: xi and the regularizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import sympy as sp
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma
from attnverify.checking.check import Check, Decision, Identity, Inequality, Twin
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import eigenspectrum as spectrum
from attnverify.mathematics import walk
from attnverify.support.verdict import Verdict
from attnverify.topics.localization.definitions import scores


def _root_width(W, exponent: float = 0.5):
    """Root of the width d, or another power of d for a twin."""
    d = W.shape[-1]
    return ops.root(d, W) if exponent == 0.5 else ops.constant(float(d) ** exponent, W)


def _trace_bound(W, size: Callable = spectrum.squared_norm):
    return _root_width(W) * ops.sqrt(size(W))


def _symmetric(W):
    return {"W": (W + W.mT) / 2}


def _identity() -> dict[str, torch.Tensor]:
    return {"W": 0.75 * torch.eye(3, dtype=torch.float64)}


XI_GENERAL = (
    Inequality(
        left=lambda W: abs(walk.trace(W)),
        right=_trace_bound,
        sizes=tuple({"W": (d, d)} for d in (2, 3, 6)),
        extremal=(_identity,),
    )
    .but(
        "tr(W^2) in place of ||W||_F^2",
        right=lambda W: _trace_bound(W, size=lambda A: abs(spectrum.square_trace(A))),
    )
    .times(0.9999)
)

XI = (
    replace(XI_GENERAL, build=_symmetric, twins=())
    .times(0.9999)
    .but(
        "xi without its square root, tr(W)/tr(W^2) <= sqrt(d)",
        right=lambda W: _root_width(W) * spectrum.squared_norm(W),
    )
    .but(
        "d^0.499 in place of sqrt(d)",
        right=lambda W: _root_width(W, 0.499) * ops.sqrt(spectrum.squared_norm(W)),
    )
)


def _rotated(w, v):
    """Matrix H diag(w) H with eigenvalues w and the reflection H = I - 2 v v'/(v'v)."""
    eye = ops.eye(w.shape[-1], w)
    outer = v[..., :, None] * v[..., None, :]
    H = eye - 2 * outer / ops.sum(v * v, -1, keepdims=True)[..., None]
    return H @ (eye * w[..., None, :]) @ H


def _squared_trace(w, v):
    """Product tr(W)^2 (m^2 + s^2) with the mean m and variance s^2 of the eigenvalues w."""
    d = ops.constant(w.shape[-1], w)
    m = ops.sum(w, -1) / d
    s2 = ops.sum(ops.square(w - ops.sum(w, -1, keepdims=True) / d), -1) / d
    return ops.square(walk.trace(_rotated(w, v))) * (m * m + s2)


def _width_times(w, v, less: int = 0):
    """Product d m^2 tr(W^2), so that xi^2 = d/(1 + CV^2); a twin has d - less in place of d."""
    d = ops.constant(w.shape[-1], w)
    m2 = ops.square(ops.sum(w, -1) / d)
    size = spectrum.squared_norm(_rotated(w, v))
    return (d - less) * m2 * size


def _spread_bound(w, v):
    """Rounding bound of both sides, with a = max |w|, S = sum |w|, q = mean w^2, a^2 <= d q.

    H is orthogonal, |H|_F = sqrt(d). Its entries are off by gamma times those of I + 2 |v||v|'/v'v,
    whose Frobenius norm is at most sqrt(d) + 2; the two products with it by gamma |H| |w| |H|. So W
    is off by e = gamma (d + 2 sqrt(d) + 4) a in that norm, and tr W by sqrt(d) e + gamma d a. The
    mean of w is off by gamma S/d, m^2 + s^2 by 6 gamma q, |W|_F^2 = d q by 2 sqrt(d q) e + gamma
    d q. Left: 2 S q times the error of tr W, and 6 gamma S^2 q. Right: S^2/d times that of |W|_F^2,
    and 2 gamma S^2 q. Twice the sum covers the second order. gamma: d^2 terms in the longest sum,
    and those of H, of the means and single operations.
    """
    d = w.shape[-1]
    step, a, S, q = gamma(d * d + 3 * d + 20, w), abs(w).amax(-1), abs(w).sum(-1), (w * w).mean(-1)
    e = step * (d + 2 * d**0.5 + 4) * a
    left = 2 * S * q * (d**0.5 * e + step * d * a) + 6 * step * S * S * q
    right = S * S / d * (2 * (d * q).sqrt() * e + step * d * q) + 2 * step * S * S * q
    return 2 * (left + right)


def _variation(right: Callable = _width_times, twins=()) -> Identity:
    sizes = tuple({"w": (d,), "v": (d,)} for d in (2, 4))
    return Identity(_squared_trace, right, _spread_bound, sizes, twins=twins)


VARIATION = _variation(
    twins=(Twin("d - 1 in place of d", _variation(lambda w, v: _width_times(w, v, 1))),)
)


def _sum_of_squares(W):
    return spectrum.squared_norm(W)


def _nearest_scalar(W, less: int = 0):
    """Sum tr(W)^2/d + ||W - (tr W/d) I||_F^2; a twin has another denominator."""
    d = ops.constant(W.shape[-1] - less, W)
    return ops.square(walk.trace(W)) / d + spectrum.distance_to_scalar(W)


def _square_bound(W):
    """Rounding bound: at most 2 d^2 + 12 roundings a side, of sums of squares of (sum |W|)^2."""
    d = W.shape[-1]
    return 4 * gamma(2 * d * d + 12, W) * abs(W).sum((-2, -1)).square()


def _pythagoras(build: Callable, less: int = 0, twins=()) -> Identity:
    return Identity(
        _sum_of_squares,
        lambda W: _nearest_scalar(W, less),
        _square_bound,
        tuple({"W": (d, d)} for d in (2, 3, 5)),
        build=build,
        twins=twins,
    )


def _exactly_symmetric(W):
    return {"W": (W + ops.transpose(W)) / 2}


LOCATER = _pythagoras(
    _exactly_symmetric, twins=(Twin("d - 1 in place of d", _pythagoras(_exactly_symmetric, 1)),)
)
FROBENIUS = _pythagoras(
    lambda W: {"W": W}, twins=(Twin("d - 1 in place of d", _pythagoras(lambda W: {"W": W}, 1)),)
)


def _skew_part(W, half: int = 2):
    difference = W - ops.transpose(W)
    return spectrum.squared_norm(difference) / ops.constant(half, W)


def _asymmetric(half: int = 2, twins=()) -> Identity:
    return Identity(
        lambda W: spectrum.squared_norm(W) - spectrum.square_trace(W),
        lambda W: _skew_part(W, half),
        _square_bound,
        tuple({"W": (d, d)} for d in (2, 3, 5)),
        twins=twins,
    )


SKEW = _asymmetric(twins=(Twin("without the 1/2", _asymmetric(1)),))


def _unbounded(skew: bool) -> Verdict:
    """Trace of W^2 for (c/d) I plus s times a skew or symmetric 2x2 block, all c, s, d >= 2.

    The block is traceless and its product with I too, so tr(W^2) = c^2/d -+ 2 s^2.
    """
    c, s, d = sp.symbols("c s d", positive=True)
    block = sp.Matrix([[0, s], [-s if skew else s, 0]])
    corner = c / d * sp.eye(2) + block
    total = sp.expand((corner**2).trace() + (d - 2) * (c / d) ** 2)
    low = sp.limit(total, s, sp.oo)
    return Verdict(low == -sp.oo, f"tr(W^2) = {sp.simplify(total)}")


BLOCK_LIMITS = "this family of matrices; it is enough for unboundedness"
UNBOUNDED = Decision(partial(_unbounded, True), BLOCK_LIMITS).but(
    "a symmetric block", run=partial(_unbounded, False)
)

CHECKS: dict[str, dict[str, Check]] = {
    "eigenspectrum.xi-bound": {
        "bound": XI,
        "variation": VARIATION,
        "entry by entry": by_definition(scores.spectra, "|W| in place of W^2", power=1),
    },
    "eigenspectrum.locater": {"pythagoras": LOCATER},
    "eigenspectrum.locater-general": {
        "pythagoras": FROBENIUS,
        "skew": SKEW,
        "unbounded": UNBOUNDED,
    },
}

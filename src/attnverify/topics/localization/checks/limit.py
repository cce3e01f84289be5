"""Checks of the limit of the signal propagation probability: rate, midpoint, contrast, skewness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import flint
import numpy as np
import sympy as sp
import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import localization, walk
from attnverify.support.verdict import Verdict
from attnverify.topics.eigenspectrum.checks import XI_GENERAL
from attnverify.topics.localization.definitions import scores

arb = flint.arb


def _near_limit(T, t, xi, eta, asymmetry=1):
    """Left and right sides of the claim, one for each direction; (..., 2) each."""
    one = ops.constant(1, T)
    i = t * T + one / 2  # the position is t; scores in units of T sqrt(tr(MM'))
    mean = walk.score_mean(i, T, xi) / T
    deviation = ops.sqrt(walk.score_variance(i, T, 1, asymmetry)) / T
    normal = localization.gaussian(mean, deviation, -eta, (T - 1) * eta)
    limit = localization.limit(t, xi, eta, asymmetry)
    tail = ops.normal_cdf((mean - (T - 1) * eta) / deviation)
    left = ops.join([normal - limit, limit - normal - tail], -1)
    right = localization.limit_rate(T)
    return left, ops.join([right, right], -1)


def _sides(index: int) -> Callable:
    return lambda **instance: _near_limit(**instance)[index]


def _positions(T, t, xi, eta):
    """Instance with 2 <= T <= 66 and 0 <= t <= 1, for real T and t."""
    return {"T": 2 + 64 * torch.sigmoid(T), "t": torch.sigmoid(t), "xi": xi, "eta": eta}


def _in_range(T, t, xi, eta):
    """Hypotheses 2 <= T and 0 <= t <= 1."""
    return [(2 + 0 * T, T), (0 * t, t), (t, 1 + 0 * t)]


def _middle_token() -> dict[str, torch.Tensor]:
    """Instance with t = 1/2 and a score at one standard deviation, T = 65."""
    return {
        k: torch.tensor([v], dtype=torch.float64)
        for k, v in {"T": 65.0, "t": 0.5, "xi": 0.0, "eta": 12**-0.5}.items()
    }


NEAR = Inequality(
    left=_sides(0),
    right=_sides(1),
    sizes=({"T": (1,), "t": (1,), "xi": (1,), "eta": (1,)},),
    build=_positions,
    hypotheses=_in_range,
    extremal=(_middle_token,),
)


def _seven_twelfths(T, t, xi, eta):
    """Limit of a twin, with 1/2 in place of 7/12."""
    left, _ = _near_limit(T, t, xi, eta)
    score = eta + (2 * t - 1) * xi / 2
    smaller = walk.limit_variance(t) - ops.constant(1, T) / 12
    change = localization.limit(t, xi, eta) - ops.normal_cdf(score / ops.sqrt(smaller))
    return left + ops.join([change, -change], -1)


def _last_token(**more: float) -> dict[str, torch.Tensor]:
    """Instance of the middle token moved to t = 1."""
    values = {"t": 1.0, **more}
    return {**_middle_token(), **{k: torch.tensor([v]).double() for k, v in values.items()}}


NEAR = (
    NEAR.times(0.9998)
    .but("1/2 in place of 7/12", left=_seven_twelfths, extremal=(_last_token,))
    .but("T^3 in place of T^2", right=lambda T, **p: _near_limit(T, **p)[1] / T)
)

t, xi, eta, T = sp.symbols("t xi eta T", real=True)
LIMIT_LIMITS = "the limit formula; for the exact law see the rate in the chapter"


def _phi(x):
    """Standard normal distribution function in sympy."""
    return (1 + sp.erf(x / sp.sqrt(2))) / 2


def symbolic_limit(asymmetry=1) -> Any:
    """Limit rho(t) in sympy, from the package's own formula."""
    return _phi(localization.limit_argument(t, xi, eta, asymmetry, sp.sqrt))


def _midpoint(root: sp.Expr, slope: sp.Expr) -> Verdict:
    """Whether value and slope of rho at 1/2 are as stated, for all xi and eta."""
    rho, half = symbolic_limit(), {t: sp.Rational(1, 2)}
    density = sp.exp(-((root * eta) ** 2) / 2) / sp.sqrt(2 * sp.pi)
    value = sp.simplify(rho.subs(half) - _phi(root * eta))
    rise = sp.simplify(sp.diff(rho, t).subs(half) - slope * xi * density)
    return Verdict(value == 0 and rise == 0, f"differences {value} and {rise}")


MIDPOINT = (
    Decision(partial(_midpoint, sp.sqrt(12), sp.sqrt(12)), LIMIT_LIMITS)
    .but("sqrt(11) in the value", run=partial(_midpoint, sp.sqrt(11), sp.sqrt(12)))
    .but("slope sqrt(6) xi phi", run=partial(_midpoint, sp.sqrt(12), sp.sqrt(6)))
)


def _signs(tokens: int, position: int) -> Verdict:
    """Whether weights for eigenvalues of different signs are one multiset, at one token."""
    with ops.precision(128):
        g = ops.balls(np.array([(2 * position - tokens - 1) / 2]))
        h = (arb(tokens * tokens - 1) / 12).sqrt()
        rows = [
            localization.symmetric_weights(ops.balls(np.array(w)), g, h)[0]
            for w in ([1.0, 2.0, 0.5], [-1.0, 2.0, -0.5])
        ]
        first, second = (sorted(row, key=float) for row in rows)
        negated = sorted((-v for v in first), key=float)
        pairs = [*zip(first, second, strict=True), *zip(first, negated, strict=True)]
        if any(a != b for a, b in pairs):
            return Verdict(False, "weights certainly differ", len(pairs))
        same = all(abs(a - b) < arb(2) ** -100 for a, b in pairs)
    return Verdict(True if same else None, "weights agree and are symmetric", len(pairs))


SIGN_LIMITS = "these eigenvalues; all of them are derived in the notebook"
SIGNS = Decision(partial(_signs, 7, 4), SIGN_LIMITS, "certified", 12).but(
    "the token after the middle", run=partial(_signs, 7, 5)
)


def _density(x):
    """Standard normal density in sympy."""
    return sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi)


def _signed(slope, stated, point: dict) -> Verdict:
    """Whether ``slope`` > 0 everywhere: it equals ``stated``, whose sign sympy decides.

    If it does not, a certain value at ``point`` can still say no.
    """
    if stated.is_positive and sp.simplify(slope - stated) == 0:
        return Verdict(True, "the derivative is a sum of positive terms")
    value = slope.subs(point)
    return Verdict(False if value < 0 else None, f"derivative {sp.N(value, 5)} at {point}")


def _increasing(sign: int) -> Verdict:
    """Whether rho(t) - sign rho(1 - t) increases with xi for all xi, eta and t > 1/2.

    With sign 1 it is the contrast, which must also be 0 at xi = 0 and tend to -1 and 1.
    """
    s = sp.Symbol("s", positive=True)  # t = 1/2 + s
    rho, half = symbolic_limit(), sp.Rational(1, 2)
    contrast: Any = rho.subs(t, half + s) - sign * rho.subs(t, half - s)
    slope = sp.diff(contrast, xi)
    root = sp.sqrt(walk.limit_variance(half + s))
    up, down = _density((eta + s * xi) / root), _density((eta - s * xi) / root)
    found = _signed(slope, s / root * (up + sign * down), {s: half / 2, xi: 1, eta: 1})
    if not found.holds:
        return found
    values = [contrast.subs(xi, 0), *(sp.limit(contrast, xi, e) for e in (-sp.oo, sp.oo))]
    known = [sp.simplify(v) for v in values] == [0, -1, 1]
    return Verdict(known, f"{found.argument}; at 0 and in the limits {values}")


CONTRAST = Decision(partial(_increasing, 1), LIMIT_LIMITS).but(
    "the sum rho(t) + rho(1 - t) in place of the contrast", run=partial(_increasing, -1)
)


def _steeper(condition: bool) -> Verdict:
    """Whether the contrast Phi(a/sqrt v) + Phi(b/sqrt v) - 1 falls as v grows.

    a = eta + s xi and b = s xi - eta with s = t - 1/2; both are >= 0 and not both 0 under the
    condition |eta| <= s xi, and b may be negative without it. a and b may be exchanged, so a > 0.
    """
    v, a, size = sp.symbols("v a b", positive=True)
    b = sp.Symbol("b", nonnegative=True) if condition else -size
    fall = -sp.diff(_phi(a / sp.sqrt(v)) + _phi(b / sp.sqrt(v)), v)
    terms = a * _density(a / sp.sqrt(v)) + b * _density(b / sp.sqrt(v))
    return _signed(fall, terms / (2 * v * sp.sqrt(v)), {a: 3, size: 1, v: 1})


STEEPER = Decision(partial(_steeper, True), LIMIT_LIMITS).but(
    "without |eta| <= |t - 1/2| |xi|", run=partial(_steeper, False)
)


def _blunter(condition: bool) -> Verdict:
    """Whether the contrast falls as the squared norm k of the skew part of M grows.

    S: squared norm of the symmetric part; a = lambda/T + s c and b = s c - lambda/T with its trace
    c > 0 and s = t - 1/2. The scores' variance is F v with F = S + k and gamma = (S - k)/F.
    """
    s, S, k, a, size = sp.symbols("s S k a b", positive=True)
    b = sp.Symbol("b", nonnegative=True) if condition else -size
    variance: Any = sp.factor((S + k) * walk.limit_variance(sp.S.Half + s, (S - k) / (S + k)))
    fall = -sp.diff(_phi(a / sp.sqrt(variance)) + _phi(b / sp.sqrt(variance)), k)
    terms = a * _density(a / sp.sqrt(variance)) + b * _density(b / sp.sqrt(variance))
    point = {a: 3, size: 1, s: sp.S.Half, S: 1, k: 1}
    return _signed(fall, terms / (24 * variance * sp.sqrt(variance)), point)


BLUNTER = Decision(partial(_blunter, True), LIMIT_LIMITS).but(
    "without lambda/T <= |t - 1/2| |c|", run=partial(_blunter, False)
)


def _skew(T, t, xi, eta, asymmetry):
    """Instance as in :func:`_positions`, with -1 < gamma < 1."""
    return {**_positions(T, t, xi, eta), "asymmetry": torch.tanh(asymmetry)}


def _skew_middle(gamma: float) -> dict[str, torch.Tensor]:
    return {**_middle_token(), "asymmetry": torch.tensor([gamma]).double()}


GENERAL = (
    replace(
        NEAR,
        sizes=({**NEAR.sizes[0], "asymmetry": (1,)},),
        build=_skew,
        hypotheses=lambda T, t, xi, eta, asymmetry: [
            *_in_range(T, t, xi, eta),
            (abs(asymmetry), 1 + 0 * t),
        ],
        extremal=tuple(partial(_skew_middle, gamma) for gamma in (-0.5, 0.875)),
        twins=(),
    )
    .but(
        "the symmetric variance for any W",
        left=lambda asymmetry, **p: (
            _near_limit(**p, asymmetry=asymmetry)[0] + _change(**p, asymmetry=asymmetry)
        ),
        extremal=(lambda: _last_token(asymmetry=-0.5),),
    )
    .times(0.9998)
)


def _change(T, t, xi, eta, asymmetry):
    """Change of both distances if the symmetric limit replaces the general one."""
    change = localization.limit(t, xi, eta, asymmetry) - localization.limit(t, xi, eta)
    return ops.join([change, -change], -1)


CHECKS: dict[str, dict[str, Check]] = {
    "localization.asymmetric": {
        "rate": GENERAL,
        "steeper": STEEPER,
        "blunter": BLUNTER,
        "xi": XI_GENERAL,
        "method": by_definition(
            partial(scores.many_tokens, False), "without the finite-size term", finite=0
        ),
    },
}

"""Rigorous values of P(Q <= x), Q = sum mu_k z_k^2, in ball arithmetic by two methods.

:func:`enclosure` evaluates the sum of :mod:`attnverify.mathematics.chisquare` with its bounds;
:func:`reference` integrates the characteristic function along a shifted line by adaptive
Gauss-Legendre quadrature (Johansson 2018, acb.integral), which shares no formula with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import acb, arb

from attnverify.arithmetic import ops
from attnverify.mathematics import chisquare

MOST_TERMS = 1 << 16


def enclosure(weights: np.ndarray, x: Any, accuracy: float = 1e-12) -> arb:
    """Ball around P(Q <= x) of radius about ``accuracy``; weights: balls (m,); x: a ball."""
    mean = np.sum(weights)
    level = (-arb(accuracy / 4).log()).upper()
    low, high = chisquare.reach(weights, level)
    if x < mean - low or x > mean + high:  # the tail bound alone says it
        tail = arb(0, 1) * (-level).exp()
        return (1 if x > mean else 0) + tail
    period = (mean + high - x).max(x - mean + low)
    step = 2 * arb.pi() / arb(period.upper())
    terms = 8
    while chisquare.truncation(weights, scalar(terms * step)) > accuracy / 2:
        terms *= 2
        if terms > MOST_TERMS:
            return arb(0.5, 0.5)  # nothing shown
    halves = ops.balls(np.arange(terms) + 0.5)
    value = chisquare.partial_sum(weights, scalar(x)[None], scalar(step), halves)[0]
    rest = chisquare.truncation(weights, scalar(terms * step)) + (-level).exp()
    return arb(0.5) - value + arb(0, 1) * rest


def scalar(value: arb) -> np.ndarray:
    """Array without axes that holds one ball."""
    out = np.empty((), dtype=object)
    out[()] = value
    return out


def reference(weights: list[arb], x: arb, accuracy: float = 1e-10) -> arb:
    """A ball around P(Q <= x) by quadrature along Re z = theta of E[e^{zQ}] e^{-zx}/z.

    The line must lie where E[e^{zQ}] is finite. For theta > 0 the integral is 2 pi i P(Q > x), for
    theta < 0 it is -2 pi i P(Q <= x). Above height S the integrand is at most its modulus bound at
    S times (s/S)^-e/s, which integrates to that bound over e; e is the exponent of its decay.
    """
    mean = sum(weights, arb(0))
    above = bool(x > mean)
    edge = max(0.0, *(float(v.upper()) if above else -float(v.lower()) for v in weights))
    deviation = (2 * sum((v * v for v in weights), arb(0))).sqrt()
    theta = (1 if above else -1) * min(0.25 / edge if edge else 1e9, 1 / float(deviation))

    def transform(z: acb, analytic: bool) -> acb:
        out = (-z * x).exp() / z
        for v in weights:
            out = out * (1 - 2 * z * v).rsqrt(analytic=analytic)
        return out

    S = 1 / float(deviation)
    while True:
        rest, exponent = _beyond(weights, x, theta, S)
        if rest / exponent < accuracy / 4:
            break
        S *= 2
    value = acb.integral(
        lambda s, analytic: transform(theta + acb(0, 1) * s, analytic),
        0,
        S,
        rel_tol=arb(accuracy),
        abs_tol=arb(accuracy / 8),
    )
    part = (value.real if above else -value.real) / arb.pi()
    part = part + arb(0, 1) * (rest / exponent / arb.pi())
    return 1 - part if above else part


def _beyond(weights, x: arb, theta: float, S: float) -> tuple[arb, arb]:
    """Modulus of the transform times S at height S, and the exponent of its decay from there on."""
    size = (-arb(theta) * x).exp()
    exponent = arb(0)
    for v in weights:
        fixed, moving = (1 - 2 * theta * v) ** 2, (2 * S * v) ** 2
        size = size / (fixed + moving).sqrt().sqrt()
        exponent += moving / (fixed + moving) / 2
    return size, exponent

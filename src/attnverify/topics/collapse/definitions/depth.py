"""Definitions of many heads over depth, and of the two-sided window."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, total
from attnverify.mathematics import depth_bounds, localization


def _tanh(x: arb) -> arb:
    return ((2 * x).exp() - 1) / ((2 * x).exp() + 1)


def recursion(power: int = 2) -> Iterator[Pair]:
    """Two steps of a -> a sum_h v_h tanh(c_h a^2), and V tanh(m a^2/V) with the sums V and m."""
    c, v, size = (abs(a) for a in drawn(6, (3,), (3,), (1,)))
    known = size[0]
    for _ in range(2):
        known = known * total(v[h] * _tanh(c[h] * known**power) for h in range(3))
    yield "two layers", depth_bounds.recursion(size, c, v, 2), np.array([known], dtype=object)
    V, m = total(v), total(a * b for a, b in zip(c, v, strict=True))
    of_mean = V * _tanh(m * size[0] ** power / V)
    yield "mean", depth_bounds.mean_factor(size, c, v), np.array([of_mean], dtype=object)


def window(least: int = 12) -> Iterator[Pair]:
    """Probability P(-low < Z < high), Z normal with mean s xi, variance (1 + gamma) s^2 + 1/12."""
    t, xi, gamma, theta, T = (abs(a) for a in drawn(7, (1,), (1,), (1,), (1,), (1,)))
    s = t[0] - arb(1) / 2
    deviation = ((1 + gamma[0]) * s * s + arb(1) / least).sqrt()

    def below(x: arb) -> arb:
        return (1 + ((x - s * xi[0]) / (deviation * arb(2).sqrt())).erf()) / 2

    low, high = theta[0] / T[0], theta[0] - theta[0] / T[0]
    known = np.array([below(high) - below(-low)], dtype=object)
    yield "window", localization.fixed_temperature(t, xi, theta, T, gamma), known
    known = np.array([below(theta[0]) - below(arb(0))], dtype=object)
    yield "limit", localization.fixed_temperature_limit(t, xi, theta, gamma), known

"""Definitions of many heads over depth, and of the two-sided window."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn
from attnverify.mathematics import localization


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

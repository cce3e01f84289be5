"""Figures of two trainings that agree up to chance, at a stated probability of a false alarm.

Training amplifies rounding, so another machine trains other networks of the same kind, and only
means over networks can be compared. If both groups of networks, n and m of them, come from one
normal law, then they have one variance, and

    (difference of means) / (s sqrt(1/n + 1/m)),
    s^2 = ((n - 1) s_n^2 + (m - 1) s_m^2) / (n + m - 2),

has Student's law with n + m - 2 degrees of freedom, exactly. (Welch's approximation would be
needed for two different variances; here different variances are a disagreement too.) The quantile
is that of 1 - level / 2. By Bonferroni's inequality all comparisons of the suite together raise a
false alarm with probability at most COMPARISONS * level = ALARM. Means of many tokens and heads
are close to normal; the law of a mean of n networks is closer still.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from scipy.stats import t as student

from attnverify.experiments.engine.model import Rerun
from attnverify.support.errors import require

ALARM = 1e-4  # that any comparison of the whole suite fails although nothing is wrong
COMPARISONS = 13  # at most so many in the suite; tests/experiments/test_experiments.py counts them
LEVEL = ALARM / COMPARISONS


class Group(NamedTuple):
    """What a group of networks measured: mean, standard deviation (n - 1), number of networks."""

    mean: float
    deviation: float
    networks: int

    @classmethod
    def of(cls, values: list[float]) -> Group:
        require(len(values) >= 2, "values", values, "those of at least two networks")
        each = torch.tensor(values, dtype=torch.float64)
        return cls(float(each.mean()), float(each.std()), len(values))


def compared(what: str, stored: Group, again: Group, level: float = LEVEL) -> Rerun:
    """The two means with the difference that chance allows; see the module.

    Raises InputError for a group of fewer than two networks or without any spread.
    """
    for group in (stored, again):
        sound = group.networks >= 2 and 0 < group.deviation < math.inf
        require(sound, "group", group, "at least two networks that differ by a finite amount")
    freedom = stored.networks + again.networks - 2
    squares = sum((group.networks - 1) * group.deviation**2 for group in (stored, again))
    error = math.sqrt(squares / freedom * (1 / stored.networks + 1 / again.networks))
    quantile = float(student.isf(level / 2, freedom))
    return Rerun(what, stored.mean, again.mean, quantile * error, chance=level)

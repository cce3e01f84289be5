"""Two measurements of one figure agree up to rounding, or up to chance.

Rounding. In float32 each rounding is 2^29 times as large as in float64. To first order the error of
a figure is a sum of roundings, at most m of them along one chain of products, each times what it is
multiplied by later. As long as they do not all cancel in float32, the error in float64 is at most
m 2^-29 times the float32 one; two machines are apart by twice that. Where the same bound holds for
many figures, the largest relative error in float32 stands for all, so that no lucky one counts.

Chance. Training amplifies rounding, so another machine trains other networks of the same kind, and
only means over networks can be compared. If both groups of networks, n and m of them, come from one
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
from collections.abc import Iterable
from typing import NamedTuple

import torch
from scipy.stats import t as student

from attnverify.experiments.engine.model import Rerun
from attnverify.support.errors import require

WIDER = 2.0**-29  # a rounding in float64 over one in float32


def significant(value: float | None, digits: int) -> float | None:
    """A figure as tables have it, to so many digits; None if it is missing, NaN or infinite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")


def share(roundings: int) -> float:
    """The share of a float32 error by which two float64 runs may differ."""
    return 2 * roundings * WIDER


def relative(wide: Iterable[float], narrow: Iterable[float]) -> float:
    """Largest relative error of the float32 figures; those that are 0 are left out."""
    pairs = [(a, b) for a, b in zip(wide, narrow, strict=True) if a]
    return max(abs(a - b) / abs(a) for a, b in pairs)


ALARM = 1e-4  # that any comparison of the whole suite fails although nothing is wrong
COMPARISONS = 24  # at most so many in the suite; tests/experiments/test_experiments.py counts them
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

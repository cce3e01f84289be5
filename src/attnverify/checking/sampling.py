"""Seeded instances: float batches for sampling and search, exact ones for certificates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Identity, Inequality, Instance, Sizes

SMALLEST, LARGEST = 1e-2, 1e1  # standard deviations of sampled parameters, log-uniform between
UNDERFLOW = 2.0**-960


def parameters(
    sizes: Sizes,
    batch: int,
    random: torch.Generator,
    spread: bool,
) -> Instance:
    """Gaussian parameters (batch, *size), drawn on the CPU so that every device sees the same.

    With ``spread``, each parameter of each instance has its own scale, log-uniform in 0.01..10.
    """
    out = {}
    for name, size in sizes.items():
        draw = torch.randn(batch, *size, generator=random, dtype=torch.float64)
        out[name] = draw * torch.exp(log_scale(batch, len(size), random)) if spread else draw
    return out


def log_scale(batch: int, rank: int, random: torch.Generator) -> torch.Tensor:
    """Logarithms of scales, uniform between those of 0.01 and 10; (batch, 1, ..., 1)."""
    low, high = math.log(SMALLEST), math.log(LARGEST)
    uniform = torch.rand(batch, *[1] * rank, generator=random, dtype=torch.float64)
    return low + (high - low) * uniform


def exact_parameters(check: Identity, sizes: Sizes, seed: int) -> Instance:
    """Small random rationals with denominator 8, in the arithmetic of the check."""
    random = np.random.default_rng(seed)
    out = {}
    for name, size in sizes.items():
        numerators = random.integers(-24, 25, size=size)
        fractions = ops.rationals(numerators) / flint.fmpq(8)
        out[name] = fractions if check.arithmetic == "rational" else ops.balls(fractions)
    return out


def single(instance: Instance, index: int) -> Instance:
    """One instance of a batch, detached, on the CPU."""
    return {name: value[index].detach().cpu() for name, value in instance.items()}


@dataclass(frozen=True)
class Ratios:
    """What floats see of a batch of instances.

    value: the largest left/right over the entries that floats decide, -inf if there is none;
    decided: whether floats decide every entry and see the hypotheses met; lost: whether a left side
    came out as 0, or so near that its digits are gone; (batch,) each.
    """

    value: torch.Tensor
    decided: torch.Tensor
    lost: torch.Tensor

    def cpu(self) -> Ratios:
        """The same on the CPU."""
        return Ratios(self.value.cpu(), self.decided.cpu(), self.lost.cpu())

    @property
    def not_below(self) -> torch.Tensor:
        """Which instances floats do not put at left <= right in every entry; (batch,)."""
        return ~self.decided | (self.value > 1)

    @property
    def open(self) -> torch.Tensor:
        """Those, and where a left side was lost: what balls are to decide; (batch,)."""
        return self.not_below | self.lost


def ratios(check: Inequality, instance: Instance) -> Ratios:
    """left/right in floats. An entry is decided if it is a finite number and right is positive.

    Not by a hair: a side below 2^-960, near the smallest normal number 2^-1022, may have lost its
    digits to underflow. A left side may come out as 0 by cancellation, too, however large it is;
    that is *lost*. What cancels beside other summands is not seen here: so balls look at instances
    over the whole range of ratios (:mod:`attnverify.checking.search`).
    """
    batch = next(iter(instance.values())).shape[0]
    left, right = (side.reshape(batch, -1) for side in check.sides(**instance))
    positive = torch.isfinite(left) & torch.isfinite(right) & (right > UNDERFLOW)
    ratio = left / torch.where(positive, right, 1.0)
    decided = positive & torch.isfinite(ratio)
    value = torch.where(decided, ratio, -torch.inf).amax(-1)
    lost = (abs(left) < UNDERFLOW).any(-1)
    return Ratios(value, decided.all(-1) & _supposed(check, instance, batch), lost)


def _supposed(check: Inequality, instance: Instance, batch: int) -> torch.Tensor:
    """Whether floats see the hypotheses met; where they do not, balls are asked. (batch,)"""
    met = torch.ones(batch, dtype=torch.bool, device=next(iter(instance.values())).device)
    if check.hypotheses is None:
        return met
    with torch.no_grad():
        for smaller, larger in check.hypotheses(**instance):
            below = _rows(smaller, batch) <= _rows(larger, batch)
            met &= below.all(-1) if isinstance(below, torch.Tensor) else bool(np.all(below))
    return met


def _rows(value: Any, batch: int) -> Any:
    """A tensor as (batch, entries), or (1, entries) if it is one for all; numbers as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    alone = value.ndim > 0 and value.shape[0] == batch
    return value.reshape(batch if alone else 1, -1)

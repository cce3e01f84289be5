"""Check of the sum over a growing stream that keeps tokens apart."""

from __future__ import annotations

from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Inequality, Instance

DEPTH = 30


def _cubes(r, m):
    """sum over l < 30 of (r^2 + l m^2)^(-3/2)."""
    total = 0 * r
    for i in range(DEPTH):
        length = ops.sqrt(ops.square(r) + ops.constant(i, r) * ops.square(m))
        total = total + 1 / length**3
    return total


def _integral(r, m, first: int = 1):
    """first r^-3 + 2 m^-2 r^-1."""
    return ops.constant(first, r) / r**3 + ops.constant(2, r) / (ops.square(m) * r)


def _at(r: float, m: float) -> Instance:
    return {"r": torch.tensor([r]).double(), "m": torch.tensor([m]).double()}


# r = m = 1 has 2.250 below 3, more than the integral alone; fast growth leaves the first term
CUBES = (
    Inequality(
        left=_cubes,
        right=_integral,
        sizes=({"r": (1,), "m": (1,)},),
        build=lambda r, m: {"r": torch.exp(r), "m": torch.exp(m)},
        hypotheses=lambda r, m: [(0 * r, r), (0 * m, m)],
        extremal=(partial(_at, 1.0, 1.0), partial(_at, 1.0, 2.0**10)),
    )
    .times(0.9999)
    .but("without the first term", right=partial(_integral, first=0))
)

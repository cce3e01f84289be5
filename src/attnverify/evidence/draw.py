"""Seeded instances: float batches for sampling and search, exact ones for certificates."""

from __future__ import annotations

import flint
import numpy as np
import torch

from attnverify import ops
from attnverify.evidence.forms import Identity, Inequality, Instance, Sizes
from attnverify.seeds import generator as generator
from attnverify.seeds import seed_for as seed_for

SMALLEST, LARGEST = 1e-2, 1e1  # standard deviations of sampled parameters, log-uniform between


def parameters(
    sizes: Sizes,
    batch: int,
    random: torch.Generator,
    spread: bool,
    shared: tuple[str, ...] = (),
) -> Instance:
    """Gaussian parameters (batch, *size), drawn on the CPU so that every device sees the same.

    With ``spread``, each parameter of each instance has its own scale, log-uniform in 0.01..10.
    Parameters named in ``shared`` have no batch axis.
    """
    out = {}
    for name, size in sizes.items():
        if name in shared:
            out[name] = parameters({name: size}, 1, random, spread)[name][0]
            continue
        draw = torch.randn(batch, *size, generator=random, dtype=torch.float64)
        if spread:
            low, high = np.log(SMALLEST), np.log(LARGEST)
            scale = torch.rand(batch, *[1] * len(size), generator=random, dtype=torch.float64)
            draw = draw * torch.exp(low + (high - low) * scale)
        out[name] = draw
    return out


def exact_parameters(check: Identity, sizes: Sizes, seed: int) -> Instance:
    """Small random rationals with denominator 8, in the arithmetic of the check."""
    random = np.random.default_rng(seed)
    out = {}
    for name, size in sizes.items():
        numerators = random.integers(-24, 25, size=size)
        fractions = np.empty(size, dtype=object)
        fractions.flat = [flint.fmpq(int(k), 8) for k in numerators.flat]
        out[name] = fractions if check.arithmetic == "rational" else ops.balls(fractions)
    return out


def single(instance: Instance, index: int) -> Instance:
    """One instance of a batch, detached, on the CPU."""
    return {name: value[index].detach().cpu() for name, value in instance.items()}


def ratios(check: Inequality, instance: Instance) -> torch.Tensor:
    """Largest left/right of each instance of a batch; entries with right <= 0 count if violated."""
    left, right = check.left(**instance), check.right(**instance)
    batch = next(iter(instance.values())).shape[0]
    left, right = left.reshape(batch, -1), right.reshape(batch, -1)
    violated = (left > right).to(left.dtype) * 2  # only reached where right <= 0
    return torch.where(right > 0, left / right.clamp_min(1e-300), violated).amax(-1)

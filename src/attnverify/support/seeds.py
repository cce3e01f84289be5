"""Seeds by name: a random stream depends on the run's seed and on names, and on nothing else."""

from __future__ import annotations

import hashlib

import torch


def seed_for(seed: int, *names: str) -> int:
    """A seed that depends on the run's seed and on names, and on nothing else."""
    text = "/".join([str(seed), *names])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def generator(seed: int, *names: str) -> torch.Generator:
    """A generator on the CPU that starts at :func:`seed_for`."""
    return torch.Generator().manual_seed(seed_for(seed, *names))

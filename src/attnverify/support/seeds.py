"""Seeds by name, so that a random stream depends on the run's seed and its labels alone."""

from __future__ import annotations

import hashlib

import torch


def seed_for(seed: int, *names: str) -> int:
    """Seed that depends on the run's seed and on the labels alone."""
    text = "/".join([str(seed), *names])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def generator(seed: int, *names: str) -> torch.Generator:
    """Random generator on the CPU with the seed of :func:`seed_for`."""
    return torch.Generator().manual_seed(seed_for(seed, *names))

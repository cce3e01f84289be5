"""Small networks whose weights, of two decimals, are written into a page."""

from __future__ import annotations

import json

import torch
from torch import Tensor

DECIMALS = 2


def drawn(seed: int, *shape: int) -> Tensor:
    """Standard normal numbers with two decimals, float64."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.mul(10**DECIMALS).round() / 10**DECIMALS


def literal(name: str, values: Tensor) -> str:
    """``const NAME = [...]``: every float is read back as it is."""
    text = (
        json.dumps(values.tolist(), separators=(",", ":")).replace(".0,", ",").replace(".0]", "]")
    )
    return f"const {name} = {text};\n"

"""Memory of the path sums, and a model of 24 layers against its own forward pass.

    python -m benchmarks                    (both; half an hour)
    python -m benchmarks memory             (one of memory, scale)

Both sides of a ratio run in turn on this machine, in float64 on the CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

import attnverify as av
from benchmarks import scale
from benchmarks.memory import peak_bytes
from benchmarks.result import Result, show


def instance(depth: int, heads: int, tokens: int, width: int) -> tuple[Any, torch.Tensor]:
    """A random network with skip connections and an input."""
    net = av.SelfAttentionNetwork.random(depth, heads, width, skip=True, seed=0)
    generator = torch.Generator().manual_seed(1)
    return net, torch.randn(tokens, width, generator=generator, dtype=torch.float64)


def memory(depth: int = 12, heads: int = 12, tokens: int = 128, width: int = 768) -> Result:
    """Peak of what by_length allocates, result included, in arrays of the size of X.

    The bar: depth + 1 sums; of the layer in flight its input, queries, keys, the product before a
    bias is added and one more; three times one layer's attention matrices (those of the layer
    before, the logits, the probabilities).
    """
    net, X = instance(depth, heads, tokens, width)
    matrices = heads * tokens**2 / X.numel()
    peak = peak_bytes(lambda: av.paths.by_length(net, X)) / (X.numel() * X.element_size())
    bar = depth + 1 + 5 + 3 * matrices
    measured = f"{peak:.2f} activations (attention matrices of one layer: {matrices:.1f})"
    return Result("peak memory of sums by length", measured, f"<= {bar:.1f}", peak <= bar)


RUNS = {
    "memory": lambda: [memory()],
    "scale": lambda: scale.results() + scale.watched(),
}


def main(arguments: Sequence[str] = ()) -> int:
    """Run what is named, everything by default; exit code 0 if every bar is met."""
    if unknown := [name for name in arguments if name not in RUNS]:
        raise SystemExit(f"benchmarks: got {unknown[0]}, expected some of {', '.join(RUNS)}")
    return show([line for name in arguments or RUNS for line in RUNS[name]()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

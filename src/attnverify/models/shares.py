"""The output of a model by path length: exact shares that add up to 1."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnverify.formulas import norms
from attnverify.models.streams import Streams

Row = dict[str, Any]


def rows(streams: Streams, valid: Tensor, heads: int) -> list[Row]:
    """A row for every length, one for the biases, one for the model's own rounding.

    share: <R S, R Y> / ||R Y||^2 with R the tokens' mean removed, text by text, of the tokens that
    are no padding; Y the output. share_whole: the same without R. norm: ||S||_F.
    """
    parts = torch.cat([streams.sums, streams.rest[None]])
    both, square = _products(parts, streams.seen, valid)
    depth = len(streams.lengths) - 1
    names: list[Any] = [*range(depth + 1), "biases", "rounding"]
    return [
        {
            "length": name,
            "share": _over(both[0][i], both[0][-1]),
            "share_whole": _over(both[1][i], both[1][-1]),
            "norm": math.sqrt(square[i]),
            "paths": math.comb(depth, name) * heads**name if isinstance(name, int) else None,
        }
        for i, name in enumerate(names)
    ]


def _products(parts: Tensor, Y: Tensor, valid: Tensor) -> tuple[tuple[list, list], list[float]]:
    """Inner products with the output, centered and whole, last its own; squares of the parts."""
    centered, whole = torch.zeros(2, len(parts) + 1, dtype=torch.float64)
    square = torch.zeros(len(parts), dtype=torch.float64)
    for text, keep in enumerate(valid):
        out = Y[text][keep]
        middle = norms.mean_centered(out)
        for i, part in enumerate([*parts[:, text], Y[text]]):
            own = part[keep]
            whole[i] += float((own * out).sum())
            centered[i] += float(
                (own * middle).sum()
            )  # R is its own square: removed from one is enough
            if i < len(parts):
                square[i] += float(own.square().sum())
    return (centered.tolist(), whole.tolist()), square.tolist()


def _over(a: float, b: float) -> float | None:
    return a / b if b > 0 else None

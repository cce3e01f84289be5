"""The output of a model by path length: exact shares that add up to 1."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnverify.inspection.backward import by_length, centered, twice_centered
from attnverify.inspection.layers import differ
from attnverify.inspection.reconstruction import Streams

Row = dict[str, Any]


def rows(streams: Streams, valid: Tensor, heads: int, unit: float) -> list[Row]:
    """A row for every length, one for the biases, one for the model's own rounding.

    share: <R S, R Y> / ||R Y||^2 with R the tokens' mean removed, text by text, of the tokens that
    are no padding; Y the output. share_whole: the same without R. norm: ||S||_F. unit: the coarsest
    unit roundoff of the run; no share where the tokens of Y are equal up to rounding.
    """
    parts = torch.cat([streams.sums, streams.rest[None]])
    both, square = _products(parts, streams.seen, valid)
    depth = len(streams.lengths) - 1
    names: list[Any] = [*range(depth + 1), "biases", "rounding"]
    whole = both[0][-1] if differ(both[0][-1], both[1][-1], unit) else 0.0
    return [
        {
            "length": name,
            "share": _over(both[0][i], whole),
            "share_whole": _over(both[1][i], both[1][-1]),
            "norm": math.sqrt(square[i]),
            "paths": _paths(depth, name, heads),
        }
        for i, name in enumerate(names)
    ]


def brief(
    streams: Streams, middle: Tensor, functionals: Tensor, g: Tensor, heads: int, unit: float
) -> list[Row]:
    """The same rows with shares alone, from the middle of the model (see ``backward``).

    streams: at the output, all lengths as one; middle: S_0, S_1, ... at the middle; functionals:
    those of g, the output with means removed, there. unit: as in :func:`rows`.
    """
    square = float((g * streams.seen).sum())
    if not differ(square, float(streams.seen[streams.valid].square().sum()), unit):
        square = 0.0
    found = by_length(middle, functionals)
    depth = len(found) - 1
    others = {"biases": streams.bias, "rounding": streams.rest}
    parts: dict[Any, float] = dict(enumerate(found))
    parts |= {name: float((part * g).sum()) for name, part in others.items()}
    return [
        {
            "length": name,
            "share": _over(value, square),
            "share_whole": None,
            "norm": None,
            "paths": _paths(depth, name, heads),
        }
        for name, value in parts.items()
    ]


def rounding(streams: Streams) -> float | None:
    """||R r||_F / ||R Y||_F with r what rounding has left: no share of it is larger in size."""
    rest, out = (float(centered(x, streams.valid).norm()) for x in (streams.rest, streams.seen))
    return _over(rest, out)


def _paths(depth: int, length: Any, heads: int) -> int | None:
    return math.comb(depth, length) * heads**length if isinstance(length, int) else None


def _products(parts: Tensor, Y: Tensor, valid: Tensor) -> tuple[tuple[list, list], list[float]]:
    """Inner products with the output, centered and whole, last its own; squares of the parts."""
    centered, whole = torch.zeros(2, len(parts) + 1, dtype=torch.float64)
    square = torch.zeros(len(parts), dtype=torch.float64)
    for text, keep in enumerate(valid):
        out = Y[text][keep]
        middle = twice_centered(out)
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

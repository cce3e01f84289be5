"""Positions in the logits of attention: rotations of queries and keys, biases by distance.

What is treated here acts in one of two ways on the logit of query i and key j: rotary positions
(Su et al. 2021) turn query i and key j by angles proportional to i and j, so that their product
sees i - j; ALiBi (Press, Smith, Lewis 2022), the buckets of T5 (Raffel et al. 2020) and learned
tables add a number that depends on i - j. The functions work in any arithmetic of
:mod:`attnverify.arithmetic.ops`; :class:`Positions` holds the numbers of a network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.support.errors import require, require_finite


def scores(queries, keys, angles=None, bias=None):
    """Logits of queries and keys (..., tokens, key_width), divided by sqrt(key_width).

    angles (..., planes) and bias (..., 2 reach - 1) as in :class:`Positions`; None for none.
    Result (..., tokens, tokens).
    """
    if angles is not None:
        queries, keys = turned(queries, angles), turned(keys, angles)
    logits = queries @ ops.transpose(keys) / ops.root(queries.shape[-1], queries)
    return logits if bias is None else logits + by_distance(bias, queries.shape[-2])


def turned(Y, angles):
    """Row t of Y (..., tokens, key_width) turned by t * angles (..., planes)."""
    return rotated(Y, ops.counting(Y.shape[-2], Y)[:, None] * angles[..., None, :])


def rotated(Y, steps):
    """Every row of Y (..., rows, key_width) turned by its steps (..., rows or 1, planes).

    Plane m holds the features m and m + planes, with planes = key_width / 2.
    """
    planes = Y.shape[-1] // 2
    cos, sin = ops.cos(steps), ops.sin(steps)
    a, b = Y[..., :planes], Y[..., planes:]
    return ops.join([a * cos - b * sin, a * sin + b * cos], -1)


def by_distance(bias, tokens: int):
    """The matrix of bias (..., 2 reach - 1) at reach - 1 + i - j for tokens i and j.

    Result (..., tokens, tokens); raises InputError for more tokens than reach.
    """
    reach = (bias.shape[-1] + 1) // 2
    require(tokens <= reach, "X", f"{tokens} tokens", f"at most {reach}, the reach of the biases")
    place = np.arange(tokens)
    return bias[..., reach - 1 + place[:, None] - place]


@dataclass(frozen=True)
class Positions:
    """Relative positions of every layer and head.

    angles: (depth, heads, planes), by how much plane m of queries and keys turns from one token
    to the next; planes = key_width / 2, and plane m holds the features m and m + planes.
    bias: (depth, heads, 2 reach - 1), of which entry reach - 1 + i - j is added to the logit of
    query i and key j. Either may be None.
    """

    angles: Float[Tensor, "*depth heads planes"] | None = None
    bias: Float[Tensor, "*depth heads distances"] | None = None

    @classmethod
    def rotary(cls, depth: int, heads: int, key_width: int, base: float = 10000.0) -> Positions:
        """RoPE: plane m turns by base^(-m / planes), the same in all layers and heads."""
        planes = key_width // 2
        angles = base ** (-torch.arange(planes, dtype=torch.float64) / max(planes, 1))
        return cls(angles=angles.expand(depth, heads, planes).clone())

    @classmethod
    def alibi(cls, depth: int, heads: int, reach: int) -> Positions:
        """ALiBi without a mask: head h = 1, 2, ... adds -2^(-8 h / heads) |i - j|."""
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
        distance = torch.arange(1 - reach, reach, dtype=torch.float64).abs()
        return cls(bias=(-slopes[:, None] * distance).expand(depth, -1, -1).clone())

    def check(self, depth: int, heads: int, key_width: int) -> None:
        """Raises InputError unless these are positions of so many layers, heads and features."""
        for name, value in {"angles": self.angles, "bias": self.bias}.items():
            if value is None:
                continue
            last = key_width // 2 if name == "angles" else value.shape[-1] | 1
            shape, given = (depth, heads, last), f"shape {tuple(value.shape)}"
            require(tuple(value.shape) == shape, f"positions.{name}", given, f"shape {shape}")
            require_finite(f"positions.{name}", value)
        even = self.angles is None or key_width % 2 == 0
        require(even, "positions.angles", f"key_width {key_width}", "an even key_width")

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Logits of one layer: queries and keys (heads, ..., tokens, key_width)."""
        batch = [1] * (queries.ndim - 3)

        def beside(value: Tensor | None) -> Tensor | None:
            return None if value is None else value.reshape(len(value), *batch, value.shape[-1])

        return scores(queries, keys, beside(self.angles), beside(self.bias))

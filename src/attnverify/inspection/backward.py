"""Shares of path lengths from the middle of a model: streams before it, functionals behind it.

The share of a length is <S, g> with S the sum of its paths at the output and g fixed, the output
with the tokens' mean removed. With attention matrices held fixed, all is linear: let S_i be the sum
of the paths of length i at the input of a layer in the middle, and g_j what the transposes of all
paths of length j from there on make of g. Then <S, g> at length l is the sum of <S_i, g_j> over i +
j = l. So a layer carries half as many arrays as streams alone would, on average.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnverify.inspection.trace import Block, Layer, Step
from attnverify.mathematics import norms


def centered(Y: Tensor, valid: Tensor) -> Tensor:
    """Y (batch, tokens, width) with the mean of each text's tokens removed; 0 at padding."""
    g = torch.zeros_like(Y)
    for text, keep in enumerate(valid):
        g[text, keep] = twice_centered(Y[text][keep])
    return g


def twice_centered(Y: Tensor) -> Tensor:
    """Y (tokens, width) without the tokens' mean, and without what rounding has left of it.

    Once is not enough for products with what has a large mean: u |Y| is left of it, which is not
    small beside the rest where the tokens are nearly equal.
    """
    return norms.mean_centered(norms.mean_centered(Y))


def functionals(g: Tensor, layers: Sequence[Layer], final: Sequence[Step]) -> Tensor:
    """g_0, g_1, ... (lengths, batch, tokens, width) at the input of the first of the layers."""
    found = _back(final, g[None])
    for layer in reversed(layers):
        for block in reversed(layer.blocks):
            found = _through(block, found)
    return found


def by_length(S: Tensor, g: Tensor) -> list[float]:
    """Sums of <S_i, g_j> over i + j = l, for every l; S and g (lengths, batch, tokens, width)."""
    products = (S.flatten(1) @ g.flatten(1).mT).tolist()
    found = [0.0] * (len(S) + len(g) - 1)
    for i, row in enumerate(products):
        for j, value in enumerate(row):
            found[i + j] += value
    return found


def _through(block: Block, g: Tensor) -> Tensor:
    """Functionals of a block's output as functionals of its input."""
    g = _back(block.after, g)
    longer = any(branch.attention for branch in block.branches)
    total = torch.cat([g, torch.zeros_like(g[:1])]) if longer else g.clone()
    for branch in block.branches:
        first = 1 if branch.attention else 0
        total[first : first + len(g)] += _back(branch.steps, g)
    return total


def _back(steps: Sequence[Step], g: Tensor) -> Tensor:
    for step in reversed(steps):
        g = step.transposed(g)
    return g

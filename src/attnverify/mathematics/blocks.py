"""The entropy of a row over several blocks of keys, as contexts that are encoded in parallel.

Logits come in groups Z (..., blocks, keys), one for each length of a block; the weights are the
softmax over all of them. They serve the claims entropy.blocks and entropy.selection, in any
arithmetic of :mod:`attnverify.arithmetic.ops`.

>>> import torch
>>> from attnverify.mathematics import blocks
>>> Z = torch.zeros(2, 4, dtype=torch.float64)
>>> round(blocks.together(Z).item(), 6), round(blocks.largest(Z).item(), 6)  # log 8
(2.079442, 2.079442)
>>> round(blocks.together(Z, torch.zeros(1, 2, dtype=torch.float64)).item(), 6)  # log 10
2.302585
"""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics import entropy
from attnverify.mathematics.softmax import oscillation


def sizes(*groups):
    """Size F_b = log sum_j e^{z_bj} of each block; the blocks' weights are softmax(F)."""
    tops = [ops.amax(Z, -1) for Z in groups]
    sums = [ops.sum(ops.exp(Z - m[..., None]), -1) for Z, m in zip(groups, tops, strict=True)]
    return ops.join(tops, -1) + ops.log(ops.join(sums, -1))


def alone(*groups):
    """Entropy H_b of each block alone, (..., blocks)."""
    return ops.join([entropy.entropy(Z) for Z in groups], -1)


def together(*groups):
    """Entropy of the whole row, (...)."""
    return entropy.entropy(ops.join([Z.reshape(*Z.shape[:-2], -1) for Z in groups], -1))


def inside(*groups):
    """Mean sum_b W_b H_b of the blocks' own entropies, (...)."""
    return ops.sum(ops.softmax(sizes(*groups)) * alone(*groups), -1)


def largest(*groups):
    """Largest entropy log sum_b e^{H_b} of blocks with these entropies, whatever their weights."""
    return ops.log(ops.sum(ops.exp(alone(*groups)), -1))


def least(*groups):
    """Least entropy of the row if the blocks' sizes spread no more than here, (...)."""
    F = sizes(*groups)
    B = F.shape[-1]
    choice = ops.log(ops.constant(B, F)) - entropy.widest_deficit(oscillation(F), B)
    return inside(*groups) + choice

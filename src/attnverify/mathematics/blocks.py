"""The entropy of a row over several blocks of keys, as contexts that are encoded in parallel.

Logits Z (..., blocks, keys): the weights are the softmax over all blocks. They serve the claims
entropy.blocks and entropy.selection, in any arithmetic of :mod:`attnverify.arithmetic.ops`.

>>> import torch
>>> from attnverify.mathematics import blocks
>>> Z = torch.zeros(2, 4, dtype=torch.float64)
>>> round(blocks.together(Z).item(), 6), round(blocks.largest(Z).item(), 6)  # log 8
(2.079442, 2.079442)
"""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics import entropy
from attnverify.mathematics.softmax import oscillation


def sizes(Z):
    """Size F_b = log sum_j e^{z_bj} of each block; the blocks' weights are softmax(F)."""
    top = ops.amax(Z, -1)
    return top + ops.log(ops.sum(ops.exp(Z - top[..., None]), -1))


def together(Z):
    """Entropy of the whole row, (...)."""
    return entropy.entropy(Z.reshape(*Z.shape[:-2], -1))


def inside(Z):
    """Mean sum_b W_b H_b of the blocks' own entropies, (...)."""
    return ops.sum(ops.softmax(sizes(Z)) * entropy.entropy(Z), -1)


def largest(Z):
    """Largest entropy log sum_b e^{H_b} of blocks with these entropies, whatever their weights."""
    return ops.log(ops.sum(ops.exp(entropy.entropy(Z)), -1))


def least(Z):
    """Least entropy of the row if the blocks' sizes spread no more than here, (...)."""
    F = sizes(Z)
    B = F.shape[-1]
    choice = ops.log(ops.constant(B, F)) - entropy.widest_deficit(oscillation(F), B)
    return inside(Z) + choice

"""Checks of the entropy of blocks that are read together, and of keeping one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import Pair, by_definition, drawn, total
from attnverify.mathematics import blocks
from attnverify.support.verdict import Verdict
from attnverify.topics.softmax.definitions import softmax_row

_tensor = partial(torch.tensor, dtype=torch.float64)


def chain(more: int = 1) -> Iterator[Pair]:
    """The entropy of a row of three blocks of unequal length, from its weights one by one."""
    groups = [v / 4 for v in drawn(5, (2, 4), (1, 3))]
    p = softmax_row([z for Z in groups for z in Z.flat])
    rows = [p[:4], p[4:8], p[8:]]
    weights = [total(row) for row in rows]
    own = [[q / w for q in row] for row, w in zip(rows, weights, strict=True)]
    H = [-total(q * q.log() for q in row) for row in own]
    yield "row", blocks.together(*groups), -total(q * q.log() for q in p)
    yield "weights", ops.softmax(blocks.sizes(*groups)), weights
    mean = total(w * h for w, h in zip(weights, H, strict=True))
    yield "inside", blocks.inside(*groups), mean
    yield "chain", blocks.together(*groups), mean - more * total(w * w.log() for w in weights)
    yield "largest", blocks.largest(*groups), total(h.exp() for h in H).log()


SIZES = (
    {"Y": (1, 3), "Z": (1, 2)},
    {"Y": (2, 1), "Z": (3, 4)},
    {"Y": (3, 4), "Z": (2, 1)},
)


def _levels(*shifts: float) -> Callable[[], dict[str, torch.Tensor]]:
    """Blocks of the logits 0 and 1, shifted; the first is the group Y."""
    rows = [[s, 1 + s] for s in shifts]
    return lambda: {"Y": _tensor(rows[:1]), "Z": _tensor(rows[1:])}


def _uneven() -> dict[str, torch.Tensor]:
    """Three equal keys and one, with weights as their numbers: the entropy is log 4."""
    return {"Y": _tensor([[0.0, 0.0, 0.0]]), "Z": _tensor([[0.0]])}


def _of_groups(formula: Callable) -> Callable:
    return lambda Y, Z: formula(Y, Z)


def _mean_block(Y, Z):
    """log B and the mean entropy of the blocks."""
    H = blocks.alone(Y, Z)
    B = ops.constant(H.shape[-1], H)
    return ops.log(B) + ops.sum(H, -1) / B


def _all_equal(Y, Z):
    """log B and the mean entropy inside, as for blocks of equal size."""
    F = blocks.sizes(Y, Z)
    return blocks.inside(Y, Z) + ops.log(ops.constant(F.shape[-1], F))


TOGETHER = _of_groups(blocks.together)
MOST = (
    Inequality(
        left=TOGETHER,
        right=_of_groups(blocks.largest),
        sizes=SIZES,
        extremal=(_levels(0.0, 0.0, 0.0), _uneven),
    )
    .times(0.9999)
    .but("log B and the mean entropy of the blocks", right=_mean_block)
)
LEAST = (
    Inequality(
        left=_of_groups(blocks.least),
        right=TOGETHER,
        sizes=SIZES,
        extremal=(_levels(2.0, 0.0), _levels(2.0, 0.0, 0.0), _levels(1.0, 0.0, 0.0, 0.0)),
    )
    .times(0.9999)
    .but("log B whatever the sizes", left=_all_equal)
)


def _kept(Y, Z, power: int = 1):
    """The first block's entropy times its weight."""
    W = ops.softmax(blocks.sizes(Y, Z))[..., 0]
    return W**power * blocks.alone(Y, Z)[..., 0]


KEPT = (
    Inequality(
        left=_kept,
        right=TOGETHER,
        sizes=SIZES,
        extremal=(lambda: {"Y": _tensor([[0.0, 1.0]]), "Z": _tensor([[-60.0]])},),
    )
    .times(0.9999)
    .but("without the weight", left=partial(_kept, power=0))
)


def _raises(keys: int) -> Verdict:
    """Whether keeping a block of equal keys, of weight 3/5, raises the entropy beside one key."""
    Y = np.array([[arb(0)] * keys], dtype=object)
    Z = np.array([[(2 * arb(keys) / 3).log()]], dtype=object)
    whole, own = blocks.together(Y, Z), blocks.alone(Y)[0]
    raised = certain(own > whole, own <= whole)
    text = f"entropy {whole.str(5, radius=False)} before, {own.str(5, radius=False)} after"
    return Verdict(raised, text)


RAISES = Decision(partial(_raises, 100), "this row, which refutes the statement", "certified").but(
    "five keys in the block", run=partial(_raises, 5)
)

CHECKS: dict[str, dict[str, Check]] = {
    "entropy.blocks": {
        "most": MOST,
        "least": LEAST,
        "entry by entry": by_definition(chain, "the blocks' choice counted twice", more=2),
    },
    "entropy.selection": {"kept": KEPT, "raised": RAISES},
}

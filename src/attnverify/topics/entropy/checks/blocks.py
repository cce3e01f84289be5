"""Checks of the entropy of blocks that are read together, and of keeping one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import Pair, by_definition, drawn, total
from attnverify.mathematics import blocks, entropy
from attnverify.support.verdict import Verdict
from attnverify.topics.softmax.definitions import softmax_row


def _tensor(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def chain(more: int = 1) -> Iterator[Pair]:
    """The entropy of a row of three blocks, from its weights one by one."""
    (Z,) = (v / 4 for v in drawn(5, (3, 4)))
    p = softmax_row(list(Z.flat))
    weights = [total(p[4 * b : 4 * b + 4]) for b in range(3)]
    own = [[q / w for q in p[4 * b : 4 * b + 4]] for b, w in enumerate(weights)]
    H = [-total(q * q.log() for q in row) for row in own]
    yield "row", blocks.together(Z), -total(q * q.log() for q in p)
    yield "weights", ops.softmax(blocks.sizes(Z)), weights
    mean = total(w * h for w, h in zip(weights, H, strict=True))
    yield "inside", blocks.inside(Z), mean
    yield "chain", blocks.together(Z), mean - more * total(w * w.log() for w in weights)
    yield "largest", blocks.largest(Z), total(h.exp() for h in H).log()


SIZES = ({"Z": (3, 2)}, {"Z": (4, 5)}, {"Z": (5, 3)})


def _levels(*shifts: float) -> Callable[[], dict[str, torch.Tensor]]:
    """Blocks of the logits 0 and 1, shifted."""
    return lambda: {"Z": _tensor([[s, 1 + s] for s in shifts])}


def _mean_block(Z):
    """log B and the mean entropy of the blocks."""
    B = ops.constant(Z.shape[-2], Z)
    return ops.log(B) + ops.sum(entropy.entropy(Z), -1) / B


MOST = (
    Inequality(
        left=blocks.together, right=blocks.largest, sizes=SIZES, extremal=(_levels(0.0, 0.0, 0.0),)
    )
    .times(0.9999)
    .but("log B and the mean entropy of the blocks", right=_mean_block)
)
LEAST = (
    Inequality(
        left=blocks.least,
        right=blocks.together,
        sizes=SIZES,
        extremal=(_levels(2.0, 0.0, 0.0), _levels(1.0, 0.0, 0.0, 0.0)),
    )
    .times(0.9999)
    .but("log B whatever the sizes", left=lambda Z: blocks.inside(Z) + _log_blocks(Z))
)


def _log_blocks(Z):
    return ops.log(ops.constant(Z.shape[-2], Z))


def _kept(Z, power: int = 1):
    """The first block's entropy times its weight."""
    W = ops.softmax(blocks.sizes(Z))[..., 0]
    return W**power * entropy.entropy(Z)[..., 0]


KEPT = (
    Inequality(
        left=_kept,
        right=blocks.together,
        sizes=({"Z": (2, 2)}, {"Z": (2, 5)}, {"Z": (4, 3)}),
        extremal=(lambda: {"Z": _tensor([[0.0, 1.0], [-60.0, -90.0]])},),
    )
    .times(0.9999)
    .but("without the weight", left=partial(_kept, power=0))
)


def _raises(keys: int) -> Verdict:
    """Whether keeping a block of equal keys raises the entropy, beside one key as heavy as it."""
    own = arb(keys).log()
    whole = own / 2 + arb(2).log()
    raised = certain(own > whole, own <= whole)
    text = f"entropy {whole.str(5, radius=False)} before, {own.str(5, radius=False)} after"
    return Verdict(raised, text)


RAISES = Decision(partial(_raises, 100), "this row, which refutes the statement", "certified").but(
    "three keys in the block", run=partial(_raises, 3)
)

CHECKS: dict[str, dict[str, Check]] = {
    "entropy.blocks": {
        "most": MOST,
        "least": LEAST,
        "entry by entry": by_definition(chain, "the blocks' choice counted twice", more=2),
    },
    "entropy.selection": {"kept": KEPT, "raised": RAISES},
}

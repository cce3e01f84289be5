"""Attention rollout beside the true shares of single tokens.

Rollout (Abnar and Zuidema 2020) multiplies half attention, averaged over heads, and half identity,
layer by layer, and reads the product as how much of each input token is in each output token. The
frozen model says what is really there: it is linear in its input, so every input token has its own
part of every output token, T_ij = what token j alone gives at place i, biases apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnverify.inspection.layers import RESOLVED
from attnverify.inspection.trace import Layer, Step

LARGEST = 64  # tokens; as many streams are carried


@dataclass
class Rollout:
    """product (tokens, tokens): rollout so far; parts (tokens, 1, tokens, width): token by token.

    parts[j] is what the input's token j has become, everywhere.
    """

    product: Tensor
    parts: Tensor

    @classmethod
    def of(cls, X: Tensor) -> Rollout:
        """At the input of the first layer, X (1, tokens, width)."""
        one = torch.eye(X.shape[1], dtype=X.dtype, device=X.device)
        return cls(one, one[:, None, :, None] * X)

    def advance(self, layer: Layer) -> None:
        """Through one layer."""
        for block in layer.blocks:
            added = [_through(branch.steps, self.parts) for branch in block.branches]
            self.parts = _through(block.after, sum(added, self.parts))
        mean = layer.heads.P[0].mean(0)
        self.product = (mean + torch.eye(len(mean)).to(mean)) / 2 @ self.product

    def compared(self, final: Sequence[Step], unit: float) -> dict[str, Any]:
        """How rollout orders the input tokens of each output token, against the true parts.

        size: the norms of the true parts; unit: the coarsest roundoff of the run. The rank
        correlation (Spearman) is the mean over output tokens that see two input tokens or more;
        same_top: how often both name the same one. An output token whose parts all vanish has no
        order and no share of its own, and one that takes all its input tokens for equal has no
        order: all are means over the others, and None where there is none.
        """
        size = _through(final, self.parts)[:, 0].norm(dim=-1).T  # (output token, input token)
        some = size.sum(-1) > 0
        rows = [i for i in range(len(size)) if some[i] and int((self.product[i] > 0).sum()) > 1]
        ranked = (_rank_correlation(self.product[i], size[i], unit) for i in rows)
        found = [value for value in ranked if value is not None]
        top = [bool(self.product[i].argmax() == size[i].argmax()) for i in rows]
        own = (size.diagonal() / size.sum(-1))[some]
        return {
            "tokens": len(size),
            "rank_correlation": sum(found) / len(found) if found else None,
            "same_top": sum(top) / len(top) if top else None,
            "own_rollout": float(self.product.diagonal().mean()),
            "own_true": float(own.mean()) if len(own) else None,
        }


def fits(batch: int, tokens: int, masked: bool) -> bool:
    """Whether it is carried along: one text without padding, of few tokens."""
    return batch == 1 and tokens <= LARGEST and not masked


def _through(steps: Any, y: Tensor) -> Tensor:
    for step in steps:
        y = step.linear(y)
    return y


def _rank_correlation(a: Tensor, b: Tensor, unit: float) -> float | None:
    """Spearman's, over the tokens that either gives weight to; None where one has no order."""
    seen = (a > 0) | (b > 0)
    first, second = (_ranks(x[seen], unit) for x in (a, b))
    size = float(first.norm() * second.norm())
    return float((first * second).sum()) / size if size > 0 else None


def _ranks(x: Tensor, unit: float) -> Tensor:
    """Ranks with mean 0; those that are equal but for rounding share the mean of theirs."""
    order = x.argsort()
    rise = x[order].diff() > RESOLVED * unit * x[order][1:]
    group = torch.cat([rise.new_zeros(1), rise]).cumsum(0)
    sizes = group.bincount()
    mean = (sizes.cumsum(0) - (sizes + 1) / 2).double()  # from 0
    ranks = torch.empty(len(x), dtype=torch.float64, device=x.device)
    ranks[order] = mean[group]
    return ranks - ranks.mean()

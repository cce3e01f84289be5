"""The output of a model by path length, in exact shares that add up to 1, and attention rollout.

The share of a length is <S, g> with S the sum of its paths at the output and g fixed, the output
with the tokens' mean removed. With attention matrices held fixed, all is linear: let S_i be the sum
of the paths of length i at the input of a layer in the middle, and g_j what the transposes of all
paths of length j from there on make of g. Then <S, g> at length l is the sum of <S_i, g_j> over i +
j = l. So a layer carries half as many arrays as streams alone would, on average.

Rollout (Abnar and Zuidema 2020) multiplies half attention, averaged over heads, and half identity,
layer by layer, and reads the product as how much of each input token is in each output token. The
frozen model says what is really there: it is linear in its input, so every input token has its own
part of every output token, T_ij = what token j alone gives at place i, biases apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attninspect.layers import differ, resolved
from attninspect.reconstruction import Streams
from attninspect.trace import Block, Layer, Step
from attnverify.mathematics import norms, rollout


def centered(Y: Tensor, valid: Tensor) -> Tensor:
    """The tokens Y (batch, tokens, width) without the mean of their text; 0 at padding."""
    g = torch.zeros_like(Y)
    for text, keep in enumerate(valid):
        g[text, keep] = twice_centered(Y[text][keep])
    return g


def twice_centered(Y: Tensor) -> Tensor:
    """The tokens Y (tokens, width) without their mean and what rounding has left of it.

    Once is not enough for products with what has a large mean: u |Y| is left of it, which is not
    small beside the rest where the tokens are nearly equal.
    """
    return norms.mean_centered(norms.mean_centered(Y))


def functionals(g: Tensor, layers: Sequence[Layer], final: Sequence[Step]) -> Tensor:
    """The functionals g_0, g_1, ... (lengths, batch, tokens, width) at the input of the layers."""
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
    """Turn functionals of a block's output into functionals of its input."""
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
    """The same rows with shares alone, computed from the middle of the model (see the module).

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
    """The most that rounding may be of a share: ||R r||_F / ||R Y||_F, r what it has left."""
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
            centered[i] += float((own * middle).sum())  # R^2 = R, so one factor is enough
            if i < len(parts):
                square[i] += float(own.square().sum())
    return (centered.tolist(), whole.tolist()), square.tolist()


def _over(a: float, b: float) -> float | None:
    return a / b if b > 0 else None


MOST_TOKENS = 64  # tokens; as many streams are carried


@dataclass
class Rollout:
    """Rollout so far, product (tokens, tokens), and parts (tokens, 1, tokens, width) by token.

    parts[j] is what the input's token j has become, everywhere.
    """

    product: Tensor
    parts: Tensor

    @classmethod
    def of(cls, X: Tensor) -> Rollout:
        """Rollout at the input of the first layer, X (1, tokens, width)."""
        one = torch.eye(X.shape[1], dtype=X.dtype, device=X.device)
        return cls(one, one[:, None, :, None] * X)

    def advance(self, layer: Layer) -> None:
        """Carry rollout and the parts through one layer."""
        for block in layer.blocks:
            added = [_sent(branch.steps, self.parts) for branch in block.branches]
            self.parts = _sent(block.after, sum(added, self.parts))
        mean = layer.heads.P[0].mean(0)
        self.product = rollout.product(mean[None], mean.new_full((1,), 0.5)) @ self.product

    def compared(self, final: Sequence[Step], unit: float) -> dict[str, Any]:
        """How rollout orders the input tokens of each output token, against the true parts.

        size: the norms of the true parts; unit: the coarsest roundoff of the run. The rank
        correlation (Spearman) is the mean over output tokens that see two input tokens or more;
        same_top: how often both name the same one. An output token whose parts all vanish has no
        order and no share of its own, and one that takes all its input tokens for equal has no
        order: all are means over the others, and None where there is none.
        """
        size = _sent(final, self.parts)[:, 0].norm(dim=-1).T  # (output token, input token)
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
    """Whether rollout is compared: for one text without padding, of few tokens."""
    return batch == 1 and tokens <= MOST_TOKENS and not masked


def _sent(steps: Any, y: Tensor) -> Tensor:
    for step in steps:
        y = step.linear(y)
    return y


def _rank_correlation(a: Tensor, b: Tensor, unit: float) -> float | None:
    """Spearman's correlation over tokens with weight in either; None where one has no order."""
    seen = (a > 0) | (b > 0)
    first, second = (_ranks(x[seen], unit) for x in (a, b))
    size = float(first.norm() * second.norm())
    return float((first * second).sum()) / size if size > 0 else None


def _ranks(x: Tensor, unit: float) -> Tensor:
    """Ranks with mean 0; those that are equal but for rounding share the mean of theirs."""
    order = x.argsort()
    rise = x[order].diff() > resolved(unit) * x[order][1:]
    group = torch.cat([rise.new_zeros(1), rise]).cumsum(0)
    sizes = group.bincount()
    mean = (sizes.cumsum(0) - (sizes + 1) / 2).double()  # from 0
    ranks = torch.empty(len(x), dtype=torch.float64, device=x.device)
    ranks[order] = mean[group]
    return ranks - ranks.mean()

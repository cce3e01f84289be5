"""A forward pass as a straight line of affine maps, each beside what the model itself computed.

A *trace* is the input of the first layer, the layers, and the final norm. A layer is a row of
blocks; a block adds the outputs of its branches to its input (the skip connection) and may
normalize the sum (BERT); a branch is a row of steps, one of which mixes tokens if it is attention.
All is float64, batched: (batch, tokens, width).

A step consists of maps that are affine once attention, gates and norms are held at their values
(:mod:`attnverify.mathematics.maps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnverify.mathematics import maps
from attnverify.mathematics.held import Held, HeldLayer
from attnverify.mathematics.maps import Branches, Dense, Gate, Map, Mix, Norm, Roundings
from attnverify.support.errors import InputError, require


def unit_roundoff(dtype: torch.dtype) -> float:
    """The unit roundoff of a dtype: half the distance from 1 to the next number."""
    return torch.finfo(dtype).eps / 2


SINGLE = unit_roundoff(torch.float32)
STORED = 3.0  # roundings to bfloat16 of one map's values: a product, a scaled one, a sum


def rounded_to(x: Tensor) -> float:
    """The unit roundoff that the entries of x were rounded to, seen in the entries.

    That of x's dtype, or float32's where all entries are float32 numbers, which a float64 is by
    chance in one of 2^29. Entries that are bfloat16 numbers, as 0, 1 and 1/4, tell nothing.
    """
    single = x.dtype == torch.float64 and bool((x == x.float()).all())
    coarser = single and bool((x == x.bfloat16()).all())
    return unit_roundoff(torch.float32 if single and not coarser else x.dtype)


def gamma(roundings: Roundings, unit: float) -> Tensor:
    """The bound gamma_m = m u / (1 - m u); infinite for m u >= 1/4, where nothing is claimed."""
    product = torch.as_tensor(roundings, dtype=torch.float64) * unit
    return torch.where(product < 0.25, product / (1 - product), torch.inf)


@dataclass(frozen=True)
class Step:
    """Maps one after the other and their output as the model computed it.

    seen (batch, tokens, width): the model's own output; unit: the unit roundoff it worked with;
    name: for messages, "attention values".
    """

    name: str
    maps: Sequence[Map]
    seen: Tensor
    unit: float

    @property
    def roundings(self) -> Roundings:
        return sum((map.roundings for map in self.maps), 0.0)

    @property
    def inner(self) -> float:
        """The unit roundoff of its sums and products, which is float32's for a bfloat16 model."""
        return min(self.unit, SINGLE)

    def stored(self, x: Tensor) -> Tensor | float:
        """What rounding to bfloat16 adds to the model's error at inputs of sizes x; else 0.

        One map's values on their way are at most |seen| + |shift|; those between maps, of the size
        of the step.
        """
        if self.unit <= SINGLE:
            return 0.0
        if len(self.maps) == 1:
            size = self.seen.abs() + abs(self.maps[0].shift)
        else:
            size = self.size(x)
        # gamma / (1 - gamma), as what is seen has been rounded
        return gamma(2 * STORED * len(self.maps), self.unit) / 2 * size

    def linear(self, y: Tensor) -> Tensor:
        """The linear part at streams y (..., batch, tokens, width)."""
        return maps.linear(self.maps, y)

    def transposed(self, g: Tensor) -> Tensor:
        """The transpose of :meth:`linear` at g (..., batch, tokens, width of the output)."""
        return maps.transposed(self.maps, g)

    def carry(self, streams: Tensor, biases: bool = True) -> Tensor:
        """The streams behind the step; with ``biases`` the last is theirs and gains the shifts."""
        for map in self.maps:
            streams = map.linear(streams)
            if biases and isinstance(map.shift, Tensor):
                streams[-1] += map.shift
        return streams

    def size(self, y: Tensor, factor: Tensor | float = 1.0) -> Tensor:
        """The step in absolute values at y >= 0, shifts times ``factor``.

        What rounding errors are measured against. The step is linear in both together, so bounds
        with several factors take one pass; a factor a token is for norms, which act on tokens.
        """
        for map in self.maps:
            y = map.absolute(y) + factor * abs(map.shift)
        return y


@dataclass(frozen=True)
class Branch:
    """Steps from a block's input to what is added to it; ``attention``: they mix tokens."""

    steps: Sequence[Step]

    @property
    def maps(self) -> list[Map]:
        """The maps of all steps."""
        return _maps(self.steps)

    @property
    def attention(self) -> bool:
        return any(isinstance(map, Mix) for map in self.maps)


@dataclass(frozen=True)
class Block:
    """A block: seen = input + the outputs of the branches, then the steps of ``after``."""

    branches: Sequence[Branch]
    seen: Tensor
    unit: float
    after: Sequence[Step] = ()

    @property
    def output(self) -> Tensor:
        """The block's output as the model computed it."""
        return self.after[-1].seen if self.after else self.seen


@dataclass(frozen=True)
class HeadNorm:
    """A norm of queries or keys, of every head or of all at once (``whole``, scale (key heads *
    key_width,)); centered: layer norm, else RMS norm.
    """

    epsilon: float
    centered: bool
    scale: Tensor | float
    bias: Tensor | float
    whole: bool = False

    def at(self, x: Tensor) -> Norm:
        return Norm.at(x, self.epsilon, self.centered, self.scale, self.bias)


@dataclass(frozen=True)
class Heads:
    """The attention of one layer, head by head.

    input (batch, tokens, width): what queries, keys and values are made from (behind the norm, if
    one stands before). P (batch, heads, tokens, tokens). W_Q, W_K (heads, width, key_width), b_Q,
    b_K (heads, key_width), W_V (heads, width, value_width), W_O (heads, value_width, width); heads
    that share keys and values have equal ones. scale: what the scores are multiplied by. rotation:
    cosines and sines (batch, tokens, rotated part of key_width) by which queries and keys are
    rotated, if they are; norms: of queries and of keys; cap: of scores; bias (1 or batch, heads, 1
    or tokens, tokens): what is added to the scores. sinks (heads,): one more score of each row,
    whose weight goes to no token, so that rows of P add up to less than 1; gates (batch, heads,
    tokens, value_width): what multiplies P X W_V in front of W_O; b_V (heads, value_width), where
    there are sinks or gates. projections: the maps from the input to queries, keys and what is in
    the gates, where a module shows what they give. unit: the model's unit roundoff; softmax_unit:
    the one that P was rounded to, which is coarser where the softmax of a float64 model is taken in
    float32.
    """

    input: Tensor
    P: Tensor
    W_Q: Tensor
    b_Q: Tensor
    W_K: Tensor
    b_K: Tensor
    W_V: Tensor
    W_O: Tensor
    key_heads: int
    scale: float
    unit: float
    softmax_unit: float
    rotation: tuple[Tensor, Tensor] | None = None
    norms: tuple[HeadNorm, HeadNorm] | None = None
    bias: Tensor | None = None
    sinks: Tensor | None = None
    gates: Tensor | None = None
    b_V: Tensor | None = None
    cap: float | None = None
    projections: Sequence[Step] = ()

    @property
    def count(self) -> int:
        return self.P.shape[1]


@dataclass(frozen=True)
class Layer:
    """One layer: its input as the model computed it, its blocks, its heads."""

    number: int
    input: Tensor
    blocks: Sequence[Block]
    heads: Heads

    @property
    def output(self) -> Tensor:
        return self.blocks[-1].output

    @property
    def unit(self) -> float:
        """The coarsest unit roundoff that any part of the layer worked with."""
        rows = [row for b in self.blocks for row in (*(each.steps for each in b.branches), b.after)]
        units = (step.unit for row in rows for step in row)
        return max(self.heads.unit, self.heads.softmax_unit, *units)

    def held(self) -> HeldLayer:
        """The layer as its heads and a bypass, of the first text.

        Raises InputError where attention is not Dense, Mix [, Gate], Dense.
        """
        first, *others = self.blocks
        place, mixing = f"layer {self.number}", [branch.attention for branch in first.branches]
        require(sum(mixing) == 1, "subject", f"{sum(mixing)} attentions first in {place}", "one")
        rows: list[Map | Branches] = [*_maps(first.after)]
        for block in others:
            require(
                not any(b.attention for b in block.branches), "subject", f"more in {place}", "one"
            )
            rows += [Branches([branch.maps for branch in block.branches]), *_maps(block.after)]
        beside = [branch.maps for branch in first.branches]
        branch = beside.pop(mixing.index(True))
        at = next(i for i, map in enumerate(branch) if isinstance(map, Mix))
        gates = [map.factors[0] for map in branch[at + 1 : at + 2] if isinstance(map, Gate)]
        del branch[at + 1 : at + 1 + len(gates)]
        match branch[at - 1 : at + 2]:
            case [Dense(weight=V), Mix(P=P, key_heads=groups), Dense(weight=O)]:
                heads, width = P.shape[1], V.shape[0]
                V = V.reshape(width, groups, -1).movedim(1, 0).repeat_interleave(heads // groups, 0)
                O = O.reshape(heads, -1, O.shape[-1])  # noqa: E741
                gated = gates[0].unflatten(-1, (heads, -1)).movedim(1, 0) if gates else None
            case _:
                raise InputError(f"subject: got {place} with other maps around its attention")
        before, tail = branch[: at - 1], branch[at + 2 :]
        return HeldLayer(P[0], V, O, Branches(beside), 0.0, rows, before, tail, gated)


@dataclass(frozen=True)
class Trace:
    """The layers and what follows them, with the tokens that are no padding.

    input (batch, tokens, width) of the first layer; final: the norm behind the last layer, if any;
    valid (batch, tokens), boolean.
    """

    input: Tensor
    layers: Sequence[Layer]
    final: Sequence[Step]
    valid: Tensor

    @property
    def output(self) -> Tensor:
        """The model's output, as it computed it."""
        return self.final[-1].seen if self.final else self.layers[-1].output

    def held(self) -> Held:
        """The model held at the values of this pass, for ``av.paths.largest``.

        Raises InputError for a trace of several texts.
        """
        texts = self.input.shape[0]
        require(texts == 1, "subject", f"a trace of {texts} texts", "a trace of one text")
        layers = [layer.held() for layer in self.layers]
        return Held(layers, _maps(self.final), self.input[0], self.output[0])


def _maps(steps: Sequence[Step]) -> list[Map]:
    return [map for step in steps for map in step.maps]


def double(x: Tensor) -> Tensor:
    """The tensor detached and in float64, which holds every float of the smaller formats."""
    return x.detach().to(torch.float64)

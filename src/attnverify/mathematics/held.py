"""Layers whose attention matrices, gates and norms are held: for every head the map of its paths.

A layer offers every path the indices 1..heads, and 0 for what passes the attention by. Whatever
acts on each token alone behind the attention (MLPs, norms) stands on every path. Streams have the
shape (streams, tokens, width), float64; one text.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.mathematics.frozen import GATES
from attnverify.mathematics.maps import Chosen, Dense, Gate, Map, Mix, Norm, Weighted
from attnverify.support.errors import InputError, require

Row = Sequence[Map]
LIMIT = 2.0**24  # the most that an entry of a map may be, for the underflow bounds of .energy


def count(maps: Iterable[Map]) -> int:
    """Roundings of an evaluation of the maps or of their transposes: of inner products, both ways.

    The entries of a held map are what they are, so those of a norm are the mean's, in either
    direction, and eight more.
    """
    sizes = {
        Dense: lambda map: sum(map.weight.shape),
        Norm: lambda map: map.width + 8,
        Chosen: lambda map: int(map.roundings + map.turned),
        Weighted: lambda map: int(map.roundings),
    }
    return sum(sizes.get(type(map), lambda map: 2)(map) for map in maps)


def through(maps: Row, y: Tensor) -> Tensor:
    """The linear parts of maps of tokens, one after the other."""
    for map in maps:
        y = map.linear(y)
    return y


def back(maps: Row, g: Tensor) -> Tensor:
    """The transpose of :func:`through`."""
    for map in reversed(maps):
        g = map.transposed(g)
    return g


def sizes(maps: Row, y: Tensor) -> Tensor:
    """The same maps in absolute values, at y >= 0."""
    for map in maps:
        y = map.absolute(y)
    return y


def entries(maps: Row) -> list[Tensor]:
    """The numbers that maps multiply by, an array or two a map."""
    found: list[Tensor] = []
    for map in maps:
        match map:
            case Dense() | Chosen():
                found.append(map.weight)
            case Weighted():
                found.append(map.weights)
            case Gate():
                found.append(map.factors)
            case Norm():
                found += [1 / map.s, torch.as_tensor(map.scale)]
            case Mix():
                found.append(map.P)
    return found


@dataclass(frozen=True)
class Rows:
    """What acts on each token alone: y -> after([y +] sum of the branches at y), linear parts."""

    branches: Sequence[Row] = ()
    skip: bool = True
    after: Row = ()

    @property
    def roundings(self) -> int:
        """Roundings of an entry at most, of the map and of its transpose."""
        inner = max((count(branch) for branch in self.branches), default=0)
        return inner + len(self.branches) + 1 + count(self.after)

    @property
    def entries(self) -> list[Tensor]:
        """The numbers that it multiplies by."""
        return [array for row in (*self.branches, self.after) for array in entries(row)]

    @property
    def same(self) -> bool:
        """Whether it is the identity."""
        return self.skip and not self.branches and not self.after

    def linear(self, y: Tensor) -> Tensor:
        total = sum((through(b, y) for b in self.branches), y if self.skip else torch.zeros_like(y))
        return through(self.after, total)

    def transposed(self, g: Tensor) -> Tensor:
        g = back(self.after, g)
        return sum((back(b, g) for b in self.branches), g if self.skip else torch.zeros_like(g))

    def absolute(self, y: Tensor) -> Tensor:
        total = sum((sizes(b, y) for b in self.branches), y if self.skip else torch.zeros_like(y))
        return sizes(self.after, total)


@dataclass(frozen=True)
class HeldLayer:
    """A layer: index 0 is ``bypass``, index h is y -> tail(P_h before(y) V_h O_h); then ``rows``.

    In a trace with blocks side by side, bypass is the skip connection and the other blocks.

    P (heads, tokens, tokens); V (heads, width, value_width); O (heads, value_width, width); gates
    (heads, tokens, value_width): what multiplies the mixed values in front of O_h, if anything;
    before, tail: maps of tokens shared by all heads; bypass: None without a skip connection.
    """

    P: Tensor
    V: Tensor
    O: Tensor  # noqa: E741
    bypass: Rows | None
    before: Row = ()
    tail: Row = ()
    rows: Sequence[Rows] = field(default=())
    gates: Tensor | None = None

    @property
    def indices(self) -> range:
        """The indices that a path may take here."""
        return range(0 if self.bypass is not None else 1, len(self.P) + 1)

    @property
    def entries(self) -> list[Tensor]:
        """The numbers that it multiplies by."""
        rows = [*self.rows, *([] if self.bypass is None else [self.bypass])]
        own = [self.P, self.V, self.O, *entries(self.before), *entries(self.tail)]
        own += [] if self.gates is None else [self.gates]
        return own + [array for each in rows for array in each.entries]

    @property
    def roundings(self) -> int:
        """Roundings of an entry at most, from the layer's input to its rows, either direction."""
        heads = sum(self.V.shape[1:]) + 2 * self.P.shape[-1] + sum(self.O.shape[1:])
        heads += count(self.before) + count(self.tail) + 2 * (self.gates is not None)
        return max(heads, self.bypass.roundings if self.bypass is not None else 0)

    def head(self, index: int, y: Tensor) -> Tensor:
        """What one index makes of the streams y, before the rows."""
        if index == 0 and self.bypass is not None:
            return self.bypass.linear(y)
        y = through(self.before, y) @ self.V[index - 1]
        return through(self.tail, self._gated(self.P[index - 1] @ y, index - 1) @ self.O[index - 1])

    def _gated(self, y: Tensor, heads: int | Tensor) -> Tensor:
        return y if self.gates is None else y * self.gates[heads]

    def head_transposed(self, indices: Sequence[int], g: Tensor) -> Tensor:
        """The transposes of :meth:`head` at g (1, tokens, width), one stream an index."""
        heads = torch.tensor([index - 1 for index in indices if index > 0], dtype=torch.long)
        found = []
        if 0 in indices and self.bypass is not None:
            found.append(self.bypass.transposed(g))
        if len(heads):
            mixed = self._gated(back(self.tail, g) @ self.O[heads].mT, heads)
            mixed = self.P[heads].mT @ mixed
            found.append(back(self.before, mixed @ self.V[heads].mT))
        return torch.cat(found)

    def head_absolute(self, index: int, y: Tensor) -> Tensor:
        """One index in absolute values, at y >= 0."""
        if index == 0 and self.bypass is not None:
            return self.bypass.absolute(y)
        y = self.P[index - 1] @ (sizes(self.before, y) @ self.V[index - 1].abs())
        return sizes(self.tail, self._gated(y, index - 1).abs() @ self.O[index - 1].abs())


@dataclass(frozen=True)
class Held:
    """Layers, the maps behind the last one, the input X and the output, both (tokens, width)."""

    layers: Sequence[HeldLayer]
    final: Row
    X: Tensor
    output: Tensor

    @property
    def entries(self) -> list[Tensor]:
        """The numbers that all maps multiply by."""
        return [array for layer in self.layers for array in layer.entries] + entries(self.final)

    @classmethod
    @torch.no_grad()
    def of(cls, subject: Any, X: Any = None) -> Held:
        """A network at its input X, or a trace of ``av.trace``, of one text.

        Raises InputError for anything else, and for a trace of several texts.
        """
        if isinstance(subject, SelfAttentionNetwork):
            require(X is not None, "X", None, "the network's input, (tokens, width)")
            return _of_network(subject, X)
        made = hasattr(subject, "layers") and hasattr(subject, "final")
        require(made, "subject", type(subject).__name__, "a network or a trace of av.trace")
        require(X is None, "X", type(X).__name__, "None: a trace has its input")
        texts = subject.input.shape[0]
        require(texts == 1, "subject", f"a trace of {texts} texts", "a trace of one text")
        layers = [_of_trace(layer) for layer in subject.layers]
        return cls(layers, _maps(subject.final), subject.input[0], subject.output[0])


def _of_network(net: SelfAttentionNetwork, X: Any) -> Held:
    if net.weights["b_O"].dtype != torch.float64:
        net = copy.deepcopy(net).double()
    output = net(X)
    require(output.ndim == 2, "X", f"shape {tuple(output.shape)}", "one text, (tokens, width)")
    layers = []
    for number, (Y, P) in enumerate(net.layers(X)):
        w, skip = net.weights.at(number), Rows() if net.skip else None
        rows = _rows_of(net, number, net.after_attention(number, Y, P))
        layers.append(HeldLayer(P, w.W_V, w.W_O, skip, rows=rows))
    start = next(iter(net.layers(X)))[0]
    return Held(layers, (), start, output)


def _rows_of(net: SelfAttentionNetwork, number: int, x: Tensor) -> list[Rows]:
    """The rows of one layer at the sum x that enters them, as in :mod:`.frozen`."""
    found: list[Rows] = []
    if net.norm is not None:
        norm = net.norm.at(number, 0)
        found.append(Rows(after=[Norm.at(x, norm.epsilon, True, norm.scale, norm.shift)]))
        x = norm(x)
    if net.mlp is not None:
        mlp = net.mlp.at(number)
        gates = Gate(GATES[mlp.activation](x @ mlp.W_1 + mlp.b_1))
        after = []
        if net.norm is not None:
            norm, y = net.norm.at(number, 1), x + mlp(x) if net.skip else mlp(x)
            after = [Norm.at(y, norm.epsilon, True, norm.scale, norm.shift)]
        found.append(Rows([[Dense(mlp.W_1), gates, Dense(mlp.W_2)]], net.skip, after))
    return found


def _of_trace(layer: Any) -> HeldLayer:
    """One layer of a trace; raises InputError where attention is not Dense, Mix [, Gate], Dense."""
    first, *others = layer.blocks
    maps = [_maps(branch.steps) for branch in first.branches]
    mixing = [any(isinstance(map, Mix) for map in branch) for branch in maps]
    place = f"layer {layer.number}"
    require(sum(mixing) == 1, "subject", f"{sum(mixing)} attentions first in {place}", "one")
    rows = [Rows(after=_maps(first.after))] if first.after else []
    for block in others:
        require(not any(b.attention for b in block.branches), "subject", f"more in {place}", "one")
        branches = [
            [map for step in branch.steps for map in step.maps] for branch in block.branches
        ]
        rows.append(Rows(branches, True, [map for step in block.after for map in step.maps]))
    branch = maps.pop(mixing.index(True))
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
    return HeldLayer(P[0], V, O, Rows(maps), branch[: at - 1], branch[at + 2 :], rows, gated)


def _maps(steps: Sequence[Any]) -> list[Map]:
    return [map for step in steps for map in step.maps]

"""Networks with their attention held: sums over paths, of all, of each length, of one.

Attention matrices, the gates of MLPs and the sizes that norms divide by are held at their values in
one forward pass. What is left is an affine map, whose value at that input is the network's output.
At its own input x_i (one token) a layer norm is x -> (x - mean x) / sigma_i * scale + shift with
sigma_i^2 = variance of x_i + epsilon, and an activation is z -> g z with the gate
g = activation(z) / z: Phi(z) for GELU, 1 or 0 for ReLU, tanh(z) / z for tanh. These are no
derivatives, and at another input the network is another map.

A path takes one head of every layer, 1 to heads, or 0 for what passes the attention by. What acts
on each token alone stands on every path; a path's length is the number of its heads. The sums over
all paths of one length cost O(depth^2 heads) products by S_len <- S_len + sum_h P_h S_{len-1} W_h.

Without maps of tokens beside it, attention can be in any arithmetic of
:mod:`attnverify.arithmetic.ops`. Else arrays are float tensors.

>>> import torch
>>> import attnverify as av
>>> net = av.SelfAttentionNetwork.random(2, 2, 8, skip=True, mlp_width=16, norm=True, seed=0)
>>> X = torch.randn(5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
>>> held = Held.of(net, X)
>>> torch.allclose(held.forward(X), net(X)), held.by_length(X).shape
(True, torch.Size([3, 5, 8]))
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import as_input
from attnverify.mathematics import maps
from attnverify.mathematics.attention import (
    SelfAttentionNetwork,
    head_values,
    layer_bias,
    mix,
)
from attnverify.mathematics.maps import Branches, Dense, Gate, Norm, Row
from attnverify.mathematics.weights import GATES
from attnverify.support.errors import require

Path = tuple[int, ...]
SMALL = 1 << 13  # entries of X and of a matrix P up to which all lengths are summed at once


@dataclass(frozen=True)
class HeldLayer:
    """A layer: index h is y -> tail((P_h before(y) W_V,h gates_h) W_O,h), index 0 the bypass.

    P (heads, ..., tokens, tokens); W_V (heads, width, value_width); W_O (heads, value_width,
    width); bypass: the skip connection, with the blocks beside the attention if there are any;
    None without. b (width,): the whole bias of the attention; rows: the maps of tokens behind all
    indices. In models of others, before and tail: maps of tokens shared by all heads; gates
    (heads, tokens, value_width): what multiplies the mixed values.
    """

    P: Any
    W_V: Any
    W_O: Any
    bypass: Branches | None = None
    b: Any = 0.0
    rows: Row = ()
    before: Row = ()
    tail: Row = ()
    gates: Tensor | None = None

    @property
    def indices(self) -> range:
        """Indices a path may take here, heads from 1, and 0 with a bypass."""
        return range(0 if self.bypass is not None else 1, len(self.P) + 1)

    @property
    def around(self) -> Row:
        """All its maps of tokens."""
        bypass = [] if self.bypass is None else [self.bypass]
        gates = [] if self.gates is None else [Gate(self.gates)]
        return [*self.before, *self.tail, *self.rows, *bypass, *gates]

    @property
    def roundings(self) -> int:
        """Roundings of an entry at most, from the layer's input to its rows, either direction."""
        heads = sum(self.W_V.shape[1:]) + 2 * self.P.shape[-1] + sum(self.W_O.shape[1:])
        heads += maps.count([*self.before, *self.tail]) + 2 * (self.gates is not None)
        return heads if self.bypass is None else max(heads, maps.count([self.bypass]))

    def attention(self, X):
        """Output of a network's attention, [X +] sum_h P_h X W_h + 1 b^T."""
        Y = mix(self.P, X, self.W_V, self.W_O) + self.b
        return Y if self.bypass is None else self.bypass(X) + Y

    def __call__(self, X):
        """Output of a network's layer, rows and biases included."""
        return maps.affine(self.rows, self.attention(X))

    def linear(self, y):
        """What all indices make of the streams y, through the rows."""
        total = sum((self.head(index, y) for index in self.indices), torch.zeros_like(y))
        return maps.linear(self.rows, total)

    def head(self, index: int, y):
        """What one index makes of the streams y (..., tokens, width), before the rows."""
        if index == 0 and self.bypass is not None:
            return self.bypass.linear(y)
        y = self.P[index - 1] @ (maps.linear(self.before, y) @ self.W_V[index - 1])
        return maps.linear(self.tail, self._gated(y, index - 1) @ self.W_O[index - 1])

    def _gated(self, y, heads):
        return y if self.gates is None else y * self.gates[heads]

    def head_transposed(self, indices: Sequence[int], g: Tensor) -> Tensor:
        """The transposes of :meth:`head` at g (1, tokens, width), one stream an index."""
        heads = torch.tensor([index - 1 for index in indices if index > 0], dtype=torch.long)
        found = []
        if 0 in indices and self.bypass is not None:
            found.append(self.bypass.transposed(g))
        if len(heads):
            mixed = self._gated(maps.transposed(self.tail, g) @ self.W_O[heads].mT, heads)
            mixed = self.P[heads].mT @ mixed
            found.append(maps.transposed(self.before, mixed @ self.W_V[heads].mT))
        return torch.cat(found)

    def head_absolute(self, index: int, y: Tensor) -> Tensor:
        """One index in absolute values, at y >= 0."""
        if index == 0 and self.bypass is not None:
            return self.bypass.absolute(y)
        y = self.P[index - 1] @ (maps.absolute(self.before, y) @ self.W_V[index - 1].abs())
        return maps.absolute(self.tail, self._gated(y, index - 1).abs() @ self.W_O[index - 1].abs())

    def advance(self, layer: int, sums) -> None:
        """A network's layer in place: sums[l] <- rows([sums[l] +] sum_h P_h sums[l - 1] W_h).

        layer: how many layers came before; ``sums``: (depth + 1, ..., tokens, width), contiguous,
        zero above length ``layer``. A head's mixed values and their joined copy take 2 / heads of
        an activation, so that a third of the heads at a time, for one length, needs less than one.
        A small input takes all at once: there the number of calls counts.
        """
        shortest = 1 if self.bypass is not None else layer + 1
        small = max(math.prod(sums.shape[1:]), math.prod(self.P.shape[1:])) <= SMALL
        many, some = (layer + 1, len(self.P)) if small else (1, max(1, len(self.P) // 3))
        for last in range(layer + 1, shortest - 1, -many):
            at = max(shortest, last - many + 1)
            for first in range(0, len(self.P), some):
                part = slice(first, first + some)
                P, W_V, W_O = self.P[part][:, None], self.W_V[part], self.W_O[part]
                # The values get no name, which would keep them alive beside those of the next part.
                ops.add_product_(
                    sums[at : last + 1],
                    head_values(P, sums[at - 1 : last], W_V),
                    W_O.reshape(-1, W_O.shape[-1]),
                )
        if self.bypass is None:
            sums[layer] = 0 * sums[layer]
        for part in sums[layer + 1 if self.bypass is None else 0 : layer + 2] if self.rows else ():
            part.copy_(maps.linear(self.rows, part))


class PathSum:
    """A network held fixed: ``layers`` and the maps ``final`` behind them, a sum over paths."""

    layers: Any  # HeldLayer, first to last
    final: Row

    def forward(self, X):
        """Output of a held network with its biases; at the input it is held at, the output."""
        for layer in self.layers:
            X = layer(X)
        return maps.affine(self.final, X)

    def linear(self, X):
        """The sum of all paths."""
        for layer in self.layers:
            X = layer.linear(X)
        return maps.linear(self.final, X)

    def term(self, X, path: Path):
        """One path: P^L_{h_L} ... P^1_{h_1} X W^1_{h_1} ... W^L_{h_L} for attention alone.

        An index of 0 is P = W = I. A path of fewer indices than layers ends behind the last.
        """
        for layer, index in zip(self.layers, path, strict=False):
            X = maps.linear(layer.rows, layer.head(index, X))
        return X if len(path) < len(self.layers) else maps.linear(self.final, X)

    def by_length(self, X):
        """Sums over all paths of each length 0..depth: (depth + 1, ..., tokens, width)."""
        return sums_by_length(self.layers, len(self.layers), X)


@dataclass(frozen=True)
class Held(PathSum):
    """A network or a model at one input X, (..., tokens, width), with its own output there."""

    layers: Sequence[HeldLayer]
    final: Row
    X: Tensor
    output: Tensor

    @classmethod
    def of(cls, net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]) -> Held:
        """``net`` held at X, the matrices of all layers at once (see ``net.attention``).

        Raises InputError for a bad X and where memory lacks. The states are those of net(X) to
        the last bit, so the attention matrices are too.
        """
        X = as_input("X", X, net.weights["b_O"])
        matrices, found = net.empty_attention(X), []
        for number, layer in enumerate(layers_of(net, X)):
            matrices[number] = layer.P
            found.append(replace(layer, P=matrices[number]))
        return cls(found, (), X, net(X))

    @property
    def entries(self) -> list[Tensor]:
        """The numbers that all maps multiply by."""
        heads = [array for layer in self.layers for array in (layer.P, layer.W_V, layer.W_O)]
        around = [array for layer in self.layers for array in maps.entries(layer.around)]
        return heads + around + maps.entries(self.final)


def layers_of(
    net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
) -> Iterator[HeldLayer]:
    """The layers of the network held at X, first to last, the matrices of one at a time."""
    for number, (Y, P) in enumerate(net.layers(X)):
        w, rows = net.weights.at(number), []
        whole = net.norm is not None or net.mlp is not None
        x = net.after_attention(number, Y, P) if whole else Y
        if net.norm is not None:
            norm = net.norm.at(number, 0)
            rows.append(Norm.at(x, norm.epsilon, True, norm.scale, norm.shift))
            x = norm(x)
        if net.mlp is not None:
            mlp = net.mlp.at(number)
            gate = Gate(GATES[mlp.activation](x @ mlp.W_1 + mlp.b_1))
            branch = [Dense(mlp.W_1, mlp.b_1), gate, Dense(mlp.W_2, mlp.b_2)]
            rows.append(Branches([branch], net.skip))
            x = x + mlp(x) if net.skip else mlp(x)
            if net.norm is not None:
                norm = net.norm.at(number, 1)
                rows.append(Norm.at(x, norm.epsilon, True, norm.scale, norm.shift))
        b = layer_bias(w.b_V, w.W_O, w.b_O)
        yield HeldLayer(P, w.W_V, w.W_O, Branches() if net.skip else None, b, rows)


def sums_by_length(layers: Iterable[HeldLayer], depth: int, X):
    """Sums over all paths of each length through so many layers, which come one at a time."""
    sums = ops.full((depth + 1, *X.shape), 0, X)
    sums[0] = X
    for number, layer in enumerate(layers):
        layer.advance(number, sums)
    return sums


@dataclass(frozen=True)
class FixedAttention(PathSum):
    """Attention layers with their matrices held fixed: an affine map of X, in any arithmetic.

    P: (depth, heads, ..., tokens, tokens), row-stochastic; W_V: (depth, heads, width, value_width);
    W_O: (depth, heads, value_width, width); b: (depth, width), the whole bias of each layer; skip:
    whether layers add their input.
    """

    P: Any
    W_V: Any
    W_O: Any
    b: Any
    skip: bool
    final = ()

    @classmethod
    def of(
        cls, net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
    ) -> FixedAttention:
        """Fixed network at X, with all its attention matrices held at once (see ``net.attention``).

        Raises InputError if it has parts that are not attention, and where memory lacks.
        """
        alone = "attention and skip connections alone (see attnverify.mathematics.held.Held)"
        only = net.mlp is None and net.norm is None
        require(only, "net", "a network with MLPs or layer norm", alone)
        w = net.weights
        b = layer_bias(w["b_V"], w["W_O"], w["b_O"])
        return cls(net.attention(X), w["W_V"], w["W_O"], b, net.skip)

    @property
    def depth(self) -> int:
        return self.P.shape[0]

    @property
    def heads(self) -> int:
        return self.P.shape[1]

    @property
    def layers(self) -> list[HeldLayer]:
        """The layers, first to last."""
        bypass = Branches() if self.skip else None
        biases = [0.0] * self.depth if self.b is None else self.b
        stacks = zip(self.P, self.W_V, self.W_O, biases, strict=True)
        return [HeldLayer(P, W_V, W_O, bypass, b) for P, W_V, W_O, b in stacks]

    def indices(self) -> range:
        """Indices a path may take in one layer: heads from 1, and 0 with skip connections."""
        return range(0 if self.skip else 1, self.heads + 1)

    def bias_vector(self):
        """Bias b, (width,), with output = sum of terms + 1 b^T.

        It is sum_l b_l prod_{m > l} ([I +] sum_h W^m_h), as the rows of P sum to 1.
        """
        total = ops.full(tuple(self.b.shape[1:]), 0, self.b)
        for W_V, W_O, b in zip(self.W_V, self.W_O, self.b, strict=True):
            through = (total[None] @ W_V @ W_O).sum(0)[0]
            total = (total + through if self.skip else through) + b
        return total

    def rounding_bound(self, X: Tensor, terms: int) -> Tensor:
        """Bound on |float sum of ``terms`` path terms + bias - float forward pass|, entrywise.

        In float64, for both sides evaluated in the dtype of X with unit roundoff u. Raises
        InputError where that dtype is too coarse for these sizes (2 m u >= 1, below), and for
        float16, whose smallest normal number is so large that rounding is not relative.

        Every product chain in either evaluation passes, per layer, inner products of length
        width, tokens and heads * value_width and three additions; the terms are then added up.
        By Higham, section 3.1, an evaluation with at most m roundings per chain is off by at most
        gamma_m = m u / (1 - m u) times the same expression in absolute values, which is this
        network with |W|, |b| at |X|. The bias moreover uses that rows of P sum to 1, which float
        rows do to (tokens + 1) u, less than gamma_m over all layers. Two evaluations and that:
        3 gamma_m; and the bound itself is computed in floats, with the same relative error at
        most, so 2 gamma_2m serves.
        """
        factor, absolute = self._rounding(X, terms)
        return factor * absolute.forward(abs(X.double()))

    def rounding_bounds(self, X: Tensor, terms: int) -> Tensor:
        """Bound on the rounding of each sum of :meth:`by_length`, entrywise, in the same shape.

        A sum over the paths of one length is a sum of product chains too, so that it is off by at
        most gamma_m times itself in absolute values: far less than the bound for the whole network
        where the weights are small and the paths long.
        """
        factor, absolute = self._rounding(X, terms)
        return factor * absolute.by_length(abs(X.double()))

    def _rounding(self, X: Tensor, terms: int) -> tuple[float, FixedAttention]:
        """Factor 2 gamma_2m and this network in absolute values, for :meth:`rounding_bound`."""
        width, value_width = self.W_V.shape[-2:]
        per_layer = width + self.P.shape[-1] + self.heads * value_width + 3
        m = self.depth * per_layer + terms + self.depth * (self.depth + 1)
        expected = "float32 or float64: float16 underflows where this bound knows rounding alone"
        require(X.dtype != torch.float16, "X", X.dtype, expected)
        u = torch.finfo(X.dtype).eps / 2
        few = f"a finer dtype or smaller sizes: at most {(1 - 2 * u) / (2 * u):,.0f} roundings"
        require(2 * m * u < 1, "X", f"{X.dtype} with {m:,} roundings a chain", few)
        factor = 2 * (2 * m * u / (1 - 2 * m * u))
        W_V, W_O, b = (abs(v.double()) for v in (self.W_V, self.W_O, self.b))
        return factor, FixedAttention(self.P.double(), W_V, W_O, b, self.skip)

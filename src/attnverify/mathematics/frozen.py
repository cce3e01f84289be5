"""Whole networks, MLPs and layer norms included, frozen at their input-dependent linear maps.

At its own input x_i (one token) a layer norm is x -> (x - mean x) / sigma_i * scale + shift with
sigma_i^2 = variance of x_i + epsilon, and an activation is z -> g z with the gate
g = activation(z) / z: Phi(z) for GELU, 1 or 0 for ReLU, tanh(z) / z for tanh. With sigma, g and
the attention matrices fixed at their values in the forward pass at X, the network is an affine
map whose value at X is net(X) exactly. Expanding its attention layers over heads gives paths, as in
:mod:`attnverify.mathematics.paths`; the row-wise maps stand on every path, and a path's length is
still the number of attention layers it passes through a head.

The frozen maps are not derivatives, and away from X the frozen network is another function.

The bias theorem of :mod:`attnverify.mathematics.paths` (all biases sum to 1 b^T) does not hold
here: 1/sigma_i and the gates differ between tokens, so a bias that enters equal for all tokens
leaves unequal and is then mixed by attention. The biases are therefore carried as a stream of their
own, one row a token.

>>> import torch
>>> import attnverify as av
>>> _ = torch.manual_seed(0)
>>> net = av.SelfAttentionNetwork.random(2, 2, 8, skip=True, mlp_width=16, norm=True, seed=0)
>>> X = torch.randn(5, 8, dtype=torch.float64)
>>> lengths, bias = av.frozen.by_length(net, X)
>>> lengths.shape, bias.shape
(torch.Size([3, 5, 8]), torch.Size([5, 8]))
>>> av.frozen.reconstruction_residual(net(X), lengths, bias) < 1e-12
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.mathematics.attention import SelfAttentionNetwork, layer_bias
from attnverify.mathematics.paths import FixedAttention, FixedLayer, fixed_layer
from attnverify.mathematics.weights import MLP, LayerNorm


def _tanh_gate(z: Tensor) -> Tensor:
    return torch.where(z == 0, 1.0, torch.tanh(z) / z)  # tanh(z) / z -> 1 as z -> 0


GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": torch.special.ndtr,
    "relu": lambda z: (z > 0).to(z.dtype),  # 0 at z = 0: any gate gives 0 there
    "tanh": _tanh_gate,
}


@dataclass(frozen=True)
class RowMap:
    """An affine map of each token: x -> linear(x) + shift, shift (..., tokens, width)."""

    linear: Callable[[Tensor], Tensor]
    shift: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.shift


def norm_at(x: Float[Tensor, "*batch tokens width"], norm: LayerNorm) -> RowMap:
    """One layer norm with the standard deviations of the tokens of x."""
    sigma = (x.var(-1, correction=0, keepdim=True) + norm.epsilon).sqrt()

    def linear(y: Tensor) -> Tensor:
        return (y - y.mean(-1, keepdim=True)) / sigma * norm.scale

    return RowMap(linear, norm.shift.expand(x.shape))


def mlp_at(x: Float[Tensor, "*batch tokens width"], mlp: MLP, skip: bool) -> RowMap:
    """[x +] activation(x W_1 + b_1) W_2 + b_2 of one layer with the gates of the tokens of x."""
    gate = GATES[mlp.activation](x @ mlp.W_1 + mlp.b_1)

    def linear(y: Tensor) -> Tensor:
        out = (y @ mlp.W_1 * gate) @ mlp.W_2
        return y + out if skip else out

    return RowMap(linear, (gate * mlp.b_1) @ mlp.W_2 + mlp.b_2)


@dataclass(frozen=True)
class FrozenLayer:
    """One layer held fixed: its attention, then the row-wise maps that follow, in order."""

    attention: FixedLayer
    rows: list[RowMap]

    def __call__(self, X: Tensor) -> Tensor:
        X = self.attention(X)
        for row_map in self.rows:
            X = row_map(X)
        return X

    def advance(self, layer: int, sums: Tensor) -> None:
        """The sums by length one layer later, in place: attention, then the linear parts."""
        self.attention.advance(layer, sums)
        for row_map in self.rows:
            for part in sums[0 if self.attention.skip else layer + 1 : layer + 2]:
                part.copy_(row_map.linear(part))


@dataclass(frozen=True)
class FrozenNetwork:
    """A network with its attention matrices, gates and standard deviations held fixed.

    attention: the attention layers; rows: for each layer the row-wise maps that follow it, in
    order (empty without MLP and layer norm).
    """

    attention: FixedAttention
    rows: list[list[RowMap]]

    @classmethod
    @torch.no_grad()
    def of(
        cls, net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
    ) -> FrozenNetwork:
        """Freeze ``net`` at X, the matrices of all layers held at once (see ``net.attention``).

        Raises InputError for a bad X and where memory lacks. The states are those of net(X) to
        the last bit, so the attention matrices are too.
        """
        matrices, rows = net.empty_attention(X), []
        for layer, frozen in enumerate(frozen_layers(net, X)):
            matrices[layer] = frozen.attention.P
            rows.append(frozen.rows)
        w = net.weights
        b = layer_bias(w["b_V"], w["W_O"], w["b_O"])
        return cls(FixedAttention(matrices, w["W_V"], w["W_O"], b, net.skip), rows)

    def at(self, layer: int) -> FrozenLayer:
        """One layer (0-based)."""
        return FrozenLayer(self.attention.at(layer), self.rows[layer])

    def forward(
        self, X: Float[Tensor, "*batch tokens width"]
    ) -> Float[Tensor, "*batch tokens width"]:
        """The affine map; at the X of :meth:`of` it equals net(X) to rounding."""
        for layer in range(self.attention.depth):
            X = self.at(layer)(X)
        return X

    def by_length(
        self, X: Float[Tensor, "*batch tokens width"]
    ) -> tuple[
        Float[Tensor, "{self.attention.depth}+1 *batch tokens width"],
        Float[Tensor, "*batch tokens width"],
    ]:
        """Sums over all paths of each length, and the stream of all biases.

        After each layer every sum passes the linear part of the layer's row-wise maps; the biases
        pass the whole layer, starting from 0.
        """
        depth = self.attention.depth
        return _sums_of(depth, map(self.at, range(depth)), X)


def frozen_layers(
    net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
) -> Iterator[FrozenLayer]:
    """The layers of the network frozen at X, first to last, the matrices of one at a time."""
    for layer, (Y, P) in enumerate(net.layers(X)):
        rows = _rows_at(net, layer, net.after_attention(layer, Y, P))
        yield FrozenLayer(fixed_layer(net, layer, P), rows)


def _rows_at(net: SelfAttentionNetwork, layer: int, X: Tensor) -> list[RowMap]:
    """Row-wise maps of one layer, where X is the sum that enters its first layer norm or MLP."""
    rows: list[RowMap] = []

    def then(row_map: RowMap) -> None:
        nonlocal X
        rows.append(row_map)
        X = row_map(X)

    if net.norm is not None:
        then(norm_at(X, net.norm.at(layer, 0)))
    if net.mlp is not None:
        then(mlp_at(X, net.mlp.at(layer), net.skip))
        if net.norm is not None:
            then(norm_at(X, net.norm.at(layer, 1)))
    return rows


def _sums_of(depth: int, layers: Iterable[FrozenLayer], X: Tensor) -> tuple[Tensor, Tensor]:
    sums = X.new_zeros((depth + 1, *X.shape))
    sums[0] = X
    bias = torch.zeros_like(X)
    for layer, frozen in enumerate(layers):
        frozen.advance(layer, sums)
        bias = frozen(bias)
    return sums, bias


@torch.no_grad()
def by_length(
    net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
) -> tuple[
    Float[Tensor, "{net.depth}+1 *batch tokens width"], Float[Tensor, "*batch tokens width"]
]:
    """Sums over all paths of each length 0..depth, and the part that the biases carry.

    ``lengths.sum(0) + bias`` is net(X) to rounding (see :func:`reconstruction_residual`). Any
    options of the network; without MLP and norm these are the sums of
    :func:`attnverify.mathematics.paths.by_length`. The attention matrices of one layer are held at
    a time. Raises InputError for a bad X.
    """
    return _sums_of(net.depth, frozen_layers(net, X), X)


def reconstruction_residual(
    output: Float[Tensor, "*batch tokens width"],
    lengths: Float[Tensor, "sums *batch tokens width"],
    bias: Float[Tensor, "*batch tokens width"],
) -> float:
    """Relative error: largest |lengths.sum(0) + bias - output| over largest |output|."""
    return float((lengths.sum(0) + bias - output).abs().max() / output.abs().max())

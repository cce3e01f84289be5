"""The path decomposition of a self-attention network (Dong, Cordonnier, Loukas 2021, section 2).

It serves the claims paths.*, in float tensors, balls and rationals.

With its attention matrices held at their values in the real forward pass, a network of L layers
and H heads is a sum over paths (h_1, ..., h_L), one head index a layer, 0 standing for the skip
connection. Enumerating them costs (1 + H)^L terms; the sums over all paths of one length cost
O(L^2 H) products by the recursion S_len <- S_len + sum_h P_h S_{len-1} W_h.

>>> import torch
>>> import attnverify as av
>>> _ = torch.manual_seed(0)
>>> net = av.SelfAttentionNetwork.random(depth=3, heads=2, width=8, skip=True, seed=0)
>>> X = torch.randn(5, 8, dtype=torch.float64)
>>> lengths = av.paths.by_length(net, X)
>>> [av.paths.count(3, 2, length) for length in range(len(lengths))]
[1, 6, 12, 8]
>>> torch.allclose(lengths.sum(0) + av.paths.bias(net, X), net(X))
True
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import takes_input
from attnverify.mathematics.attention import (
    SelfAttentionNetwork,
    head_values,
    head_values_of_many,
    layer_bias,
    mix,
)
from attnverify.support.errors import require, require_tokens

ENUMERATION_LIMIT = 1_000_000
SMALL = 1 << 14  # entries of X below which sums by length are taken for all lengths at once

Path = tuple[int, ...]


@dataclass(frozen=True)
class FixedLayer:
    """One layer with its attention matrices held fixed: an affine map of X, in any arithmetic.

    P: (heads, ..., tokens, tokens), row-stochastic; W_V: (heads, width, value_width); W_O: (heads,
    value_width, width); b: (width,), the whole bias of the layer; skip: whether it adds its input.
    """

    P: Any
    W_V: Any
    W_O: Any
    b: Any
    skip: bool

    def __call__(self, X):
        """Output of the layer, [X +] sum_h P_h X W_h + 1 b^T."""
        Y = mix(self.P, X, self.W_V, self.W_O) + self.b
        return X + Y if self.skip else Y

    def advance(self, layer: int, sums) -> None:
        """One step of the recursion in place: sums[l] <- [sums[l] +] sum_h P_h sums[l - 1] W_h.

        layer: how many layers came before; ``sums``: (depth + 1, ..., tokens, width), contiguous,
        zero above length ``layer``.
        """
        shortest = 1 if self.skip else layer + 1
        block = layer + 1 if math.prod(sums.shape[1:]) <= SMALL else 1
        for last in range(layer + 1, shortest - 1, -block):
            self._add_heads(sums, max(shortest, last - block + 1), last)
        if not self.skip:
            sums[layer] = 0 * sums[layer]

    def _add_heads(self, sums, first: int, last: int) -> None:
        """Add sum_h P_h sums[l - 1] W_h to sums[l] for the lengths l = first..last.

        A head's mixed values and their joined copy take 2 / heads of an activation, so a third of
        the heads at a time, one length at a time, needs less than one activation beside the sums.
        Several lengths at once need all heads at once, since the sums change in place; that is
        for small inputs, where the overhead of a call and not memory counts.
        """
        heads, whole = len(self.P), first < last or math.prod(sums.shape[1:]) <= SMALL
        chunk = heads if whole else max(1, heads // 3)
        for head in range(0, heads, chunk):
            part = slice(head, head + chunk)
            P, W_V = self.P[part], self.W_V[part]
            W_O = self.W_O[part].reshape(-1, sums.shape[-1])
            # The values get no name, which would keep them alive beside those of the next part.
            if whole:
                many = sums[first - 1 : last]
                ops.add_product_(sums[first : last + 1], head_values_of_many(P, many, W_V), W_O)
            else:
                ops.add_product_(sums[last], head_values(P, sums[last - 1], W_V), W_O)


@dataclass(frozen=True)
class FixedAttention:
    """A network whose attention matrices are held fixed: an affine map of X, in any arithmetic.

    The fields are those of :class:`FixedLayer` with an axis of layers in front: P (depth, heads,
    ..., tokens, tokens), W_V, W_O, b (depth, width).
    """

    P: Any
    W_V: Any
    W_O: Any
    b: Any
    skip: bool

    @classmethod
    def of(
        cls, net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
    ) -> FixedAttention:
        """Fixed network at X, with all its attention matrices held at once (see ``net.attention``).

        Raises InputError if it has parts that are not attention, and where memory lacks.
        """
        _require_attention_alone(net)
        w = net.weights
        b = layer_bias(w["b_V"], w["W_O"], w["b_O"])
        return cls(net.attention(X), w["W_V"], w["W_O"], b, net.skip)

    @property
    def depth(self) -> int:
        return self.P.shape[0]

    @property
    def heads(self) -> int:
        return self.P.shape[1]

    def at(self, layer: int) -> FixedLayer:
        """One layer (0-based)."""
        return FixedLayer(self.P[layer], self.W_V[layer], self.W_O[layer], self.b[layer], self.skip)

    def forward(self, X):
        """Output of the fixed network: X <- [X +] sum_h P_h X W_h + 1 b^T in every layer."""
        for layer in range(self.depth):
            X = self.at(layer)(X)
        return X

    def indices(self) -> range:
        """Indices a path may take in one layer: heads from 1, and 0 with skip connections."""
        return range(0 if self.skip else 1, self.heads + 1)

    def term(self, X, path: Path):
        """Term P^L_{h_L} ... P^1_{h_1} X W^1_{h_1} ... W^L_{h_L} of a path; 0 is P = W = I."""
        for layer, index in enumerate(path):
            if index > 0:
                X = (self.P[layer, index - 1] @ (X @ self.W_V[layer, index - 1])) @ (
                    self.W_O[layer, index - 1]
                )
        return X

    def bias_vector(self):
        """Bias b with output = sum of terms + 1 b^T; see :func:`bias_vector`."""
        return bias_vector(self.W_V, self.W_O, self.b, self.skip)

    def by_length(self, X):
        """Sums over all paths of each length 0..depth: (depth + 1, ..., tokens, width)."""
        return _sums_of(self.depth, map(self.at, range(self.depth)), X)

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


def bias_vector(W_V, W_O, b, skip: bool):
    """The bias of all layers, (width,): sum_l b_l prod_{m > l} ([I +] sum_h W^m_h).

    Shapes: W_V (depth, heads, width, value_width); W_O (depth, heads, value_width, width); b
    (depth, width).
    """
    total = ops.full(tuple(b.shape[1:]), 0, b)
    for layer in range(len(b)):
        through = (total[None] @ W_V[layer] @ W_O[layer]).sum(0)[0]
        total = (total + through if skip else through) + b[layer]
    return total


def _sums_of(depth: int, layers: Iterable[FixedLayer], X):
    sums = ops.full((depth + 1, *X.shape), 0, X)
    sums[0] = X
    for layer, fixed in enumerate(layers):
        fixed.advance(layer, sums)
    return sums


@takes_input
def fixed_layers(
    net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
) -> Iterator[FixedLayer]:
    """The attention layers of the network at X, first to last, the matrices of one at a time."""
    for layer, (_, P) in enumerate(net.layers(X)):
        yield fixed_layer(net, layer, P)


def fixed_layer(net: SelfAttentionNetwork, layer: int, P: Tensor) -> FixedLayer:
    """One attention layer of the network with these matrices, (heads, ..., tokens, tokens)."""
    w = net.weights.at(layer)
    return FixedLayer(P, w.W_V, w.W_O, layer_bias(w.b_V, w.W_O, w.b_O), net.skip)


def _require_attention_alone(net: SelfAttentionNetwork) -> None:
    require(
        net.mlp is None and net.norm is None,
        "net",
        "a network with MLPs or layer norm",
        "attention and skip connections alone (see attnverify.mathematics.frozen)",
    )


def count(depth: int, heads: int, length: int) -> int:
    """Number of paths of a length: C(depth, length) heads^length (0 outside 0..depth)."""
    require(depth >= 0, "depth", depth, "a whole number >= 0")
    require(heads >= 1, "heads", heads, "a whole number >= 1")
    return math.comb(depth, length) * heads**length if 0 <= length <= depth else 0


@takes_input
def term(net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"], path: Path) -> Tensor:
    """One term of the decomposition; ``path`` has depth indices, 1..heads, 0 = skip."""
    require_tokens("X", X, net.width)
    require(len(path) == net.depth, "path", f"{len(path)} indices", f"{net.depth}, one a layer")
    fixed = FixedAttention.of(net, X)
    allowed = fixed.indices()
    require(
        all(i in allowed for i in path),
        "path",
        f"{path}",
        f"indices in {allowed[0]}..{allowed[-1]}",
    )
    return fixed.term(X, tuple(path))


@takes_input
def terms(
    net: SelfAttentionNetwork,
    X: Float[Tensor, "*batch tokens width"],
    *,
    limit: int = ENUMERATION_LIMIT,
) -> Iterator[tuple[Path, Tensor]]:
    """All pairs (path, term), each term (..., tokens, width) computed as the theorem writes it.

    Raises InputError for more than ``limit`` paths: sums by length cost O(depth^2 heads) products
    whatever their number.
    """
    require_tokens("X", X, net.width)
    number = (net.heads + net.skip) ** net.depth
    require(
        number <= limit,
        "net",
        f"{number:,} paths",
        f"at most {limit:,} (use by_length, the recursion over path lengths)",
    )
    return _enumerate(FixedAttention.of(net, X), X)


def _enumerate(fixed: FixedAttention, X: Tensor) -> Iterator[tuple[Path, Tensor]]:
    for path in itertools.product(fixed.indices(), repeat=fixed.depth):
        yield path, fixed.term(X, path)


@takes_input
def bias(
    net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
) -> Float[Tensor, "*batch tokens width"]:
    """Part 1 b^T of the output that no path carries, in the shape of X."""
    require_tokens("X", X, net.width)
    _require_attention_alone(net)
    w = net.weights
    b = layer_bias(w["b_V"], w["W_O"], w["b_O"])
    return bias_vector(w["W_V"], w["W_O"], b, net.skip).expand(X.shape)


@takes_input
@torch.no_grad()
def by_length(
    net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
) -> Float[Tensor, "{net.depth}+1 *batch tokens width"]:
    """Sum over all paths of each length 0..depth, by the recursion (no gradients).

    Their sum plus :func:`bias` is ``net(X)``. Without skip connections only the last is nonzero.
    The attention matrices of one layer are held at a time.
    """
    _require_attention_alone(net)
    return _sums_of(net.depth, fixed_layers(net, X), X)


def largest(
    subject: Any,
    scalar: Any,
    k: int = 20,
    *,
    X: Any = None,
    nodes: int = 2000,
    columns: int | None = None,
) -> Any:
    """The k paths that contribute most to a scalar of the output, and a bound on all others.

    subject: a network, with its input ``X`` (tokens, width), or a trace of ``av.trace`` of one
    text; all its attention matrices, gates and norms are held. scalar: a covector (tokens, width)
    at the output, or a pair (token, coordinate) or (token, weights of its coordinates). The search
    (:mod:`attnverify.mathematics.largest_paths`) opens at most so many ``nodes``; its bounds
    (:mod:`attnverify.mathematics.energy`) hold at most so many ``columns`` a layer. They take
    8 tokens width (columns + width) bytes a layer, the second term for the matrices S. The default
    is the number of columns that fit 2 GiB without S, but at least 64 and at most 256.

    Result: a :class:`.largest_paths.LargestPaths`. It says how large any other path can be, up to
    the stated rounding error, whether the list is certified or not. Raises InputError, also where
    squares of contributions leave the range of float64, or a weight, a gate or a factor of a norm
    is above 2^24.

    >>> import torch
    >>> import attnverify as av
    >>> net = av.SelfAttentionNetwork.random(12, 12, 24, skip=True, scale=0.3, seed=0)
    >>> X = torch.randn(4, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> found = av.paths.largest(net, (0, 5), 3, X=X)
    >>> found.paths[0], found.certified, f"{found.number:,}"
    ((0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), True, '23,298,085,122,481')
    """
    # Bounds and search use the paths above, so they stand in modules that import this one.
    from attnverify.mathematics import largest_paths

    return largest_paths.largest(subject, scalar, k, X, nodes, columns)

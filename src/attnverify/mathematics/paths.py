"""The path decomposition of a self-attention network (Dong, Cordonnier, Loukas 2021, section 2).

It serves the claims paths.*. With its attention matrices held at their values in the real forward
pass (:mod:`attnverify.mathematics.held`), a network of L layers and H heads is a sum over paths
(h_1, ..., h_L), one head index a layer, 0 standing for the skip connection. Enumerating them costs
(1 + H)^L terms, the recursion over their lengths O(L^2 H) products.

MLPs and layer norms are held as well: their gates and standard deviations stand on every path, and
differ between tokens. So the biases of such a network reach each token as another row.

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
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic.arrays import takes_input
from attnverify.mathematics.attention import SelfAttentionNetwork, layer_bias
from attnverify.mathematics.held import FixedAttention, Held, Path, layers_of, sums_by_length
from attnverify.mathematics.largest_paths import largest
from attnverify.support.errors import require, require_tokens

__all__ = ["FixedAttention", "Path", "bias", "by_length", "count", "largest", "term", "terms"]

ENUMERATION_LIMIT = 1_000_000


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
    held = Held.of(net, X)
    allowed = held.layers[0].indices
    expected = f"indices in {allowed[0]}..{allowed[-1]}"
    require(all(i in allowed for i in path), "path", f"{path}", expected)
    return held.term(X, tuple(path))


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
    held = Held.of(net, X)
    every = itertools.product(held.layers[0].indices, repeat=net.depth)
    return ((path, held.term(X, path)) for path in every)


@takes_input
def bias(
    net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
) -> Float[Tensor, "*batch tokens width"]:
    """Part of the output that no path carries, in the shape of X.

    It is 1 b^T for attention alone. With MLPs or norms it is the stream of all biases, which starts
    at 0 and passes every layer held at X.
    """
    require_tokens("X", X, net.width)
    if net.mlp is None and net.norm is None:
        w = net.weights
        b = layer_bias(w["b_V"], w["W_O"], w["b_O"])
        return FixedAttention(None, w["W_V"], w["W_O"], b, net.skip).bias_vector().expand(X.shape)
    B = torch.zeros_like(X)
    for layer in layers_of(net, X):
        B = layer(B)
    return B


@takes_input
@torch.no_grad()
def by_length(
    net: SelfAttentionNetwork, X: Float[Tensor, "*batch tokens width"]
) -> Float[Tensor, "{net.depth}+1 *batch tokens width"]:
    """Sum over all paths of each length 0..depth, by the recursion (no gradients).

    Their sum plus :func:`bias` is ``net(X)``. Without skip connections only the last is nonzero.
    The attention matrices of one layer are held at a time.
    """
    require_tokens("X", X, net.width)
    return sums_by_length(layers_of(net, X), net.depth, X)

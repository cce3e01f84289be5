"""Multi-head self-attention networks, batched, with skip connections, MLPs, norms and masks.

The formulas are plain functions that work in any arithmetic of :mod:`attnverify.arithmetic.ops`;
:class:`SelfAttentionNetwork` holds the weights and applies them layer by layer.

Notation (Vaswani et al. 2017; Dong, Cordonnier, Loukas 2021): tokens are the rows of X.
Head h has P_h = softmax_rows((X W_Q + 1 b_Q^T)(X W_K + 1 b_K^T)^T / sqrt(d_qk)), and one layer is
SA(X) = sum_h P_h (X W_V,h + 1 b_V,h^T) W_O,h + 1 b_O^T.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import as_array, takes_input
from attnverify.mathematics import random_weights
from attnverify.mathematics.masks import Mask
from attnverify.mathematics.positions import Positions, scores
from attnverify.mathematics.weights import MLP, AttentionWeights, LayerNorm, Stack
from attnverify.support.errors import as_given, require, require_tokens
from attnverify.support.memory import require_memory

Rows = np.ndarray | list[list[bool]]  # a mask as an array or lists, before it becomes a tensor


def logits(X, W_Q, b_Q, W_K, b_K, positions: Positions | None = None):
    """Attention logits of all heads.

    Shapes: X (..., tokens, width); W_Q, W_K (heads, width, key_width); b_Q, b_K (heads,
    key_width). Result (heads, ..., tokens, tokens), already divided by sqrt(key_width).
    positions: those of one layer, if any.
    """
    queries, keys = _project(X, W_Q, b_Q), _project(X, W_K, b_K)
    return (scores if positions is None else positions.scores)(queries, keys)


def mix(P, X, W_V, W_O):
    """Sum over heads of P_h X W_V,h W_O,h.

    Shapes: P (heads, ..., tokens, tokens); X (..., tokens, width); W_V (heads, width,
    value_width); W_O (heads, value_width, width). Result: the shape of X.
    """
    return head_values(P, X, W_V) @ _join_rows(W_O)


def head_values(P, X, W_V):
    """Mixed values [P_1 X W_V,1 | ...] of all heads, (..., tokens, heads * value_width)."""
    return ops.join_heads(P @ _project(X, W_V))


def layer_bias(b_V, W_O, b_O):
    """Bias b of a whole layer, SA(X) = sum_h P_h X W_h + 1 b^T; value biases pass P_h (P_h 1 = 1).

    Shapes: b_V (..., heads, value_width); W_O (..., heads, value_width, width); b_O and result
    (..., width).
    """
    layers = b_O.shape[:-1]
    values = b_V.reshape(*layers, 1, -1) @ W_O.reshape(*layers, -1, W_O.shape[-1])
    return values[..., 0, :] + b_O


def _project(X, W, b=None):
    """Projections X W_h [+ 1 b_h^T] of all heads, (heads, ..., tokens, size).

    Tokens and batch are one axis during the product, which spares copies of X and W.
    """
    out = X.reshape(1, -1, X.shape[-1]) @ W
    out = out if b is None else out + b[:, None]
    return out.reshape(len(W), *X.shape[:-1], W.shape[-1])


def _join_rows(W_O):
    """Output maps of all heads stacked by rows, (heads * value_width, width)."""
    return W_O.reshape(-1, W_O.shape[-1])


class SelfAttentionNetwork(nn.Module):
    """A stack of self-attention layers, optionally with skip connections, MLPs, norm, mask.

    One layer maps X (..., tokens, width) to the same shape:
    Y = norm(skip * X + SA(X)); with an MLP then norm(skip * Y + MLP(Y)). Logits may have positions.
    Parameters do not require gradients until ``requires_grad_()`` is called.

    Tokens and weights have one dtype, float64 by default. Raises InputError for parts that do not
    fit and for inputs of another width, without tokens or with entries that are not finite.

    Source: Vaswani et al. (2017), section 3.2; the notation is that of Dong et al. (2021).

    >>> import torch
    >>> import attnverify as av
    >>> _ = torch.manual_seed(0)
    >>> net = av.SelfAttentionNetwork.random(depth=3, heads=2, width=8, skip=True, seed=0)
    >>> X = torch.randn(5, 8, dtype=torch.float64)
    >>> net(X).shape, net(X).dtype
    (torch.Size([5, 8]), torch.float64)
    >>> net.attention(X)[0].shape  # of the first layer: heads, queries, keys
    torch.Size([2, 5, 5])
    """

    def __init__(
        self,
        weights: AttentionWeights,
        *,
        skip: bool = False,
        mlp: MLP | None = None,
        norm: LayerNorm | None = None,
        mask: Literal["causal"] | Bool[Tensor, "tokens tokens"] | Mask | Rows | None = None,
        positions: Positions | None = None,
    ) -> None:
        super().__init__()
        require(isinstance(skip, bool), "skip", repr(skip), "True or False")
        expected = "AttentionWeights(W_Q=..., W_K=..., W_V=..., W_O=...)"
        given = type(weights).__name__
        require(isinstance(weights, AttentionWeights), "weights", given, expected)
        if isinstance(mask, np.ndarray | list | tuple):
            mask = torch.as_tensor(as_array("mask", mask)).bool()
        named = isinstance(mask, Tensor | Mask | None) or as_given(mask) == repr("causal")
        require(named, "mask", as_given(mask), '"causal", a tensor, an av.Mask or None')
        weights.check()
        self.depth, self.heads, self.width, self.key_width = weights.W_Q.shape
        self.value_width = weights.W_V.shape[-1]
        self.skip, self.mask = skip, mask
        self.weights = Stack(weights)
        self.mlp: Stack[MLP] | None = None
        self.norm: Stack[LayerNorm] | None = None
        self.positions: Stack[Positions] | None = None
        if positions is not None:
            positions.check(self.depth, self.heads, self.key_width)
            self.positions = Stack(positions)
        if mlp is not None:
            mlp.check(self.depth, self.width)
            self.mlp = Stack(mlp)
        if norm is not None:
            norm.check(self.depth, 1 if mlp is None else 2, self.width)
            self.norm = Stack(norm)

    @classmethod
    def random(
        cls,
        depth: int,
        heads: int,
        width: int,
        key_width: int | None = None,
        value_width: int | None = None,
        *,
        key_heads: int | None = None,
        skip: bool = False,
        bias: bool = True,
        mlp_width: int | None = None,
        norm: bool = False,
        mask: Literal["causal"] | Bool[Tensor, "tokens tokens"] | Mask | Rows | None = None,
        positions: Positions | None = None,
        scale: float = 1.0,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
    ) -> SelfAttentionNetwork:
        """Gaussian weights with standard deviation scale / sqrt(fan-in), biases likewise.

        ``key_width`` and ``value_width`` default to width / heads, which must then be whole. With
        ``key_heads`` below ``heads``, so many groups of heads in a row share keys and values.
        """
        sizes = random_weights.Sizes.of(
            depth, heads, width, key_width, value_width, key_heads, mlp_width
        )
        draw = random_weights.Draw(seed, scale, bias, dtype)
        return cls(
            random_weights.attention(draw, sizes),
            skip=skip,
            mlp=random_weights.mlp(draw, sizes),
            norm=random_weights.norm(draw, sizes) if norm else None,
            mask=mask,
            positions=positions,
        )

    def keep(self, tokens: int) -> Bool[Tensor, "*batch tokens tokens"] | None:
        """Which keys (columns) each query (row) may attend to; None means all."""
        if self.mask is None:
            return None
        if isinstance(self.mask, Mask):
            return self.mask.keep(tokens, self.weights["b_O"])
        if isinstance(self.mask, str):
            known = '"causal", a Mask, a tensor or None'
            require(self.mask == "causal", "mask", repr(self.mask), known)
            return ops.causal(tokens, self.weights["b_O"])
        shape = tuple(self.mask.shape)
        require(shape == (tokens, tokens), "mask", f"shape {shape}", f"shape {(tokens, tokens)}")
        require(bool(self.mask.any(-1).all()), "mask", "a row without keys", "a key in every row")
        return self.mask

    def layer_attention(
        self, layer: int, X: Float[Tensor, "*batch tokens width"]
    ) -> Float[Tensor, "heads *batch tokens tokens"]:
        """Attention matrices of one layer at its input X."""
        w = self.weights.at(layer)
        positions = None if self.positions is None else self.positions.at(layer)
        z = logits(X, w.W_Q, w.b_Q, w.W_K, w.b_K, positions)
        return ops.softmax(z, self.keep(X.shape[-2]))

    def layer(
        self,
        layer: int,
        X: Float[Tensor, "*batch tokens width"],
        P: Float[Tensor, "heads *batch tokens tokens"] | None = None,
    ) -> Float[Tensor, "*batch tokens width"]:
        """Output of one layer; ``P`` replaces its attention matrices if given."""
        P = self.layer_attention(layer, X) if P is None else P
        Y = self.after_attention(layer, X, P)
        Y = Y if self.norm is None else self.norm.at(layer, 0)(Y)
        if self.mlp is None:
            return Y
        Z = self.mlp.at(layer)(Y)
        Z = Y + Z if self.skip else Z
        return Z if self.norm is None else self.norm.at(layer, 1)(Z)

    def after_attention(
        self,
        layer: int,
        X: Float[Tensor, "*batch tokens width"],
        P: Float[Tensor, "heads *batch tokens tokens"],
    ) -> Float[Tensor, "*batch tokens width"]:
        """Output of the attention alone, [X +] SA(X) with matrices P, before any norm."""
        w = self.weights.at(layer)
        Y = mix(P, X, w.W_V, w.W_O) + layer_bias(w.b_V, w.W_O, w.b_O)
        return X + Y if self.skip else Y

    @takes_input
    def forward(
        self, X: Float[Tensor, "*batch tokens width"]
    ) -> Float[Tensor, "*batch tokens width"]:
        """The network's output; raises InputError for a bad X."""
        require_tokens("X", X, self.width)
        for layer in range(self.depth):
            X = self.layer(layer, X)
        return X

    @takes_input
    def attention(
        self, X: Float[Tensor, "*batch tokens width"]
    ) -> Float[Tensor, "depth heads *batch tokens tokens"]:
        """The attention matrices of the forward pass at X, all layers and heads at once.

        They take depth * heads * tokens^2 numbers for every input. Raises InputError where that is
        more than the free memory; :meth:`layers` gives them one layer at a time.
        """
        matrices = self.empty_attention(X)
        for layer, (_, P) in enumerate(self.layers(X)):
            matrices[layer] = P
        return matrices

    @takes_input
    def empty_attention(
        self, X: Float[Tensor, "*batch tokens width"]
    ) -> Float[Tensor, "depth heads *batch tokens tokens"]:
        """Uninitialized tensor for the matrices of :meth:`attention`; raises the same errors."""
        require_tokens("X", X, self.width)
        shape = (self.depth, self.heads, *X.shape[:-1], X.shape[-2])
        instead = "fewer tokens or inputs, or one layer at a time by net.layers(X)"
        require_memory("X", shape, X, "attention matrices", instead)
        return X.new_empty(shape)

    @takes_input
    def layers(self, X: Float[Tensor, "*batch tokens width"]) -> Iterator[tuple[Tensor, Tensor]]:
        """For each layer, first to last: its input and its attention matrices there.

        Holds the matrices of one layer, (heads, ..., tokens, tokens). The last layer's output is
        not computed.
        """
        require_tokens("X", X, self.width)
        for layer in range(self.depth):
            P = self.layer_attention(layer, X)
            yield X, P
            if layer + 1 < self.depth:
                X = self.layer(layer, X, P)

    @takes_input
    def hidden(
        self, X: Float[Tensor, "*batch tokens width"]
    ) -> Float[Tensor, "{self.depth}+1 *batch tokens width"]:
        """X and the output of every layer."""
        require_tokens("X", X, self.width)
        states = [X]
        for layer in range(self.depth):
            states.append(self.layer(layer, states[-1]))
        return torch.stack(states)

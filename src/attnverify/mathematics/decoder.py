"""Decoder networks as torch modules: RMS norm, grouped keys, gated MLPs and skip connections.

Attention is a :class:`~attnverify.mathematics.attention.SelfAttentionNetwork`, so its masks and the
keys that heads share come with it; norms and MLPs are the formulas of
:mod:`attnverify.mathematics.layernorm` and :mod:`attnverify.mathematics.gated_mlp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnverify.mathematics import gated_mlp, layernorm
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.mathematics.random_weights import Draw
from attnverify.mathematics.weights import Stack
from attnverify.support.errors import require, require_tokens


@dataclass(frozen=True)
class RMSNorm:
    """RMS norm x -> x diag(scale) / sqrt(|x|^2 / width + epsilon); scale (depth, 2, width)."""

    scale: Float[Tensor, "*depth width"]
    epsilon: float = 1e-6

    def __call__(self, x: Tensor) -> Tensor:
        """The tokens x (..., width) after the norm of one sublayer."""
        return layernorm.rms_norm(x, self.scale, self.epsilon)


@dataclass(frozen=True)
class GatedMLP:
    """Gated MLP x -> (silu(x W_G) * x W_U) W_D (SwiGLU).

    W_G, W_U (depth, width, hidden); W_D (depth, hidden, width).
    """

    W_G: Float[Tensor, "*depth width hidden"]
    W_U: Float[Tensor, "*depth width hidden"]
    W_D: Float[Tensor, "*depth hidden width"]

    def __call__(self, x: Tensor) -> Tensor:
        """The output of one layer's MLP at tokens (..., width)."""
        return gated_mlp.gated(x, self.W_G, self.W_U, self.W_D)


class Decoder(nn.Module):
    """A stack of attention and gated MLP, each with a skip connection and an RMS norm.

    norms "before": X + SA(N(X)), then Y + MLP(N'(Y)) (as Llama); "after": N(X + SA(X)), then
    N'(Y + MLP(Y)). attention: one without skip connections, MLPs and norms of its own. Raises
    InputError for anything else and for shapes that do not fit.
    """

    def __init__(
        self,
        attention: SelfAttentionNetwork,
        mlp: GatedMLP,
        norm: RMSNorm,
        *,
        norms: Literal["before", "after"] = "before",
    ) -> None:
        super().__init__()
        bare = not attention.skip and attention.mlp is None and attention.norm is None
        expected = "attention without skip connections, MLPs and norms"
        require(bare, "attention", "a network with one of these", expected)
        require(norms in ("before", "after"), "norms", repr(norms), '"before" or "after"')
        L, d, m = attention.depth, attention.width, mlp.W_G.shape[-1]
        _check("mlp", {"W_G": mlp.W_G, "W_U": mlp.W_U}, (L, d, m))
        _check("mlp", {"W_D": mlp.W_D}, (L, m, d))
        _check("norm", {"scale": norm.scale}, (L, 2, d))
        self.attention, self.norms = attention, norms
        self.mlp, self.norm = Stack(mlp), Stack(norm)

    @classmethod
    def random(
        cls,
        depth: int,
        heads: int,
        width: int,
        hidden: int,
        *,
        norms: Literal["before", "after"] = "before",
        seed: int = 0,
        **attention: Any,
    ) -> Decoder:
        """Gaussian weights of variance 1 / fan-in, scales 1, no biases.

        attention: options of ``SelfAttentionNetwork.random``, as ``key_heads`` and ``mask``.
        """
        net = SelfAttentionNetwork.random(depth, heads, width, bias=False, seed=seed, **attention)
        dtype = net.weights["W_Q"].dtype
        draw = Draw(seed + 1, dtype=dtype)

        def normal(rows: int, columns: int) -> Tensor:
            return draw.normal(depth, rows, columns, fan_in=rows)

        mlp = GatedMLP(normal(width, hidden), normal(width, hidden), normal(hidden, width))
        return cls(net, mlp, RMSNorm(torch.ones(depth, 2, width, dtype=dtype)), norms=norms)

    def layer(
        self, layer: int, X: Float[Tensor, "*batch tokens width"]
    ) -> Float[Tensor, "*batch tokens width"]:
        """Output of one layer."""
        first, second = (self.norm.at(layer, sublayer) for sublayer in (0, 1))
        mlp = self.mlp.at(layer)
        if self.norms == "before":
            X = X + self.attention.layer(layer, first(X))
            return X + mlp(second(X))
        X = first(X + self.attention.layer(layer, X))
        return second(X + mlp(X))

    def hidden(
        self, X: Float[Tensor, "*batch tokens width"]
    ) -> Float[Tensor, "{self.attention.depth}+1 *batch tokens width"]:
        """X and the output of every layer; raises InputError for a bad X."""
        require_tokens("X", X, self.attention.width)
        states = [X]
        for layer in range(self.attention.depth):
            states.append(self.layer(layer, states[-1]))
        return torch.stack(states)

    def forward(
        self, X: Float[Tensor, "*batch tokens width"]
    ) -> Float[Tensor, "*batch tokens width"]:
        """The network's output; raises InputError for a bad X."""
        return self.hidden(X)[-1]


def _check(part: str, tensors: dict[str, Tensor], shape: tuple[int, ...]) -> None:
    for name, value in tensors.items():
        given = f"shape {tuple(value.shape)}"
        require(tuple(value.shape) == shape, f"{part}.{name}", given, f"shape {shape}")

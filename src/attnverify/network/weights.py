"""The weights of a network, as plain stacks of tensors."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class AttentionWeights:
    """Weights of a stack, all layers and heads stacked in the first two axes.

    W_Q, W_K: (depth, heads, width, key_width); b_Q, b_K: (depth, heads, key_width);
    W_V: (depth, heads, width, value_width); b_V: (depth, heads, value_width);
    W_O: (depth, heads, value_width, width); b_O: (depth, width).
    """

    W_Q: Float[Tensor, "depth heads width key_width"]
    b_Q: Float[Tensor, "depth heads key_width"]
    W_K: Float[Tensor, "depth heads width key_width"]
    b_K: Float[Tensor, "depth heads key_width"]
    W_V: Float[Tensor, "depth heads width value_width"]
    b_V: Float[Tensor, "depth heads value_width"]
    W_O: Float[Tensor, "depth heads value_width width"]
    b_O: Float[Tensor, "depth width"]


@dataclass(frozen=True)
class MLP:
    """Row-wise MLP of every layer: x -> activation(x W_1 + b_1) W_2 + b_2.

    W_1: (depth, width, hidden); b_1: (depth, hidden); W_2: (depth, hidden, width);
    b_2: (depth, width); activation: "relu", "gelu" (exact, with erf) or "tanh".
    """

    W_1: Float[Tensor, "depth width hidden"]
    b_1: Float[Tensor, "depth hidden"]
    W_2: Float[Tensor, "depth hidden width"]
    b_2: Float[Tensor, "depth width"]
    activation: str = "gelu"


@dataclass(frozen=True)
class LayerNorm:
    """Per-token layer normalization after each sublayer (the placement of BERT).

    scale, shift: (depth, sublayers, width), sublayers = 2 with an MLP and 1 without;
    epsilon: added to the variance.
    """

    scale: Float[Tensor, "depth sublayers width"]
    shift: Float[Tensor, "depth sublayers width"]
    epsilon: float = 1e-12

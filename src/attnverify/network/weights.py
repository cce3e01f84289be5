"""The weights of a network and what its row-wise parts do with them.

Each class holds tensors with any leading axes: of all layers, or of one, which is what ``at`` of a
:class:`Stack` gives. A part that acts on every token alone is called with tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnverify.errors import require, require_finite

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
    "tanh": torch.tanh,
}


@dataclass(frozen=True)
class AttentionWeights:
    """Weights of a stack, all layers and heads stacked in the first two axes.

    W_Q, W_K: (depth, heads, width, key_width); b_Q, b_K: (depth, heads, key_width);
    W_V: (depth, heads, width, value_width); b_V: (depth, heads, value_width);
    W_O: (depth, heads, value_width, width); b_O: (depth, width).
    """

    W_Q: Float[Tensor, "*depth heads width key_width"]
    b_Q: Float[Tensor, "*depth heads key_width"]
    W_K: Float[Tensor, "*depth heads width key_width"]
    b_K: Float[Tensor, "*depth heads key_width"]
    W_V: Float[Tensor, "*depth heads width value_width"]
    b_V: Float[Tensor, "*depth heads value_width"]
    W_O: Float[Tensor, "*depth heads value_width width"]
    b_O: Float[Tensor, "*depth width"]

    def check(self) -> None:
        """Raises InputError for sizes that are zero, do not fit or entries that are not finite."""
        L, H, d, k = self.W_Q.shape
        v = self.W_V.shape[-1]
        require(min(L, H, d, k, v) >= 1, "weights", f"shape {(L, H, d, k, v)}", "positive sizes")
        shapes = {"W_Q": (L, H, d, k), "b_Q": (L, H, k), "W_K": (L, H, d, k), "b_K": (L, H, k)}
        shapes |= {"W_V": (L, H, d, v), "b_V": (L, H, v), "W_O": (L, H, v, d), "b_O": (L, d)}
        _check_tensors("weights", self, shapes)


@dataclass(frozen=True)
class MLP:
    """Row-wise MLP of every layer: x -> activation(x W_1 + b_1) W_2 + b_2.

    W_1: (depth, width, hidden); b_1: (depth, hidden); W_2: (depth, hidden, width);
    b_2: (depth, width); activation: "relu", "gelu" (exact, with erf) or "tanh".
    """

    W_1: Float[Tensor, "*depth width hidden"]
    b_1: Float[Tensor, "*depth hidden"]
    W_2: Float[Tensor, "*depth hidden width"]
    b_2: Float[Tensor, "*depth width"]
    activation: str = "gelu"

    def __call__(self, x: Tensor) -> Tensor:
        """The output of one layer's MLP at tokens (..., width)."""
        return ACTIVATIONS[self.activation](x @ self.W_1 + self.b_1) @ self.W_2 + self.b_2

    def check(self, depth: int, width: int) -> None:
        """Raises InputError unless this is the MLP of so many layers of this width."""
        known = f"one of {sorted(ACTIVATIONS)}"
        require(self.activation in ACTIVATIONS, "mlp.activation", repr(self.activation), known)
        L, d, m = depth, width, self.W_1.shape[-1]
        shapes = {"W_1": (L, d, m), "b_1": (L, m), "W_2": (L, m, d), "b_2": (L, d)}
        _check_tensors("mlp", self, shapes)


@dataclass(frozen=True)
class LayerNorm:
    """Per-token layer normalization after each sublayer (the placement of BERT).

    scale, shift: (depth, sublayers, width), sublayers = 2 with an MLP and 1 without;
    epsilon: added to the variance.
    """

    scale: Float[Tensor, "*depth width"]
    shift: Float[Tensor, "*depth width"]
    epsilon: float = 1e-12

    def __call__(self, x: Tensor) -> Tensor:
        """The tokens x (..., width) after the norm of one sublayer."""
        return normalize(x, self.scale, self.shift, self.epsilon)

    def check(self, depth: int, sublayers: int, width: int) -> None:
        """Raises InputError unless these are the norms of so many sublayers of this width."""
        shape = (depth, sublayers, width)
        _check_tensors("norm", self, {"scale": shape, "shift": shape})


def normalize(x: Tensor, scale: Tensor, shift: Tensor, epsilon: float) -> Tensor:
    """Layer norm of each row: (x - mean) / sqrt(variance + epsilon) * scale + shift."""
    return nn.functional.layer_norm(x, x.shape[-1:], scale, shift, epsilon)


Part = TypeVar("Part")


class Stack(nn.ParameterDict, Generic[Part]):
    """One of the classes above as a module: its tensors are parameters, all layers in one.

    They do not require gradients until ``requires_grad_()`` is called. options: the fields that
    are no tensors.
    """

    def __init__(self, part: Part) -> None:
        fields = vars(part)
        tensors = {name: value for name, value in fields.items() if isinstance(value, Tensor)}
        super().__init__({n: nn.Parameter(v, requires_grad=False) for n, v in tensors.items()})
        self.kind = type(part)
        self.options: dict[str, Any] = {n: v for n, v in fields.items() if n not in tensors}

    def at(self, *index: int) -> Part:
        """The part of one layer (of one sublayer by a second index); it shares the parameters."""
        return self.kind(**{name: value[index] for name, value in self.items()}, **self.options)


def _check_tensors(name: str, part: object, shapes: dict[str, tuple[int, ...]]) -> None:
    for field, shape in shapes.items():
        value = getattr(part, field)
        given = f"shape {tuple(value.shape)}"
        require(tuple(value.shape) == shape, f"{name}.{field}", given, f"shape {shape}")
        require_finite(f"{name}.{field}", value)

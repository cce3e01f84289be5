"""The weights of a network: attention, MLPs and layer norms, as float tensors.

Each class holds tensors with any leading axes: those of all layers, or of one layer, which
:meth:`Stack.at` returns. MLPs and layer norms act on every token alone and can be called with
tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnverify.arithmetic.arrays import as_array
from attnverify.support.errors import require, require_finite

if TYPE_CHECKING:
    Given = Float
else:

    class Given:
        """Field type: a tensor once stored; numpy arrays, lists and None are also accepted."""

        def __class_getitem__(cls, item):
            return Float[item] | np.ndarray | list | None


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
    "tanh": torch.tanh,
}
#: Gates g(z) with activation(z) = g(z) z; any number gives 0 at z = 0.
GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda z: (z > 0).to(z.dtype),
    "gelu": torch.special.ndtr,
    "tanh": lambda z: torch.where(z == 0, 1.0, torch.tanh(z) / z),
}


@dataclass(frozen=True)
class AttentionWeights:
    """Weights of a stack, all layers and heads stacked in the first two axes.

    W_Q, W_K: (depth, heads, width, key_width); b_Q, b_K: (depth, heads, key_width);
    W_V: (depth, heads, width, value_width); b_V: (depth, heads, value_width);
    W_O: (depth, heads, value_width, width); b_O: (depth, width).
    Numpy arrays and lists are taken, too; biases that are left out are 0.

    All arrays have one dtype, float32 or float64. A network that is made of them raises InputError
    for shapes that do not fit and for entries that are not finite.

    >>> import torch
    >>> import attnverify as av
    >>> W = torch.zeros(2, 1, 4, 3, dtype=torch.float64)  # depth, heads, width, key width
    >>> weights = av.AttentionWeights(W_Q=W, W_K=W, W_V=W, W_O=W.mT)
    >>> weights.b_Q.shape, weights.b_O.shape  # left out, so zeros
    (torch.Size([2, 1, 3]), torch.Size([2, 4]))
    """

    W_Q: Given[Tensor, "*depth heads width key_width"]
    b_Q: Given[Tensor, "*depth heads key_width"] = cast(Tensor, None)
    W_K: Given[Tensor, "*depth heads width key_width"] = cast(Tensor, None)
    b_K: Given[Tensor, "*depth heads key_width"] = cast(Tensor, None)
    W_V: Given[Tensor, "*depth heads width value_width"] = cast(Tensor, None)
    b_V: Given[Tensor, "*depth heads value_width"] = cast(Tensor, None)
    W_O: Given[Tensor, "*depth heads value_width width"] = cast(Tensor, None)
    b_O: Given[Tensor, "*depth width"] = cast(Tensor, None)

    def __post_init__(self) -> None:
        for name in ("Q", "K", "V", "O"):
            W, b = f"W_{name}", f"b_{name}"
            _read(self, W)
            weight = getattr(self, W)
            require(weight.ndim >= 2, f"weights.{W}", f"{weight.ndim} axes", "at least 2")
            if getattr(self, b) is None:  # an output map has one bias for all heads
                axes = weight.shape[: -3 if name == "O" else -2]
                object.__setattr__(self, b, weight.new_zeros(*axes, weight.shape[-1]))
            _read(self, b)

    def check(self) -> None:
        """Raises InputError for sizes that are zero, do not fit or entries that are not finite."""
        axes = f"{self.W_Q.ndim} axes"
        require(self.W_Q.ndim == 4, "weights.W_Q", axes, "(depth, heads, width, key_width)")
        L, H, d, k = self.W_Q.shape
        v = self.W_V.shape[-1]
        dtypes = {str(value.dtype) for value in vars(self).values()}
        require(len(dtypes) == 1, "weights", " and ".join(sorted(dtypes)), "one dtype of all")
        require(min(L, H, d, k, v) >= 1, "weights", f"shape {(L, H, d, k, v)}", "positive sizes")
        shapes = {"W_Q": (L, H, d, k), "b_Q": (L, H, k), "W_K": (L, H, d, k), "b_K": (L, H, k)}
        shapes |= {"W_V": (L, H, d, v), "b_V": (L, H, v), "W_O": (L, H, v, d), "b_O": (L, d)}
        _check_tensors("weights", self, shapes)


@dataclass(frozen=True)
class MLP:
    """Row-wise MLP of every layer: x -> activation(x W_1 + b_1) W_2 + b_2.

    W_1: (depth, width, hidden); b_1: (depth, hidden); W_2: (depth, hidden, width);
    b_2: (depth, width); activation: "relu", "gelu" (exact, with erf) or "tanh".

    Arrays of one layer, without the leading axis, map tokens (..., width) when called.

    >>> import torch
    >>> import attnverify as av
    >>> mlp = av.MLP(
    ...     W_1=[[1.0], [1.0]], b_1=[-1.0], W_2=[[2.0, 0.0]], b_2=[0.0, 0.5], activation="relu"
    ... )
    >>> mlp(torch.tensor([[3.0, 1.0]], dtype=torch.float64))  # of one layer
    tensor([[6.0000, 0.5000]], dtype=torch.float64)
    """

    W_1: Given[Tensor, "*depth width hidden"]
    b_1: Given[Tensor, "*depth hidden"]
    W_2: Given[Tensor, "*depth hidden width"]
    b_2: Given[Tensor, "*depth width"]
    activation: str = "gelu"

    def __post_init__(self) -> None:
        for name in ("W_1", "b_1", "W_2", "b_2"):
            _read(self, name)

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

    Arrays of one sublayer, without the leading axes, normalize tokens (..., width) when called.

    >>> import torch
    >>> import attnverify as av
    >>> norm = av.LayerNorm(scale=[1.0, 1.0], shift=[0.0, 3.0])  # of one sublayer
    >>> norm(torch.tensor([[5.0, 9.0]], dtype=torch.float64))
    tensor([[-1.0000,  4.0000]], dtype=torch.float64)
    """

    scale: Given[Tensor, "*depth width"]
    shift: Given[Tensor, "*depth width"]
    epsilon: float = 1e-12

    def __post_init__(self) -> None:
        for name in ("scale", "shift"):
            _read(self, name)

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
    """Weights of one of the classes above as a torch module, all layers together.

    The tensors are parameters that require no gradients until ``requires_grad_()`` is called.
    options: the fields that are no tensors.
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


def _read(part: object, name: str) -> None:
    """Field of numbers as a tensor, from a tensor, a numpy array or lists."""
    value = getattr(part, name)
    if not isinstance(value, Tensor):
        object.__setattr__(part, name, as_array(f"weights.{name}", value))


def _check_tensors(name: str, part: object, shapes: dict[str, tuple[int, ...]]) -> None:
    for field, shape in shapes.items():
        value = getattr(part, field)
        given = f"shape {tuple(value.shape)}"
        require(tuple(value.shape) == shape, f"{name}.{field}", given, f"shape {shape}")
        require_finite(f"{name}.{field}", value)

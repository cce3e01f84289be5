"""Random weights of a network: sizes that are checked, and normal numbers in a fixed order.

Equal seeds give equal weights, so the order in which tensors are drawn must not change. Biases are
drawn even where they are switched off, so that the other weights stay the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnverify.mathematics.weights import MLP, AttentionWeights, LayerNorm
from attnverify.support.errors import as_given, require


@dataclass(frozen=True)
class Sizes:
    """Sizes of a network; ``key_heads`` groups of heads share keys and values."""

    depth: int
    heads: int
    key_heads: int
    width: int
    key_width: int
    value_width: int
    mlp_width: int | None

    @classmethod
    def of(
        cls,
        depth: object,
        heads: object,
        width: object,
        key_width: object = None,
        value_width: object = None,
        key_heads: object = None,
        mlp_width: object = None,
    ) -> Sizes:
        """Sizes with defaults for None; raises InputError for sizes that make no network."""
        H, d = _whole("heads", heads), _whole("width", width)
        k, v = (
            None if size is None else _whole(name, size)
            for name, size in {"key_width": key_width, "value_width": value_width}.items()
        )
        expected = "a multiple of heads, or key_width and value_width"
        fits = (k is not None and v is not None) or d % H == 0
        require(fits, "width", f"{d} with {H} heads", expected)
        G = H if key_heads is None else _whole("key_heads", key_heads)
        require(H % G == 0, "key_heads", f"{G} with {H} heads", "a divisor of heads")
        m = None if mlp_width is None else _whole("mlp_width", mlp_width)
        return cls(_whole("depth", depth), H, G, d, k or d // H, v or d // H, m)


def _whole(name: str, size: object) -> int:
    whole = isinstance(size, int) and not isinstance(size, bool) and size >= 1
    require(whole, name, repr(size), "a positive whole number")
    assert isinstance(size, int)
    return size


class Draw:
    """Source of normal tensors with standard deviation scale / sqrt(fan-in), in order of calls."""

    def __init__(
        self, seed: int, scale: float = 1.0, bias: bool = True, dtype: torch.dtype = torch.float64
    ) -> None:
        require(dtype.is_floating_point, "dtype", dtype, "a floating dtype")
        size = isinstance(scale, int | float) and 0 <= scale < math.inf
        require(size, "scale", as_given(scale), "a finite number, 0 or larger")
        whole = type(seed) is int and 0 <= seed < 2**63
        require(whole, "seed", as_given(seed), "a whole number from 0 on")
        self.generator = torch.Generator().manual_seed(seed)
        self.scale, self.with_biases, self.dtype = scale, bias, dtype

    def normal(self, *shape: int, fan_in: int) -> Tensor:
        drawn = torch.randn(*shape, generator=self.generator, dtype=torch.float64)
        return (drawn * self.scale / fan_in**0.5).to(self.dtype)

    def bias(self, *shape: int, fan_in: int) -> Tensor:
        """A bias drawn like :meth:`normal`; zero where biases are switched off."""
        drawn = self.normal(*shape, fan_in=fan_in)
        return drawn if self.with_biases else torch.zeros_like(drawn)


def attention(draw: Draw, sizes: Sizes) -> AttentionWeights:
    """Attention weights of all layers; heads of a group share keys and values."""
    L, H, G, d = sizes.depth, sizes.heads, sizes.key_heads, sizes.width
    k, v = sizes.key_width, sizes.value_width

    def of_group(maps: Tensor) -> Tensor:
        return maps.repeat_interleave(H // G, 1)

    return AttentionWeights(
        W_Q=draw.normal(L, H, d, k, fan_in=d),
        b_Q=draw.bias(L, H, k, fan_in=d),
        W_K=of_group(draw.normal(L, G, d, k, fan_in=d)),
        b_K=of_group(draw.bias(L, G, k, fan_in=d)),
        W_V=of_group(draw.normal(L, G, d, v, fan_in=d)),
        b_V=of_group(draw.bias(L, G, v, fan_in=d)),
        W_O=draw.normal(L, H, v, d, fan_in=H * v),
        b_O=draw.bias(L, d, fan_in=H * v),
    )


def mlp(draw: Draw, sizes: Sizes) -> MLP | None:
    """MLPs of all layers; None without an MLP width."""
    L, d, m = sizes.depth, sizes.width, sizes.mlp_width
    if m is None:
        return None
    return MLP(
        W_1=draw.normal(L, d, m, fan_in=d),
        b_1=draw.bias(L, m, fan_in=d),
        W_2=draw.normal(L, m, d, fan_in=m),
        b_2=draw.bias(L, d, fan_in=m),
    )


def norm(draw: Draw, sizes: Sizes) -> LayerNorm:
    """Layer norms with scale 1 and shift 0 after every sublayer; nothing is drawn."""
    shape = (sizes.depth, 1 if sizes.mlp_width is None else 2, sizes.width)
    ones = torch.ones(shape, dtype=draw.dtype)
    return LayerNorm(ones, torch.zeros_like(ones))

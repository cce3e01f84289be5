"""Affine maps of tokens held fixed: weights, attention matrices, gates, the sizes of tokens.

Every map takes streams y (..., batch, tokens, width) and has

- ``linear(y)``, its linear part, and ``shift``, what it adds (a tensor or 0.0);
- ``transposed(g)``: the transpose of the linear part, <linear(y), g> = <y, transposed(g)>;
- ``absolute(y)`` for y >= 0: the linear part with all entries replaced by their absolute values;
- ``roundings`` m: an evaluation in floats of unit roundoff u, in any order of summation, is off by
  at most gamma_m (absolute(|y|) + |shift|), gamma_m = m u / (1 - m u), entry by entry (Higham,
  Accuracy and Stability of Numerical Algorithms, sections 3.1 and 3.5).

A map of tokens alone (all but :class:`Mix`) also takes streams without a batch axis where its own
arrays have none, or have one text: arrays of one text fit streams (..., tokens, width).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

Shift = Tensor | float
Roundings = Tensor | float


class Affine:
    """Every map, called with what it acts on: its linear part there and what it adds."""

    linear: Any
    shift: Any

    def __call__(self, y: Tensor) -> Tensor:
        return self.linear(y) + self.shift


@dataclass(frozen=True)
class Dense(Affine):
    """The map y -> y weight + bias; weight (in, out), bias (out,) or 0.0.

    in products and their sum with the bias: in + 1 roundings at most.
    """

    weight: Tensor
    bias: Shift = 0.0

    @property
    def shift(self) -> Shift:
        return self.bias

    @property
    def roundings(self) -> float:
        return self.weight.shape[0] + 1.0

    def linear(self, y: Tensor) -> Tensor:
        return y @ self.weight

    def transposed(self, g: Tensor) -> Tensor:
        return g @ self.weight.mT

    def absolute(self, y: Tensor) -> Tensor:
        return y @ self.weight.abs()


@dataclass(frozen=True)
class Mix(Affine):
    """The map from values to their means by attention: row i of head h is sum_j P_hij v_hj.

    P: (batch, heads, tokens, tokens). y: (..., batch, tokens, key_heads * value_width), with
    ``heads // key_heads`` heads in a row sharing values; result (..., batch, tokens, heads *
    value_width).
    """

    P: Tensor
    key_heads: int

    shift: float = 0.0

    @property
    def roundings(self) -> float:
        return float(self.P.shape[-1])

    def linear(self, y: Tensor) -> Tensor:
        B, H, n, _ = self.P.shape
        G = self.key_heads
        streams, width = y.shape[:-3], y.shape[-1] // G
        values = y.reshape(-1, B, n, G, width).permute(1, 3, 2, 0, 4).reshape(B, G, n, -1)
        mixed = self.P.reshape(B, G, H // G * n, n) @ values
        apart = mixed.reshape(B, G, H // G, n, -1, width).permute(4, 0, 3, 1, 2, 5)
        return apart.reshape(*streams, B, n, H * width)

    def transposed(self, g: Tensor) -> Tensor:
        B, H, n, _ = self.P.shape
        G = self.key_heads
        streams, width = g.shape[:-3], g.shape[-1] // H
        apart = g.reshape(-1, B, n, G, H // G, width).permute(1, 3, 4, 2, 0, 5)
        values = self.P.reshape(B, G, H // G * n, n).mT @ apart.reshape(B, G, H // G * n, -1)
        together = values.reshape(B, G, n, -1, width).permute(3, 0, 2, 1, 4)
        return together.reshape(*streams, B, n, G * width)

    def absolute(self, y: Tensor) -> Tensor:
        return self.linear(y)  # P >= 0


@dataclass(frozen=True)
class Gate(Affine):
    """The map y -> y times fixed factors (batch, tokens, width) [+ shift]; one rounding is in the
    factor, and one more in a sum with a shift.
    """

    factors: Tensor
    shift: Shift = 0.0
    roundings: float = 2.0

    def linear(self, y: Tensor) -> Tensor:
        return y * self.factors

    def transposed(self, g: Tensor) -> Tensor:
        return g * self.factors

    def absolute(self, y: Tensor) -> Tensor:
        return y * self.factors.abs()


@dataclass(frozen=True)
class Chosen(Affine):
    """Every token's own maps: y -> (y W_e + b_e for the k experts e chosen for it, side by side).

    weight (experts, in, out), bias (experts, out) or None; chosen (batch, tokens, k), different
    numbers for each token. y has width in, or k * in with ``apart``, where expert i of the token
    gets part i. Roundings as of :class:`Dense`.
    """

    weight: Tensor
    bias: Tensor | None
    chosen: Tensor
    apart: bool = False

    @property
    def shift(self) -> Shift:
        return 0.0 if self.bias is None else self.bias[self.chosen].flatten(-2)

    @property
    def roundings(self) -> float:
        return self.weight.shape[-2] + 1.0

    @property
    def turned(self) -> float:
        """Roundings of the map or of its transpose, whichever has more."""
        each = 1 if self.apart else self.chosen.shape[-1]
        return max(self.weight.shape[-2], each * self.weight.shape[-1]) + 1.0

    def linear(self, y: Tensor) -> Tensor:
        return self._each(y, self.weight.shape[-1], lambda x, e: x @ self.weight[e])

    def absolute(self, y: Tensor) -> Tensor:
        return self._each(y, self.weight.shape[-1], lambda x, e: x @ self.weight[e].abs())

    def transposed(self, g: Tensor) -> Tensor:
        back = replace(self, apart=True)
        parts = back._each(g, self.weight.shape[-2], lambda x, e: x @ self.weight[e].mT)
        return parts if self.apart else parts.unflatten(-1, (self.chosen.shape[-1], -1)).sum(-2)

    def _each(self, y: Tensor, width: int, map: Callable[[Tensor, int], Tensor]) -> Tensor:
        k = self.chosen.shape[-1]
        chosen, inputs = self.chosen.reshape(-1, k), k if self.apart else 1
        parts = y.reshape(-1, len(chosen), inputs, y.shape[-1] // inputs)
        found = y.new_zeros(len(parts), len(chosen), k, width)
        for expert in chosen.unique().tolist():
            token, slot = torch.where(chosen == expert)
            found[:, token, slot] = map(parts[:, token, slot % inputs], expert)
        return found.reshape(*y.shape[:-1], k * width)


@dataclass(frozen=True)
class Weighted(Affine):
    """The sum of k parts of a token, side by side, with weights (batch, tokens, k)."""

    weights: Tensor
    shift: float = 0.0

    @property
    def roundings(self) -> float:
        return self.weights.shape[-1] + 1.0

    def linear(self, y: Tensor) -> Tensor:
        k = self.weights.shape[-1]
        return (y.unflatten(-1, (k, -1)) * self.weights[..., None]).sum(-2)

    def transposed(self, g: Tensor) -> Tensor:
        return (g[..., None, :] * self.weights[..., None]).flatten(-2)

    def absolute(self, y: Tensor) -> Tensor:
        return replace(self, weights=self.weights.abs()).linear(y)


@dataclass(frozen=True)
class Norm(Affine):
    """A normalization with the sizes of the tokens held fixed: y -> (y [- mean y]) / s * scale.

    s (batch, tokens, 1): sqrt(variance + epsilon), or of the mean square where the mean is not
    removed (RMS norm); scale, bias (width,) or numbers.

    Roundings. However the variance v of d entries is summed, in one pass or two, it is off by at
    most 3 gamma_{d+2} q with q the mean square (the two terms of the one-pass formula; the other
    formulas are off by less: Chan, Golub and LeVeque 1983). So v + epsilon is off by a relative
    eta <= 3 gamma_{d+2} k, k = q / (v + epsilon), and 1/s by at most eta while eta <= 1/2. The
    mean takes d roundings, and eight more remain: a conversion of the input, the difference,
    epsilon, root, quotient, product, scale, bias.
    """

    s: Tensor
    k: Tensor
    centered: bool
    scale: Tensor | float = 1.0
    bias: Shift = 0.0
    width: int = 1

    @classmethod
    def at(
        cls, x: Tensor, epsilon: float, centered: bool, scale: Tensor | float, bias: Shift
    ) -> Norm:
        """The normalization at the tokens x (batch, tokens, width), float64."""
        square = x.square().mean(-1, keepdim=True)
        spread = x.var(-1, correction=0, keepdim=True) if centered else square
        k = square / (spread + epsilon)
        return cls((spread + epsilon).sqrt(), k, centered, scale, bias, x.shape[-1])

    @property
    def shift(self) -> Shift:
        return self.bias

    @property
    def roundings(self) -> Tensor:
        return 3 * (self.width + 2) * self.k + (self.width + 8)

    def linear(self, y: Tensor) -> Tensor:
        y = y - y.mean(-1, keepdim=True) if self.centered else y
        return y / self.s * self.scale

    def transposed(self, g: Tensor) -> Tensor:
        g = g * self.scale / self.s
        return g - g.mean(-1, keepdim=True) if self.centered else g

    def absolute(self, y: Tensor) -> Tensor:
        y = y + y.mean(-1, keepdim=True) if self.centered else y
        return y / self.s * abs(self.scale)


@dataclass(frozen=True)
class Branches:
    """The map y -> [y +] the sum of the branches at y: each a row of maps, one after the other.

    ``skip``: whether y itself is added. Without branches it is the identity, in any arithmetic.

    >>> double = Branches([[Dense(torch.eye(2))]])
    >>> double(torch.ones(1, 2)), Branches([[double, double]], skip=False).linear(torch.ones(1, 2))
    (tensor([[2., 2.]]), tensor([[4., 4.]]))
    """

    branches: Sequence[Row] = ()
    skip: bool = True

    def __call__(self, y: Any) -> Any:
        return self._sum(affine, y)

    def linear(self, y: Any) -> Any:
        return self._sum(linear, y)

    def transposed(self, g: Tensor) -> Tensor:
        return self._sum(transposed, g)

    def absolute(self, y: Tensor) -> Tensor:
        return self._sum(absolute, y)

    def _sum(self, along: Callable[[Row, Any], Any], y: Any) -> Any:
        start = y if self.skip else torch.zeros_like(y)
        return sum((along(branch, y) for branch in self.branches), start)


Map = Dense | Mix | Gate | Norm | Chosen | Weighted
Row = Sequence[Map | Branches]  # of maps one after the other


def affine(maps: Row, y: Any) -> Any:
    """Maps one after the other, with what they add."""
    for map in maps:
        y = map(y)
    return y


def linear(maps: Row, y: Any) -> Any:
    """The linear parts of maps, one after the other."""
    for map in maps:
        y = map.linear(y)
    return y


def transposed(maps: Row, g: Tensor) -> Tensor:
    """The transpose of :func:`linear`."""
    for map in reversed(maps):
        g = map.transposed(g)
    return g


def absolute(maps: Row, y: Tensor) -> Tensor:
    """The same maps in absolute values, at y >= 0."""
    for map in maps:
        y = map.absolute(y)
    return y


def count(maps: Row) -> int:
    """Roundings of an evaluation of held maps or of their transposes: of inner products, both ways.

    The entries of a held map are what they are, so those of a norm are the mean's, in either
    direction, and eight more. Branches take those of the longest, and one a sum.
    """
    total = 0
    for map in maps:
        match map:
            case Branches():
                inner = max((count(branch) for branch in map.branches), default=0)
                total += inner + len(map.branches) + 1
            case Dense():
                total += sum(map.weight.shape)
            case Norm():
                total += map.width + 8
            case Chosen():
                total += int(map.roundings + map.turned)
            case Weighted():
                total += int(map.roundings)
            case _:
                total += 2
    return total


def entries(maps: Row) -> list[Tensor]:
    """The numbers that maps multiply by, an array or two a map."""
    found: list[Tensor] = []
    for map in maps:
        match map:
            case Branches():
                found += [array for branch in map.branches for array in entries(branch)]
            case Dense() | Chosen():
                found.append(map.weight)
            case Weighted():
                found.append(map.weights)
            case Gate():
                found.append(map.factors)
            case Norm():
                found += [1 / map.s, torch.as_tensor(map.scale)]
            case Mix():
                found.append(map.P)
    return found

"""Elementary operations, chosen by argument type.

Every formula of the book is written once, with Python operators and the functions below, and is
then evaluated in three arithmetics:

* ``torch.Tensor``: floating point, batched, differentiable (sampling and attacks);
* numpy object arrays of ``flint.arb``: ball arithmetic (certificates);
* numpy object arrays of ``flint.fmpq``: exact rationals (certificates of polynomial identities).

On numpy object arrays of ``attnverify.arithmetic.tracing.Node`` nothing is evaluated: the
operations are written down, for another program to evaluate.

A new arithmetic is added here and in the few functions that ask :func:`is_torch` themselves,
because they compute with floats in another way: in ``attnverify.mathematics`` the largest distance
(``norms``), singular values (``spectral``), moduli of eigenvalues (``positions``) and a difference
that cancels (``chisquare``), and some checks.

>>> import torch
>>> import attnverify as av
>>> x = torch.tensor([0.5, 0.25], dtype=torch.float64)
>>> av.ops.sum(x, -1).item()
0.75
>>> av.ops.sum(av.ops.rationals(x), -1)
3/4
>>> with av.ops.precision(128):
...     value = av.ops.exp(av.ops.balls(x))[0]
>>> value.str(20, radius=False)
'1.6487212707001281468'
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeGuard

import flint
import numpy as np
import torch

from attnverify.arithmetic.tracing import Node
from attnverify.support.errors import InputError

Array = Any  # torch.Tensor | numpy.ndarray of flint.arb | numpy.ndarray of flint.fmpq
EXACT = (int, flint.fmpz, flint.fmpq, flint.arb)  # what flint takes as it is


def is_torch(x: Array) -> TypeGuard[torch.Tensor]:
    return isinstance(x, torch.Tensor)


@contextlib.contextmanager
def precision(bits: int) -> Iterator[None]:
    """Ball arithmetic with ``bits`` bits inside the ``with`` block."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def _entrywise(function: Callable[[Any], Any], x: Array) -> Array:
    if isinstance(x, int | float | str | None):
        raise InputError(
            f"x: got {x!r}, expected an array; av.ops.constant({x!r}, X) is a number in the "
            "arithmetic of the array X, and av.number('log(4)', X) one of simple form"
        )
    return np.frompyfunc(function, 1, 1)(np.asarray(x, dtype=object))


def balls(x: torch.Tensor | np.ndarray | Sequence[Any] | flint.fmpq | flint.arb) -> Array:
    """Floats (dyadic rationals), integers, rationals or lists of them as balls, of the same shape.

    Balls stay as they are.
    """
    values = x.detach().cpu().double().numpy() if is_torch(x) else np.asarray(x, dtype=object)
    return _entrywise(lambda v: flint.arb(v if isinstance(v, EXACT) else float(v)), values)


def rationals(x: np.ndarray | torch.Tensor) -> Array:
    """Floats or integers as exact rationals; same shape."""
    values = x.detach().cpu().double().numpy() if is_torch(x) else np.asarray(x, dtype=object)
    return _entrywise(_rational, values)


def _rational(value: Any) -> flint.fmpq:
    if isinstance(value, flint.fmpq):
        return value
    return flint.fmpq(*float(value).as_integer_ratio())


def constant(value: int | float, like: Array) -> Any:
    """``value`` (an integer or an exact float) in the arithmetic of ``like``."""
    if is_torch(like):
        return torch.as_tensor(value, dtype=like.dtype, device=like.device)
    entry = next(iter(np.asarray(like, dtype=object).flat))
    if isinstance(entry, Node):
        return entry.constant(value)
    return _rational(value) if isinstance(entry, flint.fmpq) else flint.arb(value)


def full(shape: tuple[int, ...], value: int | float, like: Array) -> Array:
    """An array of one value in the arithmetic of ``like``."""
    if is_torch(like):
        return torch.full(shape, float(value), dtype=like.dtype, device=like.device)
    return np.full(shape, constant(value, like), dtype=object)


def eye(size: int, like: Array) -> Array:
    """The identity matrix in the arithmetic of ``like``."""
    if is_torch(like):
        return torch.eye(size, dtype=like.dtype, device=like.device)
    out = full((size, size), 0, like)
    out[np.arange(size), np.arange(size)] = constant(1, like)
    return out


def counting(size: int, like: Array) -> Array:
    """Numbers 0, 1, ..., size - 1 in the arithmetic of ``like``."""
    if is_torch(like):
        return torch.arange(size, dtype=like.dtype, device=like.device)
    return np.array([constant(k, like) for k in range(size)], dtype=object)


def transpose(x: Array) -> Array:
    """Array with its last two axes exchanged."""
    return x.mT if is_torch(x) else np.swapaxes(x, -1, -2)


def sum(x: Array, axis: int | tuple[int, ...], keepdims: bool = False) -> Array:
    if is_torch(x):
        return torch.sum(x, dim=axis, keepdim=keepdims)
    return np.sum(x, axis=axis, keepdims=keepdims)


def stack(parts: list[Array], axis: int) -> Array:
    return torch.stack(parts, dim=axis) if is_torch(parts[0]) else np.stack(parts, axis=axis)


def join(parts: list[Array], axis: int) -> Array:
    """Arrays joined along an axis they have."""
    return torch.cat(parts, dim=axis) if is_torch(parts[0]) else np.concatenate(parts, axis=axis)


def _larger(a: Any, b: Any) -> Any:
    return a.max(b) if isinstance(a, flint.arb | Node) else max(a, b)


def _maxima() -> np.ufunc:
    """Made at each call, because the page of a chapter imports this module without numpy."""
    return np.frompyfunc(_larger, 2, 1)


def amax(x: Array, axis: int, keepdims: bool = False) -> Array:
    """Largest entry along one axis. For balls: an enclosure of the largest value."""
    if is_torch(x):
        return torch.amax(x, dim=axis, keepdim=keepdims)
    return _maxima().reduce(x, axis=axis, keepdims=keepdims)


def descending(x: Array) -> Array:
    """Entries along the last axis in falling order.

    For balls the k-th result encloses the k-th largest number, although overlapping balls have no
    order: it reaches from the k-th largest lower end to the k-th largest upper end.
    """
    if is_torch(x):
        unknown = torch.isnan(x).any(-1, keepdim=True)  # it may be the largest or the smallest
        return torch.where(unknown, torch.nan, torch.sort(x, -1, descending=True).values)
    entry = next(iter(np.asarray(x, dtype=object).flat))
    if isinstance(entry, Node):
        return np.apply_along_axis(lambda row: entry.descending(list(row)), -1, x)
    if isinstance(entry, flint.arb):
        ends = (_entrywise(end, x) for end in (flint.arb.lower, flint.arb.upper))
        low, high = (np.sort(v, -1)[..., ::-1] for v in ends)
        found = np.asarray(np.frompyfunc(lambda a, b: a.union(b), 2, 1)(low, high))
        known = _entrywise(lambda v: v.is_finite(), x).all(-1)  # else there is no end to sort by
        found[~known.astype(bool)] = flint.arb.nan()
        return found
    return np.sort(x, -1)[..., ::-1]


def maximum(a: Array, b: Array) -> Array:
    return torch.maximum(a, b) if is_torch(a) else _maxima()(a, b)


def where(keep: Array, a: Array, b: Array) -> Array:
    """The entries of ``a`` where ``keep`` (True/False) is true, those of ``b`` elsewhere.

    ``keep`` must come from indices, as :func:`causal` does, and never from a comparison of numbers:
    a comparison of balls is False where it is undecided, so the wrong branch could be taken.
    """
    if is_torch(a):
        return torch.where(keep.to(a.device), a, b)
    return np.where(np.asarray(keep), a, b)


def exp(x: Array) -> Array:
    return torch.exp(x) if is_torch(x) else _entrywise(lambda v: v.exp(), x)


def log(x: Array) -> Array:
    return torch.log(x) if is_torch(x) else _entrywise(lambda v: v.log(), x)


def expm1(x: Array) -> Array:
    return torch.expm1(x) if is_torch(x) else _entrywise(lambda v: v.expm1(), x)


def tanh(x: Array) -> Array:
    return torch.tanh(x) if is_torch(x) else _entrywise(lambda v: v.tanh(), x)


def log1p(x: Array) -> Array:
    return torch.log1p(x) if is_torch(x) else _entrywise(lambda v: v.log1p(), x)


def sin(x: Array) -> Array:
    return torch.sin(x) if is_torch(x) else _entrywise(lambda v: v.sin(), x)


def cos(x: Array) -> Array:
    return torch.cos(x) if is_torch(x) else _entrywise(lambda v: v.cos(), x)


def atan(x: Array) -> Array:
    return torch.atan(x) if is_torch(x) else _entrywise(lambda v: v.atan(), x)


def pi(like: Array) -> Any:
    """The number pi in the arithmetic of ``like``."""
    if is_torch(like):
        return math.pi
    entry = next(iter(np.asarray(like, dtype=object).flat))
    return entry.pi() if isinstance(entry, Node) else flint.arb.pi()


def normal_cdf(x: Array) -> Array:
    """Standard normal distribution function Phi(x)."""
    if is_torch(x):
        return torch.erfc(-x / 2**0.5) / 2  # ndtr loses its digits where Phi is small
    return _entrywise(lambda v: (1 + (v / constant(2, v).sqrt()).erf()) / 2, x)


def log_beta(a: Array, b: Array) -> Array:
    """Logarithm of the beta function B(a, b) for positive a and b."""
    if is_torch(a):
        return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    lgamma = np.frompyfunc(lambda v: v.lgamma(), 1, 1)
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def digamma(x: Array) -> Array:
    """Derivative of log Gamma at x > 0."""
    return torch.digamma(x) if is_torch(x) else _entrywise(lambda v: v.digamma(), x)


def sqrt(x: Array) -> Array:
    """Square root of something known to be >= 0; a ball that reaches below zero is cut there.

    A ball that lies wholly below zero contradicts this and gives NaN, which leaves every comparison
    unknown.
    """
    if is_torch(x):
        return torch.sqrt(x)
    return _entrywise(_root, x)


def _root(v: Any) -> Any:
    return v.sqrt() if isinstance(v, Node) or v < 0 else v.nonnegative_part().sqrt()


def square(x: Array) -> Array:
    """Square x * x, since ``x**2`` of a ball around zero goes through its logarithm and is lost."""
    return x * x


def softmax(x: Array, keep: Array | None = None) -> Array:
    """Softmax along the last axis over the entries that ``keep`` (True/False) admits.

    In balls by its definition; in floats shifted by the maximum, which changes nothing
    (claim ``attention.shift-invariance``) and keeps the exponentials from overflowing.
    """
    if is_torch(x):
        hidden = x if keep is None else x.masked_fill(~keep.to(x.device), -torch.inf)
        return torch.softmax(hidden, dim=-1)
    weights = exp(x) if keep is None else exp(x) * np.where(np.asarray(keep), 1, 0)
    return weights / sum(weights, axis=-1, keepdims=True)


def causal(tokens: int, like: Array, window: int | None = None) -> Array:
    """Causal mask, True where the key (column) is not after the query (row); (tokens, tokens).

    With a window only the query's own key and the window - 1 keys before it are True.
    """
    keep = np.tri(tokens, dtype=bool)
    if window is not None:
        keep &= ~np.tri(tokens, k=-window, dtype=bool)
    return torch.from_numpy(keep).to(like.device) if is_torch(like) else keep


def join_heads(x: Array) -> Array:
    """Heads side by side: (heads, ..., tokens, size) -> (..., tokens, heads * size)."""
    moved = torch.movedim(x, 0, -2) if is_torch(x) else np.moveaxis(x, 0, -2)
    return moved.reshape(*moved.shape[:-2], -1)


def root(value: int, like: Array) -> Any:
    """The square root of a positive integer in the arithmetic of ``like`` (a float for torch)."""
    if is_torch(like):
        return math.sqrt(value)
    return sqrt(full((), value, like))


def add_product_(total: Array, a: Array, b: Array) -> None:
    """``total += a @ b`` in place, for a contiguous ``total``, without an array of its size."""
    if is_torch(total):
        rows = total.view(-1, total.shape[-1])
        rows.addmm_(a.reshape(-1, a.shape[-1]), b)
    else:
        total += a @ b

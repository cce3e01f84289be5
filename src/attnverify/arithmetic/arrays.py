"""Conversion of arguments to tensors, so that callers may also pass numpy arrays and lists.

Lists have no dtype and become float64, or the dtype of the network. A coarser dtype than that of
the network, and float32 of numpy, are promoted with a :class:`PrecisionWarning`: no digit is lost,
but digits that were lost before do not come back. A finer dtype is refused, since rounding it would
lose digits silently. A tensor that is used without a network keeps its dtype. Arrays of balls,
rationals and symbols stay as they are.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from attnverify.support.errors import InputError, require
from attnverify.support.vocabulary import counted

F = TypeVar("F", bound=Callable[..., Any])
EXPECTED = "a tensor, a numpy array or nested lists of numbers"


class PrecisionWarning(UserWarning):
    """An input was promoted: its digits are those of its own dtype."""


def takes(*names: str) -> Callable[[F], F]:
    """Decorator: the arguments of these names may also be numpy arrays and lists of numbers."""

    def made(function: F) -> F:
        known = list(inspect.signature(function).parameters)
        places = {known.index(name): name for name in names}

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = [
                as_array(places[i], value) if i in places else value for i, value in enumerate(args)
            ]
            named = {k: as_array(k, v) if k in names else v for k, v in kwargs.items()}
            return function(*given, **named)

        return cast(F, call)

    return made


def takes_input(function: F) -> F:
    """Decorator: the network's input X may also be a numpy array or lists of numbers."""

    @functools.wraps(function)
    def call(net: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        weights: Any = getattr(net, "weights", None)
        given, expected = type(net).__name__, "a network, as av.SelfAttentionNetwork"
        require(weights is not None, "net", given, expected)
        return function(net, as_input("X", X, weights["b_O"]), *args, **kwargs)

    return cast(F, call)


def as_array(argument: str, value: Any) -> Any:
    """The value as an array: tensors and object arrays as they are, all else in float64.

    Raises InputError that names the argument for anything else, and for lists of unlike lengths.
    """
    if isinstance(value, Tensor):
        return value if value.is_floating_point() or value.is_complex() else value.double()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value
    found = _read(argument, value)
    if found.dtype == object:
        return found
    if found.dtype in (np.float16, np.float32):
        _say(argument, found.dtype, torch.float64)
    return torch.as_tensor(found, dtype=torch.float64)


def as_input(argument: str, value: Any, like: Tensor) -> Tensor:
    """The value as input of a network: in the dtype and on the device of its weights ``like``.

    Raises InputError for what is no array of numbers, and for a finer dtype than the network's.
    """
    if not isinstance(value, Tensor):
        found = _read(argument, value)
        require(found.dtype != object, argument, "an array of objects", EXPECTED)
        given = found.dtype if found.dtype.kind == "f" and isinstance(value, np.ndarray) else None
        value = torch.as_tensor(found, device=like.device)
        if given is None:  # lists and whole numbers take the network's dtype
            return value.to(like.dtype)
    if not value.is_floating_point() or value.dtype == like.dtype:
        return value  # whole numbers in a tensor are refused where the shape is looked at
    fits = torch.finfo(value.dtype).bits < torch.finfo(like.dtype).bits
    own = f"{like.dtype}, the network's, or a network in {value.dtype}"
    require(fits, argument, f"dtype {value.dtype}", own)
    _say(argument, value.dtype, like.dtype)
    return value.to(like.dtype)


def _read(argument: str, value: Any) -> np.ndarray:
    """Array of numbers, or of objects with arithmetic, read from any value."""
    if not isinstance(value, np.ndarray | list | tuple):
        raise InputError(f"{argument}: got {type(value).__name__}, expected {EXPECTED}")
    if isinstance(value, list | tuple):
        _require_even(argument, value, "")
        value = [v.tolist() if isinstance(v, Tensor) else v for v in value]
    found = np.asarray(value)
    computes = found.dtype == object and all(hasattr(entry, "__add__") for entry in found.flat)
    words = f"an array of {found.dtype}"
    require(found.dtype.kind in "fiub" or computes, argument, words, EXPECTED)
    return found


def _require_even(argument: str, value: Any, at: str) -> None:
    """Raises InputError, naming the place, unless lists inside a list have one length and depth."""
    sizes = [len(v) if isinstance(v, list | tuple | np.ndarray) else None for v in value]
    for i, size in enumerate(sizes):
        given = f"{_words(size)} at {at}[{i}] and {_words(sizes[0])} at {at}[0]"
        require(size == sizes[0], argument, given, "lists of one length")
        if isinstance(value[i], list | tuple):
            _require_even(argument, value[i], f"{at}[{i}]")
    bad = [i for i, v in enumerate(value) if v is None or isinstance(v, str)]
    require(not bad, argument, f"{value[bad[0]]!r} at {at}[{bad[0]}]" if bad else "", EXPECTED)


def _words(size: int | None) -> str:
    return "a number" if size is None else counted(size, "entry")


def _say(argument: str, given: Any, taken: torch.dtype) -> None:
    words = f"{argument}: {str(given).removeprefix('torch.')} promoted to "
    message = words + str(taken).removeprefix("torch.")
    warnings.warn(message, PrecisionWarning, stacklevel=2)

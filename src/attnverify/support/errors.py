"""Errors that name the argument, what was given and what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from reprlib import Repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # errors are raised where no tensor is near, too
    import torch


LONGEST = 300  # characters that are told of what code from outside says


class _OneLine(Exception):
    """An error whose message is one line that a terminal can show."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class InputError(_OneLine, ValueError):
    """Bad argument; the message names it and says what was given and what was expected.

    >>> import attnverify as av
    >>> av.SelfAttentionNetwork.random(depth=0, heads=2, width=8, seed=0)
    Traceback (most recent call last):
        ...
    attnverify.support.errors.InputError: depth: got 0, expected a positive whole number
    """


class RunError(_OneLine, RuntimeError):
    """Run that could not be finished; the message names the piece and what happened to it."""


def printable(text: str) -> str:
    """The text on one line: what a terminal would obey or not show is as ``repr`` writes it.

    >>> print(printable(chr(10) + chr(27)))
    \\n\\x1b
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def require(condition: bool, argument: str, given: object, expected: str) -> None:
    """Raise :class:`InputError` unless ``condition`` holds."""
    if not condition:
        raise InputError(f"{argument}: got {given}, expected {expected}")


def in_words(error: BaseException) -> str:
    """Text of an error that foreign code raised, on one line that a terminal can show."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # its own __str__ fails
        said = "without words"
    return f"{type(error).__name__}: {said[:LONGEST]}{'...' if len(said) > LONGEST else ''}"


def as_given(value: object) -> str:
    """Text of a value that foreign code passed in, on one line that a terminal can show."""
    try:
        said = " ".join(repr(value).split())
    except Exception:  # its own __repr__ fails
        return type(value).__name__
    return f"{said[:LONGEST]}{'...' if len(said) > LONGEST else ''}"


def shown(value: Any) -> str:
    """A value of a file as an error message shows it: short and on one line."""
    short = Repr()
    short.maxstring = short.maxother = short.maxlong = 60
    return short.repr(value)


def require_tokens(argument: str, x: torch.Tensor, width: int | None = None) -> None:
    """Raise InputError unless x is a finite floating tensor (..., tokens >= 1, width)."""
    shape = tuple(x.shape)
    require(x.ndim >= 2, argument, f"shape {shape}", "shape (..., tokens, width)")
    require(x.is_floating_point(), argument, f"dtype {x.dtype}", "a floating dtype")
    require(shape[-2] >= 1, argument, f"shape {shape}", "at least one token")
    if width is not None:
        require(shape[-1] == width, argument, f"width {shape[-1]}", f"width {width}")
    require_finite(argument, x)


def require_finite(argument: str, x: torch.Tensor) -> None:
    """Raise InputError unless every entry of x is finite."""
    import torch

    bad = int((~torch.isfinite(x)).sum())
    require(bad == 0, argument, f"{bad} NaN or infinite entries", "finite entries")


def require_stochastic(argument: str, p: torch.Tensor) -> None:
    """Raise InputError unless the rows of p (..., n) are non-negative and sum to one.

    A softmax divides by a float sum of n non-negative terms, relative error at most n u, each
    division adds u, and the sum taken here adds n u again (Higham, Accuracy and Stability of
    Numerical Algorithms, section 4.2): at most (2n + 1) u < 2 n eps in all, with eps = 2u.
    """
    require_finite(argument, p)
    import torch

    unit = torch.finfo(p.dtype).eps
    low = float(p.min())
    require(low >= 0, argument, f"a negative entry {low:g}", "a row-stochastic matrix")
    worst = float((p.sum(-1) - 1).abs().max())
    limit = 2 * p.shape[-1] * unit
    require(worst <= limit, argument, f"a row sum off by {worst:.3g}", "rows that sum to 1")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like ``name``, as a hint for an error message ('' if none is near)."""
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean {match[0]!r}?)" if match else ""

"""What the fields of a check from outside may hold: looked at before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from attnverify.checking.check import Decision, Identity, Inequality, Sizes
from attnverify.support.errors import as_given, require

SIZES = "shapes by name, as ({'u': (3,)}, {'u': (5,)})"
LARGEST = 100_000  # numbers an instance: 2000 of them take 1.6 GB

#: What the fields of a form may hold that hold what somebody says; the others are made of it.
FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "divides": (lambda v: type(v) is tuple and all(map(_pair, v)), "a tuple of pairs of names"),
    "accuracy": (lambda v: type(v) is float and 0 <= v <= 1e-3, "a number from 0 to 0.001"),
    "arithmetic": (lambda v: v in ("rational", "ball"), "'rational' or 'ball'"),
    "cases": (lambda v: type(v) is int and v > 0, "how many cases it covers at least"),
    "over": (lambda v: v == (), "nothing: only covers of the book say theirs"),
    "limits": (lambda v: isinstance(v, str) and bool(v.strip()), "what it does not show, in words"),
    "kind": (lambda v: v in ("decided", "certified", "sampled"), "a kind of evidence it gives"),
}


def _pair(value: Any) -> bool:
    return type(value) is tuple and [type(name) for name in value] == [str, str]


def require_form(where: str, check: Any) -> None:
    """Raise InputError unless a check from outside is one of the forms, with fields of their kinds.

    A class of the file's own could answer otherwise in every call, so there is none.
    """
    words = "what av.inequality, av.identity, av.decision or av.definition declares"
    require(type(check) in (Inequality, Identity, Decision), where, type(check).__name__, words)
    if not isinstance(check, Decision):
        require_sizes(f"{where}: ", check.sizes)
    for name in (field.name for field in fields(check) if field.name in FIELDS):
        (known, expected), value = FIELDS[name], getattr(check, name)
        require(known(value), f"{where}: {name}", as_given(value), expected)
    for twin in check.twins:
        require_form(f"{where}, false twin {twin.title!r}", twin.check)


def require_sizes(where: str, sizes: Any) -> None:
    """A list or tuple, not empty, of shapes by name, each of no more than LARGEST numbers."""
    listed = isinstance(sizes, list | tuple) and bool(sizes)
    known = listed and all(
        isinstance(s, dict) and s and named(s) and _shapes(s.values()) for s in sizes
    )
    require(bool(known), f"{where}sizes", as_given(sizes), SIZES)
    largest = max(sum(math.prod(shape) for shape in s.values()) for s in sizes)
    given = f"{largest} numbers in one instance"
    require(largest <= LARGEST, f"{where}sizes", given, f"{LARGEST} at most")


def named(sizes: Any) -> bool:
    """Whether the keys can be names of parameters."""
    return all(isinstance(name, str) and name.isidentifier() for name in sizes)


def _shapes(values: Any) -> bool:
    return all(
        isinstance(shape, list | tuple)
        and len(shape) <= 8
        and all(type(n) is int and n > 0 for n in shape)
        for shape in values
    )


def in_sizes(sizes: Sequence[Sizes]) -> str:
    """The shapes that a check is looked at with, in words: u (2), e (2); u (5), e (5)."""
    return "; ".join(
        ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in one.items())
        for one in sizes
    )

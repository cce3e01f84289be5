"""Which instances a check is about: names, ranks and lengths, read off those it makes itself.

Formulas broadcast, so arrays of other shapes would make another formula of the claim and refute
what nobody claimed. An instance is accepted if ``sizes`` and ``build`` could have made it:

* it has the names and ranks of the instances that ``build`` makes, and no others;
* two lengths that agree wherever the check makes instances agree here (one *letter*);
* a length that is the same wherever the check makes instances is the same here, and any other is
  at least the smallest made. Extremal instances of the check count as made for the last two;
* a length divides another where the check says so.

Independent lengths must therefore differ somewhere in ``sizes``; if they do not, too much is
refused, never too little.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache

import torch

from attnverify.checking import sampling
from attnverify.checking.check import Inequality, Instance
from attnverify.support.errors import require, require_finite
from attnverify.support.seeds import generator

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Length:
    """One length: equal letters are equal lengths. A fixed one has its number for a letter."""

    letter: str
    least: int
    fixed: bool


Signature = dict[str, tuple[Length, ...]]


def signature(check: Inequality) -> Signature:
    """The lengths of every array of an instance of ``check``, without batch axis."""
    sizes = tuple(tuple((name, tuple(size)) for name, size in s.items()) for s in check.sizes)
    return _signature(check.build, sizes, check.extremal)


@cache
def _signature(build: Callable, sizes: tuple, extremal: tuple[Callable, ...]) -> Signature:
    made = [_made(build, dict(size)) for size in sizes]
    names = {name: len(shape) for name, shape in made[0].items()}
    for shapes in made:
        ranks = {name: len(shape) for name, shape in shapes.items()}
        require(ranks == names, "build", f"arrays of ranks {ranks}", f"ranks {names} as before")
    known = [{name: tuple(value.shape) for name, value in make().items()} for make in extremal]
    known = [s for s in known if {name: len(shape) for name, shape in s.items()} == names]
    axes = [(name, axis) for name, rank in names.items() for axis in range(rank)]
    lengths = _lengths({at: _seen(at, made) for at in axes}, {at: _seen(at, known) for at in axes})
    return {name: tuple(lengths[name, axis] for axis in range(r)) for name, r in names.items()}


def _made(build: Callable, size: Shapes) -> Shapes:
    """The shapes of what ``build`` makes of parameters of one size, without the batch axis."""
    with torch.no_grad():
        free = sampling.parameters(size, 1, generator(0, "shapes"), spread=False)
        return {name: tuple(value.shape[1:]) for name, value in build(**free).items()}


def _seen(at: tuple[str, int], shapes: list[Shapes]) -> tuple[int, ...]:
    name, axis = at
    return tuple(s[name][axis] for s in shapes)


def _lengths(made: dict, known: dict) -> dict[tuple[str, int], Length]:
    """A letter for every class of lengths that agree; a constant says nothing about agreement."""
    key: dict[tuple[str, int], Hashable] = {
        at: made[at] if len(set(made[at])) > 1 else (made[at], known[at]) for at in made
    }
    out, letters = {}, {}
    for at, own in key.items():
        values = {n for other in made if key[other] == own for n in (*made[other], *known[other])}
        fixed = len(values) == 1
        letter = str(*values) if fixed else letters.setdefault(own, f"n{len(letters) + 1}")
        out[at] = Length(letter, min(values), fixed)
    return out


def require_instance(check: Inequality, instance: Instance) -> None:
    """Raise InputError that names the array unless ``check`` could have made ``instance``."""
    expected = signature(check)
    for name in expected:
        require(name in instance, name, "no array", f"an array of {_words(expected[name])}")
    for name in instance:
        require(name in expected, str(name), "an array", f"no more than {', '.join(expected)}")
    found: dict[str, int] = {}
    for name, lengths in expected.items():
        _require_array(name, instance[name], lengths, found)
    for few, many in check.divides:
        n, m = len(instance[few]), len(instance[many])
        words = f"a first length that divides that of {many}, {m}"
        require(m % n == 0, few, f"shape {tuple(instance[few].shape)}", words)


def _require_array(name: str, value: object, lengths: tuple[Length, ...], found: dict) -> None:
    """One array: floating, finite, its lengths in range and equal to those ``found`` so far."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        kind = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        require(False, name, kind, "a floating tensor")
        return
    shape, words = tuple(value.shape), _words(lengths)
    require(len(shape) == len(lengths), name, f"shape {shape}", words)
    for given, length in zip(shape, lengths, strict=True):
        inside = given == length.least if length.fixed else given >= length.least
        require(inside, name, f"shape {shape}", words)
        before = found.setdefault(length.letter, given)
        here = f"{words}, where {length.letter} = {before} in what came before"
        require(given == before, name, f"shape {shape}", here)
    require_finite(name, value)


def _words(lengths: tuple[Length, ...]) -> str:
    free = {x.letter: x.least for x in lengths if not x.fixed}
    at_least = ", ".join(f"{letter} >= {least}" for letter, least in free.items())
    shape = "(" + ", ".join(x.letter for x in lengths) + ("," if len(lengths) == 1 else "") + ")"
    return f"shape {shape}" + (f" with {at_least}" if at_least else "")

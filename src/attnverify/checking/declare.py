"""The short form of a check: one function, the axes of its arrays by name, its false neighbors.

A function returns the two sides of a statement. Its parameters without a default are the arrays of
an instance; those with one are *knobs*, and a false neighbor turns some. Its name, with blanks in
the place of underscores, is the name of the check.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch

from attnverify.arithmetic.interval_cover import Box
from attnverify.checking.check import (
    Check,
    Decision,
    Form,
    Identity,
    Inequality,
    Instance,
    Measured,
    Sides,
    Sizes,
    Twin,
    unchanged,
)
from attnverify.checking.definition_agreement import LIMITS, agree
from attnverify.derivation import step_box
from attnverify.support.errors import nearest, require
from attnverify.support.verdict import Verdict

TIGHT = 0.9999  # of the right side: a twin of an inequality unless it says otherwise
ARRAY = re.compile(r"(\w+)\[([\w\s,]*)\]")
#: What a false neighbor may say besides knobs.
OWN = ("draw", "where", "sizes")

Build = Callable[..., Form]


@dataclass(frozen=True)
class Neighbor:
    """A false neighbor: its title, the knobs that it turns, what else it says otherwise."""

    title: str
    knobs: Mapping[str, Any]
    other: Mapping[str, Any]


class Declared:
    """A check with its instances at equality and its false neighbors, as a chapter declares it."""

    def __init__(
        self,
        claim: str,
        name: str,
        function: Callable[..., Any],
        arrays: Mapping[str, tuple[str, ...]],
        build: Build,
        tight: float | None,
        knobs: Mapping[str, Any],
        other: Mapping[str, Any],
    ) -> None:
        self.claim, self.name, self.function, self._tight = claim, name, function, tight
        self._arrays, self._build, self._knobs, self._other = arrays, build, knobs, other
        self._equal: list[Instance] = []
        self._false: list[Neighbor] = []
        self._cell = step_box.current_cell()
        code = inspect.unwrap(function).__code__
        self.place = f"{code.co_filename}:{code.co_firstlineno}"
        DECLARED.setdefault(claim, {})[name] = self  # a cell that runs again replaces its checks

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **{**self._knobs, **kwargs})

    def equal(self, **arrays: Any) -> Declared:
        """One more instance at or near equality: its arrays by name, as tensors or lists."""
        self._equal.append(self._instance(arrays, self._where("", self._called())))
        self._cell = step_box.current_cell()
        return self

    def false(
        self,
        title: str,
        *,
        at: dict[str, Any] | list[dict[str, Any]] | None = None,
        **changes: Any,
    ) -> Declared:
        """One more false neighbor, which must be rejected: this check with some knobs turned.

        at: an instance, or several, that refute it, in place of those at equality; draw, where,
        sizes: as of the check.
        """
        where = self._where(title, self._called())
        other = {key: changes.pop(key) for key in OWN if key in changes}
        if "sizes" in other:
            other["sizes"] = _sizes(where, self._arrays, other["sizes"])
        if at is not None:
            several = [at] if isinstance(at, dict) else at
            other["at"] = [self._instance(one, where) for one in several]
        require(bool(changes or other), where, "no change", "a knob to turn")
        self._require_knobs(where, changes)
        self._false.append(Neighbor(title, changes, other))
        self._cell = step_box.current_cell()
        return self

    def also(self, name: str, *sizes: Any, **knobs: Any) -> Declared:
        """The same check with some knobs turned for good, under another name.

        sizes, tight and what else is said of the form (draw, where; limits, cases, over): as of
        the check, where they differ.
        """
        where = self._where(name, self._called())
        own = self._other.keys() - _knobs(self.function).keys()
        other = {key: knobs.pop(key) for key in own if key in knobs}
        tight = knobs.pop("tight", self._tight)
        if sizes:
            other["sizes"] = _sizes(where, self._arrays, sizes)
        self._require_knobs(where, knobs)
        given = (self.claim, name, self.function, self._arrays, self._build, tight)
        return Declared(*given, {**self._knobs, **knobs}, {**self._other, **other})

    @property
    def check(self) -> Check:
        """The check as the engine runs it."""
        other = {**self._other, "at": self._equal}
        made = self._build(self._bound({}), **other)
        twins = list(made.times(self._tight).twins) if self._tight is not None else []  # type: ignore
        for one in self._false:
            wrong = self._build(self._bound(one.knobs), **{**other, **one.other})
            twins.append(Twin(one.title, wrong.tight))
        require(bool(twins), self._where(), "no false neighbor", f"{self.name}.false(...)")
        return replace(made, twins=tuple(twins))  # type: ignore

    def _ipython_display_(self) -> None:
        """What a quick search finds for the checks that the cell declares or goes on with."""
        from attnverify.checking import live_table  # for readers alone

        every = [each for checks in DECLARED.values() for each in checks.values()]
        own = [each for each in every if each._cell == step_box.current_cell()]
        live_table.show(own if self in own else [self])

    def _bound(self, knobs: Mapping[str, Any]) -> partial:
        return partial(self.function, **{**self._knobs, **knobs})

    def _called(self) -> str:
        """The line of its file that is being executed; where it is declared, if there is none."""
        file, frame = self.place.rpartition(":")[0], sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != file:
            frame = frame.f_back
        return self.place if frame is None else f"{file}:{frame.f_lineno}"

    def _where(self, title: str = "", place: str = "") -> str:
        return f"{place or self.place}: {self.claim}, {self.name}" + (
            f", {title!r}" if title else ""
        )

    def _require_knobs(self, where: str, changes: Mapping[str, Any]) -> None:
        knobs = _knobs(self.function)
        for key in (key for key in changes if key not in knobs):
            words = (
                f"a parameter with a default ({', '.join(knobs) or 'none'}){nearest(key, knobs)}"
            )
            require(False, where, f"{key}=", words)

    def _instance(self, arrays: Mapping[str, Any], where: str) -> Instance:
        """An instance as tensors, its lengths in agreement with the axes that are named."""
        made = {k: torch.as_tensor(v, dtype=torch.float64) for k, v in arrays.items()}
        if self._other.get("draw", unchanged) is not unchanged:
            return made  # its arrays are those that draw makes
        where, lengths = f"{where}, instance", {}
        require(made.keys() == self._arrays.keys(), where, list(made), f"{list(self._arrays)}")
        for name, value in made.items():
            axes = self._arrays[name]
            words = f"{name}[{','.join(axes)}]"
            require(value.ndim == len(axes), where, f"{name} {tuple(value.shape)}", words)
            for axis, length in zip(axes, value.shape, strict=True):
                known = int(axis) if axis.isdigit() else lengths.setdefault(axis, length)
                given = f"{name} {tuple(value.shape)}, so {axis} = {length}"
                require(length == known, where, given, f"{axis} = {known}")
        return made


#: Checks that were declared in this process, by claim and name.
DECLARED: dict[str, dict[str, Declared]] = {}


@contextmanager
def collecting() -> Iterator[dict[str, dict[str, Declared]]]:
    """What is declared inside, by claim and name; nothing of it stays."""
    global DECLARED
    before, DECLARED = DECLARED, {}
    try:
        yield DECLARED
    finally:
        DECLARED = before


def inequality(
    claim: str,
    arrays: str,
    *sizes: tuple[int, ...] | int,
    tight: float | None = TIGHT,
    draw: Callable[..., Instance] = unchanged,
    where: Callable[..., Any] | None = None,
    lower: Mapping[str, Any] | None = None,
    divides: tuple[tuple[str, str], ...] = (),
    accuracy: float = 0.0,
    name: str = "",
) -> Callable[[Callable[..., Any]], Declared]:
    """left <= right, for the two sides that the function returns.

    claim: the id of a claim of the same chapter; arrays: names with axes, as "A[n,k] B[k,m]";
    sizes: lengths of the axes, in the order in which they first come; tight: the factor of the
    right side that must be refuted, None where no instance comes near; draw: free arrays to an
    instance that meets the hypotheses; where: the hypotheses, pairs (smaller, larger); both get
    the knobs that they have parameters for. lower: knobs with which the left side, an upper bound
    of what is meant, is a lower one. divides, accuracy: as of
    :class:`~attnverify.checking.check.Inequality`. Raises InputError that names file, line, claim
    and check.

    >>> import torch
    >>> import attnverify as av
    >>> @av.inequality("norms.submultiplicative", "A[n,k] B[k,m]", (2, 2, 2), (3, 2, 4))
    ... def product(A, B, first=av.norms.composite):
    ...     return av.norms.composite(A @ B), first(A) * av.norms.composite(B)
    >>> product = product.equal(A=torch.eye(2), B=torch.eye(2))
    >>> product = product.false("the first factor by its columns", first=av.norms.max_column_sum)
    >>> [twin.title for twin in product.check.twins]
    ['0.9999 times the right side', 'the first factor by its columns']
    """

    def build(f: partial, at: Iterable[Instance], **other: Any) -> Inequality:
        sides = _both(f, claim)
        below = _both(partial(f, **lower), claim) if lower else None
        return Inequality(
            left=sides.left,
            right=sides.right,
            sizes=other["sizes"],
            build=_with_knobs(other["draw"], f),
            hypotheses=other["where"] and _with_knobs(other["where"], f),
            lower=below.left if below else None,
            divides=divides,
            accuracy=accuracy,
            extremal=tuple(partial(dict, one) for one in at),
        )

    other = {"draw": draw, "where": where}
    return partial(_declare, claim, name, arrays, sizes, build, tight, other)


def identity(
    claim: str,
    arrays: str,
    *sizes: tuple[int, ...] | int,
    exact: Literal["rational", "ball"] = "rational",
    draw: Callable[..., Instance] = unchanged,
    name: str = "",
) -> Callable[[Callable[..., Any]], Declared]:
    """left == right, for the two sides that the function returns, at random rational points.

    The arrays come without a batch axis. exact: "rational", or "ball" where a formula takes roots
    or exponentials; the others as of :func:`inequality`.

    >>> import attnverify as av
    >>> @av.identity("mine.sum", "x[n] y[n]", 3)
    ... def squares(x, y, sign=1):
    ...     return (x + y) * (x - y), x * x - sign * y * y
    >>> squares.false("the sum of the squares", sign=-1).check.kinds
    ('certified',)
    """

    def build(f: partial, at: object, **other: Any) -> Identity:
        sides, draw = _both(f, claim), _with_knobs(other["draw"], f)
        return Identity(sides.left, sides.right, other["sizes"], draw, exact)

    return partial(_declare, claim, name, arrays, sizes, build, None, {"draw": draw})


def decision(
    claim: str,
    kind: Literal["decided", "certified", "sampled"] = "decided",
    *,
    limits: str,
    cases: int = 1,
    over: tuple[Box, ...] = (),
    name: str = "",
) -> Callable[[Callable[..., Verdict]], Declared]:
    """What the function finds: it takes knobs alone and returns an ``av.Verdict``.

    kind, limits, cases, over: as of :class:`~attnverify.checking.check.Decision`.

    >>> import attnverify as av
    >>> @av.decision("mine.odd", "certified", limits="no n above 100", cases=100)
    ... def odd_numbers(first=1):
    ...     right = all(sum(range(first, 2 * n, 2)) == n * n for n in range(1, 101))
    ...     return av.Verdict(right, "n from 1 to 100", cases=100)
    >>> odd_numbers.false("from 3 on", first=3).name
    'odd numbers'
    """

    def build(f: partial, at: object, **other: Any) -> Decision:
        return Decision(f, **other)

    other = {"limits": limits, "kind": kind, "cases": cases, "over": over}
    return partial(_declare, claim, name, "", (), build, None, other)


def definition(
    claim: str, *, limits: str = LIMITS, cases: int = 1, name: str = ""
) -> Callable[[Callable[..., Any]], Declared]:
    """Formulas against their definitions: the function yields (name, formula, entry by entry).

    It takes knobs alone; a false neighbor turns one of the definition. cases: how many entries are
    compared at least, apart from the loop.

    >>> import attnverify as av
    >>> @av.definition("mine.square")
    ... def square(power=2):
    ...     (x,) = av.drawn(0, (3,))
    ...     yield "square", av.ops.square(x), av.table(lambda i: x[i] ** power, 3)
    >>> square.false("the cube", power=3).check.run().holds
    True
    """

    def build(f: partial, at: object, **other: Any) -> Decision:
        return Decision(partial(agree, f), kind="certified", **other)

    other = {"limits": limits, "cases": cases}
    return partial(_declare, claim, name, "", (), build, None, other)


def measured(
    claim: str,
    rows: Callable[[], list[dict[str, Any]]],
    run: Callable[..., Any],
    *,
    limits: str,
    expected: bool = True,
    name: str = "",
) -> Callable[[Callable[..., Verdict]], Declared]:
    """The criterion of an experiment: a function of the rows of its table and of knobs.

    rows, run, limits, expected: as of :class:`~attnverify.checking.check.Measured`.

    >>> import attnverify as av
    >>> @av.measured("mine.falls", lambda: [{"loss": 1.5}], print, limits="one run")
    ... def falls(rows, below=2):
    ...     return av.Verdict(rows[0]["loss"] < below, "the last loss")
    >>> falls.false("below 1", below=1).check.kinds
    ('measured',)
    """

    def build(f: partial, at: object) -> Measured:
        return Measured(rows, run, f, limits, expected)

    return partial(_declare, claim, name, "rows[]", (), build, None, {})


def _declare(
    claim: str,
    name: str,
    arrays: str,
    sizes: tuple,
    build: Build,
    tight: float | None,
    other: dict[str, Any],
    function: Callable[..., Any],
) -> Declared:
    place, name = _place(function, claim), name or function.__name__.replace("_", " ")
    where = f"{place}, {name}"
    found = _axes(where, arrays)
    parameters = inspect.signature(function).parameters.values()
    free = {p.name for p in parameters if p.default is p.empty and p.kind != p.VAR_KEYWORD}
    if other.get("draw", unchanged) is unchanged:
        words = f"those of {arrays!r}; a knob has a default"
        require(free == found.keys(), f"{where}: parameters", sorted(free), words)
    if sizes:
        other = {**other, "sizes": _sizes(where, found, sizes)}
    return Declared(claim, name, function, found, build, tight, {}, other)


def _both(f: partial, claim: str) -> Sides:
    """The sides that a function returns, which are two."""

    def sides(**instance: Any) -> tuple[Any, Any]:
        found = f(**instance)
        if not isinstance(found, tuple) or len(found) != 2:
            given = f"{len(found)} values" if isinstance(found, tuple) else type(found).__name__
            require(False, f"{_place(f.func, claim)}: what it returns", given, "left, right")
        return found

    return Sides(sides)


def _place(function: Callable[..., Any], claim: str) -> str:
    code = inspect.unwrap(function).__code__
    return f"{code.co_filename}:{code.co_firstlineno}: {claim}"


def _knobs(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _with_knobs(function: Callable[..., Any], f: partial) -> Callable[..., Any]:
    """draw or where, with those knobs of the check that it has parameters for."""
    knobs = {**_knobs(f.func), **f.keywords}
    taken = {name: knobs[name] for name in inspect.signature(function).parameters if name in knobs}
    return partial(function, **taken) if taken else function


def _axes(where: str, arrays: str) -> dict[str, tuple[str, ...]]:
    """The arrays of a line such as "A[n,k] b[2,k]", each with its axes."""
    rest = ARRAY.sub("", arrays).strip()
    require(not rest, f"{where}: arrays", f"{rest!r} in {arrays!r}", "as 'A[n,k] b[k]'")
    found = ARRAY.findall(arrays)
    return {name: tuple(axes.replace(",", " ").split()) for name, axes in found}


def _sizes(where: str, arrays: Mapping[str, tuple[str, ...]], sizes: Iterable) -> tuple[Sizes, ...]:
    """Shapes by name, for lengths of the axes in the order in which these first come."""
    axes = dict.fromkeys(axis for own in arrays.values() for axis in own if not axis.isdigit())
    line = " ".join(f"{name}[{','.join(own)}]" for name, own in arrays.items())
    out = []
    for size in sizes:
        given = size if isinstance(size, tuple) else (size,)
        words = f"{len(axes)} lengths, of the axes {', '.join(axes)} of {line!r}"
        require(len(given) == len(axes), f"{where}: sizes", given, words)
        known = dict(zip(axes, given, strict=True))
        shapes = {n: tuple(int(known.get(a, a)) for a in own) for n, own in arrays.items()}
        out.append(shapes)
    return tuple(out)

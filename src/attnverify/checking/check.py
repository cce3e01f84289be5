"""The four forms a numerical check takes. Formulas are functions of named arrays.

An *instance* is a dict of arrays; formulas receive it as keyword arguments and work on torch
tensors and on numpy object arrays (balls, rationals). Formulas of inequalities always see a
leading batch axis; those of identities see none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import Box
from attnverify.checking.records import Described
from attnverify.support.errors import require
from attnverify.support.verdict import Verdict

Instance = dict[str, Any]
Formula = Callable[..., Any]
Sizes = Mapping[str, tuple[int, ...]]
F = TypeVar("F", bound="Form")


def unchanged(**parameters: Any) -> Instance:
    """The parameters are the instance."""
    return parameters


class Sides:
    """The two sides of a statement, from one function that returns both."""

    def __init__(self, function: Callable[..., tuple[Any, Any]]) -> None:
        self.function = function

    def __call__(self, **instance: Any) -> tuple[Any, Any]:
        return self.function(**instance)

    def left(self, **instance: Any) -> Any:
        """The first one."""
        return self(**instance)[0]

    def right(self, **instance: Any) -> Any:
        """The second one."""
        return self(**instance)[1]


@dataclass(frozen=True)
class Twin:
    """A false neighbor of a claim, with the check that must reject it.

    factor: of an inequality's right side, where the twin is the claim but for this factor.

    Usually :meth:`~attnverify.checking.check.Form.but` and
    :meth:`~attnverify.checking.check.Inequality.times` make it.

    >>> import attnverify as av
    >>> from attnverify.checking.check import Decision
    >>> check = Decision(lambda: av.Verdict(2 + 2 == 4, "one sum"), limits="no other sum")
    >>> wrong = check.but("five", run=lambda: av.Verdict(2 + 2 == 5, "one sum"))
    >>> [(twin.title, twin.check.run().holds) for twin in wrong.twins]
    [('five', False)]
    """

    title: str
    check: Form
    factor: float | None = None


@dataclass(frozen=True)
class Form:
    """What the forms of a check have in common: false neighbors that must be rejected."""

    twins: tuple[Twin, ...] = field(default=(), kw_only=True)

    def but(self: F, title: str, **changes: Any) -> F:
        """This check with one more twin: itself, but for the changed fields.

        The twin can so refer to the check it is a twin of:
        ``CHECK.but("half the bound", right=lambda x: CHECK.right(x) / 2)``.
        """
        require(bool(changes), "changes", "none", "a field in which the twin differs")
        wrong = replace(self.tight, **{"twins": (), **changes})
        return replace(self, twins=(*self.twins, Twin(title, wrong)))

    @property
    def tight(self: F) -> F:
        """This check as its twins are judged."""
        return self


@dataclass(frozen=True)
class Inequality(Form):
    """left <= right for every instance that meets the hypotheses.

    left, right: formulas of the same shape, one value or several an instance; ratios are taken
    where right > 0. sizes: shapes of the free parameters, without batch axis. build: parameters
    to an instance that meets the hypotheses by construction. hypotheses: formula that returns
    pairs (smaller, larger), checked in ball arithmetic. extremal: exact instances at or near
    equality, as float64 arrays without batch axis. lower: where ``left`` is only an upper bound of
    what the statement bounds, a lower bound of it: twins, and how near to its constant a statement
    is refuted, are judged by it alone. divides: pairs of arrays; the first length of the one
    divides that of the other, as the number of key heads that of query heads. accuracy: how far
    the sides in floats may be off beyond rounding, where they are approximations.

    Formulas take the arrays of an instance by name, always with a leading batch axis: float64
    tensors in a search, numpy arrays of balls in a certificate. Every inequality needs a false
    twin, which ``times`` or ``but`` adds.

    >>> import torch
    >>> import attnverify as av
    >>> from attnverify.checking.check import Inequality
    >>> check = Inequality(
    ...     left=lambda x: av.ops.square(av.ops.sum(x, -1)),
    ...     right=lambda x: x.shape[-1] * av.ops.sum(av.ops.square(x), -1),
    ...     sizes=({"x": (2,)}, {"x": (5,)}),
    ...     extremal=(lambda: {"x": torch.ones(2, dtype=torch.float64)},),
    ... ).times(0.99)
    >>> [twin.title for twin in check.twins]
    ['0.99 times the right side']
    """

    left: Formula
    right: Formula
    sizes: tuple[Sizes, ...]
    build: Callable[..., Instance] = unchanged
    hypotheses: Formula | None = None
    extremal: tuple[Callable[[], Instance], ...] = ()
    lower: Formula | None = None
    divides: tuple[tuple[str, str], ...] = ()
    accuracy: float = 0.0

    kinds = ("sampled", "attacked", "certified")

    @property
    def tight(self) -> Inequality:
        return replace(self, left=self.lower, lower=None) if self.lower else self

    def sides(self, **instance: Any) -> tuple[Any, Any]:
        """left and right of an instance; what gives both is asked once."""
        return _sides(self, instance)

    def times(self, factor: float) -> Inequality:
        """This check with one more twin: the right side times a factor below 1.

        The engine makes the twin, so it is the claim with another constant and nothing else.
        """
        require(0 < factor < 1, "factor", factor, "a number between 0 and 1")
        twin = Twin(f"{factor:g} times the right side", self.tight.scaled(factor), factor)
        return replace(self, twins=(*self.twins, twin))

    def scaled(self, factor: float) -> Inequality:
        """The statement with ``factor`` times its right side, without twins."""

        def right(**instance: Any) -> Any:
            value = self.right(**instance)
            return ops.constant(factor, value) * value

        def sides(**instance: Any) -> tuple[Any, Any]:
            left, right = self.sides(**instance)
            return left, ops.constant(factor, right) * right

        if _both(self) is None:
            return replace(self, right=right, twins=())
        both = Sides(sides)
        return replace(self, left=both.left, right=both.right, twins=())


@dataclass(frozen=True)
class Identity(Form):
    """left == right for every instance.

    It is tried at random rational points, 32 a size. arithmetic: "rational" (equal exactly) or
    "ball" (equal to within a certified radius).

    Formulas take the arrays of an instance by name, without a batch axis, and return arrays of
    equal shape.

    >>> from fractions import Fraction
    >>> from attnverify.checking.check import Identity
    >>> check = Identity(
    ...     left=lambda x: (x + 1) * (x - 1),
    ...     right=lambda x: x * x - 1,
    ...     sizes=({"x": (3,)},),
    ... )
    >>> check.left(x=Fraction(5, 2)) == check.right(x=Fraction(5, 2))
    True
    """

    left: Formula
    right: Formula
    sizes: tuple[Sizes, ...]
    build: Callable[..., Instance] = unchanged
    arithmetic: Literal["rational", "ball"] = "rational"

    kinds = ("certified",)

    def sides(self, **instance: Any) -> tuple[Any, Any]:
        """left and right of an instance; what gives both is asked once."""
        return _sides(self, instance)


def _sides(check: Inequality | Identity, instance: Instance) -> tuple[Any, Any]:
    both = _both(check)
    return both(**instance) if both else (check.left(**instance), check.right(**instance))


def _both(check: Inequality | Identity) -> Sides | None:
    """What gives both sides of a check, if one function does."""
    both = getattr(check.left, "__self__", None)
    same = isinstance(both, Sides) and getattr(check.right, "__self__", None) is both
    return both if same else None


@dataclass(frozen=True)
class Decision(Form):
    """A statement settled by one computation, for all cases it covers.

    kind "decided": all reals in a range, by an argument that run() carries out; "certified":
    finitely many exact cases; "sampled": a simulation, whose agreement is statistical. limits:
    what it does not show. cases: how many it is said to look at; over: the boxes that it is said to
    cover (:mod:`attnverify.arithmetic.interval_cover`). Fewer are unknown.

    ``run`` takes no argument and returns a :class:`~attnverify.support.verdict.Verdict`.

    >>> import attnverify as av
    >>> from attnverify.checking.check import Decision
    >>> def odd_numbers():
    ...     right = all(sum(range(1, 2 * n, 2)) == n * n for n in range(1, 101))
    ...     return av.Verdict(right, "n from 1 to 100", cases=100)
    ...
    >>> check = Decision(odd_numbers, limits="no n above 100", kind="certified")
    >>> check.run().holds, check.kinds
    (True, ('certified',))
    """

    run: Callable[[], Verdict]
    limits: str
    kind: Literal["decided", "certified", "sampled"] = "decided"
    cases: int = 1
    over: tuple[Box, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.kind,)


@dataclass(frozen=True)
class Measured(Form):
    """The criterion of an experiment, judged on the table of its full setting.

    rows: gives the committed rows of that table; run: what made them (not run here); judge: the
    criterion, a function of the rows; expected: False for a published finding that did not come
    out; limits: what the experiment does not show.
    """

    rows: Callable[[], list[dict[str, Any]]]
    run: Callable[..., Any]
    judge: Callable[[list[dict[str, Any]]], Verdict]
    limits: str
    expected: bool = True

    kinds = ("measured",)


Check = Inequality | Identity | Decision | Measured


def described(check: Check) -> Described:
    """What can be said of a check, and sent to another process, without its formulas."""
    titles = tuple(twin.title for twin in check.twins)
    return Described(type(check).__name__, check.kinds, titles)

"""The four forms a numerical check takes. Formulas are functions of named arrays.

An *instance* is a dict of arrays; formulas receive it as keyword arguments and work on torch
tensors and on numpy object arrays (balls, rationals). Formulas of inequalities always see a
leading batch axis; those of identities see one in floats and none in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Instance = dict[str, Any]
Formula = Callable[..., Any]
Sizes = Mapping[str, tuple[int, ...]]


def unchanged(**parameters: Any) -> Instance:
    """The parameters are the instance."""
    return parameters


@dataclass(frozen=True)
class Twin:
    """A false neighbor of a claim, with the check that must reject it."""

    title: str
    check: Inequality | Identity | Decision | Measured


@dataclass(frozen=True)
class Inequality:
    """left <= right for every instance that meets the hypotheses.

    left, right: formulas of the same shape, one value or several an instance; ratios are taken
    where right > 0. sizes: shapes of the free parameters, without batch axis. build: parameters
    to an instance that meets the hypotheses by construction. hypotheses: formula that returns
    pairs (smaller, larger), checked in ball arithmetic. extremal: exact instances at or near
    equality, as float64 arrays without batch axis. certifiable: instances found by search are
    compared in balls.
    """

    left: Formula
    right: Formula
    sizes: tuple[Sizes, ...]
    build: Callable[..., Instance] = unchanged
    hypotheses: Formula | None = None
    extremal: tuple[Callable[[], Instance], ...] = ()
    twins: tuple[Twin, ...] = ()

    kinds = ("sampled", "attacked", "certified")


@dataclass(frozen=True)
class Identity:
    """left == right for every instance.

    bound: formula for the rounding error of |left - right| in floats, derived where it is
    defined. shared: parameters drawn once a batch, without batch axis (weights of one network for
    many inputs). arithmetic: "rational" (equal exactly) or "ball" (equal to within a certified
    radius) for the certificate, on ``exact_draws`` drawn instances a size.
    """

    left: Formula
    right: Formula
    bound: Formula
    sizes: tuple[Sizes, ...]
    build: Callable[..., Instance] = unchanged
    shared: tuple[str, ...] = ()
    arithmetic: Literal["rational", "ball"] = "rational"
    exact_draws: int = 2
    twins: tuple[Twin, ...] = ()

    kinds = ("sampled", "certified")


@dataclass(frozen=True)
class Verdict:
    """Outcome of a decision: holds is None where it stayed unknown."""

    holds: bool | None
    argument: str
    cases: int = 1
    ratio: float | None = None


@dataclass(frozen=True)
class Decision:
    """A statement settled by one computation, for all cases it covers.

    kind "decided": all reals in a range, by an argument that run() carries out; "certified":
    finitely many exact cases; "sampled": a simulation, whose agreement is statistical. limits:
    what it does not show.
    """

    run: Callable[[], Verdict]
    limits: str
    kind: Literal["decided", "certified", "sampled"] = "decided"
    twins: tuple[Twin, ...] = field(default=())

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.kind,)


@dataclass(frozen=True)
class Measured:
    """The criterion of an experiment, judged on the table of its full setting.

    experiment: name of the experiment, whose table is in the package; run: what made the table
    (not run here); judge: the criterion, a function of the table's rows; expected: False for a
    published finding that did not come out; limits: what the experiment does not show.
    """

    experiment: str
    run: Callable[..., Any]
    judge: Callable[[list[dict[str, Any]]], Verdict]
    limits: str
    expected: bool = True
    twins: tuple[Twin, ...] = field(default=())

    kinds = ("measured",)


Check = Inequality | Identity | Decision | Measured

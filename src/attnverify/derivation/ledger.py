"""The ledger of derivations: notebooks hand in identities, each decided before it counts.

A cell that completes a derivation calls :func:`derived` with its named steps. A step is

* a pair ``(left, right)`` of sympy expressions, to be equal: for commuting expressions their
  difference must simplify to zero, for noncommuting ones the normal forms of
  :mod:`attnverify.derivation.noncommuting` must agree;
* a sympy relation or boolean, to be decidedly true under its symbols' assumptions.

Numbers are exact: a step with a float in it is refused.

Anything undecided raises: a derivation that sympy cannot follow does not count. Nor does a step
that shows no work: its sides are the same expression as they come, and nothing in their source
(``attnverify.derivation.step_source``) was computed.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import sympy as sp

from attnverify.derivation import assumptions as givens
from attnverify.derivation import noncommuting, step_box, step_source
from attnverify.derivation import typeset_steps as shown
from attnverify.derivation.noncommuting import Rules

_ENTRIES: ContextVar[list[Entry] | None] = ContextVar("entries", default=None)
_FORMULAS: ContextVar[bool] = ContextVar("formulas", default=True)


class DerivationError(AssertionError):
    """A step is not decidedly true (or a twin's step is).

    false: whether it is decided, the other way; shown: Markdown of a box with this step and those
    before it, "" where formulas are not asked for.
    """

    def __init__(self, message: str, false: bool = False, shown: str = "") -> None:
        super().__init__(message)
        self.false, self.shown = false, shown


@dataclass(frozen=True)
class Step:
    """A step that was decided: its name, how, its two sides as sympy holds them, its source.

    sides: digest of both sides in full; code: digest of the source that the step and all its names
    come from, "" where that is not known.
    """

    name: str
    how: str
    left: str
    right: str
    sides: str
    source: str
    code: str = ""


@dataclass(frozen=True)
class Entry:
    """A completed derivation or rejected twin, shown as a box in the notebook.

    place: file and line of the call, ("", 0) if its source is not at hand; shown: Markdown of each
    step, empty while a :func:`recording` runs; cell: the number of the notebook's cell, 0 outside.
    """

    claim: str
    role: str
    steps: tuple[Step, ...]
    given: givens.Given
    place: tuple[str, int] = ("", 0)
    shown: tuple[str, ...] = field(default=(), compare=False)
    cell: int = field(default=0, compare=False)

    def __repr__(self) -> str:
        return step_box.as_text(self)

    def _ipython_display_(self) -> None:
        """At the end of a cell: nothing, if the call in the same cell has shown the entry."""
        if step_box.current_cell() != self.cell:
            step_box.show(self)


@contextlib.contextmanager
def recording(formulas: bool = False, claims: givens.Claims | None = None) -> Iterator[list[Entry]]:
    """The list of all entries that are handed in within the block (by this thread), in order.

    formulas: whether the entries have what shows them, too; claims: those that may be named, by
    default the book's.
    """
    entries: list[Entry] = []
    tokens = _ENTRIES.set(entries), _FORMULAS.set(formulas)
    try:
        with givens.among(claims):
            yield entries
    finally:
        _ENTRIES.reset(tokens[0])
        _FORMULAS.reset(tokens[1])


def derived(
    claim: str,
    steps: Mapping[str, Any],
    *,
    given: Mapping[str, str] | str = "",
    rules: Rules | None = None,
) -> Entry:
    """Record that ``claim`` is derived by these steps; raises unless each is decidedly true.

    claim: id in the registry. steps: name -> pair or sympy relation (see the module). given: what
    the derivation uses, by the claim or the word that it stands on
    (``attnverify.derivation.assumptions``). rules: rewriting rules for noncommuting steps.
    """
    return _hand_in(claim, "derived", steps, given, rules, expected=True)


def rejected(
    claim: str,
    steps: Mapping[str, Any],
    *,
    given: Mapping[str, str] | str = "",
    rules: Rules | None = None,
) -> Entry:
    """Record rejected false neighbors of the steps; raises unless each is decidedly false."""
    return _hand_in(claim, "rejected", steps, given, rules, expected=False)


def _hand_in(claim, role, steps, given, rules, *, expected) -> Entry:
    stated = givens.claims()[claim]
    if not steps:
        raise DerivationError(f"steps: got none for {claim}, expected at least one")
    call = step_source.caller()
    found = []
    for name, step in steps.items():
        verdict = decide(step, rules)
        _require_exact(claim, name, step, call)
        if verdict is not expected:
            raise _refusal(claim, role, dict(steps), found, verdict, call)
        found.append(_step(name, step, call, rules))
        why = step_source.idle(call, name) if expected and _same(step) else ""
        if why:
            raise DerivationError(
                f"{claim}, step {name!r}: got sides that are the same, {found[-1].left}, "
                f"and {why}, expected something to decide"
            )
    place = (call.file, call.line) if call else ("", 0)
    entry = Entry(claim, role, tuple(found), givens.read(stated, given), place)
    if _FORMULAS.get():
        formulas = tuple(shown.step(name, step, call, expected) for name, step in steps.items())
        entry = replace(entry, shown=formulas, cell=step_box.current_cell())
    if (entries := _ENTRIES.get()) is not None:
        entries.append(entry)
    elif entry.cell:
        step_box.show(entry)
    return entry


def _refusal(claim, role, steps, found, verdict, call) -> DerivationError:
    """What is raised at the first step of a call that is not what it is said to be."""
    name, step = list(steps.items())[len(found)]
    word = {True: "true", False: "false", None: "undecided"}[verdict]
    message = f"{claim}, step {name!r}: {word}, expected {str(role == 'derived').lower()}"
    if not _FORMULAS.get():
        return DerivationError(message, verdict is not None)
    before = [
        step_box.item(done, role, shown.step(done.name, steps[done.name], call, role == "derived"))
        for done in found
    ]
    formula = shown.step(name, step, call, verdict)
    ending = step_box.refusal(claim, before, name, word, formula)
    return DerivationError(message, verdict is not None, ending)


def _require_exact(claim: str, name: str, step: Any, call: step_source.Call | None) -> None:
    """A float is a rounded number: nothing that is decided with one is decided exactly.

    A relation between numbers arrives as true or false; then its source tells what was compared.
    """
    sides = _sides(step)
    if step in (sp.true, sp.false):
        sides = _sides(shown.as_written(name, step, call))
    inexact = {number for side in sides for number in side.atoms(sp.Float)}
    if inexact:
        raise DerivationError(
            f"{claim}, step {name!r}: got the float {min(inexact)}, expected exact numbers"
        )
    for symbol in (sp.nan, sp.zoo, sp.AccumBounds):
        if any(side.has(symbol) for side in sides):
            found = f"got no number ({symbol})"
            raise DerivationError(f"{claim}, step {name!r}: {found}, expected numbers")


def _same(step: Any) -> bool:
    """Whether both sides are one expression as they come, or a relation came evaluated."""
    left, right = _sides(step)
    return _in_full(left) == _in_full(right)


def _sides(step: Any) -> tuple[Any, Any]:
    """Both sides of a step; a relation that sympy has evaluated is true or false on the left."""
    if isinstance(step, tuple):
        return sp.sympify(step[0]), sp.sympify(step[1])
    return (
        (step.lhs, step.rhs) if isinstance(step, sp.core.relational.Relational) else (step, sp.true)
    )


def _step(name: str, step: Any, call: step_source.Call | None, rules: Rules | None) -> Step:
    """A decided step, as it is recorded."""
    left, right = _sides(step)
    full = hashlib.sha256(f"{_in_full(left)}\n{_in_full(right)}".encode()).hexdigest()
    source = call.source(name) if call else ""
    return Step(name, _how(step, left, rules), str(left), str(right), full[:12], source)


def _how(step: Any, left: Any, rules: Rules | None) -> str:
    """The way in which a step is decided."""
    if not isinstance(step, tuple):
        return f"relation {getattr(step, 'rel_op', 'evaluated')}"
    if rules:
        return f"words with {'; '.join(sorted(map(_rule, rules.items())))}"
    if isinstance(left, sp.MatrixBase):
        return "entries"
    return "identity" if left.is_commutative else "words"


def _rule(rule: tuple[tuple[Any, Any], tuple[sp.Expr, ...]]) -> str:
    (first, second), replacement = rule
    return f"{first} {second} = {' '.join(map(str, replacement)) or '1'}"


def _in_full(side: Any) -> str:
    """A side with all assumptions on its symbols; dummy symbols by their place, not by a count."""
    seen: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        return f"dummy_index={seen.setdefault(found[1], len(seen))}"

    return re.sub(r"dummy_index=(-?\d+)", place, sp.srepr(side))


def decide(step: Any, rules: Rules | None = None) -> bool | None:
    """True, False, or None where sympy cannot tell.

    False for a noncommuting step means that the normal forms differ: as words in free symbols.
    """
    if isinstance(step, tuple) and len(step) == 2:
        left, right = map(sp.sympify, step)
        return _decide_equal(left, right, rules)
    if isinstance(step, sp.Eq):
        return _decide_equal(step.lhs, step.rhs, rules)
    if isinstance(step, sp.logic.boolalg.Boolean):
        simplified = sp.simplify(step)
        return {sp.true: True, sp.false: False}.get(simplified)
    raise DerivationError(f"step: got {type(step).__name__}, expected a pair or a sympy relation")


def _decide_equal(left: Any, right: Any, rules: Rules | None) -> bool | None:
    if isinstance(left, sp.MatrixBase):
        return _decide_matrices(left, right, rules)
    difference = left - right
    if difference is sp.nan:  # of no numbers, or of two infinities; zoo has no sign
        return True if left == right and not left.has(sp.nan, sp.zoo) else None
    if not difference.is_commutative:
        return noncommuting.equal(left, right, rules)
    if difference.has(sp.Sum) and noncommuting.equal(left, right, rules):
        return True
    if sp.expand(difference) == 0 or sp.simplify(difference) == 0:
        return True
    verdict = difference.equals(0)  # False if a numeric value differs from 0, else None
    # except for sums over symbolic ranges, which have no numeric value: there sympy has called
    # true identities false
    return None if verdict is False and difference.has(sp.Sum) else verdict


def _decide_matrices(left: Any, right: Any, rules: Rules | None) -> bool | None:
    """Entry by entry; other shapes are a mistake, neither an identity nor a false neighbor."""
    other = getattr(right, "shape", ())
    if left.shape != other:
        raise DerivationError(f"step: got shapes {left.shape} and {other}, expected equal ones")
    if 0 in left.shape:
        raise DerivationError(f"step: got shape {left.shape}, expected entries to compare")
    pairs = zip(left.flat(), right.flat(), strict=True)
    entries = [_decide_equal(a, b, rules) for a, b in pairs]
    return False if False in entries else None if None in entries else True

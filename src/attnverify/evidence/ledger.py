"""The ledger of derivations: notebooks hand in identities, each decided before it counts.

A cell that completes a derivation calls :func:`derived` with its named steps. A step is

* a pair ``(left, right)`` of sympy expressions, to be equal: for commuting expressions their
  difference must simplify to zero, for noncommuting ones the normal forms of
  :mod:`attnverify.symbolic` must agree;
* a sympy relation or boolean, to be decidedly true under its symbols' assumptions.

Anything undecided raises: a derivation that sympy cannot follow does not count.
"""

from __future__ import annotations

import contextlib
import html
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import sympy as sp

from attnverify import symbolic
from attnverify.claims import registry
from attnverify.symbolic import Rules

_ENTRIES: ContextVar[list[Entry] | None] = ContextVar("entries", default=None)


class DerivationError(AssertionError):
    """A step is not decidedly true (or a twin's step is)."""


@dataclass(frozen=True)
class Entry:
    """A completed derivation or rejected twin, shown as a small box in the notebook."""

    claim: str
    role: str
    steps: tuple[str, ...]
    given: str

    def __repr__(self) -> str:
        lines = [f"{self.role}: {self.claim}", *(f"  [{self._mark}] {s}" for s in self.steps)]
        return "\n".join([*lines, *([f"  given: {self.given}"] if self.given else [])])

    @property
    def _mark(self) -> str:
        return "holds" if self.role == "derived" else "rejected"

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(s)} <em>({self._mark})</em></li>" for s in self.steps)
        given = f"<p>Given: {html.escape(self.given)}</p>" if self.given else ""
        return (
            f'<div class="ledger ledger-{self.role}"><p><strong>{self.role}</strong> '
            f"<code>{self.claim}</code></p><ul>{items}</ul>{given}</div>"
        )


@contextlib.contextmanager
def recording() -> Iterator[list[Entry]]:
    """The list of all entries that are handed in within the block (by this thread), in order."""
    entries: list[Entry] = []
    token = _ENTRIES.set(entries)
    try:
        yield entries
    finally:
        _ENTRIES.reset(token)


def derived(
    claim: str, steps: Mapping[str, Any], *, given: str = "", rules: Rules | None = None
) -> Entry:
    """Record that ``claim`` is derived by these steps; raises unless each is decidedly true.

    claim: id in the registry. steps: name -> pair or sympy relation (see the module). given: the
    hypotheses the derivation uses. rules: rewriting rules for noncommuting steps.
    """
    return _hand_in(claim, "derived", steps, given, rules, expected=True)


def rejected(
    claim: str, steps: Mapping[str, Any], *, given: str = "", rules: Rules | None = None
) -> Entry:
    """Record rejected false neighbors of the steps; raises unless each is decidedly false."""
    return _hand_in(claim, "rejected", steps, given, rules, expected=False)


def _hand_in(claim, role, steps, given, rules, *, expected) -> Entry:
    id = registry[claim].id
    if not steps:
        raise DerivationError(f"steps: got none for {id}, expected at least one")
    for name, step in steps.items():
        verdict = decide(step, rules)
        if verdict is not expected:
            word = {True: "true", False: "false", None: "undecided"}[verdict]
            raise DerivationError(f"{id}, step {name!r}: {word}, expected {str(expected).lower()}")
    entry = Entry(id, role, tuple(steps), given)
    if (entries := _ENTRIES.get()) is not None:
        entries.append(entry)
    return entry


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
    if not difference.is_commutative:
        return symbolic.equal(left, right, rules)
    if difference.has(sp.Sum) and symbolic.equal(left, right, rules):
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
    pairs = zip(left.flat(), right.flat(), strict=True)
    entries = [_decide_equal(a, b, rules) for a, b in pairs]
    return False if False in entries else None if None in entries else True

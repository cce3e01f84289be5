"""The ledger of derivations: notebooks record identities, and sympy decides each of them.

A notebook cell that completes a derivation calls :func:`derived` with its named steps. A step is

* a pair ``(left, right)`` of sympy expressions, to be equal: for commuting expressions their
  difference must simplify to zero, for noncommuting ones the normal forms of
  :mod:`attnverify.derivation.noncommuting` must agree;
* a sympy relation or boolean, which must be true under the assumptions on its symbols.

Numbers are exact: a step with a float in it is refused.

A step that sympy cannot decide raises :class:`DerivationError`. So does a step that shows no
computation, and a false neighbor that alters no formula (``attnverify.derivation.idle_steps``).

>>> import sympy as sp
>>> import attnverify as av
>>> x = sp.Symbol("x", real=True)
>>> av.ledger.decide(((x + 1) ** 2, x**2 + 2 * x + 1))
True
>>> av.ledger.decide((x**2, x))
False
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import sympy as sp
from sympy.concrete.expr_with_limits import ExprWithLimits
from sympy.core.evalf import PrecisionExhausted

from attnverify.derivation import assumptions as givens
from attnverify.derivation import idle_steps, noncommuting, step_box, step_source
from attnverify.derivation import typeset_steps as shown
from attnverify.derivation.entry import Entry, Step
from attnverify.derivation.noncommuting import Rules

_ENTRIES: ContextVar[list[Entry] | None] = ContextVar("entries", default=None)
_FORMULAS: ContextVar[bool] = ContextVar("formulas", default=True)


class DerivationError(AssertionError):
    """Raised for a step that is not decidedly true, or a twin's step not decidedly false.

    false: whether the step was decided against what was expected; shown: Markdown of a box with
    this step and those before it, "" where no formulas are wanted.
    """

    def __init__(self, message: str, false: bool = False, shown: str = "") -> None:
        super().__init__(message)
        self.false, self.shown = false, shown


@contextlib.contextmanager
def recording(formulas: bool = False, claims: givens.Claims | None = None) -> Iterator[list[Entry]]:
    """Context that collects all entries recorded within it (by this thread), in order.

    formulas: whether the entries also get the Markdown that shows them; claims: those that may be
    named, by default the book's.
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

    claim: id in the registry. steps: name -> pair or sympy relation (see the module). given: the
    facts that the derivation uses, by the claim or word that they come from
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
    stated = givens.stated(claim, recording=_ENTRIES.get() is not None)
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
        _require_work(claim, found[-1], step, call, expected)
    place = (call.file, call.line) if call else ("", 0)
    entry = Entry(claim, role, tuple(found), givens.read(stated, given), place)
    if _FORMULAS.get():
        formulas = tuple(shown.step(name, step, call, expected) for name, step in steps.items())
        entry = replace(entry, shown=formulas, cell=step_box.current_cell())
    if (entries := _ENTRIES.get()) is not None:
        entries.append(entry)
    elif entry.cell:
        entry.show()
    return entry


def _refusal(claim, role, steps, found, verdict, call) -> DerivationError:
    """The error for the first step of a call that is not decided as expected."""
    name, step = list(steps.items())[len(found)]
    word = {True: "true", False: "false", None: "undecided"}[verdict]
    message = f"{claim}, step {name!r}: {word}, expected {str(role == 'derived').lower()}"
    if not _FORMULAS.get():
        return DerivationError(message, verdict is not None)
    before = [
        step_box.item(
            done.name,
            step_box.decided(role, done.how),
            shown.step(done.name, steps[done.name], call, role == "derived"),
        )
        for done in found
    ]
    formula = shown.step(name, step, call, verdict)
    ending = step_box.refusal(claim, before, name, word, formula)
    return DerivationError(message, verdict is not None, ending)


def _require_work(claim: str, made: Step, step: Any, call: Any, expected: bool) -> None:
    """Refuse a step that decides nothing, and a false neighbor that alters no formula."""
    if not expected and (why := idle_steps.rejected(made.name, step, call)):
        raise DerivationError(
            f"{claim}, step {made.name!r}: got a neighbor that {why}, expected one that alters a "
            "formula of the claim"
        )
    if expected and _same(step) and (why := idle_steps.derived(made.name, step, call)):
        raise DerivationError(
            f"{claim}, step {made.name!r}: got sides that are the same, {made.left}, and {why}, "
            "expected something to decide, or a limit, integral, derivative, sum or product of "
            "matrices that sympy computes"
        )


def _require_exact(claim: str, name: str, step: Any, call: step_source.Call | None) -> None:
    """Refuse a step with a float, which is a rounded number, or with no number (NaN, zoo).

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
    """Whether both sides arrive as one expression, or a relation arrives evaluated."""
    left, right = _sides(step)
    return _in_full(left) == _in_full(right)


def _sides(step: Any) -> tuple[Any, Any]:
    """Both sides of a step; an evaluated relation is true or false, against true."""
    if isinstance(step, tuple):
        return sp.sympify(step[0]), sp.sympify(step[1])
    return (
        (step.lhs, step.rhs) if isinstance(step, sp.core.relational.Relational) else (step, sp.true)
    )


def _step(name: str, step: Any, call: step_source.Call | None, rules: Rules | None) -> Step:
    """The record of a decided step."""
    left, right = _sides(step)
    full = hashlib.sha256(f"{_in_full(left)}\n{_in_full(right)}".encode()).hexdigest()
    source = call.source(name) if call else ""
    return Step(name, _how(step, left, rules), str(left), str(right), full[:12], source)


def _how(step: Any, left: Any, rules: Rules | None) -> str:
    """Words for the way in which a step is decided."""
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
    """Text of a side with all assumptions on its symbols; dummy symbols are numbered by place."""
    seen: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        return f"dummy_index={seen.setdefault(found[1], len(seen))}"

    return re.sub(r"dummy_index=(-?\d+)", place, sp.srepr(side))


def decide(step: Any, rules: Rules | None = None) -> bool | None:
    """True or False as sympy decides a step, None where it cannot.

    For noncommuting symbols False means that the normal forms, words in free symbols, differ.
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
    if sp.expand(difference) == 0 or sp.expand(sp.numer(sp.together(difference))) == 0:
        return True
    if _differs(difference):
        return False
    if sp.simplify(difference) == 0:
        return True
    verdict = difference.equals(0)  # False if a numeric value differs from 0, else None
    # Sums over symbolic ranges have no numeric value, and sympy has called true identities of them
    # false.
    return None if verdict is False and difference.has(sp.Sum) else verdict


def _differs(difference: Any) -> bool:
    """Whether a closed form has a value other than 0 at one point that the assumptions allow.

    sympy follows the error of the value, and raises where none of its digits is sure.
    """
    if difference.has(ExprWithLimits, sp.Limit, sp.Derivative):
        return False
    symbols = sorted(difference.free_symbols, key=str)
    point = {symbol: _allowed(symbol, place) for place, symbol in enumerate(symbols)}
    try:
        value = difference.subs(point).evalf(strict=True)
    except PrecisionExhausted:
        return False
    return value.is_Float and value != 0


def _allowed(symbol: Any, place: int) -> Any:
    """A number that meets the assumptions on a symbol, another one at each place; or the symbol."""
    for number in (sp.Rational(7 * place + 10, 11), sp.Integer(place + 2)):
        for value in (number, -number):
            known = symbol.assumptions0.items()
            if all(getattr(value, f"is_{name}") is truth for name, truth in known):
                return value
    return symbol


def _decide_matrices(left: Any, right: Any, rules: Rules | None) -> bool | None:
    """Equality of matrices, entry by entry; raises for unlike shapes, which are a mistake."""
    other = getattr(right, "shape", ())
    if left.shape != other:
        raise DerivationError(f"step: got shapes {left.shape} and {other}, expected equal ones")
    if 0 in left.shape:
        raise DerivationError(f"step: got shape {left.shape}, expected entries to compare")
    pairs = zip(left.flat(), right.flat(), strict=True)
    entries = [_decide_equal(a, b, rules) for a, b in pairs]
    return False if False in entries else None if None in entries else True

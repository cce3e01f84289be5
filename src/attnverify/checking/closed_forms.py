"""Numbers of simple form: which lies just above a ratio, and how likely that is by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import sympy as sp

from attnverify.arithmetic import ops
from attnverify.support.errors import InputError

BY_CHANCE = 1e-3  # a proposal that is as likely to be a coincidence as this is not made
NARROW = 5e-3  # how far above the certified ratio a proposal may lie, at most, relatively


@dataclass(frozen=True)
class Proposal:
    """A number of simple form just above a ratio.

    gap: how far above, relatively; chance: were the ratio drawn at random, its logarithm uniform
    from half to twice its value, the probability that some form had a number so near above that
    this one would be as surprising: at most (numbers of the form there)/log 4 times the gap, times
    the number of forms.
    """

    constant: sp.Expr
    form: str
    gap: float
    chance: float


#: Forms of numbers, from simple to less simple: what is multiplied with small quotients.
FORMS: dict[str, tuple[int, tuple[Any, ...]]] = {
    "a quotient up to 8": (8, (sp.Integer(1),)),
    "a quotient up to 32": (32, (sp.Integer(1),)),
    "a root of a quotient up to 16": (16, ()),
    "a quotient up to 8 times log 2, pi or e, or over one": (
        8,
        tuple(f**s for f, s in product((sp.log(2), sp.pi, sp.E), (1, -1))),
    ),
    "a quotient up to 8 times the root of 2 pi, pi or e, or over one": (
        8,
        tuple(sp.sqrt(f) ** s for f, s in product((2 * sp.pi, sp.pi, sp.E), (1, -1))),
    ),
}


def propose(ratio: float) -> Proposal | None:
    """The number of simple form that lies just above ratio > 0 and is least likely by chance."""
    found = []
    for form in FORMS:
        values = numbers(form)
        density = sum(ratio / 2 < value < 2 * ratio for value, _ in values) / math.log(4)
        for value, constant in values:
            gap = value / ratio - 1
            if 0 <= gap < NARROW:
                found.append(Proposal(constant, form, gap, len(FORMS) * density * gap))
    best = min(found, key=lambda p: (p.chance, p.gap), default=None)
    return best if best and best.chance < BY_CHANCE else None


@cache
def numbers(form: str) -> tuple[tuple[float, sp.Expr], ...]:
    """The numbers of a form, each once, with their floats rounded up."""
    largest, factors = FORMS[form]
    quotients = {sp.Rational(p, q) for p in range(1, largest + 1) for q in range(1, largest + 1)}
    found = {f * q for f in factors for q in quotients} or {sp.sqrt(q) for q in quotients}
    return tuple((math.nextafter(float(sp.N(value, 30)), math.inf), value) for value in found)


def number(expression: sp.Expr | int | str, like: Any) -> Any:
    """A number such as "sqrt(2)/4" in the arithmetic of ``like``: floats or balls.

    expression: integers, quotients, sums, products, whole powers, square roots, exponentials,
    logarithms, pi and E; a text is evaluated by sympy. Raises InputError for anything else, such
    as 0.25, which is no exact number.

    >>> import torch
    >>> import attnverify as av
    >>> round(av.number("sqrt(2)/4", like=torch.zeros(1, dtype=torch.float64)).item(), 12)
    0.353553390593
    >>> av.number("sqrt(2)/4", like=av.ops.balls(torch.zeros(1))).str(20, radius=False)
    '0.3535533905932737'
    >>> av.number("0.25", like=torch.zeros(1))
    Traceback (most recent call last):
        ...
    attnverify.support.errors.InputError: expression: got 0.25... in 0.25, expected integers, ...
    """
    e: Any = sp.sympify(expression) if isinstance(expression, str | int) else expression
    if e.is_Rational:
        return ops.constant(int(e.p), like) / ops.constant(int(e.q), like)
    if e is sp.pi:
        return ops.constant(1, like) * ops.pi(like)
    if e.func is sp.Pow and (2 * e.args[1]).is_Integer:
        return _power(number(e.args[0], like), 2 * e.args[1], like)
    if e is sp.E or e.func is sp.exp:
        return ops.exp(number(1 if e is sp.E else e.args[0], like))
    if e.func is sp.log:
        return ops.log(number(e.args[0], like))
    if e.func not in (sp.Add, sp.Mul):
        expected = "integers, quotients, roots, log, exp, pi and E"
        raise InputError(f"expression: got {e} in {expression}, expected {expected}")
    first, *rest = (number(part, like) for part in e.args)
    for part in rest:
        first = first * part if e.func is sp.Mul else first + part
    return first


def _power(base: Any, halves: Any, like: Any) -> Any:
    """base^(halves/2)."""
    root = base if halves % 2 == 0 else ops.sqrt(base)
    result = ops.constant(1, like)
    for _ in range(abs(int(halves)) // (2 if halves % 2 == 0 else 1)):
        result = result * root
    return ops.constant(1, like) / result if halves < 0 else result

"""Signs of scalar functions on whole intervals, by covering them with balls."""

from __future__ import annotations

from collections.abc import Callable

import flint

DEPTH = 40  # halvings before a point is given up as unknown

Function = Callable[[flint.arb], flint.arb]
Side = tuple[flint.arb, flint.arb]


def positive(f: Function, low: flint.arb, high: flint.arb) -> tuple[bool | None, int]:
    """Whether f > 0 on all of [low, high], and the number of balls used.

    True: every ball of a cover has a certainly positive value. False: a point where f is
    certainly not positive was met. None: some ball stayed undecided after ``DEPTH`` halvings.
    """
    return positive_on(f, (low, high))


def positive_on(f: Callable[..., flint.arb], *sides: Side) -> tuple[bool | None, int]:
    """:func:`positive` for a function of several variables, on the product of the sides.

    sides: (low, high) of each variable; the widest side is halved, ``DEPTH`` times a variable.
    """
    pending: list[tuple[tuple[Side, ...], int]] = [
        (tuple((low.lower(), high.upper()) for low, high in sides), 0)
    ]
    used = 0
    while pending:
        box, depth = pending.pop()
        used += 1
        middles = [(a + b) / 2 for a, b in box]
        if f(*(m.union(a).union(b) for m, (a, b) in zip(middles, box, strict=True))) > 0:
            continue
        if f(*middles) <= 0:
            return False, used
        if depth == DEPTH * len(sides):
            return None, used
        k = max(range(len(box)), key=lambda i: float(box[i][1] - box[i][0]))
        (a, b), middle = box[k], middles[k].mid()
        halves = (a, middle), (middle, b)
        pending += [((*box[:k], half, *box[k + 1 :]), depth + 1) for half in halves]
    return True, used


def certain(yes: object, no: object) -> bool | None:
    """Truth value from two comparisons of balls, each true only if certain; None if unknown."""
    return True if yes else False if no else None


def both(*parts: tuple[bool | None, int]) -> tuple[bool | None, int]:
    """Truth of all parts of an argument together, and the number of their cases.

    False if a part is false, else unknown (None) if a part is unknown or there is none, else True.
    """
    answers = [answer for answer, _ in parts]
    verdict = False if False in answers else None if None in answers or not parts else True
    return verdict, sum(used for _, used in parts)

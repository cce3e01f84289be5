"""Signs of scalar functions on whole intervals, by covering them with balls."""

from __future__ import annotations

from collections.abc import Callable

import flint

DEPTH = 40  # halvings before a point is given up as unknown

Function = Callable[[flint.arb], flint.arb]


def positive(f: Function, low: flint.arb, high: flint.arb) -> tuple[bool | None, int]:
    """Whether f > 0 on all of [low, high], and the number of balls used.

    True: every ball of a cover has a certainly positive value. False: a point where f is
    certainly not positive was met. None: some ball stayed undecided after ``DEPTH`` halvings.
    """
    pending, used = [(low.lower(), high.upper(), 0)], 0
    while pending:
        a, b, depth = pending.pop()
        used += 1
        middle = (a + b) / 2
        value = f(middle.union(a).union(b))
        if value > 0:
            continue
        if f(middle) <= 0:
            return False, used
        if depth == DEPTH:
            return None, used
        middle = middle.mid()
        pending += [(a, middle, depth + 1), (middle, b, depth + 1)]
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

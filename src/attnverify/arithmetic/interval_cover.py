"""Signs of scalar functions on whole intervals, by covering them with balls."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import flint

DEPTH = 40  # halvings before a point is given up as unknown

Function = Callable[[flint.arb], flint.arb]
Side = tuple[flint.arb, flint.arb]


class Part(NamedTuple):
    """A part of an argument: whether it holds, how many cases it took, and on which box."""

    holds: bool | None
    cases: int
    box: tuple[Side, ...]


def positive(f: Function, low: flint.arb, high: flint.arb) -> Part:
    """Whether f > 0 on all of [low, high], and the number of balls used.

    True: every ball of a cover has a certainly positive value. False: a point where f is
    certainly not positive was met. None: some ball stayed undecided after ``DEPTH`` halvings.
    """
    return positive_on(f, (low, high))


def beyond(f: Function, start: flint.arb) -> Part:
    """Whether f > 0 on [start, inf), by its value at start: f is one that does not fall there."""
    value = f(start)
    return Part(certain(value > 0, value < 0), 1, ((start.lower(), flint.arb.pos_inf()),))


def positive_on(f: Callable[..., flint.arb], *sides: Side) -> Part:
    """:func:`positive` for a function of several variables, on the product of the sides.

    sides: (low, high) of each variable; the widest side is halved, ``DEPTH`` times a variable.
    """
    whole = tuple((low.lower(), high.upper()) for low, high in sides)
    pending: list[tuple[tuple[Side, ...], int]] = [(whole, 0)]
    used = 0
    while pending:
        box, depth = pending.pop()
        used += 1
        middles = [(a + b) / 2 for a, b in box]
        if f(*(m.union(a).union(b) for m, (a, b) in zip(middles, box, strict=True))) > 0:
            continue
        if f(*middles) <= 0:
            return Part(False, used, whole)
        if depth == DEPTH * len(sides):
            return Part(None, used, whole)
        k = max(range(len(box)), key=lambda i: float(box[i][1] - box[i][0]))
        (a, b), middle = box[k], middles[k].mid()
        halves = (a, middle), (middle, b)
        pending += [((*box[:k], half, *box[k + 1 :]), depth + 1) for half in halves]
    return Part(True, used, whole)


def certain(yes: object, no: object) -> bool | None:
    """Truth value from two comparisons of balls, each true only if certain; None if unknown."""
    return True if yes else False if no else None


def both(
    *parts: Part | tuple[bool | None, int], over: tuple[Side, ...] = ()
) -> tuple[bool | None, int]:
    """Truth of all parts of an argument together, and the number of their cases.

    over: the box that parts with a box are to cover together, cut along its first side only. False
    if a part is false, else unknown (None) if a part is unknown, there is none, or some of the box
    is not covered, else True.
    """
    answers = [part[0] for part in parts]
    verdict = False if False in answers else None if None in answers or not parts else True
    boxes = [part.box for part in parts if isinstance(part, Part)]
    if verdict and over and not _covered(boxes, over):
        verdict = None
    return verdict, sum(part[1] for part in parts)


def _covered(boxes: list[tuple[Side, ...]], over: tuple[Side, ...]) -> bool:
    """Whether boxes that span the other sides reach from one end of the first side to the other."""
    (reach, end), *others = over

    def spans(box: tuple[Side, ...]) -> bool:
        pairs = zip(box[1:], others, strict=True)
        return all(low <= a and b <= high for (low, high), (a, b) in pairs)

    first = [box[0] for box in boxes if spans(box)]
    for low, high in sorted(first, key=lambda side: float(side[0])):
        reach = high if low <= reach and high > reach else reach
    return bool(reach >= end.lower())

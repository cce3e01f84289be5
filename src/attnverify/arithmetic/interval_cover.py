"""Signs of scalar functions on whole intervals, by covering them with balls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import flint

from attnverify.support.verdict import Verdict

DEPTH = 40  # halvings before a point is given up as unknown

Function = Callable[[flint.arb], flint.arb]
Side = tuple[flint.arb, flint.arb]
Box = tuple[Side, ...]


class Part(NamedTuple):
    """A part of an argument: whether it holds, how many cases it took, and on which boxes."""

    holds: bool | None
    cases: int
    boxes: tuple[Box, ...] = ()

    def verdict(self, argument: str) -> Verdict:
        """The same with the argument in words."""
        return Verdict(self.holds, argument, self.cases, over=self.boxes)


def positive(f: Function, low: flint.arb, high: flint.arb) -> Part:
    """Whether f > 0 on all of [low, high], and the number of balls used.

    True: every ball of a cover has a certainly positive value. False: a point where f is
    certainly not positive was met. None: some ball stayed undecided after ``DEPTH`` halvings.
    """
    return positive_on(f, (low, high))


def beyond(f: Function, start: flint.arb) -> Part:
    """Whether f > 0 on [start, inf), by its value at start: f is one that does not fall there."""
    value = f(start)
    return Part(certain(value > 0, value < 0), 1, (((start.lower(), flint.arb.pos_inf()),),))


def positive_on(f: Callable[..., flint.arb], *sides: Side) -> Part:
    """:func:`positive` for a function of several variables, on the product of the sides.

    sides: (low, high) of each variable; the widest side is halved, ``DEPTH`` times a variable.
    """
    whole = tuple((low.lower(), high.upper()) for low, high in sides)
    pending: list[tuple[Box, int]] = [(whole, 0)]
    used = 0
    while pending:
        box, depth = pending.pop()
        used += 1
        middles = [(a + b) / 2 for a, b in box]
        if f(*(m.union(a).union(b) for m, (a, b) in zip(middles, box, strict=True))) > 0:
            continue
        if f(*middles) <= 0:
            return Part(False, used, (whole,))
        if depth == DEPTH * len(sides):
            return Part(None, used, (whole,))
        k = max(range(len(box)), key=lambda i: float(box[i][1] - box[i][0]))
        (a, b), middle = box[k], middles[k].mid()
        halves = (a, middle), (middle, b)
        pending += [((*box[:k], half, *box[k + 1 :]), depth + 1) for half in halves]
    return Part(True, used, (whole,))


def certain(yes: object, no: object) -> bool | None:
    """Truth value from two comparisons of balls, each true only if certain; None if unknown.

    >>> import attnverify as av
    >>> one, near = av.ops.balls([1, 2])
    >>> av.certain(one < near, one >= near)
    True
    """
    return True if yes else False if no else None


def both(*parts: Part | tuple[bool | None, int]) -> Part:
    """All parts of an argument together, on the boxes of each in turn.

    False if a part is false, else unknown (None) if a part is unknown or there is none, else True.
    """
    answers = [part[0] for part in parts]
    holds = False if False in answers else None if None in answers or not parts else True
    boxes = tuple(box for part in parts if isinstance(part, Part) for box in part.boxes)
    return Part(holds, sum(part[1] for part in parts), boxes)


def joined(*parts: Part) -> Part:
    """As :func:`both`, on the one box that all boxes make up along their first side.

    Unknown where there is a gap between two of them, or another side differs.
    """
    holds, cases, boxes = both(*parts)
    ((low, reach), *others), *rest = sorted(boxes, key=lambda box: float(box[0][0]))
    for (start, end), *sides in rest:
        holds = holds if start <= reach and sides == others else holds and None
        reach = end if end > reach else reach
    return Part(holds, cases, (((low, reach), *others),))


def cover(found: tuple[Box, ...], said: tuple[Box, ...]) -> bool:
    """Whether each box said is in the one found in its place, up to the radii of its ends."""
    if len(found) < len(said):
        return False
    sides = (pair for boxes in zip(found, said) for pair in zip(*boxes, strict=True))  # noqa: B905
    return all(a <= low.upper() and high.lower() <= b for (a, b), (low, high) in sides)


def in_words(boxes: tuple[Box, ...]) -> str:
    """Boxes in words, each with how often it comes: "; it covers [0, inf] (3 times)"; or ""."""
    named = Counter(" x ".join(f"[{float(a):g}, {float(b):g}]" for a, b in box) for box in boxes)
    each = (name + f" ({count} times)" * (count > 1) for name, count in named.items())
    return "; it covers " * bool(boxes) + ", ".join(each)

"""Answers of criteria: True, False, or None where what was measured does not decide."""

from __future__ import annotations

import math
from collections.abc import Iterable

Answer = bool | None
Number = float | int


def all_of(answers: Iterable[Answer]) -> Answer:
    """False if one is False, else None if one is None or there is none at all, else True."""
    found = list(answers)
    if any(answer is False for answer in found):
        return False
    return None if not found or None in found else True


def any_of(answers: Iterable[Answer]) -> Answer:
    """True if one is True, else None if one is None or there is none at all, else False."""
    found = list(answers)
    if any(answer is True for answer in found):
        return True
    return None if not found or None in found else False


def at_most(value: Number, limit: Number) -> Answer:
    """value <= limit; None if the value is NaN. An infinite one is too large."""
    return None if math.isnan(value) else value <= limit


def above(value: Number | None, limit: Number) -> Answer:
    """value > limit; None if one of the two is missing, NaN or infinite: nothing is decided by
    what overflowed."""
    if value is None or not (math.isfinite(value) and math.isfinite(limit)):
        return None
    return value > limit


def at_least(value: Number | None, limit: Number) -> Answer:
    """value >= limit, decided as by :func:`above`."""
    short = None if value is None else above(limit, value)
    return None if short is None else not short


def below(value: Number | None, limit: Number) -> Answer:
    """value < limit, decided as by :func:`above`."""
    return None if value is None else above(-value, -limit)

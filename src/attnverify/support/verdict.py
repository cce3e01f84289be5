"""The outcome of a decision by a computation or a criterion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """Outcome of a decision: holds is None where it stayed unknown.

    argument: in words, what was computed; cases: how many; ratio: the largest left/right, if any;
    over: the boxes that were covered (:mod:`attnverify.arithmetic.interval_cover`).

    >>> import attnverify as av
    >>> av.Verdict(True, "all pairs of digits, in whole numbers", cases=100).holds
    True
    """

    holds: bool | None
    argument: str
    cases: int = 1
    ratio: float | None = None
    over: tuple[Any, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What a file of results says of it."""
        return {k: getattr(self, k) for k in ("holds", "argument", "cases", "ratio")}

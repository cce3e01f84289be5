"""The outcome of a decision by a computation or a criterion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """Outcome of a decision: holds is None where it stayed unknown."""

    holds: bool | None
    argument: str
    cases: int = 1
    ratio: float | None = None

"""What a piece of evidence says, in a form that can be printed, stored and compared."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from attnverify.vocabulary import KINDS as KINDS
from attnverify.vocabulary import Kind as Kind
from attnverify.vocabulary import Outcome as Outcome


@dataclass(frozen=True)
class Record:
    """One piece of evidence for one claim.

    ratio: the largest left/right (inequalities) or error/rounding bound (identities) seen, None
    where there is none; instances: how many instances or cases were looked at; seconds: wall
    time; limits: what this evidence does not show; check: which of the claim's checks; detail:
    the figures behind the outcome in words.
    """

    kind: Kind
    check: str
    outcome: Outcome
    ratio: float | None
    instances: int
    seconds: float
    limits: str
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class TwinRecord:
    """Whether a false neighbor of a claim was rejected by the checker that passes the claim."""

    check: str
    twin: str
    rejected: bool
    ratio: float | None
    detail: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

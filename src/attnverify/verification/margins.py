"""How far a claim is from being false: the best ratio found, and the nearest refuted factors.

Records are mappings, as reports hold them (:meth:`attnverify.checking.records.Record.as_json`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attnverify.checking.ball_comparison import ATTAINED
from attnverify.checking.check import Identity, Inequality
from attnverify.topics.lookup import CHECKS


def measure(id: str, check: str) -> str:
    """What the ratio of a check's records is: left/right, error/rounding bound, or a ratio."""
    found = CHECKS.get(id, {}).get(check)
    if isinstance(found, Inequality):
        return "left/right"
    return "error/bound" if isinstance(found, Identity) else "ratio"


def best_ratio(id: str, records: Iterable[Mapping[str, Any]]) -> float | None:
    """The largest left/right found for the inequalities of a claim, None if it has none.

    Certificates look at what searches found again, so what they say counts, where there are any.
    """
    found = [r for r in records if measure(id, r["check"]) == "left/right"]
    found = [r for r in found if r["ratio"] is not None]
    certified = [r["ratio"] for r in found if r["kind"] == "certified"]
    return max(certified or [r["ratio"] for r in found], default=None)


def at_equality(id: str, record: Mapping[str, Any]) -> bool:
    """Whether the best certified ratio of an inequality that passed is within 2^-40 of 1."""
    if record["kind"] != "certified" or measure(id, record["check"]) != "left/right":
        return False
    near = record["ratio"] is not None and abs(record["ratio"] - 1) < ATTAINED
    return record["outcome"] == "pass" and near


def false_at(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The factors of the right sides with which the inequalities are certainly false."""
    found = (r["refuted_at"] for r in records)
    return [f"{factor:.4g}" for factor in found if factor is not None]

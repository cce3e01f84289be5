"""How far a claim is from being false: the best ratio found, and the nearest refuted factors.

Records are mappings, as reports hold them (:meth:`attnverify.checking.records.Record.as_json`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attnverify.checking.records import ATTAINED
from attnverify.verification.claim import Registry

MEASURES = {"Inequality": "left/right"}


def measure(registry: Registry, id: str, check: str) -> str:
    """What the ratio of a check's records is: left/right, or a ratio.

    Also for a check that is none of the claim's, as the notebook of a derivation.
    """
    found = registry.described(id).get(check) if id in registry else None
    return MEASURES.get(found.form if found else "", "ratio")


def best_ratio(registry: Registry, id: str, records: Iterable[Mapping[str, Any]]) -> float | None:
    """The largest left/right found for the inequalities of a claim, None if it has none.

    Certificates look at what searches found again, so what they say counts, where there are any.
    """
    found = [r for r in records if measure(registry, id, r["check"]) == "left/right"]
    found = [r for r in found if r["ratio"] is not None]
    certified = [r["ratio"] for r in found if r["kind"] == "certified"]
    return max(certified or [r["ratio"] for r in found], default=None)


def at_equality(registry: Registry, id: str, record: Mapping[str, Any]) -> bool:
    """Whether the best certified ratio of an inequality that passed is within 2^-40 of 1."""
    if record["kind"] != "certified" or measure(registry, id, record["check"]) != "left/right":
        return False
    near = record["ratio"] is not None and abs(record["ratio"] - 1) < ATTAINED
    return record["outcome"] == "pass" and near


def false_at(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The factors of the right sides with which the inequalities are certainly false."""
    found = (r["refuted_at"] for r in records)
    return [f"{factor:.4g}" for factor in found if factor is not None]

"""Gather the evidence for one claim: every check, every kind asked for, every twin."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from attnverify.checks import checks_of
from attnverify.evidence.certify import certify, certify_identity
from attnverify.evidence.exact import compare
from attnverify.evidence.forms import Check, Decision, Identity, Inequality, Instance, Measured
from attnverify.evidence.records import KINDS, Kind, Record, TwinRecord
from attnverify.evidence.search import Found, Settings, attack, sample, sample_identity
from attnverify.experiments.engine import results

LIMITS = {
    "sampled": "no counterexample among these instances",
    "attacked": "no counterexample found by this search",
    "certified": "these instances",
}


@dataclass(frozen=True)
class ClaimEvidence:
    """All numerical evidence gathered for one claim in one run."""

    claim: str
    records: tuple[Record, ...]
    twins: tuple[TwinRecord, ...]


def gather(claim: str, settings: Settings, kinds: Iterable[Kind] = KINDS) -> ClaimEvidence:
    """Run every check of a claim. One thread and seeds by name: the same figures every time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        records, twins = [], []
        for name, check in checks_of(claim).items():
            records += _records(claim, name, check, settings, set(kinds))
            twins += [_twin(claim, name, t.title, t.check, settings) for t in check.twins]
        return ClaimEvidence(claim, tuple(records), tuple(twins))
    finally:
        torch.set_num_threads(threads)


def _records(claim, name, check: Check, settings: Settings, kinds: set[str]) -> list[Record]:
    label = f"{claim}/{name}"
    if isinstance(check, Measured):
        wanted = "measured" in kinds
        return [_timed("measured", name, lambda: _judge(check), check.limits)] if wanted else []
    if isinstance(check, Decision):
        return (
            [_timed(check.kind, name, lambda: _decide(check), check.limits)]
            if check.kind in kinds
            else []
        )
    if isinstance(check, Identity):
        steps = {
            "sampled": lambda: sample_identity(check, settings, label),
            "certified": lambda: certify_identity(check, settings, label),
        }
        return [_timed(k, name, step, LIMITS[k]) for k, step in steps.items() if k in kinds]
    return _inequality_records(name, label, check, settings, kinds)


def _inequality_records(name, label, check: Inequality, settings, kinds) -> list[Record]:
    found: list[Instance] = []

    def keep(result: Found) -> Found:
        if result.instance is not None:
            found.append(result.instance)
        return result

    steps = {
        "sampled": lambda: keep(sample(check, settings, label)),
        "attacked": lambda: keep(attack(check, settings, label)),
        "certified": lambda: certify(check, settings, label, found),
    }
    return [_timed(k, name, step, LIMITS[k]) for k, step in steps.items() if k in kinds]


def _decide(check: Decision) -> Found:
    verdict = check.run()
    outcome = {True: "pass", False: "fail", None: "unknown"}[verdict.holds]
    return Found(outcome, verdict.ratio, None, verdict.cases, verdict.argument)


def _judge(check: Measured) -> Found:
    """The criterion on the committed table: passes if it comes out as the book says."""
    verdict = check.judge(results.committed(check.experiment).rows)
    asserted = None if verdict.holds is None else verdict.holds is check.expected
    outcome = {True: "pass", False: "fail", None: "unknown"}[asserted]
    return Found(outcome, verdict.ratio, None, verdict.cases, verdict.argument)


def _timed(kind: Kind, name: str, step: Callable[[], Found], limits: str) -> Record:
    start = time.perf_counter()
    found = step()
    seconds = round(time.perf_counter() - start, 3)
    return Record(
        kind, name, found.outcome, found.ratio, found.instances, seconds, limits, found.detail
    )


def _twin(claim: str, name: str, title: str, check: Check, settings: Settings) -> TwinRecord:
    rejected, ratio, detail = reject(check, settings, f"{claim}/{name}/{title}")
    return TwinRecord(name, title, rejected, ratio, detail)


def reject(check: Check, settings: Settings, label: str) -> tuple[bool, float | None, str]:
    """Whether the checker finds the statement false, for certain: (rejected, ratio, how)."""
    if isinstance(check, Decision | Measured):
        found = _decide(check) if isinstance(check, Decision) else _judge(check)
        return found.outcome == "fail", found.ratio, found.detail
    if isinstance(check, Identity):
        found = certify_identity(check, settings, label)
        return found.outcome == "fail", None, found.detail
    for make in check.extremal:
        seen = compare(check, make())
        if seen.outcome == "fail":
            return True, seen.midpoint, f"extremal instance, left/right = {seen.ratio.str(8)}"
    for search in (attack, sample):
        found = search(check, settings, label)
        if found.outcome == "fail":
            return True, found.ratio, found.detail
    return False, found.ratio, "no certain violation found"

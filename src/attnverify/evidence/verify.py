"""A whole verification run: claims in parallel, derivations, statuses, one report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from typing import Any

from attnverify.claims import Claim, registry
from attnverify.environment import machine, versions
from attnverify.evidence import derive
from attnverify.evidence.records import KINDS, Kind, Record, TwinRecord, require_kinds
from attnverify.evidence.run import ClaimEvidence, gather
from attnverify.evidence.search import Settings
from attnverify.evidence.status import Standing, own, standings

REPORT_VERSION = 1

Progress = Callable[[str], None]


@dataclass
class Report:
    """Evidence and status of the selected claims and of those they rest on, in registry order."""

    claims: list[Claim]
    records: dict[str, list[Record]]
    twins: dict[str, list[TwinRecord]]
    settings: Settings
    standing: dict[str, Standing] = field(default_factory=dict)

    @property
    def as_claimed(self) -> bool:
        """No check failed or stayed unknown, and every twin that ran was rejected."""
        outcomes = {r.outcome for records in self.records.values() for r in records}
        rejected = all(t.rejected for twins in self.twins.values() for t in twins)
        return outcomes <= {"pass"} and rejected

    def as_json(self) -> dict[str, Any]:
        return {
            "version": REPORT_VERSION,
            "environment": environment(),
            "settings": asdict(self.settings),
            "claims": [self._claim_json(claim) for claim in self.claims],
        }

    def _claim_json(self, claim: Claim) -> dict[str, Any]:
        standing = self.standing[claim.id]
        return {
            "id": claim.id,
            "kind": claim.kind,
            "title": claim.title,
            "source": claim.source,
            "status": standing.status,
            "reasons": list(standing.reasons),
            "uses": list(claim.uses),
            "evidence": [r.as_json() for r in self.records[claim.id]],
            "twins": [t.as_json() for t in self.twins[claim.id]],
        }


def environment() -> dict[str, str]:
    """Versions and machine kind that produced a report."""
    kind = machine()
    return {"machine": f"{kind['system']} {kind['architecture']}", **versions()}


def verify(
    patterns: Sequence[str],
    settings: Settings,
    kinds: Sequence[str] = KINDS,
    *,
    scheduler: str | None = None,
    jobs: int | None = None,
    progress: Progress = lambda message: None,
) -> Report:
    """Check the claims that match ``patterns`` (ids or globs; none means all).

    What they rest on and what corrects them is checked too: their statuses depend on it.
    settings: how hard to search; kinds: which evidence to gather; scheduler: address of a dask
    scheduler, else ``jobs`` local processes (default: one a core); progress: called with the name
    of every finished piece. Equal settings give equal evidence, except for times.
    """
    require_kinds(kinds)
    claims = registry.completed(registry.select(patterns))
    report = Report(claims, {c.id: [] for c in claims}, {c.id: [] for c in claims}, settings)
    tasks: list[tuple[Callable, tuple]] = []
    if "derived" in kinds:
        tasks += [(derive.run, (name,)) for name in _deriving(claims)]
    numerical = [kind for kind in kinds if kind != "derived"]
    if numerical:
        tasks += [(gather, (claim.id, settings, numerical)) for claim in claims]
    for result in _run_all(tasks, scheduler, jobs):
        _take(report, result)
        progress(
            result.claim if isinstance(result, ClaimEvidence) else f"notebook {result.notebook}"
        )
    for claim in claims:  # the order of arrival depends on the machine, the report must not
        report.records[claim.id].sort(key=_place)
        report.twins[claim.id].sort(key=lambda t: (t.check, t.twin))
    alone = {c.id: own(c, report.records[c.id], report.twins[c.id]) for c in claims}
    report.standing = standings(registry, alone)
    return report


def tasks_in(patterns: Sequence[str], kinds: Sequence[Kind]) -> int:
    """Number of pieces :func:`verify` reports progress for."""
    claims = registry.completed(registry.select(patterns))
    notebooks = len(_deriving(claims)) if "derived" in kinds else 0
    return notebooks + (len(claims) if set(kinds) - {"derived"} else 0)


def _deriving(claims: Sequence[Claim]) -> list[str]:
    """The notebooks of the claims that are derived, each once."""
    return list(dict.fromkeys(c.notebook for c in claims if c.derived))


def _place(record: Record) -> tuple[int, str]:
    return KINDS.index(record.kind), record.check


def _take(report: Report, result: ClaimEvidence | derive.NotebookRun) -> None:
    if isinstance(result, ClaimEvidence):
        report.records[result.claim] += result.records
        report.twins[result.claim] += result.twins
        return
    for claim in report.claims:
        if claim.derived and claim.notebook == result.notebook:
            records, twins = derive.records(claim.id, result)
            report.records[claim.id] += records
            report.twins[claim.id] += twins


def _run_all(tasks, scheduler: str | None, jobs: int | None) -> Iterator[Any]:
    if scheduler is not None:
        yield from _run_on_cluster(tasks, scheduler)
        return
    jobs = jobs or os.cpu_count() or 1
    if jobs == 1 or len(tasks) == 1:
        yield from (function(*arguments) for function, arguments in tasks)
        return
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=get_context("spawn")) as pool:
        futures: list[Future] = [pool.submit(function, *arguments) for function, arguments in tasks]
        yield from (future.result() for future in as_completed(futures))


def _run_on_cluster(tasks, scheduler: str) -> Iterator[Any]:
    from distributed import Client, as_completed  # an optional dependency, extra "cluster"

    with Client(scheduler) as client:
        futures = [client.submit(function, *arguments, pure=False) for function, arguments in tasks]
        for future in as_completed(futures):
            yield future.result()

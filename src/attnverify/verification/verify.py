"""A whole verification run: claims in parallel, derivations, statuses, one report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from attnverify.checking.check import Inequality
from attnverify.checking.gather import ClaimEvidence, gather
from attnverify.checking.records import Record, TwinRecord, require_kinds
from attnverify.checking.search import Settings
from attnverify.derivation import notebook_sources as notebooks
from attnverify.derivation import run_cells
from attnverify.runtime.cache import Store
from attnverify.runtime.workers import Task, run_all
from attnverify.support.environment import machine, versions
from attnverify.support.tables import Table
from attnverify.support.vocabulary import KINDS, REPORT_VERSION, Kind
from attnverify.topics import Claim, registry
from attnverify.topics.lookup import checks_of
from attnverify.verification import claim_files, formal, printing
from attnverify.verification.reuse import Reuse, name_of
from attnverify.verification.status import Standing, own, standings

Progress = Callable[[str], None]


@dataclass
class Report:
    """Evidence and status of the selected claims and of those they rest on, in registry order."""

    claims: list[Claim]
    records: dict[str, list[Record]]
    twins: dict[str, list[TwinRecord]]
    settings: Settings
    standing: dict[str, Standing] = field(default_factory=dict)
    derivations: list[notebooks.Source] = field(default_factory=list)
    interrupted: bool = False
    reused: int = 0  # pieces taken from a store

    @property
    def as_claimed(self) -> bool:
        """The run is whole, its evidence passed, and every twin that ran was rejected.

        A run that gathered nothing shows nothing.
        """
        outcomes = {r.outcome for records in self.records.values() for r in records}
        rejected = all(t.rejected for twins in self.twins.values() for t in twins)
        return outcomes == {"pass"} and rejected and not self.interrupted

    def __str__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self) -> Table:
        """A line a claim, as the command prints them, under the verdict."""
        rows = [printing.report_row(self, claim.id) for claim in self.claims]
        return Table(printing.verdict(self), printing.COLUMNS, rows)

    def as_json(self) -> dict[str, Any]:
        return {
            "version": REPORT_VERSION,
            "environment": environment(),
            "settings": asdict(self.settings),
            "derivations": {
                s.notebook: {"origin": s.origin, "sha256": s.sha256} for s in self.derivations
            },
            "interrupted": self.interrupted,
            "reused": self.reused,
            "claims": [self._claim_json(claim) for claim in self.claims],
        }

    def _claim_json(self, claim: Claim) -> dict[str, Any]:
        standing = self.standing[claim.id]
        file = claim_files.file_of(claim.id)
        return {
            "id": claim.id,
            **({"file": {"name": file.name, "sha256": file.sha256}} if file else {}),
            "kind": claim.kind,
            "title": claim.title,
            "source": claim.source,
            "status": standing.status,
            "reasons": list(standing.reasons),
            "uses": list(claim.uses),
            "evidence": [r.as_json() for r in self.records[claim.id]],
            "twins": [t.as_json() for t in self.twins[claim.id]],
        }


class Interrupted(KeyboardInterrupt):
    """A run was interrupted; ``report`` has what was gathered until then."""

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted")
        self.report = report


def environment() -> dict[str, str]:
    """Versions and machine kind that produced a report."""
    kind = machine()
    return {"machine": f"{kind['system']} {kind['architecture']}", **versions()}


def verify(
    patterns: str | Sequence[str],
    settings: Settings | None = None,
    kinds: Sequence[str] = KINDS,
    *,
    scheduler: str | None = None,
    jobs: int | None = None,
    progress: Progress = lambda message: None,
    notebooks_folder: Path | None = None,
    store: Store | None = None,
    limit: int | float = claim_files.LIMIT,
) -> Report:
    """Check the claims that match ``patterns`` (one or several ids or globs; none means all).

    A path of a Python file stands for the claims that it states, each piece of which may take
    ``limit`` seconds (:mod:`attnverify.verification.claim_files`).
    What they rest on and what corrects them is checked too: their statuses depend on it.
    settings: how hard to search (default: as hard as the command); kinds: which evidence to gather;
    scheduler: address of a dask scheduler, else ``jobs`` local processes (default: one a core);
    progress: called with the name of every finished piece; notebooks_folder: derivations to run in
    place of the package's own; store: pieces that were found complete before are taken from it,
    unless something that they depend on changed, and new ones are put there (not with a scheduler
    or on another device: their machines are not this one). Equal settings give equal evidence,
    except for times. An interrupt (Ctrl-C) raises :class:`Interrupted`, with the report so far.
    """
    require_kinds(kinds)
    settings = settings or Settings()
    claims = registry.completed(registry.select(_ids(patterns, limit)))
    own = [c for c in claims if claim_files.file_of(c.id) is None]
    report = Report(claims, {c.id: [] for c in claims}, {c.id: [] for c in claims}, settings)
    tasks: list[Task] = []
    if "derived" in kinds:
        report.derivations = [notebooks.load(n, notebooks_folder) for n in _deriving(own)]
        tasks += [Task(f"notebook {s.notebook}", run_cells.run, (s,)) for s in report.derivations]
    numerical = _numerical(kinds)
    if numerical:
        # The longest first, so that no process is left alone with one at the end.
        longest_first = sorted(own, key=lambda claim: _size(claim.id), reverse=True)
        tasks += [Task(c.id, gather, (c.id, settings, numerical)) for c in longest_first]
    brought = claim_files.tasks(claims, settings, kinds, limit)
    if "formal" in kinds:
        _read_proofs(report)
    here = store if scheduler is None and settings.device == "cpu" else None
    kept = Reuse(tasks, here)
    report.reused = len(kept.found)
    try:
        with closing(run_all([*kept.missing, *brought], scheduler, jobs)) as results:
            for result in chain(kept.found, kept.keep(results)):
                _take(report, result)
                progress(name_of(result))
    except KeyboardInterrupt:
        report.interrupted = True
        raise Interrupted(_judged(report)) from None
    return _judged(report)


def _judged(report: Report) -> Report:
    """The report in a fixed order and with its statuses."""
    for claim in report.claims:  # the order of arrival depends on the machine, the report must not
        report.records[claim.id].sort(key=_place)
        report.twins[claim.id].sort(key=lambda t: (t.check, t.twin))
    alone = {c.id: own(c, report.records[c.id], report.twins[c.id]) for c in report.claims}
    report.standing = standings(registry, alone)
    return report


def _ids(patterns: str | Sequence[str], limit: int | float) -> list[str]:
    """The patterns; what names claims from outside brings them in."""
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return [id for pattern in patterns for id in claim_files.ask(pattern, limit)]


def tasks_in(
    patterns: Sequence[str], kinds: Sequence[Kind], limit: int | float = claim_files.LIMIT
) -> int:
    """Number of pieces :func:`verify` reports progress for."""
    claims = registry.completed(registry.select(_ids(patterns, limit)))
    own = [c for c in claims if claim_files.file_of(c.id) is None]
    notebooks = len(_deriving(own)) if "derived" in kinds else 0
    found = notebooks + (len(own) if _numerical(kinds) else 0)
    return found + len(claim_files.tasks(claims, None, kinds, limit))


def _size(claim: str) -> int:
    """How many arrays the searches of a claim move: an estimate of how long its evidence takes."""
    searched = (c for c in checks_of(claim).values() if isinstance(c, Inequality))
    return sum(len(sizes) for check in searched for sizes in check.sizes)


def _numerical(kinds: Sequence[str]) -> list[str]:
    """The kinds that the checks of a claim gather, in a piece a claim."""
    return [kind for kind in kinds if kind not in ("derived", "formal")]


def _read_proofs(report: Report) -> None:
    """What the record of the formal proofs says of each claim: reading it takes no task."""
    for claim in report.claims:
        records, twins = formal.evidence_of(claim.id)
        report.records[claim.id] += records
        report.twins[claim.id] += twins


def _deriving(claims: Sequence[Claim]) -> list[str]:
    """The notebooks of the claims that are derived, each once."""
    return list(dict.fromkeys(c.notebook for c in claims if c.derived))


def _place(record: Record) -> tuple[int, str]:
    return KINDS.index(record.kind), record.check


def _take(report: Report, result: ClaimEvidence | run_cells.NotebookRun) -> None:
    if isinstance(result, ClaimEvidence):
        report.records[result.claim] += result.records
        report.twins[result.claim] += result.twins
        return
    for claim in report.claims:
        if claim.derived and claim.notebook == result.notebook:
            reviewed = claim_files.file_of(claim.id) is None
            records, twins = run_cells.records(claim.id, result, reviewed=reviewed)
            report.records[claim.id] += records
            report.twins[claim.id] += twins

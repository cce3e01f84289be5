"""A whole verification run: claims in parallel, derivations, statuses, one report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path

from attnverify.checking.records import ClaimEvidence, Record, Settings, require_kinds
from attnverify.derivation import notebook_sources, run_cells
from attnverify.runtime.cache import Store
from attnverify.runtime.tasks import Task
from attnverify.runtime.workers import run_all
from attnverify.support.vocabulary import KINDS
from attnverify.verification import claim_files, derived_evidence, formal
from attnverify.verification.claim import Claim, Registry
from attnverify.verification.report import Interrupted, Report
from attnverify.verification.reuse import Reuse, name_of
from attnverify.verification.status import derived

Progress = Callable[[str], None]
LIMIT = claim_files.LIMIT


def verify(
    registry: Registry,
    patterns: str | Sequence[str],
    settings: Settings | None = None,
    kinds: Sequence[str] = KINDS,
    *,
    jobs: int | None = None,
    progress: Progress = lambda message: None,
    notebooks_folder: Path | None = None,
    store: Store | None = None,
    limit: int | float = LIMIT,
) -> Report:
    """Check the claims that match ``patterns`` (one or several ids or globs; none means all).

    A path of a Python file stands for the claims that it states, which join the registry; each
    piece of them may take ``limit`` seconds (:mod:`attnverify.verification.claim_files`).
    What they rest on and what corrects them is checked too: their statuses depend on it.
    settings: how hard to search (default: as hard as the command); kinds: which evidence to gather;
    jobs: processes (default: one a core); progress: called with the name of every finished piece;
    notebooks_folder: derivations to run in place of the package's own; store: pieces that were
    found complete before are taken from it, unless something that they depend on changed, and new
    ones are put there (not on another device). Equal settings give equal evidence, except for
    times. An interrupt (Ctrl-C) raises ``Interrupted``, with the report so far.

    Raises InputError for an unknown id, kind or setting, RunError for a run that cannot be
    finished.

    >>> import attnverify as av
    >>> report = av.verify("paths.count", kinds=["certified"], jobs=1)
    >>> report.standing["paths.count"].status  # of one kind of evidence alone
    'partial'
    >>> [twin.rejected for twin in report.twins["paths.count"]]
    [True, True]
    """
    require_kinds(kinds)
    if notebooks_folder is not None:  # also where no claim asks for them
        notebook_sources.place(notebooks_folder)
    settings = settings or Settings()
    claims = _asked(registry, patterns, limit)
    records, twins = ({c.id: [] for c in claims} for _ in range(2))
    report = Report(registry, claims, records, twins, settings)
    pieces = _pieces(registry, claims, settings, kinds, notebooks_folder, limit)
    report.derivations = [t.arguments[0] for t in pieces if t.function is run_cells.run]
    if "formal" in kinds:
        _read_proofs(report)
    here = store if settings.device == "cpu" else None
    kept = Reuse(pieces, here, registry)
    report.reused = len(kept.found)
    try:
        with closing(run_all(kept.missing, jobs)) as results:
            for result in chain(kept.found, kept.keep(results)):
                _take(report, result)
                progress(name_of(result))
    except KeyboardInterrupt:
        report.interrupted = True
        raise Interrupted(_judged(report)) from None
    return _judged(report)


def tasks_in(
    registry: Registry, patterns: Sequence[str], kinds: Sequence[str], limit: int | float = LIMIT
) -> int:
    """Number of pieces that :func:`verify` reports progress for."""
    claims = _asked(registry, patterns, limit)
    return len(_pieces(registry, claims, Settings(), kinds, None, limit))


def _asked(registry: Registry, patterns: str | Sequence[str], limit: int | float) -> list[Claim]:
    """The claims that are asked for and those that their statuses depend on; files are joined."""
    patterns = [patterns] if isinstance(patterns, str) else patterns
    ids = [id for pattern in patterns for id in claim_files.ask(registry, pattern, limit)]
    return registry.completed(registry.select(ids))


def _pieces(
    registry: Registry,
    claims: Sequence[Claim],
    settings: Settings,
    kinds: Sequence[str],
    folder: Path | None,
    limit: int | float,
) -> list[Task]:
    """The pieces of a run: one a notebook or file that derives something, then one a claim.

    Claims with the most code to check them come first: they take longest, so that no process is
    left alone with one at the end.
    """
    files = {claim.id: claim_files.file_of(registry, claim.id) for claim in claims}
    found: dict[str, Task] = {}  # of the same name: the same notebook
    for claim in claims if "derived" in kinds else ():
        name, file = f"notebook {claim.notebook}", files[claim.id]
        if file is None and claim.derived and name not in found:
            source = notebook_sources.load(claim.notebook, folder)
            found[name] = Task(name, run_cells.run, (source, registry))
        elif file is not None and file.derives:
            found[name] = Task(name, claim_files.derive, (file, registry), limit)
    numerical = [kind for kind in kinds if kind not in ("derived", "formal")]
    for claim in sorted(claims, key=partial(_code, registry), reverse=True) if numerical else ():
        gather, limited = registry.origin_of(claim.id).gather, files[claim.id] is not None
        asked = claim.id, settings, numerical
        found[claim.id] = Task(claim.id, gather, asked, limit if limited else None)
    return list(found.values())


def _code(registry: Registry, claim: Claim) -> int:
    """Letters of the cells that check a claim; 0 where they are in a file from outside."""
    return sum(map(len, registry.origin_of(claim.id).cells(claim.id) or ()))


def _judged(report: Report) -> Report:
    """The report in a fixed order and with its statuses."""
    for claim in report.claims:  # the order of arrival depends on the machine, the report must not
        report.records[claim.id].sort(key=_place)
        report.twins[claim.id].sort(key=lambda t: (t.check, t.twin))
    report.standing = derived(report.registry, report.records, report.twins)
    return report


def _read_proofs(report: Report) -> None:
    """What the record of the formal proofs says of each claim: reading it takes no task."""
    for claim in report.claims:
        records, twins = formal.evidence_of(claim.id, statement=claim.digest)
        report.records[claim.id] += records
        report.twins[claim.id] += twins


def _place(record: Record) -> tuple[int, str]:
    return KINDS.index(record.kind), record.check


def _take(report: Report, result: ClaimEvidence | run_cells.NotebookRun) -> None:
    if isinstance(result, ClaimEvidence):
        report.registry.tell(result.claim, result.checks)
        report.records[result.claim] += result.records
        report.twins[result.claim] += result.twins
        return
    for claim in report.claims:
        if claim.derived and claim.notebook == result.notebook:
            reviewed = claim_files.file_of(report.registry, claim.id) is None
            records, twins = derived_evidence.records(claim, result, reviewed)
            report.records[claim.id] += records
            report.twins[claim.id] += twins

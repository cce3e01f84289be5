"""What the command prints: tables of claims, reports, progress, on any terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from attnverify.support.errors import printable
from attnverify.support.vocabulary import STATUS_COLORS

if TYPE_CHECKING:
    from rich.progress import Progress

    from attnverify.derivation.notebook_sources import Source
    from attnverify.verification.report import Report

#: Columns for the longest id and a little of all else, so that no id is cut; terminals wrap lines.
NARROWEST = 60
PIPED = 110  # as wide as the widest table needs


out = Console()
errors = Console(stderr=True)


def start() -> None:
    """Fit the consoles to where they print, and what is printed to the encoding there."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed
            setattr(sys, name, open(os.devnull, "w"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    for console, found in ((out, Console()), (errors, Console(stderr=True))):
        console.width = max(found.width, NARROWEST) if found.is_terminal else PIPED


def flush() -> None:
    """Hand over what was printed; a reader that has left (head) is no error."""
    try:
        sys.stdout.flush()
    except OSError as failure:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the rest of it
        if not isinstance(failure, BrokenPipeError):
            raise


def error(message: object) -> None:
    """One line on standard error."""
    line = printable(f"attnverify: {message}")
    Console(stderr=True, soft_wrap=True).print(line, style="red", markup=False, highlight=False)


def as_json(value: Any) -> str:
    """JSON for standard output, escaped where the encoding is no Unicode."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(value, indent=1, ensure_ascii=not unicode)


def table(first: str, *columns: str) -> Table:
    """A table whose first column, the id, is never cut."""
    made = Table(box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    made.add_column(first, no_wrap=True)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def progress_bar() -> Progress:
    """A bar on standard error that vanishes when the work is done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    return Progress(*columns, console=errors, transient=True)


def print_report(report: Report, to: Console) -> None:
    """The table of the claims, every piece that did not pass, the reasons, the verdict."""
    from attnverify.checking.records import BEYOND
    from attnverify.verification.claim_files import file_of

    rows = [report.row(claim.id) for claim in report.claims]
    shown = table(*rows[0])
    for row in rows:
        status = f"[{STATUS_COLORS[row['status']]}]{row['status']}[/]"
        shown.add_row(*(row | {"status": status}).values())
    to.print(shown)
    if any(record.refuted_at for c in report.claims for record in report.records[c.id]):
        to.print(FALSE_AT, markup=False, highlight=False)
    for claim in report.claims:
        for record in report.records[claim.id]:
            if record.outcome != "pass":
                where = f"{claim.id}, {record.kind} ({record.check})"
                line = f"{record.outcome}: {where}: {record.detail}"
                to.print(line, markup=False, style="red")
            elif BEYOND in record.detail:
                line = f"a search found more: {claim.id} ({record.check}): {record.detail}"
                to.print(line, markup=False, highlight=False, soft_wrap=True)
        if any(", at " in r.detail for r in report.records[claim.id] if r.outcome == "fail"):
            file = file_of(report.registry, claim.id)
            command = f"attnverify attack {claim.id} --save FILE"
            command += f" --claims {file.name}" if file else ""
            to.print(f"the worst instance whole: {command}", markup=False, soft_wrap=True)
        for reason in report.standing[claim.id].reasons:
            to.print(f"{claim.id}: {reason}", markup=False)
        for line in _of_its_own(report, claim.id):
            to.print(f"{claim.id}: {line}", markup=False, highlight=False, soft_wrap=True)
    for line in _origins(report.derivations):
        to.print(line, markup=False, highlight=False, soft_wrap=True)
    if report.reused:
        words = "pieces of evidence were found before (--fresh: find them again)"
        to.print(f"{report.reused} {words}", markup=False)
    if report.interrupted:
        to.print("interrupted: what was not finished is not checked", style="red")
    to.print(report.verdict(), markup=False)


def _of_its_own(report: Report, id: str) -> Iterator[str]:
    """What no reader of a claim from outside has seen: the sizes tried, and the derivation."""
    from attnverify.verification.claim_files import SIZES, file_of

    if file_of(report.registry, id):
        sizes = {r.check: r.limits.partition(SIZES)[2] for r in report.records[id]}
        if any(sizes.values()):
            yield "sizes tried: " + "; ".join(f"{s} ({name})" for name, s in sizes.items() if s)
        if any((r.kind, r.outcome) == ("derived", "pass") for r in report.records[id]):
            yield "nobody but its author has read the derivation"


def _origins(sources: Sequence[Source]) -> list[str]:
    """Where the derivations came from; the digests of many are left to the JSON report."""
    found = [s for s in sources if s.found]
    if len(found) > 3:
        return [
            f"derivations: {[s.origin for s in found].count(origin)} notebooks, {origin} (--json "
            "writes the SHA-256 of each)"
            for origin in dict.fromkeys(s.origin for s in found)
        ]
    return [f"derivations: {s.notebook}.md, {s.origin}, SHA-256 {s.sha256}" for s in found]


#: What stands in the column of the factors.
FALSE_AT = (
    "false at: factors of the right sides with which the inequalities are certainly false, one "
    "each;\nthe best constant is above this share of the stated one, and at most the stated one if "
    "verified"
)

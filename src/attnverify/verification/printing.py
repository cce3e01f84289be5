"""What the command prints: tables of claims, reports, progress, on any terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from attnverify.support.vocabulary import STATUS_COLORS, tally

if TYPE_CHECKING:
    from rich.progress import Progress

    from attnverify.checking.records import Record
    from attnverify.derivation.notebook_sources import Source
    from attnverify.verification.verify import Report

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
    line = f"attnverify: {message}"
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
    shown = table(*COLUMNS)
    for claim in report.claims:
        first, status, *others = report_row(report, claim.id)
        shown.add_row(first, f"[{STATUS_COLORS[status]}]{status}[/]", *others)
    to.print(shown)
    to.print(FALSE_AT, markup=False, highlight=False)
    for claim in report.claims:
        for record in report.records[claim.id]:
            if record.outcome != "pass":
                where = f"{claim.id}, {record.kind} ({record.check})"
                line = f"{record.outcome}: {where}: {record.detail}"
                to.print(line, markup=False, style="red")
        for reason in report.standing[claim.id].reasons:
            to.print(f"{claim.id}: {reason}", markup=False)
    for line in _origins(report.derivations):
        to.print(line, markup=False, highlight=False, soft_wrap=True)
    if report.reused:
        words = "pieces of evidence were found before (--fresh: find them again)"
        to.print(f"{report.reused} {words}", markup=False)
    if report.interrupted:
        to.print("interrupted: what was not finished is not checked", style="red")
    to.print(verdict(report), markup=False)


def print_samples(report: dict[str, Any], to: Console) -> None:
    """The report of ``attnverify sample``: a line a check, what did not pass, the verdict."""
    shown = table("check", "outcome", "cases", "undecided", "largest ratio", "piece", "replay")
    for row in report["checks"]:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.10f}"
        numbers = f"{row['cases']:,}", f"{row['undecided']:,}", ratio, str(row["piece"])
        shown.add_row(row["check"], row["outcome"], *numbers, row["replay"] or "-")
    to.print(shown)
    for row in report["checks"]:
        if row["outcome"] != "pass":
            line = f"{row['outcome']}: {row['check']}, piece {row['piece']}: {row['detail']}"
            to.print(line, markup=False, style="red")
        line = f"{row['check']}: the piece again by {row['repeat']}"
        to.print(line, markup=False, highlight=False, soft_wrap=True)
    words = f"{report['claim']}: {report['outcome']}, {report['pieces']} pieces"
    to.print(words, markup=False, highlight=False)


COLUMNS = ("claim", "status", "evidence", "best ratio", "false at", "twins")


def report_row(report: Report, id: str) -> tuple[str, str, str, str, str, str]:
    """What a report says about one claim, in the order of COLUMNS."""
    from attnverify.verification.margins import best_ratio, false_at

    records, twins = report.records[id], report.twins[id]
    as_stored = [record.as_json() for record in records]
    ratio = best_ratio(id, as_stored)
    return (
        id,
        report.standing[id].status,
        _kinds(records),
        "-" if ratio is None else f"{ratio:.6f}",
        " ".join(false_at(as_stored)) or "-",
        f"{sum(t.rejected for t in twins)}/{len(twins)}",
    )


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


def _kinds(records: Sequence[Record]) -> str:
    """Three letters a kind of evidence, with "!" behind a kind that did not pass everywhere."""
    failed = {r.kind for r in records if r.outcome != "pass"}
    return " ".join(k[:3] + "!" * (k in failed) for k in dict.fromkeys(r.kind for r in records))


#: What stands in the column of the factors.
FALSE_AT = (
    "false at: factors of the right sides with which the inequalities are certainly false, one "
    "each;\nthe best constant lies between this share of the stated one and the stated one"
)


def verdict(report: Report) -> str:
    """One line: how many claims have which status, and how many twins were rejected."""
    statuses = [report.standing[c.id].status for c in report.claims]
    twins = [t for twins in report.twins.values() for t in twins]
    rejected = f"{sum(t.rejected for t in twins)} of {len(twins)} twins rejected"
    return f"{len(statuses)} claims: {tally(statuses)}; {rejected}"

"""Derived evidence: runs the derivation cells of notebooks and reads the ledger that they fill.

A notebook marks the cells of its derivations with the tag ``derivation``. They run in order in one
namespace a notebook; a step that is not decidedly true raises there. A process that runs them gets
their text, not a path: the evidence does not depend on the files of whoever computes it.
"""

from __future__ import annotations

import linecache
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace

from attnverify.checking.records import Outcome, Record, TwinRecord
from attnverify.derivation import assumptions, ledger, reviewed_record, step_source
from attnverify.derivation.notebook_sources import Source


@dataclass(frozen=True)
class NotebookRun:
    """Entries that a notebook recorded in the ledger, and the end of its traceback if it failed."""

    source: Source
    entries: tuple[ledger.Entry, ...]
    error: str
    seconds: float

    @property
    def notebook(self) -> str:
        return self.source.notebook


def run(source: Source) -> NotebookRun:
    """Run the derivations of one notebook (:func:`attnverify.derivation.notebook_sources.load`)."""
    start = time.perf_counter()
    error = ""
    with ledger.recording() as entries:
        try:
            execute(source)
        except (Exception, SystemExit):  # whatever a cell raises is the outcome
            error = traceback.format_exc().strip()[-2000:]
    seconds = round(time.perf_counter() - start, 3)
    return NotebookRun(source, tuple(_with_codes(source, entries)), error, seconds)


def _with_codes(source: Source, entries: Iterable[ledger.Entry]) -> Iterable[ledger.Entry]:
    """Entries whose steps carry the digest of the source that they come from."""
    codes = step_source.codes(source.cells)
    names = {_file(source, number): number for number in range(1, len(source.cells) + 1)}
    for entry in entries:
        file, line = entry.place
        found = codes.get((names.get(file, 0), line))
        if found is not None:
            steps = tuple(replace(step, code=found.of(step.name)) for step in entry.steps)
            entry = replace(entry, steps=steps)
        yield entry


def _file(source: Source, number: int) -> str:
    """Name of a cell in tracebacks."""
    return f"{source.notebook}.md, derivation cell {number}"


def records(
    claim: str,
    done: NotebookRun,
    recorded: reviewed_record.Recorded | None = None,
    reviewed: bool = True,
) -> tuple[list[Record], list[TwinRecord]]:
    """Evidence of a notebook's run for one claim, compared with the reviewed record.

    recorded: the reviewed derivations, by default those of the package. reviewed: whether a record
    exists; the evidence says so if only the author has read the derivation.
    """
    own = [e for e in done.entries if e.claim == claim]
    recorded = reviewed_record.load() if recorded is None else recorded
    steps = [step.name for e in own if e.role == "derived" for step in e.steps]
    taken = assumptions.in_words(
        tuple(pair for e in own if e.role == "derived" for pair in e.given)
    )
    limits = f"given: {taken}" if taken else "given the hypotheses of the statement"
    limits += "" if reviewed else "; not reviewed by the book"
    outcome, detail = _outcome(done, steps)
    if (
        outcome == "pass"
        and reviewed
        and (changed := reviewed_record.differences(claim, own, recorded))
    ):
        outcome, detail = "unknown", reviewed_record.in_words(changed, done.notebook)
    record = Record(
        "derived", done.notebook, outcome, None, len(steps), done.seconds, limits, detail
    )
    twins = [
        TwinRecord(done.notebook, step.name, True, None, "a step that sympy decides to be false")
        for e in own
        if e.role == "rejected"
        for step in e.steps
    ]
    return [record], twins


def _outcome(done: NotebookRun, steps: list[str]) -> tuple[Outcome, str]:
    """Outcome and detail; an error anywhere in the notebook fails everything it derives."""
    if not done.source.found:
        return "unknown", f"not checked: {done.source.origin}"
    if done.error:
        return "fail", done.error.splitlines()[-1]
    if not steps:
        return "unknown", f"notebook {done.notebook} hands in no derivation"
    return "pass", "; ".join(steps)


def execute(source: Source) -> None:
    """Run the derivation cells of one notebook in a namespace of their own."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(source.cells, start=1):
        file = _file(source, number)
        linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
        code = compile(cell, file, "exec")
        exec(code, namespace)  # shipped, the checkout's own, or asked for by path

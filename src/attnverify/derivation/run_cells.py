"""Runs the derivation cells of notebooks and collects the entries of the ledger.

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

from attnverify.derivation import step_source
from attnverify.derivation.assumptions import Claims
from attnverify.derivation.entry import Entry
from attnverify.derivation.notebook_sources import Source


@dataclass(frozen=True)
class NotebookRun:
    """Entries that a notebook recorded in the ledger, and the end of its traceback if it failed."""

    source: Source
    entries: tuple[Entry, ...]
    error: str
    seconds: float

    @property
    def notebook(self) -> str:
        return self.source.notebook


def run(source: Source, claims: Claims | None = None) -> NotebookRun:
    """Run the derivations of one notebook (:func:`attnverify.derivation.notebook_sources.load`).

    claims: those that may be named, by default the book's.
    """
    from attnverify.derivation import ledger  # with sympy, which reading a finished run needs not

    start = time.perf_counter()
    error = ""
    with ledger.recording(claims=claims) as entries:
        try:
            execute(source)
        except (Exception, SystemExit):  # whatever a cell raises is the outcome
            error = traceback.format_exc().strip()[-2000:]
    seconds = round(time.perf_counter() - start, 3)
    return NotebookRun(source, tuple(_with_codes(source, entries)), error, seconds)


def _with_codes(source: Source, entries: Iterable[Entry]) -> Iterable[Entry]:
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
    name = source.notebook if "." in source.notebook else f"{source.notebook}.md"
    return f"{name}, derivation cell {number}"


def execute(source: Source) -> None:
    """Run the derivation cells of one notebook in a namespace of their own."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(source.cells, start=1):
        file = _file(source, number)
        linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
        code = compile(cell, file, "exec")
        exec(code, namespace)  # shipped, the checkout's own, or asked for by path

"""Derived evidence: run the derivation cells of the notebooks and read the ledger they fill.

A notebook marks the cells of its derivations with the tag ``derivation``. They run in order in one
namespace a notebook; a step that is not decidedly true raises there. A process that runs them gets
their text, not a path: the evidence does not depend on the files of whoever computes it.
"""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass

from attnverify.evidence import ledger
from attnverify.evidence.notebooks import Source
from attnverify.evidence.records import Outcome, Record, TwinRecord


@dataclass(frozen=True)
class NotebookRun:
    """What one notebook handed to the ledger, and the end of its traceback if it failed."""

    source: Source
    entries: tuple[ledger.Entry, ...]
    error: str
    seconds: float

    @property
    def notebook(self) -> str:
        return self.source.notebook


def run(source: Source) -> NotebookRun:
    """Run the derivations of one notebook; see :func:`attnverify.evidence.notebooks.load`."""
    start = time.perf_counter()
    error = ""
    with ledger.recording() as entries:
        try:
            execute(source)
        except (Exception, SystemExit):  # whatever a cell raises is the outcome
            error = traceback.format_exc().strip()[-2000:]
    return NotebookRun(source, tuple(entries), error, round(time.perf_counter() - start, 3))


def records(claim: str, done: NotebookRun) -> tuple[list[Record], list[TwinRecord]]:
    """What a notebook's run shows for one claim."""
    own = [e for e in done.entries if e.claim == claim]
    steps = [step for e in own if e.role == "derived" for step in e.steps]
    given = "; ".join(e.given for e in own if e.role == "derived" and e.given)
    limits = f"given: {given}" if given else "given the hypotheses of the statement"
    outcome, detail = _outcome(done, steps)
    record = Record(
        "derived", done.notebook, outcome, None, len(steps), done.seconds, limits, detail
    )
    twins = [
        TwinRecord(done.notebook, step, True, None, "a step that sympy decides to be false")
        for e in own
        if e.role == "rejected"
        for step in e.steps
    ]
    return [record], twins


def _outcome(done: NotebookRun, steps: list[str]) -> tuple[Outcome, str]:
    """Outcome and detail. An error anywhere in the notebook fails all that it derives."""
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
        code = compile(cell, f"{source.notebook}.md, derivation cell {number}", "exec")
        exec(code, namespace)  # shipped, the checkout's own, or asked for by path

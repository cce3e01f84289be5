"""Derived evidence: run the derivation cells of the notebooks and read the ledger they fill.

A notebook marks the cells of its derivations with the tag ``derivation``. They run in order in one
namespace a notebook; a step that is not decidedly true raises there.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from attnverify.evidence import ledger
from attnverify.evidence.records import Record, TwinRecord

TAG = "derivation"
NOTEBOOKS = "ATTNVERIFY_NOTEBOOKS"  # environment variable: folder of the notebooks


@dataclass(frozen=True)
class NotebookRun:
    """What one notebook handed to the ledger, and the end of its traceback if it failed."""

    notebook: str
    entries: tuple[ledger.Entry, ...]
    error: str
    seconds: float


def folder() -> Path | None:
    """The notebooks: named by the environment, beside the package's source, or in ./notebooks."""
    named = os.environ.get(NOTEBOOKS)
    beside = Path(__file__).resolve().parents[3] / "notebooks"
    for path in [Path(named)] if named else [beside, Path.cwd() / "notebooks"]:
        if path.is_dir():
            return path
    return None


def cells(notebook: Path) -> list[str]:
    """Sources of the cells tagged ``derivation``, in order."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    code = [c for c in content["cells"] if c["cell_type"] == "code"]
    return ["".join(c["source"]) for c in code if TAG in c["metadata"].get("tags", ())]


def run(name: str) -> NotebookRun:
    """Run the derivations of one notebook (a stem such as "softmax")."""
    start = time.perf_counter()
    where = folder()
    path = where / f"{name}.ipynb" if where else None
    if path is None or not path.is_file():
        return NotebookRun(name, (), f"no notebook {name}.ipynb found (set {NOTEBOOKS})", 0.0)
    error = ""
    with ledger.recording() as entries:
        try:
            execute(path)
        except (Exception, SystemExit):  # whatever a cell raises is the outcome
            error = traceback.format_exc().strip()[-2000:]
    return NotebookRun(name, tuple(entries), error, round(time.perf_counter() - start, 3))


def records(claim: str, done: NotebookRun) -> tuple[list[Record], list[TwinRecord]]:
    """What a notebook's run shows for one claim."""
    own = [e for e in done.entries if e.claim == claim]
    steps = [step for e in own if e.role == "derived" for step in e.steps]
    given = "; ".join(e.given for e in own if e.role == "derived" and e.given)
    limits = f"given: {given}" if given else "given the hypotheses of the statement"
    if done.error:
        outcome, detail = "fail", done.error.splitlines()[-1]
    elif steps:
        outcome, detail = "pass", "; ".join(steps)
    else:
        outcome, detail = "unknown", f"notebook {done.notebook} hands in no derivation"
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


def execute(path: Path) -> None:
    """Run the derivation cells of one notebook in a namespace of their own."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, source in enumerate(cells(path), start=1):
        code = compile(source, f"{path.name}, derivation cell {number}", "exec")
        exec(code, namespace)  # the project's own notebook

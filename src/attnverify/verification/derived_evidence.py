"""Derived evidence: what the run of a notebook's derivations shows for one claim."""

from __future__ import annotations

from attnverify.checking.records import Outcome, Record, TwinRecord
from attnverify.derivation import assumptions, reviewed_record, run_cells
from attnverify.verification.claim import Claim


def records(
    claim: Claim,
    done: run_cells.NotebookRun,
    reviewed: bool = True,
) -> tuple[list[Record], list[TwinRecord]]:
    """What a notebook's run shows for one claim, if it is what was reviewed.

    reviewed: whether there is a record; else nobody but its author has read the derivation, which
    is said.
    """
    own = [e for e in done.entries if e.claim == claim.id]
    steps = [step.name for e in own if e.role == "derived" for step in e.steps]
    taken = assumptions.in_words(
        tuple(pair for e in own if e.role == "derived" for pair in e.given)
    )
    limits = f"given: {taken}" if taken else "given the hypotheses of the statement"
    limits += "" if reviewed else "; not reviewed by the book"
    outcome, detail = _outcome(done, steps)
    if outcome == "pass" and reviewed and (changed := reviewed_record.differences(claim, own)):
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


def _outcome(done: run_cells.NotebookRun, steps: list[str]) -> tuple[Outcome, str]:
    """Outcome and detail. An error anywhere in the notebook fails all that it derives."""
    if not done.source.found:
        return "unknown", f"not checked: {done.source.origin}"
    if done.error:
        return "fail", done.error.splitlines()[-1]
    if not steps:
        return "unknown", f"{done.notebook} hands in no derivation of it"
    return "pass", "; ".join(steps)

"""The evidence of a claim in one line of plain text, computed from its records and twins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attnverify.book.pages.common import Evidence, number
from attnverify.chapters import Claim, registry
from attnverify.checking.definition_agreement import LIMITS as BY_DEFINITION
from attnverify.support.vocabulary import counted
from attnverify.verification.formal import checked
from attnverify.verification.margins import at_equality, best_ratio
from attnverify.verification.status import required

Record = Mapping[str, Any]
#: The kinds in the order of the line: what holds for all sizes first, then instances.
GROUPS = (
    ("formal",),
    ("derived",),
    ("decided",),
    ("sampled", "attacked"),
    ("certified",),
    ("measured",),
)
TROUBLE = {"fail": "failed", "unknown": "unknown", "missing": "not run"}


def text(claim: Claim, evidence: Evidence) -> str:
    """What was found for a claim: "derived in 5 steps; 2,000 instances sampled; ..."."""
    records, twins = evidence.records(claim.id), evidence.twins(claim.id)
    if not records and not twins:
        return "no evidence gathered"
    groups = [[c for kind in group for c in _kind(claim, kind, records)] for group in GROUPS]
    groups += [_twins(claim, twins)]
    groups += [[r] for r in evidence.reasons(claim.id) if r.startswith("rests on ")]
    line = "; ".join(", ".join(clauses) for clauses in groups if clauses)
    # Experiments say it by their criterion.
    false = claim.derived and evidence.status(claim.id) in ("refuted", "corrected")
    return f"shown to be false: {line}" if false else line


def _kind(claim: Claim, kind: str, records: Iterable[Record]) -> list[str]:
    """What one kind found where it passed, and how much of it did not pass or did not run."""
    own = [r for r in records if r["kind"] == kind]
    passed = [r for r in own if r["outcome"] == "pass"]
    clauses = list(filter(None, FOUND[kind](claim, passed))) if passed else []
    asked = {check for k, check in required(registry, claim) if k == kind} | {
        r["check"] for r in own
    }
    counts = {o: sum(r["outcome"] == o for r in own) for o in ("fail", "unknown")}
    counts["missing"] = len(asked - {r["check"] for r in own})
    for outcome, count in counts.items():
        if count:
            of = f" {count} of {len(asked)} checks" if len(asked) > 1 else ""
            clauses.append(f"{kind}:{of} {TROUBLE[outcome]}")
    return clauses


def _derived(claim: Claim, passed: Sequence[Record]) -> list[str]:
    return [f"derived in {counted(sum(r['instances'] for r in passed), 'step')}"]


def _decided(claim: Claim, passed: Sequence[Record]) -> list[str]:
    return [f"{counted(len(passed), 'scalar lemma')} decided for all reals"]


def _sampled(claim: Claim, passed: Sequence[Record]) -> list[str]:
    return [_looked_at(passed, "instances sampled")]


def _certified(claim: Claim, passed: Sequence[Record]) -> list[str]:
    """Entries compared with their definitions are counted apart: they are no instances."""
    compared = sum(r["decided"] for r in passed if r["limits"] == BY_DEFINITION)
    own = [r for r in passed if r["limits"] != BY_DEFINITION]
    best = best_ratio(registry, claim.id, own)
    near = "" if best is None else f"best ratio {number(best)}"
    return [
        f"certified in {counted(sum(r['decided'] for r in own), 'case')}" if own else "",
        "up to equality" if any(at_equality(registry, claim.id, r) for r in own) else near,
        f"formulas match their definitions in {counted(compared, 'entry')}" if compared else "",
    ]


def _measured(claim: Claim, passed: Sequence[Record]) -> list[str]:
    met = "met" if claim.asserts == "holds" else "not met"
    return [f"criterion {met} in the full run"]


#: What the passing records of each kind are told as.
FOUND: dict[str, Callable[[Claim, Sequence[Record]], list[str]]] = {
    "formal": lambda claim, passed: [checked(passed)],
    "derived": _derived,
    "decided": _decided,
    "sampled": _sampled,
    "attacked": lambda claim, passed: [_looked_at(passed, "attacked")],
    "certified": _certified,
    "measured": _measured,
}


def _looked_at(records: Sequence[Record], done: str) -> str:
    """How many instances were decided, and how many were left open."""
    settled = sum(r["decided"] for r in records)
    left = sum(r["instances"] for r in records) - settled
    return f"{settled:,} {done}" + (f" ({left:,} more undecided)" if left else "")


def _twins(claim: Claim, twins: Sequence[Record]) -> list[str]:
    if twins:
        rejected = sum(t["rejected"] for t in twins)
        return [f"{rejected} of {counted(len(twins), 'twin')} rejected"]
    return ["twins: not run"] if any(c.twins for c in registry.described(claim.id).values()) else []

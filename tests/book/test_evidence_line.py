"""A claim's evidence in one line: every kind, every trouble, nothing left out."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import evidence_files
from attnverify.book.pages import evidence_line, tables
from attnverify.book.pages.common import Evidence
from attnverify.chapters import registry
from attnverify.checking.definition_agreement import LIMITS as BY_DEFINITION
from attnverify.checking.gather import SAMPLED
from attnverify.checking.records import Record, TwinRecord
from attnverify.verification import formal
from attnverify.verification.margins import at_equality
from attnverify.verification.report import Report
from tiers import in_tiers

TV = "softmax.total-variation"
DERIVED = Record("derived", "softmax", "pass", None, 5, 0.1, "given: y > 0 (notation)")
DECIDED = Record("decided", "odds", "pass", None, 1, 0.1, "the scalar lemma")
FOUND = Record("sampled", "variation", "pass", 0.5, 2001, 0.1, SAMPLED)
SOUGHT = Record("attacked", "variation", "pass", 0.75, 72, 0.1, "", decided=70)
SHOWN = Record("certified", "variation", "pass", 1.0, 16, 0.1, "these instances")
TWIN = TwinRecord("variation", "0.99 times the right side", True, 1.01, "")
#: The claim is machine-checked by one theorem, exactly as registered.
(THEOREM,) = formal.theorems_of(TV)
PROVED = Record("formal", THEOREM.name, "pass", None, 1, 0.0, THEOREM.says, "axioms: none")
PARTS = {
    PROVED: "machine-checked; ",
    DERIVED: "derived in 5 steps; ",
    DECIDED: "1 scalar lemma decided for all reals; ",
    FOUND: "2,001 instances sampled, ",
    SOUGHT: "70 attacked (2 more undecided); ",
    SHOWN: "certified in 16 cases, up to equality; ",
    TWIN: "1 of 1 twin rejected",
}


def told(id: str, *pieces: Record | TwinRecord, status: str = "verified", reasons=()) -> str:
    """The line of a claim with these records and twins."""
    entry: dict[str, Any] = {"status": status, "reasons": list(reasons)}
    entry["evidence"] = [p.as_json() for p in pieces if isinstance(p, Record)]
    entry["twins"] = [p.as_json() for p in pieces if isinstance(p, TwinRecord)]
    return evidence_line.text(registry[id], Evidence(claims={id: entry}))


def changed(record: Record, **changes: Any) -> Record:
    return Record(**{**record.as_json(), **changes})


def test_a_line_tells_all_kinds_and_the_twins():
    assert told(TV, *PARTS) == "".join(PARTS.values())


@pytest.mark.parametrize(
    ("piece", "now", "words"),
    [
        (PROVED, changed(PROVED, outcome="unknown"), "formal: unknown; "),
        (PROVED, None, "formal: not run; "),
        (PROVED, changed(PROVED, limits="one head"), "machine-checked with a difference; "),
        (DERIVED, changed(DERIVED, outcome="fail"), "derived: failed; "),
        (DERIVED, changed(DERIVED, outcome="unknown"), "derived: unknown; "),
        (DERIVED, None, "derived: not run; "),
        (DERIVED, changed(DERIVED, instances=1, decided=1), "derived in 1 step; "),
        (DECIDED, changed(DECIDED, outcome="unknown"), "decided: unknown; "),
        (FOUND, changed(FOUND, outcome="fail"), "sampled: failed, "),
        (FOUND, changed(FOUND, decided=1), "1 instances sampled (2,000 more undecided), "),
        (SOUGHT, None, "attacked: not run; "),
        (SHOWN, changed(SHOWN, ratio=0.5), "certified in 16 cases, best ratio 0.5000; "),
        (SHOWN, changed(SHOWN, ratio=1 - 2.0**-40), "certified in 16 cases, best ratio 1 − 9.1"),
        (SHOWN, changed(SHOWN, ratio=1 - 2.0**-41), "certified in 16 cases, up to equality; "),
        (SHOWN, changed(SHOWN, outcome="unknown"), "certified: unknown; "),
        (TWIN, TwinRecord("variation", "a", False, None, ""), "0 of 1 twin rejected"),
        (TWIN, None, "twins: not run"),
    ],
)
def test_trouble_is_told_in_its_place(piece, now, words):
    """The line is that of full evidence but for the piece that changed."""
    pieces = [now if p is piece else p for p in PARTS]
    expected = "".join(words if p is piece else part for p, part in PARTS.items())
    line = told(TV, *filter(None, pieces)).replace("\N{NO-BREAK SPACE}", " ")
    assert line == expected or (words[-1] == "1" and words in line)


def test_of_several_checks_those_in_trouble_are_counted():
    other = changed(SHOWN, check="odds", outcome="fail")
    assert "up to equality, certified: 1 of 2 checks failed; " in told(TV, *PARTS, other)


def test_entries_compared_with_definitions_are_no_certified_cases():
    other = changed(SHOWN, check="odds", limits=BY_DEFINITION, instances=1, decided=1, ratio=None)
    words = "certified in 16 cases, up to equality, formulas match their definitions in 1 entry; "
    assert words in told(TV, *PARTS, other)
    assert told(TV, other).startswith("formal: not run; derived: not run")
    assert "cases" not in told(TV, other)


@cache
def full_report() -> Report:
    return evidence_files.report()


@pytest.mark.parametrize("id", in_tiers(registry, [*registry][::6]))
def test_nothing_is_lost(id):
    """Full evidence tells no trouble; what does not pass, or is missing, changes the line."""
    report = full_report()
    records, twins = report.records[id], report.twins[id]
    good = told(id, *records, *twins)
    assert not any(word in good for word in ("fail", "unknown", "not run", "undecided"))
    for piece in records:
        rest = [p for p in (*records, *twins) if p is not piece]
        for now in ("fail", "unknown"):
            assert told(id, *rest, changed(piece, outcome=now)) != good
        assert f"{piece.kind}:" in told(id, *rest)
    for twin in twins:
        rest = [t for t in twins if t is not twin]
        let_pass = TwinRecord(twin.check, twin.twin, False, None, "")
        assert f"{len(rest)} of {len(twins)}" in told(id, *records, *rest, let_pass)


def test_only_a_certified_inequality_is_at_equality():
    assert at_equality(registry, TV, SHOWN.as_json())
    for other in (FOUND, SOUGHT, changed(SHOWN, ratio=None), changed(SHOWN, outcome="unknown")):
        assert not at_equality(registry, TV, {**other.as_json(), "ratio": other.ratio and 1.0})
    assert not at_equality(registry, "skip.no-collapse", changed(SHOWN, check="residual").as_json())


def test_limits_are_told_once_and_only_what_is_particular():
    """Two checks with one limit share it; what no sample shows is not said of every claim."""
    other = changed(DECIDED, check="another")
    pieces = [p.as_json() for p in (FOUND, SHOWN, DECIDED, other, DERIVED)]
    entry = {"status": "verified", "evidence": pieces, "twins": []}
    assert tables.limits(registry[TV], Evidence(claims={TV: entry})) == [
        ("decided (odds, another)", "the scalar lemma"),
        ("derived", "given: y > 0 (notation)"),
    ]

"""The status page: every claim with its status, evidence, margin, twins and times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from attnverify.book.pages import papers
from attnverify.book.pages.common import (
    Evidence,
    anchor,
    badge,
    escape,
    number,
    pipe_table,
    scrolling,
)
from attnverify.chapters import Claim, registry
from attnverify.support.vocabulary import KINDS, tally
from attnverify.verification import formal
from attnverify.verification.formal import checked
from attnverify.verification.margins import best_ratio, false_at
from attnverify.verification.status import required

WORDS = {"pass": "", "fail": " ✗ fail", "unknown": " ? unknown"}

INTRO = """\
# Status of every claim

Every status on this page is computed from the evidence file that this book was built from. A claim
is partial if it rests on one that is neither verified nor refuted; of a refuted one it uses the
counterexample.
{doc}`How to read the evidence </book/evidence>` explains the words.
"""

IN_WORDS = """\
```{include} ../results.inc
```
"""

LEGEND = """\
## Every claim

*Evidence* names the kinds that apply to the claim; where a kind did not pass, that is said. *Best
ratio* is the largest left side over right side of an inequality that was found: 1 means that
equality is attained or approached ({doc}`what that shows </book/evidence>`), and 1 − 2.0·10⁻⁹
that the ratio is smaller than 1 by 2.0·10⁻⁹. Identities and counts have no such ratio. *False at*
gives, for each inequality, a factor of its right side with which it is certainly false: the best
constant lies between this share of the stated one and the stated one. We report
factors up to 0.9999; where the factor is far below 1, no better constant is excluded. *Twins* says
how many slightly altered, false versions were rejected. `attnverify verify` prints the
time that each check takes.
"""


def text(evidence: Evidence, root: Path) -> str:
    """The page as MyST, by parts of the book; root: the folder with ``_toc.yml``."""
    chapters = papers.chapters(root)
    lines = [INTRO, summary(evidence), "", IN_WORDS, LEGEND]
    for title, group in groupby(registry.values(), lambda claim: chapters[claim.notebook].part):
        members = list(group)
        lines += [f"### {escape(title)}", ""]
        rows = [_row(claim, evidence) for claim in members]
        lines += scrolling(f"Evidence for: {title}", pipe_table(rows))
        lines += _reasons(members, evidence)
    return "\n".join([*lines, *_produced_by(evidence)])


def summary(evidence: Evidence) -> str:
    """How many claims have which status, and what the evidence is made of."""
    counts = tally(map(evidence.status, registry))
    proved, exact = machine_checked(evidence)
    records = [r for id in registry for r in evidence.records(id)]
    twins = [t for id in registry for t in evidence.twins(id)]
    kinds = Counter(r["kind"] for r in records)
    made_of = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind])
    passed = sum(r["outcome"] == "pass" for r in records)
    rejected = sum(t["rejected"] for t in twins)
    page = "{doc}`machine-checked </book/formal>`"
    return (
        f"**{len(registry)} claims: {counts}.** {proved} are {page}, {exact} of them exactly "
        f"as stated. {passed} of {len(records)} checks pass ({made_of or 'none'}), and {rejected} "
        f"of {len(twins)} altered, false versions are rejected.\n\n"
        "A check passes if it supports what the book says. Where a criterion or a published "
        "statement is said to fail, passing means that this failure was decided."
    )


def machine_checked(evidence: Evidence) -> tuple[int, int]:
    """How many claims are machine-checked, and how many of them exactly as stated."""
    proved = [id for id in registry if checked(evidence.records(id))]
    return len(proved), sum(any(t.exact for t in formal.theorems_of(id)) for id in proved)


def _row(claim: Claim, evidence: Evidence) -> dict[str, str]:
    records, twins = evidence.records(claim.id), evidence.twins(claim.id)
    status = evidence.status(claim.id)
    rejected = sum(t["rejected"] for t in twins)
    kinds = ", ".join(filter(None, (_outcome(claim, kind, records) for kind in KINDS)))
    return {
        "Claim": f"[]{{#{anchor(claim.id, 'status')}}}{{claim}}`{claim.id} <{claim.id}>`",
        "Status": badge(status) + _mark(claim, records),
        "Evidence": f"{{evidence}}`{kinds} <{claim.id}>`" if kinds else "–",
        "Best ratio": number(best_ratio(registry, claim.id, records)),
        "False at": ", ".join(false_at(records)) or "–",
        "Twins": f"{{twins}}`{rejected} of {len(twins)} <{claim.id}>`" if twins else "–",
        "Chapter": f"{{doc}}`{claim.notebook} </notebooks/{claim.notebook}>`",
    }


def _mark(claim: Claim, records: list[Mapping[str, Any]]) -> str:
    words = checked(records)
    return f" {{formal}}`{words} <{claim.id}>`" if words else ""


def _outcome(claim: Claim, kind: str, records: list[Mapping[str, Any]]) -> str:
    """One kind with its worst outcome; "" for a kind that does not apply."""
    outcomes = {r["outcome"] for r in records if r["kind"] == kind}
    for worst in ("fail", "unknown", "pass"):
        if worst in outcomes:
            return kind + WORDS[worst]
    return f"{kind} not run" if kind in {k for k, _ in required(registry, claim)} else ""


def _reasons(members: list[Claim], evidence: Evidence) -> list[str]:
    lines = []
    for claim in members:
        reasons = evidence.reasons(claim.id)
        if reasons:
            lines.append(
                f"- `{claim.id}` is {evidence.status(claim.id)}: {escape('; '.join(reasons))}"
            )
    return [*lines, ""] if lines else []


def _produced_by(evidence: Evidence) -> list[str]:
    if not evidence.claims:
        return ["## What produced it", "", "No evidence file was read.", ""]
    parts = {"setting": evidence.settings, "environment": evidence.environment}
    rows = [
        {"Kind": kind, "Name": f"`{name}`", "Value": f"`{value}`"}
        for kind, part in parts.items()
        for name, value in part.items()
    ]
    table = pipe_table(rows)
    return [
        "## What produced it",
        "",
        *scrolling("Settings and versions", table),
        "Equal settings give equal evidence.",
        "",
    ]

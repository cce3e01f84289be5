"""The page "Errata and sharpenings": published statements that fail, are sharpened or completed."""

from __future__ import annotations

from collections.abc import Callable

from attnverify.book.pages.common import Evidence, badge, escape, pipe_table, scrolling
from attnverify.topics import Claim, registry

INTRO = """\
# Errata and sharpenings

One line for each published statement that fails as this book reads it, or that it sharpens or
completes; a sharpened statement is not listed again among the completed ones. Everything is read
from the registry of claims and from the evidence file of this book. The wording of a statement is
this book's own; its box, one click away, says how the source was read. The papers' texts were not
at hand when the experiments were designed ({doc}`/book/bibliography`). *Certified* means decided in
exact or ball arithmetic, and shows that instance, not the statement in general.
"""

REFUTED = """\
## Refuted

The statement, as read here, fails on the instance named. *Corrected* means that the statement
which replaces it is verified, *refuted* that it stands refuted without a verified replacement.
Where the published sentence has another reading, that reading and its own status stand beside the
replacement.
"""

SHARPENED = """\
## Sharpened

The published statement holds as far as the evidence goes (its status is shown), and a statement
proved here says more under its own hypotheses. The instances are those of the sharper statement.
"""

NOT_REPRODUCED = """\
## Did not come out here

Published findings that did not come out in an experiment of this book. The experiment is smaller
than the published one, and its criterion and the reading of the source are this book's own: this is
no refutation of the paper.
"""

COMPLETED = """\
## Completed

Published statements to which a part was added here.
"""

NOTHING = "no certified evidence in the evidence file"
INSTANCE = "Certified instance"
Row = Callable[[Claim, Evidence], list[str]]  # the last two cells of a line


def text(evidence: Evidence) -> str:
    """The page as MyST."""
    parts: list[tuple[str, str, tuple[str, str], list[Claim], Row]] = [
        (REFUTED, "Refuted statements", ("Corrected statement", INSTANCE), refuted(), _refuted),
        (SHARPENED, "Sharpened statements", ("Sharper statement", INSTANCE), sharpened(), _sharper),
        (COMPLETED, "Completed statements", ("Proved here", INSTANCE), completed(), _completed),
        (
            NOT_REPRODUCED,
            "Findings that did not come out here",
            ("Measured", "Limits"),
            not_reproduced(),
            _not_reproduced,
        ),
    ]
    lines = [INTRO]
    for intro, label, last, claims, row in parts:
        header = ("Published statement", "Source", "Verdict", *last)
        rows = ([*_published(claim, evidence), *row(claim, evidence)] for claim in claims)
        lines += [intro, *scrolling(label, pipe_table(header, rows))]
    return "\n".join(lines)


def refuted() -> list[Claim]:
    """Published statements that the book refutes."""
    return [c for c in registry.values() if c.published and c.asserts == "fails" and c.derived]


def readings(id: str) -> list[Claim]:
    """The claims that read the published sentence of a refuted claim in another way."""
    return [c for c in registry.values() if c.reads == id]


def not_reproduced() -> list[Claim]:
    """Published findings that an experiment of the book did not show."""
    return [c for c in registry.values() if c.published and c.asserts == "fails" and not c.derived]


def sharper(id: str) -> list[Claim]:
    """The statements that sharpen a claim."""
    return [c for c in registry.values() if c.sharpens == id]


def sharpened() -> list[Claim]:
    """Published statements that some statement of the book sharpens."""
    return [c for c in registry.values() if c.published and sharper(c.id)]


def completed() -> list[Claim]:
    """Published statements that hold and of which a part is proved here, but the sharpened ones."""
    return [
        c
        for c in registry.values()
        if c.published and c.here and c.asserts == "holds" and c.derived and not sharper(c.id)
    ]


def _refuted(claim: Claim, evidence: Evidence) -> list[str]:
    by = _link(registry[claim.corrected_by]) if claim.corrected_by else "–"
    for other in readings(claim.id):
        by += f"; in another reading: {_link(other)} {_badge(other, evidence)}"
    return [by, _certified(claim, evidence)]


def _sharper(claim: Claim, evidence: Evidence) -> list[str]:
    found = sharper(claim.id)
    instances = "; ".join(f"`{c.id}`: {_certified(c, evidence)}" for c in found)
    named = "; ".join(f"{_link(c)} {_badge(c, evidence)}" for c in found)
    return [named, instances]


def _completed(claim: Claim, evidence: Evidence) -> list[str]:
    return [escape(claim.here), _certified(claim, evidence)]


def _not_reproduced(claim: Claim, evidence: Evidence) -> list[str]:
    limits = "; ".join(escape(r["limits"]) for r in evidence.records(claim.id)) or "–"
    return [_certified(claim, evidence), limits]


def _published(claim: Claim, evidence: Evidence) -> list[str]:
    """Title, source and verdict."""
    places = "; ".join(f"{{cite}}`{s.key}`, {escape(s.locator)}" for s in claim.sources)
    return [_link(claim), places, _badge(claim, evidence)]


def _link(claim: Claim) -> str:
    """A link by the claim's title."""
    return f"{{claim}}`{claim.title} <{claim.id}>`"


def _badge(claim: Claim, evidence: Evidence) -> str:
    return badge(evidence.status(claim.id))


def _certified(claim: Claim, evidence: Evidence) -> str:
    """What the certified (or measured) records of a claim found, check by check."""
    records = [r for r in evidence.records(claim.id) if r["kind"] in ("certified", "measured")]
    failed = [r for r in records if r["outcome"] != "pass"]
    shown = "; ".join(f"*{escape(r['check'])}*: {escape(r['detail'])}" for r in records)
    warning = f" ({len(failed)} not passed)" if failed else ""
    return (shown or NOTHING) + warning

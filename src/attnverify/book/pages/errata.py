"""The page on published statements: which hold, fail, are sharpened or completed.

Those are of the two papers; possible misreadings of their neighbors come last.
"""

from __future__ import annotations

from collections.abc import Callable

from attnverify.book.pages.common import (
    Evidence,
    badge,
    escape,
    number,
    pipe_table,
    scrolling,
    told,
)
from attnverify.chapters import Claim, registry
from attnverify.verification.claim import Reading
from attnverify.verification.margins import best_ratio

INTRO = """\
# Published statements, one by one

One line for each statement of Dong et al. and Bao et al. that this book treats: those that fail as
read here, those with a sharper form, those to which a part was added, and those that hold as they
are. Possible misreadings of neighboring papers come {ref}`last <neighboring-papers>`. The wording
is this book's own, not a quotation; {doc}`/book/bibliography` says how the papers were read. The
link of a line leads to the statement in its chapter, with its evidence. $D_i$ is the largest
difference of two entries in row $i$ of the scores, $x^*$ the number 1.2564, and γ the factor that
version 2 adds to the bounds of version 1.
"""

REFUTED = """\
## Refuted

*Corrected* means that what holds instead is verified, *refuted* that no replacement is. Where the
published sentence has another reading, that reading and its status stand beside the replacement.
"""

SHARPENED = """\
## Sharpened

The published statement holds (its status is shown), and a statement proved here says more under its
own hypotheses. *Best ratio* is the largest left side over right side that was found for the sharper
statement: where it is 1, or nearly, no smaller constant holds.
"""

COMPLETED = """\
## Completed

Published statements to which a part was added here.
"""

AS_PUBLISHED = """\
## As published

Published statements that hold as they are.
"""

REPRODUCED = """\
## Criterion met here

Published findings whose criterion was met in an experiment of this book. The experiment is smaller
and has a criterion of its own: a finding of the same kind, not a repetition of the paper's.
"""

NOT_REPRODUCED = """\
## Criterion not met here

Published findings whose criterion was not met in an experiment of this book. The experiment is
smaller than the published one, and its criterion and the reading of the source are this book's own:
this is no refutation of the paper.
"""

NEIGHBORS = """\
(neighboring-papers)=
## Neighboring papers

Possible misreadings of papers that {doc}`Part VIII </notebooks/masks-graphs>` treats: sentences
that a reader might take from one and that are false as stated. No source shows that anybody holds
them; mostly we read the abstracts of these papers. Each instance is certified in balls or exact
arithmetic by the named check of the linked claim, or as the named twin of it, which is the reading.
After it stands what the run found, for an inequality the left side over the right one. The last
column is the repaired statement.
"""

NOTHING = "no measurement in the evidence file"
NOT_CERTIFIED = "**not certified in the evidence file**"
Row = Callable[[Claim, Evidence], dict[str, str]]  # the last cells of a line


def text(evidence: Evidence) -> str:
    """The page as MyST."""
    unmet = "Findings whose criterion was not met here"
    failing = [
        c for c in registry.values() if c.published and c.asserts == "fails" and not c.derived
    ]
    plain = [c for c in _holding() if not c.here]
    parts: list[tuple[str, str, list[Claim], Row]] = [
        (REFUTED, "Refuted statements", refuted(), _refuted),
        (SHARPENED, "Sharpened statements", sharpened(), _sharper),
        (COMPLETED, "Completed statements", completed(), _completed),
        (AS_PUBLISHED, "Statements that hold as published", plain, _nothing),
        (REPRODUCED, "Findings whose criterion was met here", reproduced(), _nothing),
        (NOT_REPRODUCED, unmet, failing, _not_reproduced),
    ]
    lines = [INTRO]
    for intro, label, claims, row in parts:
        rows = (_published(claim, evidence) | row(claim, evidence) for claim in claims)
        lines += [intro, *scrolling(label, pipe_table(rows))]
    rows = (_neighbor(claim, reading, evidence) for claim, reading in failing_readings())
    table = scrolling("Possible misreadings", pipe_table(rows))
    return "\n".join([*lines, NEIGHBORS, *table])


def failing_readings() -> list[tuple[Claim, Reading]]:
    """Possible misreadings of neighboring works, each with the claim that shows it."""
    return [(claim, reading) for claim in registry.values() for reading in claim.refutes]


def refuted() -> list[Claim]:
    """Published statements that the book refutes."""
    return [c for c in registry.values() if c.published and c.asserts == "fails" and c.derived]


def readings(id: str) -> list[Claim]:
    """The claims that read the published sentence of a refuted claim in another way."""
    return [c for c in registry.values() if c.reads == id]


def sharper(id: str) -> list[Claim]:
    """The statements that sharpen a claim."""
    return [c for c in registry.values() if c.sharpens == id]


def sharpened() -> list[Claim]:
    """Published statements that some statement of the book sharpens."""
    return [c for c in registry.values() if c.published and sharper(c.id)]


def completed() -> list[Claim]:
    """Published statements that hold and of which a part is proved here, but the sharpened ones."""
    return [c for c in _holding() if c.here]


def reproduced() -> list[Claim]:
    """Published findings that an experiment of the book showed."""
    found = (c for c in registry.values() if c.published and c.asserts == "holds")
    return [c for c in found if not c.derived and not c.here]


def _holding() -> list[Claim]:
    found = (c for c in registry.values() if c.published and c.asserts == "holds")
    return [c for c in found if c.derived and not sharper(c.id)]


def _refuted(claim: Claim, evidence: Evidence) -> dict[str, str]:
    by = _link(registry[claim.corrected_by]) if claim.corrected_by else "–"
    for other in readings(claim.id):
        by += f"; in another reading: {_link(other)} {_badge(other, evidence)}"
    return {"Why it fails": " ".join(claim.fails_because.split()), "What holds": by}


def _sharper(claim: Claim, evidence: Evidence) -> dict[str, str]:
    found = sharper(claim.id)
    ratios = (best_ratio(registry, c.id, evidence.records(c.id)) for c in found)
    named = "; ".join(f"{_link(c)} {_badge(c, evidence)}" for c in found)
    return {"Sharper statement": named, "Best ratio": "; ".join(map(number, ratios))}


def _nothing(claim: Claim, evidence: Evidence) -> dict[str, str]:
    return {}


def _completed(claim: Claim, evidence: Evidence) -> dict[str, str]:
    return {"Added here": escape(claim.here)}


def _not_reproduced(claim: Claim, evidence: Evidence) -> dict[str, str]:
    limits = "; ".join(told(r["limits"]) for r in evidence.records(claim.id)) or "–"
    return {"Measured": _measured(claim, evidence), "Limits": limits}


def _neighbor(claim: Claim, reading: Reading, evidence: Evidence) -> dict[str, str]:
    shown = f"{reading.instance} {_link(claim)} {_badge(claim, evidence)}"
    named = f"*{escape(reading.check)}*" + (
        f", twin *{escape(reading.twin)}*" if reading.twin else ""
    )
    holds = registry[reading.holds]
    return {
        "Possible misreading": reading.says,
        "Near": f"{{cite}}`{reading.near}`",
        "Certified instance": f"{shown}; {named}: {_certified(claim, reading, evidence)}",
        "What holds": f"{_link(holds)} {_badge(holds, evidence)}",
    }


def _certified(claim: Claim, reading: Reading, evidence: Evidence) -> str:
    """What the run found: of the rejected twin, or of the check in exact arithmetic or balls."""
    if reading.twin:
        twins = evidence.claims.get(claim.id, {}).get("twins", ())
        named = (t for t in twins if (t["check"], t["twin"]) == (reading.check, reading.twin))
        found = [t["detail"] for t in named if t["rejected"]]
    else:
        records = (r for r in evidence.records(claim.id) if r["check"] == reading.check)
        exact = (r for r in records if r["kind"] in ("certified", "decided"))
        found = [r["detail"] for r in exact if r["outcome"] == "pass"]
    return told("; ".join(found)) or NOT_CERTIFIED


def _published(claim: Claim, evidence: Evidence) -> dict[str, str]:
    """Title, source and verdict."""
    places = "; ".join(f"{{cite}}`{s.key}`, {escape(s.locator)}" for s in claim.sources)
    verdict = _badge(claim, evidence)
    return {"Published statement": _link(claim), "Source": places, "Verdict": verdict}


def _link(claim: Claim) -> str:
    """A link by the claim's title."""
    return f"{{claim}}`{claim.title} <{claim.id}>`"


def _badge(claim: Claim, evidence: Evidence) -> str:
    return badge(evidence.status(claim.id))


def _measured(claim: Claim, evidence: Evidence) -> str:
    """What the measured records of a claim found, check by check."""
    records = [r for r in evidence.records(claim.id) if r["kind"] == "measured"]
    failed = [r for r in records if r["outcome"] != "pass"]
    shown = "; ".join(f"*{escape(r['check'])}*: {told(r['detail'])}" for r in records)
    warning = f" ({len(failed)} not passed)" if failed else ""
    return (shown or NOTHING) + warning

"""Evidence and twins of a claim as docutils tables that scroll inside themselves, and limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from html import escape as html_escape
from html import unescape
from typing import Any

from docutils import nodes

from attnverify.book.pages.common import FIXED, Evidence, anchor, number, told
from attnverify.chapters import Claim, registry
from attnverify.checking.definition_agreement import LIMITS as BY_DEFINITION
from attnverify.checking.gather import ATTACKED, CERTIFIED, SAMPLED
from attnverify.verification.margins import false_at, measure

OUTCOMES = {"pass": f"✓{FIXED}pass", "fail": f"✗{FIXED}fail", "unknown": f"?{FIXED}unknown"}
#: Limits that the page on evidence states once for every claim.
GENERAL = {SAMPLED, ATTACKED, CERTIFIED, BY_DEFINITION}

#: Columns of sentences; what is in the others is a name or a number.
TOLD = ("Found", "Twin", "How")
SCRIPT = re.compile("(</?su[bp]>)")
SCRIPTS = {"<sup>": nodes.superscript, "<sub>": nodes.subscript}

Row = Mapping[str, str]  # cells by their header


class Caption(nodes.TextElement):
    """The caption of a table that has no number; see :func:`visit_caption`."""


def visit_caption(self: Any, node: Caption) -> None:
    """Open the caption; it is a table's first child."""
    self.body.append(self.starttag(node, "caption", ""))


def depart_caption(self: Any, node: Caption) -> None:
    """Close it."""
    self.body.append("</caption>\n")


def records(claim: Claim, evidence: Evidence) -> list[nodes.Node]:
    """The records of a claim. No times: pages of equal evidence are equal."""
    rows = [_record(claim.id, record) for record in evidence.records(claim.id)]
    return _table("records", "What was found", claim, rows)


def twins(claim: Claim, evidence: Evidence) -> list[nodes.Node]:
    """The must-fail twins of a claim and how each was rejected."""
    rows = [_twin(twin) for twin in evidence.twins(claim.id)]
    return _table("twins", "Twins: false neighbors that must be rejected", claim, rows)


def limits(claim: Claim, evidence: Evidence) -> list[tuple[str, str]]:
    """What this claim's evidence in particular does not show: (kind and checks, limit), each once.

    What no evidence of a kind shows is on the page on evidence.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for record in evidence.records(claim.id):
        if record["limits"] not in GENERAL:
            found.setdefault((record["kind"], record["limits"]), []).append(record["check"])
    return [
        (kind if kind == "derived" else f"{kind} ({', '.join(checks)})", limit)
        for (kind, limit), checks in found.items()
    ]


def _record(id: str, record: Mapping[str, Any]) -> Row:
    ratio, what = record["ratio"], measure(registry, id, record["check"])
    shown = "–" if ratio is None else f"{what} {number(ratio)}"
    shown += "".join(f"; false at {factor}" for factor in false_at([record]))
    return {
        "Kind": record["kind"],
        "Check": record["check"],
        "Outcome": OUTCOMES[record["outcome"]],
        "Ratio": shown,
        "Decided": _decided(record),
        "Found": record["detail"],
    }


def _decided(record: Mapping[str, Any]) -> str:
    """How many instances were decided, and of how many if some were not."""
    of = "" if record["decided"] == record["instances"] else f" of {record['instances']:,}"
    return f"{record['decided']:,}{of}"


def _twin(twin: Mapping[str, Any]) -> Row:
    outcome = f"✓{FIXED}rejected" if twin["rejected"] else f"✗{FIXED}not{FIXED}rejected"
    names = {"Check": twin["check"], "Twin": twin["twin"]}
    return names | {"Outcome": outcome, "How": twin["detail"]}


def _table(place: str, caption: str, claim: Claim, rows: list[Row]) -> list[nodes.Node]:
    """A table with a caption and a row of headers, at the anchor ``place`` of the claim."""
    if not rows:
        return [nodes.paragraph("", f"{caption}: none in the evidence file.")]
    label = html_escape(f"{caption}: {claim.title}", quote=True)
    box = 'class="attnverify-scroll" role="region" tabindex="0"'
    start = f'<div id="{anchor(claim.id, place)}" {box} aria-label="{label}">'
    return [
        nodes.raw("", start, format="html"),
        _body(caption, rows),
        nodes.raw("", "</div>", format="html"),
    ]


def _body(caption: str, rows: list[Row]) -> nodes.table:
    header = list(rows[0])
    table, group = nodes.table(classes=["colwidths-auto"]), nodes.tgroup(cols=len(header))
    group += [nodes.colspec(colwidth=1) for _ in header]
    head, body = nodes.thead(), nodes.tbody()
    head += _row([nodes.Text(name)] for name in header)
    body += [_row(_cell(name, row[name]) for name in header) for row in rows]
    group += [head, body]
    table += [Caption("", caption), group]
    return table


def _cell(name: str, text: str) -> list[nodes.Node]:
    return typeset(text) if name in TOLD else [nodes.Text(text)]


def typeset(text: str) -> list[nodes.Node]:
    """Mathematics in the text of a record, such as x^2 <= 4, as the page shows it."""
    inside: list[nodes.Element] = [nodes.inline()]
    for part in SCRIPT.split(told(text, partial(html_escape, quote=False))):
        if part in SCRIPTS:
            inside[-1] += SCRIPTS[part]()
            inside.append(inside[-1][-1])  # type: ignore
        elif SCRIPT.fullmatch(part):
            inside.pop()
        elif part:
            inside[-1] += nodes.Text(unescape(part))
    return inside[0].children


def _row(cells: Iterable[list[nodes.Node]]) -> nodes.row:
    row = nodes.row()
    row += [nodes.entry("", nodes.paragraph("", "", *found)) for found in cells]
    return row

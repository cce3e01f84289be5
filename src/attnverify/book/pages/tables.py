"""Evidence and twins as docutils tables that scroll inside themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape as html_escape
from typing import Any

from docutils import nodes

from attnverify.book.pages.common import FIXED, Evidence, number
from attnverify.claims import Claim
from attnverify.evidence.margins import false_at, measure

OUTCOMES = {"pass": f"✓{FIXED}pass", "fail": f"✗{FIXED}fail", "unknown": f"?{FIXED}unknown"}
RECORDS = ("Kind", "Check", "Outcome", "Ratio", "Decided", "Found", "Does not show")
TWINS = ("Check", "Must-fail twin", "Outcome", "How")

Row = tuple[str, ...]


def records(claims: Sequence[Claim], evidence: Evidence) -> list[nodes.Node]:
    """The records of the claims. No times: pages of equal evidence are equal."""
    rows = [(c.id, *_record(c.id, r)) for c in claims for r in evidence.records(c.id)]
    return _table("Evidence", claims, RECORDS, rows)


def twins(claims: Sequence[Claim], evidence: Evidence) -> list[nodes.Node]:
    """The must-fail twins of the claims and how each was rejected."""
    rows = [(c.id, *_twin(t)) for c in claims for t in evidence.twins(c.id)]
    return _table("Must-fail twins", claims, TWINS, rows)


def _record(id: str, record: Mapping[str, Any]) -> Row:
    ratio, what = record["ratio"], measure(id, record["check"])
    exact = what == "error/bound" and record["kind"] == "certified"  # no rounding to measure
    shown = "–" if ratio is None or exact else f"{what} {number(ratio)}"
    shown += "".join(f"; false at {factor}" for factor in false_at([record]))
    return (
        record["kind"],
        record["check"],
        OUTCOMES[record["outcome"]],
        shown,
        _decided(record),
        record["detail"],
        record["limits"],
    )


def _decided(record: Mapping[str, Any]) -> str:
    """How many instances were decided, and of how many if some were not."""
    of = "" if record["decided"] == record["instances"] else f" of {record['instances']:,}"
    return f"{record['decided']:,}{of}"


def _twin(twin: Mapping[str, Any]) -> Row:
    outcome = f"✓{FIXED}rejected" if twin["rejected"] else f"✗{FIXED}not{FIXED}rejected"
    return twin["check"], twin["twin"], outcome, twin["detail"]


def _table(title: str, claims: Sequence[Claim], header: Row, rows: list[Row]) -> list[nodes.Node]:
    """A table with a row of headers; the claim is a column if there are several."""
    if not rows:
        return [nodes.paragraph("", f"{title}: none in the evidence file.")]
    header = ("Claim", *header)
    if len(claims) == 1:
        header, rows = header[1:], [row[1:] for row in rows]
    label = html_escape(f"{title} of {', '.join(c.id for c in claims)}", quote=True)
    start = f'<div class="attnverify-scroll" role="region" aria-label="{label}" tabindex="0">'
    return [
        nodes.raw("", start, format="html"),
        _body(header, rows),
        nodes.raw("", "</div>", format="html"),
    ]


def _body(header: Row, rows: Iterable[Row]) -> nodes.table:
    table, group = nodes.table(classes=["colwidths-auto"]), nodes.tgroup(cols=len(header))
    group += [nodes.colspec(colwidth=1) for _ in header]
    head, body = nodes.thead(), nodes.tbody()
    head += _row(header)
    body += [_row(row) for row in rows]
    group += [head, body]
    table += group
    return table


def _row(cells: Row) -> nodes.row:
    row = nodes.row()
    row += [nodes.entry("", nodes.paragraph("", text)) for text in cells]
    return row

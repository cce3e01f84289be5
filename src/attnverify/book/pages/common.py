"""What the generated pages and the Sphinx extension share: anchors, words, the evidence file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnverify.chapters import registry
from attnverify.checking.records import Record, TwinRecord, read
from attnverify.derivation.myst import escape as escape
from attnverify.support.errors import InputError
from attnverify.support.files import read_json
from attnverify.support.typeset import as_html, numbers
from attnverify.support.vocabulary import (
    MARKS,
    REPORT_VERSION,
    STATUS_COLORS,
    UNCHECKED,
)
from attnverify.verification.status import derived

FIXED = "\N{NO-BREAK SPACE}"
#: What is no mathematics: code, a dotted name of a claim or a theorem, and a_name of words.
NAME = re.compile(r"(`[^`]*`|\b[A-Za-z]+\.[A-Za-z][\w.-]*|\b[a-z]{2,}_[a-z]{4,}\w*)")


@dataclass(frozen=True)
class Evidence:
    """An evidence file: what produced it, and the entry of each claim by id."""

    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def status(self, id: str) -> str:
        return self.claims[id]["status"] if id in self.claims else UNCHECKED

    def records(self, id: str) -> list[Mapping[str, Any]]:
        return list(self.claims.get(id, {}).get("evidence", ()))

    def twins(self, id: str) -> list[Mapping[str, Any]]:
        return list(self.claims.get(id, {}).get("twins", ()))

    def reasons(self, id: str) -> list[str]:
        """Why the status is what it is, where that is not plain."""
        return list(self.claims.get(id, {}).get("reasons", ()))


def read_evidence(path: Path) -> Evidence:
    """Read a file of ``attnverify verify --json``; raises InputError that says what is wrong.

    Statuses are derived from its records again.
    """
    expected = "a file written by `attnverify verify --json FILE`"
    with read_json(path, "evidence", "evidence file", expected=expected) as body:
        if body["version"] != REPORT_VERSION:
            raise InputError(
                f"evidence: got version {body['version']!r} in {path.name}, "
                f"expected {REPORT_VERSION}"
            )
        claims = {entry["id"]: dict(entry) for entry in body["claims"]}
        try:
            records = {id: [read(Record, r) for r in e["evidence"]] for id, e in claims.items()}
            twins = {id: [read(TwinRecord, t) for t in e["twins"]] for id, e in claims.items()}
            found = derived(registry, records, twins)
        except InputError as error:
            raise InputError(f"evidence: got {path.name}, in it {error}") from error
        for id, standing in found.items():  # what the file calls them is not looked at
            claims[id] |= {"status": standing.status, "reasons": list(standing.reasons)}
            # Pages tell no times of a run: they would be others after each.
            entry = claims[id]
            for record in entry["evidence"]:
                del record["seconds"]
            for each in (*entry["evidence"], *entry["twins"]):
                each.update({k: numbers(each[k]) for k in ("detail", "limits") if k in each})
        return Evidence(dict(body["environment"]), dict(body["settings"]), claims)


def told(text: str, plain: Callable[[str], str] = escape) -> str:
    """Mathematics in the text of a record, such as x^2 <= 4, as a page shows it; names stay."""
    parts = enumerate(NAME.split(text))
    return "".join(plain(part) if k % 2 else as_html(part, plain) for k, part in parts)


def anchor(id: str, page: str = "claim") -> str:
    """The id of a claim's place in a page: its box ("claim"), or its entry in another page."""
    return f"{page}-{id.replace('.', '-')}"


def number(value: float | None) -> str:
    """A ratio with enough digits to tell it from 1; no line breaks inside."""
    if value is None:
        return "–"
    if value != 0 and abs(value) < 1e-4:
        return numbers(f"{value:.1e}")
    if 0.9999 < value < 1:
        return f"1{FIXED}−{FIXED}{numbers(f'{1 - value:.1e}')}"
    return f"{value:.4f}"


def badge(status: str) -> str:
    """A status as HTML: a mark, the word, and a border in the status's color."""
    return (
        f'<span class="attnverify-badge" style="--attnverify-color: {STATUS_COLORS[status]}">'
        f'<span aria-hidden="true">{MARKS[status]}</span> {status}</span>'
    )


def scrolling(label: str, lines: Iterable[str], widths: str = "") -> list[str]:
    """MyST lines in a box that scrolls sideways by itself, reachable by keyboard.

    widths: of a table's first two columns, as in "30% 10%". A long table needs them: a browser
    shows it while it still comes, and each longer cell would move what is being read.
    """
    kind, style = "attnverify-scroll", ""
    if widths:
        first, second = widths.split()
        kind += " attnverify-steady"
        style = f' style="--first: {first}; --second: {second}"'
    start = f'<div class="{kind}" role="region" aria-label="{label}" tabindex="0"{style}>'
    return [start, "", *lines, "", "</div>", ""]


def pipe_table(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """A Markdown table of rows that map each header to its cell; the cells are MyST already."""
    rows = list(rows)
    header = list(rows[0]) if rows else []
    lines = [header, ["---"] * len(header), *([row[name] for name in header] for row in rows)]
    return [f"| {' | '.join(cells)} |" for cells in lines if cells]

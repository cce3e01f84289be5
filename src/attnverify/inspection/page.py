"""A report as one page that needs nothing else: light and dark, tables that sort, no other host."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from attnverify.inspection import absent
from attnverify.inspection.columns import LOST, TABLES, Column
from attnverify.inspection.drawings import figures, scalar_figures
from attnverify.inspection.findings import Findings
from attnverify.inspection.patterns import section as patterns
from attnverify.inspection.words import found, proved, scalar_sentences

FOLDER = Path(__file__).parent
TITLES = {
    "lengths": "The output by path length",
    "layers": "Layer by layer",
    "heads": "Head by head",
}
SCALAR = {
    "scalar_paths": "The paths that contribute most to the number",
    "scalar_tokens": "The number by input token",
    "scalar_heads": "The number by head",
    "scalar_layers": "The number by layer",
    "scalar_lengths": "The number by path length",
}
NONE = (
    "No number was chosen. attnverify inspect takes apart a logit (--logit TOKEN), a class "
    "(--class NAME) or a coordinate of the last hidden state (--coordinate I)."
)
MOST = 300  # rows of such a table on the page: those with the largest parts
HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width,initial-scale=1">'
)
KIND = ": inspection"  # how the title ends
EMPTY = "\u2013"
#: A cell of more letters than this has its lines broken.
WORDS = 24


class Link(NamedTuple):
    """A cell that leads somewhere."""

    text: str
    address: str


def page(report: Findings, book: str = "") -> str:
    """The whole page; book: address of the published book, which claims then link to."""
    title = f"{report.model['class']}, {report.model['layers']} layers{KIND}"
    return whole(title, body(report, True, book))


def whole(title: str, inside: str) -> str:
    """A page that needs nothing else, with this title and this between heading and end."""
    return (
        f"{HEAD}<title>{escape(title)}</title><style>{_own('page.css')}</style></head><body>"
        f"<main><h1>{escape(title)}</h1>{inside}</main><script>{_own('page.js')}</script>"
        "</body></html>\n"
    )


def is_ours(start: str) -> bool:
    """Whether a file that starts so is such a page."""
    return begins(start, KIND)


def begins(start: str, kind: str) -> bool:
    """Whether a file that starts so is a page of this package with such a title."""
    return start.startswith(f"{HEAD}<title>") and f"{kind}</title>" in start


def _own(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def body(report: Findings, whole: bool = False, book: str = "") -> str:
    """What stands on the page: proof, findings, figures, tables.

    whole: with patterns, which take a script and megabytes; a notebook shows a report without.
    """
    sentences = [*found(report), *absent.rollout(report), *report.notes]
    parts = [
        f"<p>{escape(_facts(report))}</p>",
        f'<p class="proof">{escape(proved(report))}</p>',
        f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in sentences)}</ul>",
        f'<div class="figures">{"".join(figures(report).values())}</div>',
        patterns(report, whole),
        *_scalar(report, book),
    ]
    brief = absent.is_brief(report)
    for name, title in TITLES.items():
        rows: list[dict[str, Any]] = _named(getattr(report, name), report.inputs["words"])
        parts.append(f"<h2>{title}</h2>")
        parts += explained(title, rows, TABLES[name], book, brief)
    return "".join([*parts, about_claims(book)])


def _scalar(report: Findings, book: str) -> list[str]:
    """The section on the number that was chosen, or why there is none."""
    if report.scalar is None:
        return ["<h2>One number in parts</h2>", f"<p>{NONE}</p>"]
    sentences = "".join(f"<li>{escape(each)}</li>" for each in scalar_sentences(report))
    parts = [
        "<h2>One number in parts</h2>",
        f"<ul>{sentences}</ul>",
        f'<div class="figures">{"".join(scalar_figures(report).values())}</div>',
    ]
    for name, title in SCALAR.items():
        if not (rows := getattr(report, name)):
            continue
        key = {"scalar_heads": "direct", "scalar_tokens": "value"}.get(name)
        if key and len(rows) > MOST:
            title += f", the {MOST} largest of {len(rows):,}; the CSV has all"
            rows = sorted(rows, key=lambda row: -abs(row[key]))[:MOST]
        hidden = () if "ablation" in report.scalar else (LOST,)
        columns = {key: each for key, each in TABLES[name].items() if key not in hidden}
        parts += [f"<h3>{title}</h3>", *explained(title, rows, columns, book)]
    return parts


def explained(
    title: str,
    rows: list[dict[str, Any]],
    columns: dict[str, Column],
    book: str,
    brief: bool = False,
) -> list[str]:
    """A table with what its columns mean, and why columns, or the table itself, are absent."""
    if not rows:
        return [f"<p>There is no such table here: {absent.BRIEF}.</p>"]
    why = absent.columns(rows, columns, brief)
    left = f"<p>{escape(why)}</p>" if why else ""
    return [table(title, rows, columns), left, legend(columns, book)]


def about_claims(book: str) -> str:
    """What the codes of claims are, and where they are read."""
    where = "a link leads to it." if book else "its address (--book URL) would make links of them."
    return (
        "<p>Codes such as <code>norms.diameter</code> name claims of the book; <code>attnverify "
        f"show norms.diameter</code> prints one, and {where}</p>"
    )


def claim(id: str, book: str) -> str:
    """The id of a claim, as a link to the published book where its address is known."""
    code = f"<code>{escape(id)}</code>"
    return f'<a href="{escape(book)}/claims/{escape(id)}.html">{code}</a>' if book else code


def _named(rows: list[dict[str, Any]], words: list[str] | None) -> list[dict[str, Any]]:
    """Rows whose nearest tokens have their words beside their numbers, where words are known."""
    if words is None or not rows or "nearest" not in rows[0]:
        return rows
    return [
        row | {"nearest": row["nearest"] and [f"{i} {words[i - 1]}" for i in row["nearest"]]}
        for row in rows
    ]


def _facts(report: Findings) -> str:
    m, i = report.model, report.inputs
    words = f"{i['texts']} text{'s' * (i['texts'] > 1)} of {i['tokens']} tokens"
    grouped = "" if m["key_heads"] == m["heads"] else f" ({m['key_heads']} of keys and values)"
    return (
        f"{m['family']}, {m['parameters']:,} parameters, {m['layers']} layers, {m['heads']} "
        f"heads{grouped}, width {m['width']}; {words}; run in {m['dtype']}."
    )


def table(title: str, rows: list[dict[str, Any]], columns: dict[str, Column]) -> str:
    """Rows under the titles of their columns, in a box that scrolls sideways."""
    shown = absent.shown(rows, columns)
    head = "".join(
        f'<th scope="col"><button type="button" title="{escape(columns[n].meaning)}">'
        f"{escape(columns[n].title)}</button></th>"
        for n in shown
    )
    lines = "".join(f"<tr>{''.join(_cell(row.get(n)) for n in shown)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _cell(value: Any) -> str:
    if value is None:
        return f"<td>{EMPTY}</td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        return f'<td data-n="{value!r}">{text}</td>'
    if isinstance(value, Link):
        return f'<td><a href="{escape(value.address)}">{escape(value.text)}</a></td>'
    text = ", ".join(str(each) for each in value) if isinstance(value, list) else str(value)
    kind = ' class="words"' if len(text) > WORDS else ""
    return f"<td{kind}>{escape(text)}</td>"


def legend(columns: dict[str, Column], book: str = "") -> str:
    """What the columns mean, folded; book: as in :func:`page`."""
    entries = []
    for column in columns.values():
        if not column.meaning or column.meaning == "counted from 1":
            continue
        rests = f" Rests on {claim(column.claim, book)}." if column.claim else ""
        limit = f" Does not show: {escape(column.limit)}." if column.limit else ""
        entries.append(
            f"<dt>{escape(column.title)}</dt><dd>{escape(column.meaning)}.{rests}{limit}</dd>"
        )
    return (
        "<details><summary>What the columns mean, what they rest on, what they do not show"
        f"</summary><dl>{''.join(entries)}</dl></details>"
    )

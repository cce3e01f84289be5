"""A report as one page that needs nothing else: light and dark, tables that sort, no other host."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from attninspect import absent
from attninspect.columns import LOST, TABLES, Column, visible
from attninspect.drawings import figures, scalar_figures
from attninspect.findings import Findings
from attninspect.patterns import section as patterns
from attninspect.words import found, proved, scalar_sentences
from attnverify.support.typeset import numbers
from attnverify.support.vocabulary import counted

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
PARTS = Markup("<h2>One number in parts</h2>")
MOST = 300  # rows of such a table on the page: those with the largest parts
HEAD = Markup(
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width,initial-scale=1">'
    '<meta name="generator" content="attnverify">'
)
EMPTY = "\u2013"
#: A cell of more letters than this has its lines broken.
WORDS = 24


class Link(NamedTuple):
    """A cell that leads somewhere."""

    text: str
    address: str


def page(report: Findings, book: str = "") -> Markup:
    """The whole page; book: address of the published book, which claims then link to."""
    title = f"{report.model['class']}, {counted(report.model['layers'], 'layer')}: inspection"
    return whole(title, body(report, True, book))


def whole(title: str, inside: Markup) -> Markup:
    """A page that needs nothing else, with this title and this between heading and end."""
    return Markup(
        "{}<title>{}</title><style>{}</style></head><body><main><h1>{}</h1>{}</main>"
        "<script>{}</script></body></html>\n"
    ).format(HEAD, title, _own("page.css"), title, inside, _own("page.js"))


def paragraph(text: str, kind: str = "") -> Markup:
    """A paragraph of plain text, whose floats become powers of ten; kind: its class."""
    return Markup("<p{}>{}</p>").format(
        Markup(' class="{}"').format(kind) if kind else "", numbers(text)
    )


def bullets(lines: Iterable[str]) -> Markup:
    """A list of lines of plain text, whose floats become powers of ten."""
    items = (Markup("<li>{}</li>").format(numbers(line)) for line in lines)
    return Markup("<ul>{}</ul>").format(Markup().join(items))


def drawn(figures: Iterable[Markup]) -> Markup:
    """Figures beside each other."""
    return Markup('<div class="figures">{}</div>').format(Markup().join(figures))


def begins(start: str, kind: str = "") -> bool:
    """Whether a file that starts so is a page of this package with a title that ends so."""
    return start.startswith(HEAD) and f"{kind}</title>" in start


def _own(name: str) -> Markup:
    return Markup((FOLDER / name).read_text(encoding="utf-8"))


def body(report: Findings, whole: bool = False, book: str = "") -> Markup:
    """What stands on the page: proof, findings, figures, tables.

    whole: with patterns, which take a script and megabytes; a notebook shows a report without.
    """
    sentences = [*found(report), *absent.rollout(report), *report.notes]
    parts = [
        paragraph(_facts(report)),
        paragraph(proved(report), "proof"),
        bullets(sentences),
        drawn(figures(report).values()),
        patterns(report, whole),
        *_scalar(report, book),
    ]
    brief = absent.is_brief(report)
    for name, title in TITLES.items():
        rows: list[dict[str, Any]] = _named(getattr(report, name), report.inputs["words"])
        parts.append(Markup("<h2>{}</h2>").format(title))
        parts += explained(title, rows, TABLES[name], book, brief)
    return Markup().join([*parts, about_claims(book)])


def _scalar(report: Findings, book: str) -> list[Markup]:
    """The section on the number that was chosen, or why there is none."""
    if report.scalar is None:
        return [PARTS, paragraph(NONE)]
    parts = [PARTS, bullets(scalar_sentences(report)), drawn(scalar_figures(report).values())]
    for name, title in SCALAR.items():
        if not (rows := _named(getattr(report, name), None)):
            continue
        key = {"scalar_heads": "direct", "scalar_tokens": "value"}.get(name, "")
        if key and len(rows) > MOST:
            title += f", the {MOST} largest of {len(rows):,}; the CSV has all"
            rows = sorted(rows, key=lambda row: -abs(row[key]))[:MOST]
        hidden = () if "ablation" in report.scalar else (LOST,)
        columns = {key: each for key, each in TABLES[name].items() if key not in hidden}
        parts.append(Markup("<h3>{}</h3>").format(title))
        parts += explained(title, rows, columns, book)
    return parts


def explained(
    title: str,
    rows: list[dict[str, Any]],
    columns: dict[str, Column],
    book: str,
    brief: bool = False,
) -> list[Markup]:
    """A table with what its columns mean, and why columns, or the table itself, are absent."""
    if not rows:
        return [paragraph(f"There is no such table here: {absent.BRIEF}.")]
    why = absent.columns(rows, columns, brief)
    left = [paragraph(why)] if why else []
    return [table(title, rows, columns), *left, legend(columns, book)]


def about_claims(book: str) -> Markup:
    """What the codes of claims are, and where they are read."""
    where = "a link leads to it." if book else "its address (--book URL) would make links of them."
    return Markup(
        "<p>Codes such as <code>norms.diameter</code> name claims of the book; <code>attnverify "
        "show norms.diameter</code> prints one, and {}</p>"
    ).format(where)


def claim(id: str, book: str) -> Markup:
    """The id of a claim, as a link to the published book where its address is known."""
    code = Markup("<code>{}</code>").format(id)
    link = Markup('<a href="{}/claims/{}.html">{}</a>')
    return link.format(book, id, code) if book else code


def _named(rows: list[dict[str, Any]], words: list[str] | None) -> list[dict[str, Any]]:
    """Rows whose words show their blanks, nearest tokens with words where these are known."""
    seen = (row | {"word": visible(row["word"])} if row.get("word") else row for row in rows)
    found: list[dict[str, Any]] = list(seen)
    return [
        row | {"nearest": [f"{i} {visible(words[i - 1])}" for i in row["nearest"]]}
        if words and row.get("nearest")
        else row
        for row in found
    ]


def _facts(report: Findings) -> str:
    m, i = report.model, report.inputs
    words = f"{counted(i['texts'], 'text')} of {counted(i['tokens'], 'token')}"
    grouped = "" if m["key_heads"] == m["heads"] else f" ({m['key_heads']} of keys and values)"
    came = m["attention_as_given"]
    came = "" if came == m["attention"] else f" (the model came with {came})"
    return (
        f"{m['family']}, {counted(m['parameters'], 'parameter')}, {counted(m['layers'], 'layer')}, "
        f"{counted(m['heads'], 'head')}{grouped}, width {m['width']}; {words}; run in "
        f"{m['dtype']} (weights in {m['stored']}), attention: {m['attention']}{came}."
    )


def table(title: str, rows: list[dict[str, Any]], columns: dict[str, Column]) -> Markup:
    """Rows under the titles of their columns, in a box that scrolls sideways."""
    shown = absent.shown(rows, columns)
    head = Markup('<th scope="col"><button type="button" title="{}">{}</button></th>')
    heads = [head.format(columns[n].meaning, columns[n].title) for n in shown]
    lines = [Markup().join(_cell(row.get(n)) for n in shown) for row in rows]
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="{}"><table>'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(title, Markup().join(heads), Markup().join(map(Markup("<tr>{}</tr>").format, lines)))


def _cell(value: Any) -> Markup:
    if value is None:
        return Markup("<td>{}</td>").format(EMPTY)
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else numbers(f"{value:.4g}")
        return Markup('<td data-n="{!r}">{}</td>').format(value, text)
    if isinstance(value, Link):
        return Markup('<td><a href="{}">{}</a></td>').format(value.address, value.text)
    text = ", ".join(str(each) for each in value) if isinstance(value, list) else str(value)
    kind = Markup(' class="words"') if len(text) > WORDS else ""
    return Markup("<td{}>{}</td>").format(kind, text)


def legend(columns: dict[str, Column], book: str = "") -> Markup:
    """What the columns mean, folded; book: as in :func:`page`."""
    entries = []
    for column in columns.values():
        if not column.meaning or column.meaning == "counted from 1":
            continue
        code = claim(column.claim, book)
        rests = Markup(" Rests on {}.").format(code) if column.claim else ""
        limit = f" Does not show: {column.limit}." if column.limit else ""
        entry = Markup("<dt>{}</dt><dd>{}.{}{}</dd>")
        entries.append(entry.format(column.title, column.meaning, rests, limit))
    return Markup(
        "<details><summary>What the columns mean, what they rest on, what they do not show"
        "</summary><dl>{}</dl></details>"
    ).format(Markup().join(entries))

"""The map: every claim beside the papers that it concerns, as a figure and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape as html
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from attnverify.book.pages import errata, papers
from attnverify.book.pages.common import Evidence, anchor, pipe_table, scrolling
from attnverify.book.pages.papers import Chapter, Paper
from attnverify.chapters import Claim, registry
from attnverify.support.vocabulary import MARKS, STATUS_COLORS, counted

#: What became of a statement, with its mark and color; green holds, as on all pages.
VERDICTS = {
    "holds as stated": ("✓", STATUS_COLORS["verified"]),
    "completed": ("+", STATUS_COLORS["verified"]),
    "sharpened": ("↑", STATUS_COLORS["verified"]),
    "corrected": (MARKS["corrected"], STATUS_COLORS["corrected"]),
    "false as stated": (MARKS["refuted"], STATUS_COLORS["refuted"]),
    "criterion met": (MARKS["criterion met"], STATUS_COLORS["criterion met"]),
    "criterion not met": (MARKS["criterion not met"], STATUS_COLORS["criterion not met"]),
    "proved here": ("◆", "currentColor"),
    "not settled": ("?", STATUS_COLORS["not checked"]),
}
#: How a claim concerns a paper.
LINES = {
    "taken": "the statement is taken from the paper",
    "related": "the claim is on the paper's subject, or sharpens or corrects a statement of it",
    "context": "the claim names no paper; its chapter cites this one, or the claim rests on it",
}
#: Heights of rows and headings. Where names of papers end, lines level out, the first mark stands.
ROW, HEAD, NAMES, LEVEL, FIRST, WIDTH = 24, 36, 208, 400, 424, 768

INTRO = """\
# The map

Every claim of this book stands beside the papers that it concerns: papers at the left, claims at
the right, a mark each, by chapter. Point to a paper, a mark or a chapter, or reach it with the Tab
key, to see what belongs to it. A mark leads to its claim, a paper to its line in the table below,
and the number of claims in that line back here.
"""

TABLE = """\
## The papers

*What it claims* is this book's reading, mostly of abstracts ({doc}`/book/bibliography`). *Verdict
here* counts the statements that were taken from the paper; {doc}`/book/generated/errata` has them
one by one. *Not settled* means that none was taken, so that none is judged; the claims that are
counted are on its subject. A possible misreading is one of a paper that need not say it. *Cited*
means that chapters name the work and judge nothing of it. Works that only {doc}`/book/related`
names are not listed.
"""


class Book(NamedTuple):
    """Chapters by stem, works by key, verdicts by id, and how a claim concerns papers, by both."""

    chapters: Mapping[str, Chapter]
    works: Mapping[str, Paper]
    verdicts: Mapping[str, str]
    links: Mapping[str, Mapping[str, str]]

    def papers_by_part(self) -> dict[str, list[str]]:
        """Works that a claim concerns, each in the part with the most of these claims."""
        parts: dict[str, Counter[str]] = {}
        for id, keys in self.links.items():
            for key in keys:
                parts.setdefault(key, Counter())[self.chapters[registry[id].notebook].part] += 1
        groups: dict[str, list[str]] = {chapter.part: [] for chapter in self.chapters.values()}
        for key, counts in parts.items():
            groups[counts.most_common(1)[0][0]].append(key)
        return {part: keys for part, keys in groups.items() if keys}


def text(evidence: Evidence, root: Path) -> str:
    """The page as MyST; root: the folder with ``_toc.yml``, ``notebooks`` and ``book``."""
    chapters = papers.chapters(root)
    verdicts = {id: verdict(claim, evidence.status(id)) for id, claim in registry.items()}
    links = {id: concerned(claim, chapters) for id, claim in registry.items()}
    book = Book(chapters, papers.papers(root), verdicts, links)
    table = scrolling("The papers", pipe_table(_rows(book)), "15% 32%")
    return "\n".join([INTRO, "```{raw} html", _figure(book), "```", "", TABLE, *table])


def verdict(claim: Claim, status: str) -> str:
    """What became of a statement here, as the page on the two papers says: of ``VERDICTS``."""
    if status in ("partial", "failed", "not checked"):
        return "not settled"
    if not claim.derived:
        return status
    if not claim.published:
        return "proved here"
    if claim.asserts == "fails":
        return "corrected" if status == "corrected" else "false as stated"
    if errata.sharper(claim.id):
        return "sharpened"
    return "completed" if claim.here else "holds as stated"


def concerned(claim: Claim, chapters: Mapping[str, Chapter]) -> dict[str, str]:
    """The papers that a claim concerns by key, and how: one of ``LINES``."""
    corrected = (c.id for c in registry.values() if c.corrected_by == claim.id)
    beside = [id for id in (claim.sharpens, claim.reads, *corrected) if id]
    found = {s.key: "related" for id in beside for s in registry[id].sources}
    found |= {s.key: "related" for s in claim.sources}
    found |= {reading.near: "related" for reading in claim.refutes}
    found |= {s.key: "taken" for s in claim.sources if not s.related}
    if found:
        return found
    below = (s.key for id in claim.uses for s in registry[id].sources if not s.related)
    return dict.fromkeys(chapters[claim.notebook].cites or below, "context")


def _figure(book: Book) -> str:
    """The figure with its controls and its script. Without the script everything is shown."""
    marks: dict[str, list[str]] = {stem: [] for stem in book.chapters}
    for id, claim in registry.items():
        marks[claim.notebook].append(id)
    parts = {chapter.part: [] for chapter in book.chapters.values()}
    for stem in filter(marks.get, book.chapters):
        parts[book.chapters[stem].part].append(stem)
    groups = book.papers_by_part()
    names = {key: _name(key, book.works[key]) for keys in groups.values() for key in keys}
    rows = {stem: _chapter(stem, book, ids) for stem, ids in marks.items()}
    left, low, tall = _stacked(groups, names, NAMES - 8)
    right, at, taller = _stacked(parts, rows, FIRST - 10)
    places = {id: (k, at[stem]) for stem, ids in marks.items() for k, id in enumerate(ids)}
    drawn = "".join(
        f'<g class="{kind}">{"".join(_lines(kind, book, low, places))}</g>' for kind in LINES
    )
    told = f"{len(registry)} claims, {len(names)} papers"
    folder = resources.files("attnverify.book.pages")
    style, script = (folder.joinpath(f"map.{end}").read_text("utf-8") for end in ("css", "js"))
    return (
        f'<figure class="attnverify-map"><style>{" ".join(style.split())}</style>'
        f"{_controls(parts, book.verdicts, told)}{_keys()}"
        '<p><a href="#the-papers">Skip the figure</a></p>\n'
        '<div class="attnverify-scroll" role="region" aria-label="The map" tabindex="0">'
        f'<svg viewBox="0 0 {WIDTH} {max(tall, taller)}" role="group" aria-label="Map: {told}" '
        f'data-row="{ROW}" data-head="{HEAD}">{drawn}\n<g class="side left">{left}</g>\n'
        f'<g class="side">{right}</g></svg></div></figure>\n<script>{script.rstrip()}</script>'
    )


def _stacked(
    groups: Mapping[str, Iterable[str]], drawn: Mapping[str, str], x: int
) -> tuple[str, dict[str, int], int]:
    """Headings at x and rows below each other: what is drawn, tops of the rows, and the height."""
    parts, tops, y = [], {}, 0
    for part, rows in groups.items():
        parts.append(
            f'<text class="head" x="{x}" y="26" transform="translate(0,{y})">{part}</text>'
        )
        y += HEAD
        for row in rows:
            tops[row] = y
            parts.append(drawn[row].replace("{y}", str(y)))
            y += ROW
    return "\n".join(parts), tops, y


def _name(key: str, paper: Paper) -> str:
    """The name of a paper, a link to its line in the table."""
    text = f'<text x="{NAMES - 8}" y="17">{html(paper.label)}</text>'
    return (
        f'<a class="row paper" id="map-{key}" href="#paper-{key}" transform="translate(0,{{y}})">'
        f'<rect width="{NAMES}" height="{ROW}"/>{text}</a>'
    )


def _chapter(stem: str, book: Book, ids: list[str]) -> str:
    """The marks of a chapter's claims and its title, which all are links."""
    page, parts = f"../../notebooks/{stem}.html", []
    for k, id in enumerate(ids):
        word = book.verdicts[id]
        mark, color = VERDICTS[word]
        parts.append(
            f'<a class="claim" id="{anchor(id, "map")}" href="{page}#{anchor(id)}" '
            f'data-verdict="{word}" aria-label="{html(registry[id].title)}: {word}" '
            f'style="--look:{color}"><circle cx="{FIRST + k * ROW}" cy="12" r="9"/>'
            f'<text x="{FIRST + k * ROW}" y="12">{mark}</text></a>'
        )
    chapter = book.chapters[stem]
    title = f'<text x="{FIRST + len(ids) * ROW}" y="17">{html(chapter.title)}</text>'
    start = f'<g class="row" data-part="{chapter.part}" transform="translate(0,{{y}})">'
    return f'{start}{"".join(parts)}<a class="chapter" href="{page}">{title}</a></g>'


def _lines(
    kind: str, book: Book, low: Mapping[str, int], places: Mapping[str, tuple[int, int]]
) -> Iterable[str]:
    """The lines of one kind, from a paper to the edge of a mark."""
    middle = (NAMES + LEVEL) // 2
    for id, (k, top) in places.items():
        for key in (key for key, how in book.links[id].items() if how == kind):
            a, b = low[key] + ROW // 2, top + ROW // 2
            curve = f"M{NAMES},{a}C{middle},{a} {middle},{b} {LEVEL},{b}"
            ends = f'data-a="map-{key}" data-b="{anchor(id, "map")}"'
            yield f'<path {ends} d="{curve}H{FIRST + k * ROW - 9}"/>'


def _controls(parts: Iterable[str], verdicts: Mapping[str, str], told: str) -> str:
    """Two lists to choose from, which the script shows, and how much is shown."""
    count = Counter(verdicts.values())
    words = {v: f"{mark} {v} ({count[v]})" for v, (mark, _) in VERDICTS.items() if count[v]}
    lists = {"Part": {part: part for part in parts}, "Verdict": words}
    shown = ""
    for label, values in lists.items():
        options = "".join(f'<option value="{v}">{shown}</option>' for v, shown in values.items())
        all_of = f'<option value="">all {label.lower()}s</option>'
        shown += f"<label>{label} <select>{all_of}{options}</select></label> "
    return f'<fieldset style="visibility:hidden">{shown}<output>{told}</output></fieldset>'


def _keys() -> str:
    """What marks and lines mean."""
    marks = (
        f'<span><b style="--look:{color}" aria-hidden="true">{mark}</b> {word}</span>'
        for word, (mark, color) in VERDICTS.items()
    )
    lines = (
        f'<span><svg viewBox="0 0 30 10" aria-hidden="true" class="{kind}"><path d="M1,5H29"/>'
        f"</svg> {word}</span>"
        for kind, word in LINES.items()
    )
    return f'<p class="keys">{"".join(marks)}</p><p class="keys">{"".join(lines)}</p>'


def _rows(book: Book) -> Iterable[dict[str, str]]:
    """A line a paper: those with most statements here first, then in the order of the figure."""
    drawn = [key for keys in book.papers_by_part().values() for key in keys]
    cited = (key for chapter in book.chapters.values() for key in chapter.cites)
    near = Counter(reading.near for _, reading in errata.failing_readings())
    taken = Counter(k for keys in book.links.values() for k, how in keys.items() if how == "taken")
    for key in sorted(dict.fromkeys([*drawn, *cited]), key=lambda key: -taken[key]):
        how = {id: keys[key] for id, keys in book.links.items() if key in keys}
        pages = {registry[id].notebook for id, kind in how.items() if kind != "context"}
        found = ((s, c) for s, c in book.chapters.items() if key in c.cites or s in pages)
        back = f'<a href="#map-{key}">{counted(len(how), "claim")}</a>' if how else "no claim"
        wrong = f"; {{ref}}`possible misreadings: {near[key]} <neighboring-papers>`"
        links = (f"{{doc}}`{chapter.title} </notebooks/{stem}>`" for stem, chapter in found)
        yield {
            "Paper": f"[]{{#paper-{key}}}{{cite}}`{key}`: {back}",
            "What it claims": book.works[key].claims,
            "Verdict here": _judged(how, book.verdicts) + wrong * bool(near[key]),
            "Chapters": ", ".join(links),
        }


def _judged(how: Mapping[str, str], verdicts: Mapping[str, str]) -> str:
    """The verdicts on the statements of a paper, from how it is concerned by claims."""
    taken, related = (
        Counter(verdicts[id] for id, kind in how.items() if kind == wanted)
        for wanted in ("taken", "related")
    )
    counts = taken or related
    words = "; ".join(f"{v}: {counts[v]}" for v in VERDICTS if counts[v])
    return words if taken else f"not settled (on its subject: {words})" if related else "cited"

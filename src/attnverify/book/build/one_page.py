"""Join the pages of the built book to one page, for paper. `make pdf` prints it.

The pages are taken as they were built, so numbers, citations and boxes are those of the book that
is read online. What refers to a page refers to a place in the one page afterwards. The code of the
cells, the tables of every check and twin, formal statements in the boxes of claims, and the pages
about the package are left out: the pages and the notebooks have them. What the code computed and
the line that says what was checked stay. Solutions go to an appendix.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

import yaml

#: The files that are made of the one page, without their ending.
ONE_FILE = "attention-verified"
TAG = re.compile(r"<[a-zA-Z][^<>]*>")
REFERENCE = re.compile(r'\b(id|for|href|xlink:href|src)="([^"]*)"')
OWN_PLACE = re.compile(r"url\(#([^)]*)\)")  # in a drawing: its marks and clips
LEFT_OUT = re.compile(
    r'<details class="(?:admonition hide above-input|attnverify-(?:details|formal))">.*?</details>'
    r'|<figure class="attnverify-map">.*?</figure>',
    re.S,
)
ABOUT_THE_PACKAGE = re.compile(r"book/(api|generated/(code|files)$)")
SCRIPT = re.compile(r"<script\b.*?</script>", re.S)
#: Paper takes the wide drawing of a figure.
NARROW = re.compile(r"</?(?:picture|source)\b[^>]*>")
SOLUTION = re.compile(
    r'<details class="sd-sphinx-override[^>]*>\s*<summary[^>]*>\s*'
    r'<span class="sd-summary-text">Solution</span>.*?</summary>(.*?)</details>',
    re.S,
)
STYLE = """
@page { size: A4; margin: 18mm 17mm 20mm; }
html { font-size: 9.5pt; }
main { max-width: none; }
h1 { break-before: page; font-size: 2rem; }
h2 { font-size: 1.5rem; }
h3 { font-size: 1.2rem; }
h1, h2, h3, h4 { break-inside: avoid; margin-top: 1.2rem; }
h1, h2, h3, h4, .cell_output .output, figcaption { break-after: avoid; }
figure, .proof, tr, .katex-display { break-inside: avoid; }
figcaption { break-before: avoid; }
.headerlink, .copybtn, button, fieldset, .attnverify-cite, summary { display: none !important; }
"""


def reading_order(root: Path) -> list[str]:
    """The pages of the table of contents that are printed."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    pages = [toc["root"], *(c["file"] for part in toc["parts"] for c in part["chapters"])]
    return [page for page in pages if not ABOUT_THE_PACKAGE.match(page)]


def place(page: str, fragment: str = "") -> str:
    """The id, in the joined page, of a place in one of its pages."""
    return f"{page.replace('/', '-')}--{fragment}" if fragment else page.replace("/", "-")


def rewrite(article: str, page: str, pages: set[str]) -> str:
    """The article of a page with ids, links and pictures rewritten for the joined page."""

    def attribute(match: re.Match) -> str:
        name, value = match.groups()
        return f'{name}="{_moved(name, value, page, pages)}"'

    def tag(match: re.Match) -> str:
        text = REFERENCE.sub(attribute, match.group())
        return OWN_PLACE.sub(lambda m: f"url(#{place(page, m.group(1))})", text)

    return TAG.sub(tag, article)


def _moved(name: str, value: str, page: str, pages: set[str]) -> str:
    """The new value of an attribute: an id made unique, or the new target of a link."""
    if name in {"id", "for"}:
        return place(page, value)
    if re.match(r"[a-z]+:", value):
        return value
    path, _, fragment = value.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    target = path.removesuffix(".html")
    return f"#{place(target, fragment)}" if target in pages else path


class Book:
    """The joined page, gathered page by page."""

    def __init__(self, folder: Path, order: list[str]) -> None:
        self.folder, self.order = folder, order
        self.solutions: list[str] = []

    def _read(self, page: str) -> str:
        return (self.folder / f"{page}.html").read_text(encoding="utf-8")

    def _numbered(self, match: re.Match) -> str:
        """An exercise's solution moves to the appendix; a link to it stays."""
        number = sum("solution-" in text for text in self.solutions) + 1
        back = f'<strong><a id="solution-{number}" href="#exercise-{number}">{number}.</a></strong>'
        self.solutions.append(f"<div><p>{back}</p>{match.group(1)}</div>")
        return f'<p><a id="exercise-{number}" href="#solution-{number}">Solution {number}</a></p>'

    def chapter(self, page: str) -> str:
        """One page's article, ready to be joined."""
        from attnverify.book.sphinx.folding import unfolded  # loads Sphinx

        text = self._read(page)
        article = text[text.index("<article") : text.index("</article>")]
        article = article[article.index(">") + 1 :]
        article = unfolded(article, self.folder / "_static")
        article = NARROW.sub("", SCRIPT.sub("", LEFT_OUT.sub("", article)))
        article = rewrite(article, page, set(self.order))
        before = len(self.solutions)
        article = SOLUTION.sub(self._numbered, article)
        if len(self.solutions) > before:
            self.solutions.insert(before, f"<h2>{title(article)}</h2>")
        # After the solutions, as what is folded in them is opened too.
        article = article.replace("<details", "<details open")
        return f'<section id="{place(page)}">{article}</section>'

    def head(self) -> str:
        """The style sheets of the book and that of paper."""
        first = self._read(self.order[0])
        links = re.findall(r'<link [^>]*rel="stylesheet"[^>]*>', first)
        styles = "".join(rewrite(link, self.order[0], set()) for link in links)
        return f'<meta charset="utf-8"><title>{book_title(first)}</title>{styles}'

    def joined(self, say: Callable[[str], None] = lambda page: None) -> str:
        """The whole document."""
        chapters = []
        for page in self.order:
            say(page)
            chapters.append(self.chapter(page))
        appendix = f'<section id="solutions"><h1>Solutions</h1>{"".join(self.solutions)}</section>'
        appendix = appendix.replace("<details", "<details open")
        body = without_loose_links("\n".join([*chapters, appendix]))
        return (
            f'<!doctype html><html lang="en" data-theme="light"><head>{self.head()}'
            f'<style>{STYLE}</style></head><body><main class="bd-main">'
            f'<article class="bd-article">{body}</article></main></body></html>'
        )


def without_loose_links(text: str) -> str:
    """The text in which links to left-out pages have become words."""
    names = set(re.findall(r'\bid="([^"]*)"', text))

    def kept(match: re.Match) -> str:
        page, _, name = match.group(1).partition("#")
        leads = name in names if not page else re.match(r"[a-z]+:", page)
        return match.group() if leads else ""

    return re.sub(r' href="([^"]*)"', kept, text)


def title(article: str) -> str:
    """The heading of a page, without its own link."""
    heading = re.search(r"<h1[^>]*>(.*?)(?:<a class=\"headerlink\".*?)?</h1>", article, re.S)
    return heading.group(1) if heading else ""


def book_title(text: str) -> str:
    """The title in a page's head, after the dash."""
    found = re.search(r"<title>(.*?)</title>", text, re.S)
    return html.escape(html.unescape(found.group(1)).split("—")[-1].strip()) if found else ""

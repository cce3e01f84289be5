"""What a published book needs: descriptions, addresses, a picture, a page for lost readers.

Every page gets a description and Open Graph properties. What holds an address is made where the
build knows one (`html_baseurl`, from BOOK_ADDRESS): canonical links, which Sphinx writes, `og:url`
and `og:image`, `sitemap.xml`, and `feed.xml`, the changes by the lines of CHANGELOG.md.

Written here because sphinx-sitemap warns without an address, which fails a strict build;
sphinxext-opengraph writes relative addresses then, and TeX into descriptions.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from docutils import nodes
from matplotlib.figure import Figure
from sphinx.application import Sphinx

from attnverify import __version__
from attnverify.book.sphinx import changes, plain_formulas
from attnverify.support.files import write_text
from attnverify.topics import registry

#: Characters of a description: search engines cut longer ones.
LONGEST, SHORTEST = 160, 50
FEWEST = 3  # words of a sentence
SUMMARY = "An executable book that verifies two papers about self-attention"
PICTURE = "_static/book.png"
SIZE = (1200, 630)  # pixels, what Open Graph readers expect
RESULT = "The result."  # the bold words of the first paragraph of a chapter
SENTENCE = re.compile(r"(?<=[.!?])(?<!Fig\.)\s+")
CITATION = re.compile(r" \[[^\[\]]*\d{4}[a-z]?\]")
#: Words after which a citation is a noun, without which the sentence is none.
BEFORE_NOUN = re.compile(r"\b(of|in|to|by|from|than|and|or|that|with|on|see|as|for|like)$")
REFERENCE = re.compile(r" \((?:Fig\.|Theorem|Lemma|Proposition)[^()]*\)")
FORMULA = "\N{OBJECT REPLACEMENT CHARACTER}"
LOST = "404"


def address(app: Sphinx) -> str:
    """Address of the published book with a slash at its end; empty if none is known."""
    base = app.config.html_baseurl
    return f"{base.rstrip('/')}/" if base else ""


def _words(node: nodes.Node, formula: Callable[[str], str] = lambda tex: FORMULA) -> str:
    """Text of a paragraph without its bold lead; a mark for each formula unless it has a text."""
    if isinstance(node, nodes.Text):
        return str(node)
    if isinstance(node, nodes.math):
        return formula(node.astext())
    if isinstance(node, (nodes.raw, nodes.footnote_reference)):
        return FORMULA
    parts = [child for child in node.children if child.astext()]
    if isinstance(node, nodes.paragraph) and parts and isinstance(parts[0], nodes.strong):
        parts = parts[1:]
    return "".join(_words(part, formula) for part in parts)


def _in_text(tex: str) -> str:
    try:
        return plain_formulas.plain(tex)
    except plain_formulas.Unknown:
        return FORMULA


def _without_citations(text: str) -> str:
    """A citation is left out, or marked as a formula is where the sentence needs it."""

    def left_out(match: re.Match[str]) -> str:
        needed = BEFORE_NOUN.search(text[: match.start()])
        return f" {FORMULA}" if needed else ""

    return CITATION.sub(left_out, text)


def result(doctree: nodes.document) -> str:
    """What a chapter says first, after the words "The result."; empty for other pages."""
    for paragraph in doctree.findall(nodes.paragraph):
        lead = paragraph.children[0] if paragraph.children else None
        if isinstance(lead, nodes.strong) and lead.astext() == RESULT:
            text = " ".join(_words(paragraph, _in_text).split())
            text = REFERENCE.sub("", _without_citations(text))
            return "" if FORMULA in text else text
    return ""


def sentences(doctree: nodes.document) -> Iterator[str]:
    """Sentences of a page's own paragraphs that hold no formula."""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            text = " ".join(_words(paragraph).split())
            for sentence in SENTENCE.split(_without_citations(text)):
                ends = sentence[:1].isupper() and sentence[-1:] in ".!?"
                if ends and FORMULA not in sentence and len(sentence.split()) >= FEWEST:
                    yield sentence


def description(title: str, doctree: nodes.document | None) -> str:
    """What a page is about: a chapter's result, or the page's own first sentences.

    Where these say little they come after the title.
    """
    text = result(doctree) if doctree else ""
    for sentence in sentences(doctree) if doctree and not text else ():
        if text and len(text) + len(sentence) >= LONGEST:
            break
        text = f"{text} {sentence}".strip()
    if len(text) < SHORTEST:
        text = " ".join(filter(None, [f"{title}:", text, f"{SUMMARY}."]))
    return textwrap.shorten(text, LONGEST, placeholder="…")


def _meta(name: str, value: str, attribute: str = "property") -> str:
    return f'<meta {attribute}="{name}" content="{html.escape(value)}" />\n'


def plain(title: str) -> str:
    """A title without its markup and its number's mark."""
    return html.unescape(re.sub(r"<[^>]*>", "", title)).strip()


def tags(title: str, text: str, book: str, url: str, base: str) -> str:
    """The description of a page, for search engines and for those who show links to it."""
    found = _meta("description", text, "name")
    found += _meta("og:title", title) + _meta("og:description", text)
    found += _meta("og:site_name", book) + _meta("og:type", "article")
    if base:
        found += _meta("og:url", url) + _meta("og:image", base + PICTURE)
        found += _meta("og:image:alt", f"{book}. {SUMMARY}.")
        found += _meta("twitter:card", "summary_large_image", "name")
        found += '<link rel="alternate" type="application/atom+xml" title="Changes" '
        found += f'href="{base}feed.xml" />\n'
    return found


def describe(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Put the tags into the head of a page."""
    if app.builder.format != "html":
        return
    base = address(app)
    title = plain(context.get("title") or "") or app.config.project
    if pagename == LOST:
        context["pageurl"] = None
        context["metatags"] = context.get("metatags", "") + _meta("robots", "noindex", "name")
        if base:  # served for any missing page, in whatever folder
            path = html.escape(urlsplit(base).path)
            context["metatags"] = f'<base href="{path}" />\n' + context["metatags"]
        return
    text = description(title, doctree)
    url = context.get("pageurl") or ""
    context["metatags"] = context.get("metatags", "") + tags(
        title, text, app.config.project, url, base
    )


def lost(app: Sphinx) -> Iterator[tuple[str, dict, str]]:
    """The page for an address that leads nowhere."""
    root = app.config.root_doc
    body = (
        "<section><h1>Page not found</h1><p>There is no page at this address. A claim is at "
        "<code>claims/</code>, its id and <code>.html</code>, wherever the book prints it.</p>"
        f'<p>Go to <a href="{root}.html">the first page</a> or '
        '<a href="search.html">search the book</a>.</p></section>'
    )
    yield LOST, {"title": "Page not found", "body": body}, "page.html"


def sitemap(base: str, pages: list[str]) -> str:
    """The pages of the book for search engines (sitemaps.org, protocol 0.9)."""
    listed = "".join(f"<url><loc>{html.escape(base + page)}.html</loc></url>\n" for page in pages)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    start = '<?xml version="1.0" encoding="utf-8"?>\n'
    return f'{start}<urlset xmlns="{space}">\n{listed}</urlset>\n'


def draw_picture(path: Path, title: str) -> None:
    """The picture that is shown with links to the book: its name and what it does."""
    figure = Figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100, facecolor="#0f2537")
    texts = [(0.62, title, 56, "bold"), (0.42, SUMMARY + ".", 23, "normal")]
    kept = "each checked beside a false neighbor that must be rejected."
    texts.append((0.3, f"{len(registry)} claims, {kept}", 20, "normal"))
    for height, text, size, weight in texts:
        figure.text(0.06, height, text, fontsize=size, weight=weight, color="white")
    figure.text(0.06, 0.1, f"Version {__version__}", fontsize=18, color="#b9c7d3")
    figure.savefig(path, format="png", metadata={"Software": None})


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Write what is no page."""
    if exception is not None or app.builder.name != "html":
        return
    out, base = Path(app.outdir), address(app)
    page = out / f"{LOST}.html"
    text = page.read_text(encoding="utf-8")  # links inside the page are no links to the first page
    write_text(page, text.replace('href="#', f'href="{LOST}.html#'))
    if base:
        write_text(out / "sitemap.xml", sitemap(base, sorted(app.env.found_docs)))
        draw_picture(out / PICTURE, app.config.project)
        entries = changes.entries(Path(app.srcdir, "CHANGELOG.md"))
        write_text(out / "feed.xml", changes.feed(entries, app.config.project, base))


def setup(app: Sphinx) -> dict:
    """Connect the hooks."""
    app.connect("html-collect-pages", lost)
    app.connect("html-page-context", describe)
    app.connect("build-finished", finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

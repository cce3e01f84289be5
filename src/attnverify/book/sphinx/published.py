"""A description and Open Graph properties for every page.

The address of the published book is Sphinx's ``html_baseurl`` (from BOOK_ADDRESS); where it is set
Sphinx writes canonical links, and the pages name their address here as well.

Written here because sphinxext-opengraph writes TeX into descriptions.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx

#: Characters of a description: search engines cut longer ones.
LONGEST, SHORTEST = 160, 50
FEWEST = 3  # words of a sentence
SUMMARY = "An executable book that verifies two papers about self-attention"
SENTENCE = re.compile(r"(?<=[.!?])(?<!Fig\.)\s+")
#: Stands for a formula, or whatever else has no words.
WORDLESS = "\N{OBJECT REPLACEMENT CHARACTER}"


def _words(node: nodes.Node) -> str:
    """The text of a paragraph without its bold lead, with a mark for what has no words."""
    if isinstance(node, nodes.Text):
        return str(node)
    if isinstance(node, nodes.math | nodes.raw | nodes.footnote_reference | nodes.reference):
        return WORDLESS
    parts = list(node.children)
    if isinstance(node, nodes.paragraph) and parts and isinstance(parts[0], nodes.strong):
        parts = parts[1:]
    return "".join(map(_words, parts))


def sentences(doctree: nodes.document) -> Iterator[str]:
    """The sentences of a page's own paragraphs that hold no formula and no reference."""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            for sentence in SENTENCE.split(" ".join(_words(paragraph).split())):
                ends = sentence[:1].isupper() and sentence[-1:] in ".!?"
                if ends and WORDLESS not in sentence and len(sentence.split()) >= FEWEST:
                    yield sentence


def description(title: str, doctree: nodes.document | None) -> str:
    """The description of a page: its first sentences, after its title where these are short."""
    text = ""
    for sentence in sentences(doctree) if doctree else ():
        if text and len(text) + len(sentence) >= LONGEST:
            break
        text = f"{text} {sentence}".strip()
    if len(text) < SHORTEST:
        text = " ".join(filter(None, [f"{title}:", text, f"{SUMMARY}."]))
    return textwrap.shorten(text, LONGEST, placeholder="…")


def tags(title: str, text: str, book: str, url: str) -> str:
    """The description of a page, for search engines and for those who show links to it."""
    properties = {"title": title, "description": text, "site_name": book, "type": "article"}
    found = f'<meta name="description" content="{html.escape(text)}" />\n'
    for name, value in (properties | ({"url": url} if url else {})).items():
        found += f'<meta property="og:{name}" content="{html.escape(value)}" />\n'
    return found


def describe(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Put the tags into the head of a page."""
    if app.builder.format == "html":
        title = html.unescape(re.sub(r"<[^>]*>", "", context.get("title") or "")).strip()
        title, url = title or app.config.project, context.get("pageurl") or ""
        found = tags(title, description(title, doctree), app.config.project, url)
        context["metatags"] = context.get("metatags", "") + found


def setup(app: Sphinx) -> dict:
    """Connect the hook."""
    app.connect("html-page-context", describe)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""A description and Open Graph properties for every page.

The address of the published book is Sphinx's ``html_baseurl`` (from BOOK_ADDRESS); where it is set
Sphinx writes canonical links, and the pages name their address here as well.

Written here because sphinxext-opengraph writes TeX into descriptions.
"""

from __future__ import annotations

import html
import re
import textwrap

from sphinx.application import Sphinx

LONGEST = 160  # characters of a description: search engines cut longer ones
SUMMARY = "An executable book that verifies two papers about self-attention"


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
        text = textwrap.shorten(f"{title}: {SUMMARY}.", LONGEST, placeholder="…")
        found = tags(title, text, app.config.project, url)
        context["metatags"] = context.get("metatags", "") + found


def setup(app: Sphinx) -> dict:
    """Connect the hook."""
    app.connect("html-page-context", describe)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

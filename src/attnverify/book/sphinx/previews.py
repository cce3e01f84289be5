"""Previews: what a link leads to, shown where the reader is.

Each page writes a small script with the things on it that links lead to: claims, citations,
equations, figures, entries of the API reference. ``previews.js`` loads the script of the page that
a link leads to when the pointer rests on it or the keyboard focuses it; a script and not a page, so
that it works from a file as well. Nothing of another host is loaded.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from sphinx.application import Sphinx

#: Below the static files: one script a page, by the page's name.
FOLDER = "previews"
#: The start of an element that has a preview, by the form of its id.
STARTS = re.compile(
    r'<(?P<tag>div|figure|dt)\b[^>]*\bid="'
    r'(?P<id>claim-[\w-]+|equation-[\w.-]+|fig-[\w-]+|id\d+|attnverify(?:\.\w+)+)"[^>]*>'
)
CITATION = re.compile(r'class="citation"')
FOOTER = '<div class="attnverify-footer'
STATUS = re.compile(r'<span class="attnverify-badge".*?</span>[^<]*</span>', re.S)
#: What a preview leaves out: the copy of a formula for screen readers, links to the place itself.
LEFT_OUT = re.compile(
    r'<span class="katex-mathml">.*?</math></span>|<a class="headerlink".*?</a>', re.S
)
IDS = re.compile(r'\s(?:id|href|title|tabindex)="[^"]*"')
LINKS = re.compile(r"<(/?)a\b")
#: An address relative to the page; the script puts the way from the reader's page in its place.
RELATIVE = re.compile(r'(\ssrc=")(?:\.\./)*(?=_)')
ROOT = "ROOT/"


def element(html: str, start: int) -> str:
    """The element that starts at ``start``, up to its own end."""
    tag = re.match(r"<(\w+)", html[start:])
    if tag is None:
        raise ValueError(f"start: got {html[start : start + 20]!r}, expected an element")
    depth = 0
    for found in re.finditer(rf"<(/?){tag[1]}\b[^>]*>", html[start:]):
        depth += -1 if found[1] else 1
        if depth == 0:
            return html[start : start + found.end()]
    raise ValueError(f"<{tag[1]}> at {start}: got no end")


def shortened(html: str) -> str:
    """The element without ids, links and what only screen readers read."""
    html = RELATIVE.sub(rf"\1{ROOT}", LEFT_OUT.sub("", html))
    return LINKS.sub(r"<\1span", IDS.sub("", html))


def _claim(html: str) -> str:
    """The statement and the status; the footer and what is folded stay where they are."""
    while (start := html.find("<details")) >= 0:
        html = html.replace(element(html, start), "")
    start = html.find(FOOTER)
    if start < 0:
        return html
    footer = element(html, start)
    badge = STATUS.search(footer)
    return html.replace(footer, f"<p>{badge[0]}</p>" if badge else "")


def previews(body: str) -> dict[str, str]:
    """What links to a page can show, by id."""
    found = {}
    for start in STARTS.finditer(body):
        id = start["id"]
        if id.startswith("id") and not CITATION.search(start[0]):
            continue
        html = element(body, start.start())
        if id.startswith("claim-"):
            html = _claim(html)
        elif start["tag"] == "dt":
            first = re.compile(r"\s*<dd>(<p>.*?</p>)?", re.S).match(body, start.start() + len(html))
            html = f"<div>{html}{first[1] or ''}</div>" if first else html
        found[id] = shortened(html)
    return found


def write(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Write the script of a page that has something to show."""
    if doctree is None or app.builder.name != "html":
        return
    found = previews(context.get("body", ""))
    if found:
        path = Path(app.outdir, "_static", FOLDER, f"{pagename}.js")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps([pagename, found], ensure_ascii=False)
        path.write_text(f"attnverifyPreviews(...{text});\n", encoding="utf-8")


def setup(app: Sphinx) -> dict:
    """Connect the hook, after all others that change the body, and load what pages need for it."""
    app.add_js_file("previews.js", loading_method="defer")
    app.connect("html-page-context", write, priority=950)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

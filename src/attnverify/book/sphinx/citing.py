"""Each claim can be cited: by BibTeX, which the book has too, and by a permanent address.

``claims/ID.html`` leads to the box of a claim, wherever later editions print it. The address of the
published book is Sphinx's ``html_baseurl``; without one no entry has an address.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attnverify import __version__
from attnverify.book.pages.common import anchor
from attnverify.book.sphinx.private_interfaces import boxes
from attnverify.chapters import Claim, registry
from attnverify.support.files import write_text

FOLDER = "claims"
REDIRECT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<meta name="description" content="{description}">
<link rel="icon" href="../_static/favicon.svg">
<meta http-equiv="refresh" content="0; url={target}">
{canonical}</head>
<body><main><h1>{title}</h1><p><a href="{target}">{description}</a></p></main></body>
</html>
"""


def permanent(claim: Claim) -> str:
    """The place of a claim's page in the built book."""
    return f"{FOLDER}/{claim.id}.html"


def _bibtex(kind: str, key: str, config: Any, **fields: str) -> nodes.literal_block:
    """A BibTeX entry; fields without a value are left out."""
    fields = {"author": f"{{{config.author}}}", "year": config.copyright, **fields}
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    text = f"@{kind}{{{key},\n" + ",\n".join(lines) + "\n}"
    return nodes.literal_block(text, text, language="bibtex")


def of_book(config: Any) -> nodes.literal_block:
    """BibTeX of the book."""
    title, note = f"{{{config.project}}}", f"An executable book, version {__version__}"
    return _bibtex("misc", "attnverify", config, title=title, note=note, url=config.html_baseurl)


def of_claim(claim: Claim, config: Any) -> nodes.literal_block:
    """BibTeX of a claim, which is cited by its id, as its number may change."""
    base = config.html_baseurl
    return _bibtex(
        "incollection",
        f"attnverify:{claim.id}",
        config,
        title=f"{{{claim.title}}}",
        booktitle=config.project,
        note=f"{claim.label} {claim.id}, version {__version__}",
        url=f"{base.rstrip('/')}/{permanent(claim)}" if base else "",
    )


class CiteBookDirective(SphinxDirective):
    """``{cite-book}``: BibTeX of the book."""

    def run(self) -> list[nodes.Node]:
        return [of_book(self.config)]


def add_citations(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """At the end of each claim's box: its permanent address and its BibTeX, folded."""
    if app.builder.name != "html":
        return
    up = "../" * docname.count("/")
    for footer in list(doctree.findall(nodes.container)):
        if id := footer.get("claim"):
            footer += _folded(registry[id], app.config, up)


def _folded(claim: Claim, config, up: str) -> list[nodes.Node]:
    """The details element of a claim."""
    address = permanent(claim)
    start = (
        '<details class="attnverify-cite"><summary>Cite this</summary><p>Permanent address: '
        f'<a href="{up}{address}">{html.escape(config.html_baseurl or "")}{address}</a></p>'
    )
    end = nodes.raw("", "</details>", format="html")
    return [nodes.raw("", start, format="html"), of_claim(claim, config), end]


def write_addresses(app: Sphinx, exception: Exception | None) -> None:
    """The page ``claims/ID.html`` of each claim that has a box."""
    if exception is not None or app.builder.name != "html":
        return
    printed = boxes(app.env)
    for claim in registry.values():
        box = printed.get(anchor(claim.id))
        if box is not None:
            page = f"{box['docname']}.html"
            text = redirect(claim, page, app.config)
            path = Path(app.outdir, permanent(claim))
            path.parent.mkdir(exist_ok=True)
            write_text(path, text)


def redirect(claim: Claim, page: str, config) -> str:
    """A page that leads on to the box of a claim."""
    base = config.html_baseurl
    canonical = f'<link rel="canonical" href="{base.rstrip("/")}/{page}">\n' if base else ""
    return REDIRECT.format(
        title=html.escape(f"{claim.id} — {config.project}"),
        description=html.escape(f"{claim.label}: {claim.title}"),
        target=f"../{page}#{anchor(claim.id)}",
        canonical=canonical,
    )


def setup(app: Sphinx) -> dict:
    """Register the directive and connect the hooks."""
    app.add_directive("cite-book", CiteBookDirective)
    app.connect("doctree-resolved", add_citations)
    app.connect("build-finished", write_addresses)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

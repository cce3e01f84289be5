"""Search that finds claims: by id, number, title and the words of their formulas.

Sphinx's search knows pages and headings. ``claims.js`` holds what is searched of each claim, and
``search.js`` puts the claims that match before the pages. Both are loaded by the search page alone.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from attnverify.book.links import box_of
from attnverify.book.pages.common import anchor
from attnverify.claims import Claim, registry

DATA = "claims.js"
MATH = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|```\{math\}(.+?)```", re.S)
WORD = re.compile(r"[A-Za-z]{2,}")
#: Commands that lay a formula out and say nothing of what it is about.
LAYOUT = frozenset(
    """begin end left right big Big bigl bigr Bigl Bigr aligned align cases quad qquad text
    textstyle displaystyle mathrm mathbf mathbb mathcal operatorname frac tfrac dfrac lVert rVert
    lvert rvert label nonumber""".split()
)


def formula_words(statement: str) -> list[str]:
    """Words of a statement's formulas: names of functions and of letters, as written in TeX."""
    formulas = ("".join(groups) for groups in MATH.findall(statement))
    return sorted({w.lower() for f in formulas for w in WORD.findall(f) if w not in LAYOUT})


def entry(claim: Claim, env: BuildEnvironment) -> list | None:
    """What the search page knows of a claim; None if no page prints it."""
    box = box_of(env, claim)
    if box is None:
        return None
    page, name = box
    prose = " ".join(re.findall(r"[^\W_]+", MATH.sub(" ", claim.statement))).lower()
    words = " ".join(formula_words(claim.statement))
    return [claim.id, name, claim.title, words, prose, page, anchor(claim.id)]


def write_data(app: Sphinx, exception: Exception | None) -> None:
    """Write what is searched of each claim."""
    if exception is None and app.builder.name == "html":
        found = [e for claim in registry.values() if (e := entry(claim, app.env))]
        path = Path(app.outdir, "_static", DATA)
        path.write_text(f"var attnverifyClaims = {json.dumps(found)};\n", encoding="utf-8")


def add_scripts(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Load the two scripts on the search page."""
    if pagename == "search":
        app.add_js_file(DATA, loading_method="defer", priority=900)
        app.add_js_file("search.js", loading_method="defer", priority=901)


def setup(app: Sphinx) -> dict:
    """Connect the hooks."""
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_data)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Search that finds claims: by id, number, title and the words of their formulas.

Sphinx's search knows pages and headings. ``claims.js`` holds what is searched of each claim, and
the chapters on what a reader may call otherwise; ``search.js`` puts what matches before the pages.
Both are loaded by the search page alone.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from attnverify.book.pages.common import anchor
from attnverify.book.sphinx.links import box_of
from attnverify.topics import Claim, registry

DATA = "claims.js"
COLLAPSE = ("collapse-summary", "collapse-composite", "collapse-relative")
#: Names of a subject, as the literature has them, and the chapters on it.
TOPICS = {
    "rank collapse": COLLAPSE,
    "oversmoothing": COLLAPSE,
    "over-smoothing": COLLAPSE,
    "attention sink": ("decoder-masks", "trained-models"),
    "rope": ("decoder-positions",),
    "rotary position embedding": ("decoder-positions",),
}
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


def topics(env: BuildEnvironment) -> dict[str, list]:
    """The address and the numbered title of each chapter on a subject."""

    def titled(page: str) -> list[str]:
        number = env.toc_secnumbers.get(page, {}).get("", ())
        return [page, " ".join([*(f"{k}." for k in number), env.titles[page].astext()])]

    pages = {name: [f"notebooks/{part}" for part in parts] for name, parts in TOPICS.items()}
    return {
        name: [titled(page) for page in found if page in env.titles]
        for name, found in pages.items()
    }


def write_data(app: Sphinx, exception: Exception | None) -> None:
    """Write what is searched of each claim, and the chapters on each subject."""
    if exception is None and app.builder.name == "html":
        found = [e for claim in registry.values() if (e := entry(claim, app.env))]
        path = Path(app.outdir, "_static", DATA)
        text = f"var attnverifyClaims = {json.dumps(found)};\n"
        text += f"var attnverifyTopics = {json.dumps(topics(app.env))};\n"
        path.write_text(text, encoding="utf-8")


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

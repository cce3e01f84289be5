"""The search page finds claims by id, number, title and the words of their formulas.

Sphinx's search knows pages and headings. ``claims.js`` holds what is searched of each claim, the
chapters on subjects with other names in the literature, and the first sentences of every page.
``search.js`` lists what matches above the results of Sphinx, puts chapters before the reference of
the API, and shows the first sentences below each result; Sphinx would load whole pages for that.
The search page alone loads both.
"""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from attnverify.book.pages.common import anchor
from attnverify.book.sphinx.links import box_of
from attnverify.chapters import registry

DATA = "claims.js"
PRACTICE = ("book/generated/practice", "book/inspect")
COLLAPSE = ("start", "collapse-sharp", "collapse-relative", "collapse-summary")
#: Names of a subject, as the literature has them, and the chapters on it, or pages by their path.
SUBJECTS = {
    "rank collapse": COLLAPSE,
    "oversmoothing": (*COLLAPSE, "masks-graphs"),
    "over-smoothing": (*COLLAPSE, "masks-graphs"),
    "doubly stochastic": ("doubly-normalized", "initialization"),
    "spectral gap": ("spectral-gap",),
    "rank collapse in width": ("spectral-gap",),
    "explaining away": ("doubly-normalized",),
    "sinkhorn": ("doubly-normalized",),
    "unit sphere": ("sphere",),
    "clustering": ("sphere",),
    "attention sink": ("sinks-gates", "decoder-masks", "trained-models"),
    "massive activations": ("sinks-gates",),
    "softmax1": ("sinks-gates",),
    "linear attention": ("kernels",),
    "taylor polynomial": ("kernels",),
    "gaussian mixture": ("kernels",),
    "permutation equivariance": ("kernels",),
    "gated attention": ("sinks-gates", "heads-copy"),
    "induction head": ("heads-copy",),
    "mixture of experts": ("heads-copy",),
    "universal approximation": ("heads-copy",),
    "low-rank attention": ("heads-copy",),
    "residual connection": ("skip", "path-lengths"),
    "layer normalization": ("layernorm", "sphere", "decoder-layers"),
    "global token": ("masks-graphs",),
    "post-norm": ("masks-graphs",),
    "attention mask": ("masks-graphs", "decoder-masks"),
    "token uniformity": COLLAPSE,
    "entropy collapse": ("entropy", "both-collapses", "query-key-gradient"),
    "attention entropy": ("entropy", "both-collapses", "parallel-contexts"),
    "causal attention": ("decoder-masks", "decoder-both"),
    "sliding window": ("decoder-masks", "masks-graphs"),
    "alibi": ("decoder-positions", "decoder-both"),
    "rope": ("decoder-positions",),
    "rotary position embedding": ("decoder-positions",),
    "attention rollout": ("rollout", "trained-models"),
    "birkhoff": ("softmax",),
    "gqa": ("decoder-heads",),
    "grouped-query attention": ("decoder-heads",),
    "hilbert metric": ("softmax",),
    "identical tokens": COLLAPSE,
    "initialization": ("initialization", "architectures"),
    "vanishing gradient": ("query-key-gradient",),
    "instability": ("both-collapses", "locater"),
    "learning rate": ("locater", "book/generated/practice"),
    "log collapse": PRACTICE,
    "loss spike": PRACTICE,
    "monitor": ("watch-training", *PRACTICE),
    "qk-clip": ("watch-training",),
    "tensorboard": ("watch-training",),
    "training failure": ("watch-training", "query-key-gradient"),
    "pruning": ("trained-models", "path-lengths"),
    "qk-norm": ("entropy-spread",),
    "quantization": ("softmax",),
    "residual stream": ("decoder-layers", "skip"),
}
MATH = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|```\{math\}(.+?)```", re.S)
WORD = re.compile(r"[A-Za-z]{2,}")
#: Commands that lay a formula out and say nothing of what it is about.
LAYOUT = frozenset(
    """begin end left right big Big bigl bigr Bigl Bigr aligned align cases quad qquad text
    textstyle displaystyle mathrm mathbf mathbb mathcal operatorname frac tfrac dfrac lVert rVert
    lvert rvert label nonumber""".split()
)
LONGEST = 200  # characters of a page's first sentences


def formula_words(statement: str) -> list[str]:
    """Words of a statement's formulas: names of functions and of letters, as written in TeX."""
    formulas = ("".join(groups) for groups in MATH.findall(statement))
    return sorted({w.lower() for f in formulas for w in WORD.findall(f) if w not in LAYOUT})


def entries(env: BuildEnvironment) -> list[list[str]]:
    """What the search page knows: id, name, title, words of formulas, and address of each claim.

    The chapters on a subject come first, with the subject in the place of the id.
    """
    found = []
    for subject, chapters in SUBJECTS.items():
        for page in (c if "/" in c else f"notebooks/{c}" for c in chapters):
            if page in env.titles:
                numbers = env.toc_secnumbers.get(page, {}).get("", ())
                name = f"Chapter {'.'.join(map(str, numbers))}" if numbers else ""
                found.append([subject, name, env.titles[page].astext(), "", f"{page}.html"])
    for claim in registry.values():
        if box := box_of(env, claim):
            page, name = box
            words = " ".join(formula_words(claim.statement))
            address = f"{page}.html#{anchor(claim.id)}"
            found.append([claim.id, name, claim.title, words, address])
    return found


def first_sentences(app: Sphinx, doctree: nodes.document) -> None:
    """Remember the first paragraph of a page, in the words of a line of text."""
    for paragraph in doctree.findall(nodes.paragraph):
        parts = [
            formula(text.astext()) if isinstance(text.parent, nodes.math) else text.astext()
            for text in paragraph.findall(nodes.Text)
        ]
        text = " ".join("".join(parts).split())
        text = text.removeprefix("The result. ").removeprefix("The question. ")
        if len(text) > LONGEST / 4:
            cut = text if len(text) <= LONGEST else f"{text[:LONGEST].rpartition(' ')[0]} …"
            _excerpts(app.env)[app.env.docname] = cut
            return


def formula(tex: str) -> str:
    """A formula without its layout, as D/4 or tanh(δ); "…" for one that needs layout to be read."""

    def letter(found: re.Match) -> str:
        try:
            return unicodedata.lookup(f"GREEK SMALL LETTER {found[1]}")
        except KeyError:
            return found[1] if found[1] in ("tanh", "log", "exp") else found[0]

    text = re.sub(r"\\([a-z]+)", letter, tex)
    return "…" if re.search(r"[\\{}]", text) else text


def _excerpts(env: BuildEnvironment) -> dict[str, str]:
    if not hasattr(env, "attnverify_excerpts"):
        env.attnverify_excerpts = {}  # type: ignore
    return env.attnverify_excerpts  # type: ignore


def write_data(app: Sphinx, exception: Exception | None) -> None:
    """Write the file that the search page searches."""
    if exception is None and app.builder.name == "html":
        data = {"Found": entries(app.env), "Excerpts": _excerpts(app.env)}
        text = "".join(f"var attnverify{k} = {json.dumps(v)};\n" for k, v in data.items())
        Path(app.outdir, "_static", DATA).write_text(text, encoding="utf-8")


def add_scripts(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Load the two scripts on the search page."""
    if pagename == "search":
        app.add_js_file(DATA, loading_method="defer", priority=900)
        app.add_js_file("search.js", loading_method="defer", priority=901)


def setup(app: Sphinx) -> dict:
    """Connect the hooks."""
    app.connect("doctree-read", first_sentences)
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_data)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

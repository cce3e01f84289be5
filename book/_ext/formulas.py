"""Formulas are rendered when their page is read, once each, and kept by content between builds.

KaTeX answers one formula at a time. What was rendered before, by this version of KaTeX, is taken
from the store (not in a fresh build); a formula with an error is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinxcontrib import katex

from attnverify.evidence.store import Store, default

Render = Callable[..., str]
DISPLAY = {"displayMode": True}


class Formulas:
    """Rendered formulas by source and mode."""

    def __init__(self, render: Render, store: Store | None) -> None:
        self._render = render
        self._store = store
        self._key = {"what": "formulas", "katex": katex.katex_version, "server": katex.__version__}
        self._known: dict[str, str] = (store.get(self._key) if store else None) or {}
        self._before = len(self._known)

    def render(self, latex: str, options: dict[str, Any] | None = None) -> str:
        """The HTML of a formula: :func:`sphinxcontrib.katex.render_latex` with a memory."""
        name = f"{'display' if options else 'inline'} {latex}"
        if options not in (None, DISPLAY):
            return self._render(latex, options)
        if name not in self._known:
            html = self._render(latex, options)
            if "katex-error" in html:
                return html
            self._known[name] = html
        return self._known[name]

    def read(self, app: Sphinx, doctree: nodes.document) -> None:
        """Render what a page holds, before pages are written by several processes."""
        for node in doctree.findall(nodes.math):
            self.render(node.astext())
        for node in doctree.findall(nodes.math_block):
            self.render(node.astext(), DISPLAY)

    def save(self, app: Sphinx, exception: Exception | None) -> None:
        if self._store and exception is None and len(self._known) > self._before:
            self._store.put(self._key, self._known)


def setup(app: Sphinx) -> dict:
    """Put the memory in front of KaTeX."""
    formulas = Formulas(katex.render_latex, default())
    katex.render_latex = formulas.render
    app.connect("doctree-read", formulas.read)
    app.connect("build-finished", formulas.save)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

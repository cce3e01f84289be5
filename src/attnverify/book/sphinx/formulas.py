"""Formulas are rendered when their page is read, once each.

KaTeX answers one formula at a time. A formula with an error is not kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinxcontrib import katex

from attnverify.book.sphinx.private_interfaces import forget_katex_server, prepare_katex

Render = Callable[..., str]
DISPLAY = {"displayMode": True}


class Formulas:
    """Rendered formulas by source and mode.

    While pages are read, a thread waits for KaTeX, which runs on another core. It has ended before
    pages are written, by forks of this process; a fork that asks for more asks a server of its own.
    """

    def __init__(self, render: Render) -> None:
        self._render = render
        self._known: dict[str, str] = {}
        self._reading = ThreadPoolExecutor(1)
        self._pending: dict[str, Future[str]] = {}
        self._process = os.getpid()

    def render(self, latex: str, options: dict[str, Any] | None = None) -> str:
        """The HTML of a formula: :func:`sphinxcontrib.katex.render_latex` with a memory."""
        name = _name(latex, options)
        self.wait()
        if name not in self._known:
            if os.getpid() != self._process:  # the server answers the process that started it
                forget_katex_server()
                self._process = os.getpid()
            return self._keep(name, self._render(latex, options))
        return self._known[name]

    def read(self, app: Sphinx, doctree: nodes.document) -> None:
        """Ask for the formulas of a page, in its order."""
        for kind, options in ((nodes.math, None), (nodes.math_block, DISPLAY)):
            for node in doctree.findall(kind):
                name = _name(node.astext(), options)
                if name not in self._known and name not in self._pending:
                    task = self._reading.submit(self._render, node.astext(), options)
                    self._pending[name] = task

    def wait(self, *_: object) -> None:
        """Collect the formulas that were asked for while pages were read."""
        pending, self._pending = self._pending, {}
        for name, task in pending.items():
            self._keep(name, task.result())

    def end(self, *_: object) -> None:
        """Collect what is pending and stop asking: all pages have been read."""
        self.wait()
        self._reading.shutdown()

    def _keep(self, name: str, html: str) -> str:
        if "katex-error" not in html:
            self._known[name] = html
        return html


def _name(latex: str, options: dict[str, Any] | None) -> str:
    return f"{json.dumps(options, sort_keys=True)} {latex}"


def setup(app: Sphinx) -> dict:
    """Have KaTeX asked only for formulas that are not known."""
    formulas = Formulas(katex.render_latex)
    prepare_katex(formulas.render)
    app.connect("doctree-read", formulas.read)
    app.connect("env-updated", formulas.end)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

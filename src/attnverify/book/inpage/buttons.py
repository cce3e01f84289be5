"""Sphinx hook: pages with derivations get the script that lets readers run them.

The build puts Python's files into ``_static/python`` (src/attnverify/book/build/page_python.py) and
says so by the configuration value ``attnverify_python``; without it no page gets a button.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

STATIC = Path(__file__).parent / "static"
CLASS = "tag_derivation"


def add_buttons(app: Sphinx, pagename, templatename, context, doctree) -> None:
    """Load the script on a page that has a derivation; its style is on all, which share one."""
    if not app.config.attnverify_python or doctree is None:
        return
    if any(CLASS in box["classes"] for box in doctree.findall(nodes.container)):
        app.add_js_file("inpage.js", loading_method="defer")


def _static(app: Sphinx) -> None:
    app.config.html_static_path.append(str(STATIC))
    app.add_css_file("inpage.css")


def setup(app: Sphinx) -> dict:
    """Register the configuration value and the hook."""
    app.add_config_value("attnverify_python", False, "html")
    app.connect("builder-inited", _static)
    app.connect("html-page-context", add_buttons)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

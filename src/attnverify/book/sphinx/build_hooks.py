"""Sphinx hooks of the book's build: loud errors, launch buttons, letters of formulas."""

from __future__ import annotations

import gc
import sys

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.console import nocolor

from attnverify.book.sphinx.private_interfaces import check_math, remember_plugins

LOG = logging.getLogger(__name__)
#: The branch of .ipynb files that .ci/push-notebooks makes.
COLAB_BRANCH = "colab"
#: Those of KaTeX's fonts that stand in nearly every formula.
FONTS = ("Main-Regular", "Math-Italic")


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
    remember_plugins()
    # Jupyter Book always passes this option; its extension is not loaded (network scripts).
    app.add_config_value("comments_config", {}, "html")
    app.setup_extension("attnverify.book.sphinx.formulas")
    app.setup_extension("attnverify.book.sphinx.incremental")
    app.setup_extension("attnverify.book.sphinx.downloads")
    app.setup_extension("attnverify.book.sphinx.published")
    app.connect("builder-inited", check_math)
    app.connect("doctree-resolved", check_images)
    app.connect("html-page-context", point_to_notebooks, priority=900)  # the buttons are there
    app.connect("html-page-context", preload_fonts)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

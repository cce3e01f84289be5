"""Boxes of the ledger as HTML, from the Markdown that notebooks show, by the book's own parser.

Formulas stay TeX, in elements of class "math", "block" or "inline"; KaTeX sets them in the page.
"""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin


@cache
def _parser() -> MarkdownIt:
    """CommonMark with formulas between dollar signs, as MyST reads them."""
    return MarkdownIt("commonmark").use(dollarmath_plugin, double_inline=True)


def as_html(markdown: str) -> str:
    """The HTML of a box."""
    return _parser().render(markdown)

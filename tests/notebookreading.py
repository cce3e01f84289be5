"""Markdown as notebook programs read it, and what they would show as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from attnverify.book.sphinx.downloads import DOWNLOADS

#: Reads what every notebook program reads: CommonMark, tables and formulas. What was escaped stays
#: a token of its own, so that a mark in plain text is one that was left over.
MARKDOWN = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, double_inline=True)
MARKDOWN.disable("text_join")
LEFT_OVER = re.compile(r"[$`*_\[\]{}<>\\]|\| ?---|^(:::|\(.*\)=)")
FOLDS = re.compile(r"</?(details|summary)\b[^>]*>")


def tokens(text: str) -> Iterator[Token]:
    """All tokens of a Markdown text, the inner ones in place of the line that holds them."""
    for token in MARKDOWN.parse(text):
        yield from token.children or [token]


def raw(text: str) -> list[str]:
    """What a notebook program would show as it is written, of a Markdown text."""
    found = []
    for token in tokens(text):
        kind, content = token.type, token.content
        if kind == "text" and LEFT_OVER.search(content):
            found.append(content)
        if kind == "fence" and token.info.startswith("{"):
            found.append(token.info)
        if kind == "html_inline" and content != "<br>":
            found.append(content)
        if kind == "html_block" and LEFT_OVER.search(FOLDS.sub("", content)):
            found.append(content)
        if "math" in kind and ("\\label" in content or "\n" in content):
            found.append(content)
        if kind == "link_open" and not str(token.attrs["href"]).startswith("https://"):
            found.append(str(token.attrs["href"]))
    return found


#: JupyterLab takes formulas out before it reads Markdown, by dollars, braces and empty lines.
MARKS = re.compile(r"(\$\$?|\\[{}$]|[{}]|(?:\n\s*)+)")
CODE = re.compile(r"^(`{3,}).*?^\1`*$|(`+)[^\n]*?[^`\n]\2(?!`)", re.M | re.S)


def formulas(text: str) -> list[str]:
    """The formulas of a cell as JupyterLab finds them."""
    pieces = MARKS.split(CODE.sub("", text))
    found, start, open_braces = [], 0, 0
    for k in range(1, len(pieces), 2):
        piece = pieces[k]
        if not start:
            start, open_braces = (k if piece.startswith("$") else 0), 0
        elif piece == pieces[start] and not open_braces:
            found.append("".join(pieces[start + 1 : k]))
            start = 0
        elif piece.count("\n") > 1:
            start = 0
        else:
            open_braces += (piece == "{") - (piece == "}")
    return found


def notebook(html: Path, name: str) -> nbformat.NotebookNode:
    """A downloaded notebook, which is valid."""
    found = nbformat.read(html / DOWNLOADS / f"{name}.ipynb", as_version=4)
    nbformat.validate(found)
    return found

"""What a file of claims is made of: its statements as Markdown, and its cells.

* ``.md``: MyST, as the chapters of the book are.
* ``.ipynb``: a notebook; statements stand in Markdown cells, and cells have tags.
* ``.py``: statements stand in its docstring, or in other strings at the top level; the whole file
  is one check cell.
"""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from typing import Any, NamedTuple

from attnverify.derivation.myst import Cell, code_cells
from attnverify.support.errors import InputError, in_words, require

SUFFIXES = (".py", ".md", ".ipynb")


class Parts(NamedTuple):
    """Markdown with the statements, the text in which cells without a name have their lines, and
    the cells."""

    markdown: str
    text: str
    cells: tuple[Cell, ...]

    def tagged(self, tag: str) -> tuple[Cell, ...]:
        """The cells with a tag."""
        return tuple(cell for cell in self.cells if tag in cell.tags)


def parts(name: str, text: str) -> Parts:
    """The parts of a file; raises InputError for one that cannot be read."""
    if name.endswith(".md"):
        return Parts(text, text, tuple(code_cells(text)))
    if name.endswith(".ipynb"):
        text = _as_myst(name, text)
        cells = enumerate(code_cells(text), start=1)
        named = (replace(c, line=1, name=f"{name}, code cell {n}") for n, c in cells)
        return Parts(text, text, tuple(named))
    try:
        body = ast.parse(text, name).body
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{name}: got {in_words(error)}, expected a file that runs") from error
    lines = [""] * len(text.splitlines())
    for node in body:
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            own = value.value.splitlines()
            lines[node.lineno - 1 : node.lineno - 1 + len(own)] = own
    return Parts("\n".join(lines), text, (Cell(text, ("check",), 1),))


def _as_myst(name: str, text: str) -> str:
    """A notebook as MyST: what its cells hold, in their order."""
    try:
        cells = json.loads(text)["cells"]
        return "\n\n".join(_cell(cell) for cell in cells)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        words = f"{name}: got {in_words(error)}, expected a Jupyter notebook"
        raise InputError(words) from error


def _cell(cell: dict[str, Any]) -> str:
    source, kind = cell["source"], cell["cell_type"]
    source = source if isinstance(source, str) else "".join(source)
    if kind != "code":
        return source if kind == "markdown" else ""
    require("```" not in source, "a code cell", "three backticks", "none")
    tags = ", ".join(cell.get("metadata", {}).get("tags", []))
    return f"```{{code-cell}}\n:tags: [{tags}]\n\n{source}\n```"

"""Real text that every Python has: the documentation strings of its standard library."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attnverify.errors import require


@cache
def documentation(characters: int = 400_000) -> tuple[str, ...]:
    """Docstrings of the top-level modules of the standard library, in a fixed order.

    Of modules, classes and functions, up to so many characters in all. They depend on the version
    of Python and on nothing else.
    """
    found, total = [], 0
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for text in docstrings(file):
            if total >= characters:
                return tuple(found)
            found.append(text)
            total += len(text)
    return tuple(found)


def docstrings(file: Path) -> Iterator[str]:
    """The documentation strings of one module's source, of modules, classes and functions."""
    tree = ast.parse(file.read_bytes())
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    return (text for text in found if text)


def paragraphs(path: Path) -> tuple[str, ...]:
    """The paragraphs of a local text file in UTF-8, in order."""
    require(path.is_file(), "text", path, "an existing text file")
    text = path.read_text(encoding="utf-8", errors="replace")
    return tuple(part.strip() for part in text.split("\n\n") if part.strip())

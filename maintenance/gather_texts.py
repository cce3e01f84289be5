"""Gather the text that the experiments read from the running Python; see experiments/texts.

    python maintenance/gather_texts.py FOLDER

writes the compressed file and prints the SHA-256 of its content. Another Python has another text,
and the committed tables are of the one whose digest the package states.
"""

from __future__ import annotations

import ast
import hashlib
import heapq
import json
import lzma
import platform
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from attnverify.experiments import texts
from attnverify.experiments.locater.sources import CHARACTERS
from attnverify.experiments.shortpaths.tasks import MODULES


def docstrings(file: Path) -> Iterator[str]:
    """The documentation strings of one module's source, of modules, classes and functions."""
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if text := ast.get_docstring(node):
                yield text


def gather() -> bytes:
    """The top-level modules in alphabetical order until there is enough text, then MODULES."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    found: dict[str, list[str]] = {}
    for file in files:
        if sum(len(text) for texts in found.values() for text in texts) >= CHARACTERS:
            break
        found[file.stem] = list(docstrings(file))
    for file in files:
        if file.stem in MODULES:
            found[file.stem] = list(docstrings(file))
    body = texts.Texts(platform.python_version(), found, heapq.__about__)
    return json.dumps(body._asdict(), ensure_ascii=False, indent=0).encode()


def main(folder: Path) -> None:
    content = gather()
    (folder / texts.FILE).write_bytes(lzma.compress(content, preset=9))
    print(hashlib.sha256(content).hexdigest())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

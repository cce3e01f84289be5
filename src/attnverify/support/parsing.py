"""Python source to a syntax tree, in any thread."""

from __future__ import annotations

import ast
from typing import Any

TRIES = 10


def parse(source: str | bytes, mode: str = "exec") -> Any:
    """``ast.parse``, which Pythons before 3.11.8 and 3.12.2 fail in now and then beside a thread.

    Two threads that build a tree at a time count their depth in one place, and the interpreter
    reports a mismatch (python/cpython#106905). Nothing is wrong with the source, and each try
    counts anew. Raises SystemError if that happens ``TRIES`` times, else what ``ast.parse`` does.
    """
    for _ in range(TRIES - 1):
        try:
            return ast.parse(source, mode=mode)
        except SystemError:
            continue
    return ast.parse(source, mode=mode)

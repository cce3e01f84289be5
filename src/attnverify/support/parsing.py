"""Parsing of Python source to a syntax tree, safe in threads."""

from __future__ import annotations

import ast
from typing import Any

TRIES = 10


def parse(source: str | bytes, mode: str = "exec") -> Any:
    """Syntax tree of the source by ``ast.parse``, repeated where threads disturb one another.

    In Python before 3.11.8 and 3.12.2 two threads that parse at the same time share a depth
    counter, and the interpreter reports a mismatch (python/cpython#106905) although the source is
    right. Raises SystemError if that happens ``TRIES`` times, else what ``ast.parse`` does.
    """
    for _ in range(TRIES - 1):
        try:
            return ast.parse(source, mode=mode)
        except SystemError:
            continue
    return ast.parse(source, mode=mode)

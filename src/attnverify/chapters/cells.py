"""Checks of claims in their chapters: cells tagged ``check``, run in a namespace of their own.

A check follows from the check cells of its chapter and from what they import: no other cell is run.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping
from functools import cache

from attnverify.chapters import registry
from attnverify.checking import declare
from attnverify.checking.check import Check
from attnverify.derivation import notebook_sources
from attnverify.derivation.myst import Cell, code_cells
from attnverify.support.errors import InputError, nearest, require

TAG = "check"


@cache
def texts() -> Mapping[str, str]:
    """Each chapter by the stem of its notebook, read once."""
    return dict(notebook_sources.chapters())


@cache
def cells(chapter: str) -> tuple[Cell, ...]:
    """The check cells of a chapter; () where there is no such chapter."""
    return tuple(cell for cell in code_cells(texts().get(chapter, "")) if TAG in cell.tags)


def sources(id: str) -> tuple[str, ...]:
    """The check cells of the chapter of a claim, () where none of them has its id."""
    own = tuple(cell.source for cell in cells(registry[id].notebook))
    return own if any(f'"{id}"' in source for source in own) else ()


def checks_of(id: str) -> Mapping[str, Check]:
    """The checks of a claim by name, from its chapter."""
    return {name: found.check for name, found in declared(registry[id].notebook)[id].items()}


@cache
def declared(chapter: str) -> Mapping[str, Mapping[str, declare.Declared]]:
    """What the check cells of a chapter declare, by claim and name; they run in this process, once.

    Raises InputError that names the line of the file.
    """
    file, text = f"notebooks/{chapter}.md", texts()[chapter]
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, object] = {"__name__": f"attnverify chapter {chapter}"}
    with declare.collecting() as found:
        for cell in cells(chapter):
            code = ast.increment_lineno(ast.parse(cell.source, file), cell.line - 1)
            try:
                exec(compile(code, file, "exec"), namespace)  # a chapter of this package
            except NameError as error:
                where = f"{file}, line {cell.line}: got {error}"
                words = "expected what it needs to be defined or imported in a check cell"
                raise InputError(f"{where}, {words}") from error
    known = [claim.id for claim in registry.values() if claim.notebook == chapter]
    for id in (id for id in found if id not in known):
        place = next(iter(found[id].values())).place
        require(False, place, repr(id), f"the id of a claim of this chapter{nearest(id, known)}")
    return found

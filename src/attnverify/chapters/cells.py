"""Checks of the book's claims, from the check cells of their chapters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from attnverify.chapters import registry
from attnverify.derivation import notebook_sources
from attnverify.derivation.myst import Cell, code_cells
from attnverify.verification import check_cells

if TYPE_CHECKING:
    from attnverify.checking.check import Check
    from attnverify.checking.declare import Declared


@cache
def texts() -> Mapping[str, str]:
    """Each chapter by the stem of its notebook, read once."""
    return dict(notebook_sources.chapters())


@cache
def cells(chapter: str) -> tuple[Cell, ...]:
    """The check cells of a chapter; () where there is no such chapter."""
    found = code_cells(texts().get(chapter, ""))
    return tuple(cell for cell in found if check_cells.TAG in cell.tags)


def sources(id: str) -> tuple[str, ...]:
    """The check cells of the chapter of a claim, () where none of them has its id."""
    own = tuple(cell.source for cell in cells(registry[id].notebook))
    return own if any(f'"{id}"' in source for source in own) else ()


def checks_of(id: str) -> Mapping[str, Check]:
    """The checks of a claim by name, from its chapter."""
    return {name: found.check for name, found in declared(registry[id].notebook)[id].items()}


@cache
def declared(chapter: str) -> Mapping[str, Mapping[str, Declared]]:
    """What the check cells of a chapter declare, by claim and name; they run here, once.

    Raises InputError that names the line of the file.
    """
    known = [claim.id for claim in registry.values() if claim.notebook == chapter]
    file = f"notebooks/{chapter}.md"
    return check_cells.run(file, texts()[chapter], cells(chapter), known).declared

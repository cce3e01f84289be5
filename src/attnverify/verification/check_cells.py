"""Check cells: those tagged ``check`` of a chapter or a file of claims declare how it is checked.

They run in order in a namespace of their own, so a check follows from them and from what they
import.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Collection, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from attnverify.derivation.myst import Cell
from attnverify.support.errors import InputError, nearest, require
from attnverify.verification.statements import CHECK

if TYPE_CHECKING:
    from attnverify.checking.declare import Declared

TAG = CHECK


class Ran(NamedTuple):
    """What cells declared, by claim and name, and the names that they bound."""

    declared: Mapping[str, Mapping[str, Declared]]
    names: Mapping[str, Any]


def run(
    file: str, text: str, cells: Iterable[Cell], known: Collection[str], package: str = ""
) -> Ran:
    """Run cells in this process.

    file: what to call it in messages; text: its lines, in which the cells have their places; known:
    the ids that it states; package: where relative imports start. Raises InputError for an id that
    it does not state and a name that no check cell defines; what else a cell raises passes.
    """
    from attnverify.checking import declare

    module = ModuleType(f"attnverify checks of {file}")
    module.__package__ = package
    sys.modules[module.__name__] = module  # where dataclasses look for names
    with declare.collecting() as found:
        for cell in cells:
            name, own = cell.name or file, cell.source if cell.name else text
            linecache.cache[name] = (len(own), None, own.splitlines(keepends=True), name)
            code = compile("\n" * (cell.line - 1) + cell.source, name, "exec")
            try:
                exec(code, vars(module))  # of this package or asked for
            except NameError as error:
                where = f"{cell.name or f'{file}, line {cell.line}'}: got {error}"
                words = "expected what it needs to be defined or imported in a check cell"
                raise InputError(f"{where}, {words}") from error
    for id in (id for id in found if id not in known):
        place = next(iter(found[id].values())).place
        require(False, place, repr(id), f"the id of a claim of this file{nearest(id, known)}")
    return Ran(found, vars(module))

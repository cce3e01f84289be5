"""The keys of finished work: all that a result follows from but for the files that were read.

The text of cells, the settings, the versions of all packages that the project's own requirements
lead to and of those whose files alone are read, and the kind of machine. The files that a piece of
work reads are recorded while it runs (:mod:`attnverify.runtime.kept`). A claim's statement is no
input of its evidence; what the book says of it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from attnverify.support.environment import installed, kind_of_machine
from attnverify.verification.claim import Registry

if TYPE_CHECKING:
    from attnverify.checking.records import Settings


def of_claim(
    id: str, settings: Settings, kinds: Sequence[str], registry: Registry
) -> dict[str, Any] | None:
    """The key of the numerical evidence of a claim.

    None where its origin does not know what it depends on.
    """
    cells, asserts = registry.origin_of(id).cells(id), registry[id].asserts
    if cells is None:
        return None
    searched = {"settings": asdict(settings), "kinds": sorted(kinds)}
    return _key("claim", claim=id, **searched, asserts=asserts, cells=cells)


def of_derivations(notebook: str, cells: Sequence[str], registry: Registry) -> dict[str, Any]:
    """The key of the derivations of one notebook: its tagged cells, in order.

    And what its claims rest on: a derivation may take nothing else as given. What is found is
    compared with the reviewed record whenever it is read.
    """
    uses = _uses(notebook, registry)
    return _key("derivations", notebook=notebook, cells=list(cells), uses=uses)


def of_chapter(notebook: str, cells: Sequence[Any], registry: Registry) -> dict[str, Any]:
    """The key of an executed notebook: its code cells (source, tags), in order.

    The derivations are among the cells, so what its claims rest on counts here too.
    """
    parts = {"cells": [list(cell) for cell in cells], "uses": _uses(notebook, registry)}
    return _key("chapter", notebook=notebook, **parts, book=installed("book"))


def _uses(notebook: str, registry: Registry) -> dict[str, list[str]]:
    """What every claim of a notebook rests on."""
    return {c.id: sorted(c.uses) for c in registry.values() if c.notebook == notebook}


def _key(what: str, **parts: Any) -> dict[str, Any]:
    packages = installed("encoder", "models")
    return {"what": what, **parts, "packages": packages, "machine": kind_of_machine()}

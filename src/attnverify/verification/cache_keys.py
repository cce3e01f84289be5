"""The keys of finished work: everything that the evidence of a claim or a chapter follows from.

A key holds the digest of the source files that are reached
(:mod:`attnverify.runtime.source_dependencies`), the settings, the versions of all packages that the
project's own requirements lead to and of those whose files alone are read, and the kind of machine.
A claim's statement is no input of its evidence; what the book says of it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from attnverify.checking.search import Settings
from attnverify.runtime.source_dependencies import PACKAGE, Sources, arguments, names
from attnverify.support.environment import installed, kind_of_machine
from attnverify.support.parsing import parse
from attnverify.verification.claim import Registry

GATHER, DERIVE = f"{PACKAGE}.checking.gather", f"{PACKAGE}.derivation.run_cells"
Lookups = Mapping[str, Callable[[object], frozenset[str] | None]]


def of_claim(
    id: str, settings: Settings, kinds: Sequence[str], sources: Sources, registry: Registry
) -> dict[str, Any] | None:
    """The key of the evidence that :func:`attnverify.checking.gather.gather` finds for a claim.

    None where its origin does not know what it depends on.
    """
    starts, cells = starts_of_claim(registry, id), registry.origin_of(id).cells(id)
    if starts is None:
        return None
    starts |= starts_of_cells(cells, sources, registry.home.lookups)
    return _key(
        "claim",
        claim=id,
        settings=asdict(settings),
        kinds=sorted(kinds),
        asserts=registry[id].asserts,
        cells=cells,
        sources=sources.digest(starts),
    )


def of_derivations(
    notebook: str, cells: Sequence[str], sources: Sources, registry: Registry
) -> dict[str, Any]:
    """The key of the derivations of one notebook: its tagged cells, in order.

    And what its claims rest on: a derivation may take nothing else as given. What is found is
    compared with the reviewed record whenever it is read.
    """
    starts = starts_of_cells(cells, sources, registry.home.lookups)
    found = sources.digest({DERIVE} | starts)
    uses = _uses(notebook, registry)
    return _key("derivations", notebook=notebook, cells=list(cells), sources=found, uses=uses)


def of_chapter(
    notebook: str, cells: Sequence[Any], sources: Sources, registry: Registry
) -> dict[str, Any]:
    """The key of an executed notebook: its code cells (source, tags), in order.

    The derivations are among the cells, so what its claims rest on counts here too.
    """
    starts = starts_of_cells([source for source, _ in cells], sources, registry.home.lookups)
    code, found = [list(cell) for cell in cells], sources.digest(starts)
    parts = {"cells": code, "sources": found, "uses": _uses(notebook, registry)}
    return _key("chapter", notebook=notebook, **parts, book=installed("book"))


def _uses(notebook: str, registry: Registry) -> dict[str, list[str]]:
    """What every claim of a notebook rests on."""
    return {c.id: sorted(c.uses) for c in registry.values() if c.notebook == notebook}


def _key(what: str, **parts: Any) -> dict[str, Any]:
    packages = installed("encoder", "models")
    return {"what": what, **parts, "packages": packages, "machine": kind_of_machine()}


def starts_of_claim(registry: Registry, id: str) -> frozenset[str] | None:
    """Where the evidence of a claim starts: the engine, and where its origin says."""
    own = registry.origin_of(id).starts(id)
    return None if own is None else own | {GATHER}


def starts_of_cells(cells: Iterable[str], sources: Sources, lookups: Lookups) -> frozenset[str]:
    """Where cells start: the modules they name, and what they look up by a constant.

    Something that cannot be told from the source leads to every file of the package.
    """
    tree = parse("\n".join(cells))
    found: set[str] = set()
    for name in names(tree):
        found |= sources.resolve(name)
        starts_of = lookups.get(sources.defined_as(name))
        for looked_up in arguments(tree, name) if starts_of else ():
            starts = starts_of(looked_up) if starts_of else None
            found |= starts if starts is not None else sources.files.keys()
    return frozenset(found)

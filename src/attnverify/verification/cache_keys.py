"""The keys of finished work: everything that the evidence of a claim or a chapter follows from.

A key holds the digest of the source files that are reached
(:mod:`attnverify.runtime.source_dependencies`), the settings, the versions of all packages that the
project's own requirements lead to and of those whose files alone are read, and the kind of machine.
A claim's statement is no input of its evidence; what the book says of it is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from attnverify import topics
from attnverify.checking.check import Measured
from attnverify.checking.search import Settings
from attnverify.experiments import EXPERIMENTS as TABLE
from attnverify.runtime.source_dependencies import (
    EXPERIMENTS,
    LOOKUP,
    PACKAGE,
    TOPICS,
    Sources,
    arguments,
    names,
)
from attnverify.support.environment import installed, kind_of_machine
from attnverify.support.parsing import parse
from attnverify.topics import lookup, registry

GATHER, DERIVE = f"{PACKAGE}.checking.gather", f"{PACKAGE}.derivation.run_cells"
MEASURED = f"{TOPICS}.shared.measured"  # makes the checks of experiments, from their table
#: Functions and tables that look something up by its id, and the tables they look in.
LOOKUPS = {f"{LOOKUP}.{name}": LOOKUP for name in ("checks_of", "CHECKS", "FILES")}
LOOKUPS |= {f"{EXPERIMENTS}.{name}": EXPERIMENTS for name in ("run", "find", "committed")}
#: For cells: the weights that a module reads by name are found by its texts (source_dependencies).
LOOKUPS |= {f"{EXPERIMENTS}.engine.weights.committed": EXPERIMENTS}
LOOKUPS |= {f"{GATHER}.gather": LOOKUP, f"{PACKAGE}.verification.verify.verify": LOOKUP}
LOOKUPS |= {f"{PACKAGE}.verification.replay.replay": LOOKUP, f"{GATHER}.sampled": LOOKUP}
LOOKUPS |= {f"{EXPERIMENTS}.EXPERIMENTS": EXPERIMENTS, f"{TOPICS}.registry": TOPICS}


def of_claim(id: str, settings: Settings, kinds: Sequence[str], sources: Sources) -> dict[str, Any]:
    """The key of the evidence that :func:`attnverify.checking.gather.gather` finds for a claim."""
    return _key(
        "claim",
        claim=id,
        settings=asdict(settings),
        kinds=sorted(kinds),
        asserts=registry[id].asserts,
        sources=sources.digest(starts_of_claim(id)),
    )


def of_derivations(notebook: str, cells: Sequence[str], sources: Sources) -> dict[str, Any]:
    """The key of the derivations of one notebook: its tagged cells, in order, and their record.

    And what its claims rest on: a derivation may take nothing else as given.
    """
    record = {f"derivation/reviewed/{notebook}.json"}
    starts = {DERIVE} | starts_of_cells(cells, sources) | (record & set(sources.files))
    found = sources.digest(starts)
    uses = _uses(notebook)
    return _key("derivations", notebook=notebook, cells=list(cells), sources=found, uses=uses)


def of_chapter(notebook: str, cells: Sequence[Any], sources: Sources) -> dict[str, Any]:
    """The key of an executed notebook: its code cells (source, tags), in order.

    The derivations are among the cells, so what its claims rest on counts here too.
    """
    found = sources.digest(starts_of_cells([source for source, _ in cells], sources))
    code = [list(cell) for cell in cells]
    parts = {"cells": code, "sources": found, "uses": _uses(notebook), "book": installed("book")}
    return _key("chapter", notebook=notebook, **parts)


def _uses(notebook: str) -> dict[str, list[str]]:
    """What every claim of a notebook rests on."""
    return {c.id: sorted(c.uses) for c in registry.values() if c.notebook == notebook}


def _key(what: str, **parts: Any) -> dict[str, Any]:
    packages = installed("encoder", "models")
    return {"what": what, **parts, "packages": packages, "machine": kind_of_machine()}


def starts_of_claim(id: str) -> frozenset[str]:
    """Where the evidence of a claim starts: the engine, the file of its checks, its experiment."""
    own = lookup.checks_of(id)
    found = {GATHER, files_of_checks()[id]}
    for check in own.values():
        if isinstance(check, Measured):
            found |= {MEASURED} | _experiment(check.experiment)
    return frozenset(found)


@cache
def files_of_checks() -> dict[str, str]:
    """The module that holds the checks of each claim: the innermost whose CHECKS has its id."""
    found: dict[str, str] = {}
    for info in sorted(
        walk_packages(topics.__path__, f"{TOPICS}."), key=lambda i: i.name.count(".")
    ):
        found |= dict.fromkeys(getattr(import_module(info.name), "CHECKS", {}), info.name)
    return found


def _experiment(name: str) -> set[str]:
    """The modules of an experiment's functions and its table."""
    experiment = TABLE[name]
    functions = [experiment.run, experiment.judge, experiment.sample]
    functions += [judge for _, judge in experiment.twins]
    modules = {_plain(function).__module__ for function in functions}
    return modules | {f"experiments/results/{name}.json"}


def _plain(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def starts_of_cells(cells: Iterable[str], sources: Sources) -> frozenset[str]:
    """Where cells start: the modules they name, and the claims and experiments they look up.

    Something that cannot be told from the source leads to every file of the package.
    """
    tree = parse("\n".join(cells))
    dotted = names(tree)
    found = {module for name in dotted for module in sources.resolve(name)}
    for name in dotted & set(LOOKUPS):
        for looked_up in arguments(tree, name):
            found |= _looked_up(LOOKUPS[name], looked_up, sources)
    return frozenset(found)


def _looked_up(table: str, id: object, sources: Sources) -> frozenset[str]:
    """Where an entry of a table starts; all files for one that is not written as a constant."""
    if table == LOOKUP and id in registry:
        return starts_of_claim(str(id))
    if table == EXPERIMENTS and id in TABLE:
        return frozenset(_experiment(str(id)))
    return frozenset(sources.files)

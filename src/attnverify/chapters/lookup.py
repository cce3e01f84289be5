"""The checks of the book's claims, found by id, and the files that their evidence starts from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from attnverify.chapters import cells, registry
from attnverify.checking.check import Check
from attnverify.support.errors import require

HERE, MEASURED = "attnverify.chapters", "attnverify.chapters.measured"
EXPERIMENTS = "attnverify.experiments"


def checks_of(claim: str) -> Mapping[str, Check]:
    """The checks of a claim by name; raises InputError for an unknown id, and one without any."""
    if not registry[claim].derived:
        return import_module(MEASURED).checks_of(claim)
    require(bool(cells.sources(claim)), "id", f"{claim!r}, which has no checks", "a check cell")
    return cells.checks_of(claim)


def starts(id: str) -> frozenset[str]:
    """The module of a claim's checks, how it is found, and the experiment that is judged, if any.

    What a chapter checks starts from its cells, besides (``Origin.cells``).

    The way to find it is part of the evidence, too: another one might find another check.
    """
    found = {__name__} if registry[id].derived else {MEASURED, __name__}
    if not registry[id].derived:
        for experiment in _experiments().values():
            found |= _experiment(experiment.name) if experiment.claim == id else set()
    return frozenset(found)


def _experiments() -> Mapping[str, Any]:
    """Imported by name: else all evidence would start from the table of experiments."""
    return import_module(EXPERIMENTS).EXPERIMENTS


def _experiment(name: str) -> set[str]:
    """The modules of an experiment's functions and its table."""
    experiment = _experiments()[name]
    functions = [experiment.run, experiment.judge, experiment.sample]
    functions += [judge for _, judge in experiment.twins]
    modules = {_plain(function).__module__ for function in functions}
    return modules | {f"experiments/results/{name}.json"}


def _plain(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _of_claim(id: object) -> frozenset[str] | None:
    """Where a claim starts that a notebook looks up; None for one that is no constant."""
    return starts(str(id)) if id in registry else None


def _of_experiment(name: object) -> frozenset[str] | None:
    return frozenset(_experiment(str(name))) if name in _experiments() else None


#: What notebooks look things up in, by the dotted name of its definition.
LOOKUPS: dict[str, Callable[[object], frozenset[str] | None]] = {
    **dict.fromkeys((f"{HERE}.lookup.checks_of", f"{HERE}.verify.verify"), _of_claim),
    f"{HERE}.registry": lambda id: None,
    **dict.fromkeys(
        (f"{EXPERIMENTS}.{name}" for name in ("run", "find", "EXPERIMENTS")), _of_experiment
    ),
    f"{EXPERIMENTS}.engine.results.committed": _of_experiment,
    # the weights that a module reads by name are found by its texts (source_dependencies)
    f"{EXPERIMENTS}.engine.weights.committed": _of_experiment,
}

"""The checks of the book's claims, found by id, and the files that their evidence starts from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from attnverify.chapters import cells, registry
from attnverify.checking.check import Check, Measured
from attnverify.support.errors import require

HERE, TOPICS = "attnverify.chapters", "attnverify.topics"
EXPERIMENTS = "attnverify.experiments"


def checks_of(claim: str) -> Mapping[str, Check]:
    """The checks of a claim by name; raises InputError for an unknown id."""
    if cells.sources(registry[claim].id):
        return cells.checks_of(claim)
    return import_module(module_of(registry[claim].id)).CHECKS[claim]


@cache
def module_of(id: str) -> str:
    """The module of the topic whose ``CHECKS`` has a claim; only its own topic is loaded.

    Modules whose text has the id are asked first, so that mostly one is loaded.
    """
    names = sorted(modules(id.split(".")[0]), key=lambda name: f'"{id}"' not in _text(name))
    found = next((n for n in names if id in getattr(import_module(n), "CHECKS", {})), "")
    require(bool(found), "id", f"{id!r}, which has no checks", f"it in CHECKS of {names}")
    return found


def modules(topic: str) -> Iterator[str]:
    """The modules that may hold checks of a topic: ``checks``, and what is in it if a folder."""
    top = f"{TOPICS}.{topic}.checks"
    yield top
    spec = find_spec(top)
    for info in iter_modules(spec and spec.submodule_search_locations or ()):
        yield f"{top}.{info.name}"


def _text(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def starts(id: str) -> frozenset[str]:
    """The module of a claim's checks, how it is found, and the experiment that is judged, if any.

    What a chapter checks starts from its cells, besides (``Origin.cells``).

    The way to find it is part of the evidence, too: another one might find another check.
    """
    found = {__name__} if cells.sources(id) else {module_of(id), __name__}
    if any(isinstance(check, Measured) for check in checks_of(id).values()):
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

"""Pieces of a verification run that were found before: looked up by key, kept when complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from attnverify.checking.records import ClaimEvidence, Described, Record, TwinRecord, read
from attnverify.derivation import run_cells
from attnverify.derivation.entry import Entry, Step
from attnverify.derivation.notebook_sources import Source
from attnverify.runtime.cache import Key, Store
from attnverify.runtime.kept import Kept
from attnverify.runtime.tasks import Task
from attnverify.support.errors import InputError
from attnverify.verification import cache_keys
from attnverify.verification.claim import Registry

Piece = ClaimEvidence | run_cells.NotebookRun


class Reuse:
    """The pieces that a store has, the tasks that are left, and the keys of these."""

    def __init__(self, tasks: Iterable[Task], store: Store | None, registry: Registry) -> None:
        self.kept = Kept(store) if store else None
        self.found: list[Piece] = []
        self.missing: list[Task] = []
        self._keys: dict[str, Key] = {}
        for task in tasks:
            self.missing += self._left(task, key_of(task, registry) if store else None)

    def _left(self, task: Task, key: Key | None) -> list[Task]:
        """The task, recorded where it is to be run; none if it was found."""
        if self.kept is None or key is None:
            return [task]
        piece = read_piece(task, self.kept.get(key))
        if piece is not None:
            self.found.append(piece)
            return []
        self._keys[task.name] = key
        return [replace(task, recorded=True)]

    def keep(self, results: Iterable[Any]) -> Iterator[Piece]:
        """The pieces of the results; those that are complete are put into the store on the way."""
        for result in results:
            piece, files = result if isinstance(result, tuple) else (result, [])
            if self.kept and files and complete(piece):
                self.kept.put(self._keys[name_of(piece)], files, _value(piece))
            yield piece
        if self.kept:
            self.kept.store.prune()


def key_of(task: Task, registry: Registry) -> Key | None:
    """What a task's outcome depends on; None where that is not known, as of a file's claims."""
    if task.limit is not None:
        return None
    if isinstance(source := task.arguments[0], Source):
        return cache_keys.of_derivations(source.notebook, source.cells, registry)
    claim, settings, kinds = task.arguments
    return cache_keys.of_claim(claim, settings, kinds, registry)


def complete(piece: Piece) -> bool:
    """Nothing failed or stayed unknown: only such pieces are kept."""
    if isinstance(piece, run_cells.NotebookRun):
        return not piece.error and bool(piece.entries)
    passed = all(record.outcome == "pass" for record in piece.records)
    return passed and all(twin.rejected for twin in piece.twins)


def name_of(piece: Piece) -> str:
    """The name of the task that a piece is the result of."""
    return piece.claim if isinstance(piece, ClaimEvidence) else f"notebook {piece.notebook}"


def _value(piece: Piece) -> dict[str, Any]:
    """A piece as JSON, without what the task says itself."""
    if isinstance(piece, ClaimEvidence):
        value = asdict(piece)
        return {name: value[name] for name in ("records", "twins", "checks")}
    return {"entries": [asdict(entry) for entry in piece.entries], "seconds": piece.seconds}


def read_piece(task: Task, value: Any) -> Piece | None:
    """What a task found, from JSON; None unless it is a complete piece.

    It was found by all that it follows from, so nothing else is compared.
    """
    if value is None:
        return None
    try:
        piece = _evidence(task, value) if "checks" in value else _derived(task, value)
    except (InputError, LookupError, TypeError):
        return None  # an entry that contradicts itself, or of no form
    return piece if complete(piece) else None


def _evidence(task: Task, value: Any) -> ClaimEvidence:
    records = tuple(read(Record, each) for each in value["records"])
    twins = tuple(read(TwinRecord, each) for each in value["twins"])
    checks = {
        name: Described(each["form"], tuple(each["kinds"]), tuple(each["twins"]))
        for name, each in value["checks"].items()
    }
    return ClaimEvidence(task.name, records, twins, checks)


def _derived(task: Task, value: Any) -> run_cells.NotebookRun:
    entries = tuple(map(_entry, value["entries"]))
    return run_cells.NotebookRun(task.arguments[0], entries, "", value["seconds"])


def _entry(value: Any) -> Entry:
    steps = tuple(read(Step, step) for step in value["steps"])
    given = tuple((key, text) for key, text in value["given"])
    return Entry(value["claim"], value["role"], steps, given, tuple(value["place"]))

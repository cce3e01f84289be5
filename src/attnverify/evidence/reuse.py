"""Pieces of a verification run that were found before: looked up by key, kept when complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from attnverify.evidence import derive, keys
from attnverify.evidence.closure import Sources
from attnverify.evidence.ledger import Entry, Step
from attnverify.evidence.records import Record, TwinRecord
from attnverify.evidence.run import ClaimEvidence, gather
from attnverify.evidence.store import Key, Store
from attnverify.evidence.workers import Task

Piece = ClaimEvidence | derive.NotebookRun


class Reuse:
    """The pieces that a store has, the tasks that are left, and the keys of these."""

    def __init__(self, tasks: Iterable[Task], store: Store | None) -> None:
        self.store = store
        self.found: list[Piece] = []
        self.missing: list[Task] = []
        self._keys: dict[str, Key] = {}
        self._sources = Sources() if store else None
        for task in tasks:
            self._look_up(task)

    def _look_up(self, task: Task) -> None:
        if self.store and self._sources:
            self._keys[task.name] = key_of(task, self._sources)
            value = self.store.get(self._keys[task.name])
            if value is not None:
                self.found.append(_piece(task, value))
                return
        self.missing.append(task)

    def keep(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The same pieces; those that are complete are put into the store on the way.

        Not after an edit of the package since the keys were made: nobody knows which text ran.
        """
        for piece in pieces:
            key = self._keys.get(name_of(piece))  # none for a claim from outside
            if (
                key
                and self.store
                and self._sources
                and complete(piece)
                and self._sources.unchanged()
            ):
                self.store.put(key, _value(piece))
            yield piece
        if self.store:
            self.store.prune()


def key_of(task: Task, sources: Sources) -> Key:
    """All that a task's outcome depends on."""
    if task.function is gather:
        claim, settings, kinds = task.arguments
        return keys.of_claim(claim, settings, kinds, sources)
    (source,) = task.arguments
    return keys.of_derivations(source.notebook, source.cells, sources)


def complete(piece: Piece) -> bool:
    """Nothing failed or stayed unknown: only such pieces are kept."""
    if isinstance(piece, derive.NotebookRun):
        return not piece.error and bool(piece.entries)
    passed = all(record.outcome == "pass" for record in piece.records)
    return passed and all(twin.rejected for twin in piece.twins)


def name_of(piece: Piece) -> str:
    """The name of the task that a piece is the result of."""
    return piece.claim if isinstance(piece, ClaimEvidence) else f"notebook {piece.notebook}"


def _value(piece: Piece) -> dict[str, Any]:
    """A piece as JSON, without what the task says itself."""
    if isinstance(piece, ClaimEvidence):
        records = [record.as_json() for record in piece.records]
        return {"records": records, "twins": [twin.as_json() for twin in piece.twins]}
    return {"entries": [asdict(entry) for entry in piece.entries], "seconds": piece.seconds}


def _piece(task: Task, value: dict[str, Any]) -> Piece:
    if task.function is gather:
        records = tuple(Record(**record) for record in value["records"])
        return ClaimEvidence(task.name, records, tuple(TwinRecord(**t) for t in value["twins"]))
    entries = tuple(map(_entry, value["entries"]))
    return derive.NotebookRun(task.arguments[0], entries, "", value["seconds"])


def _entry(value: dict[str, Any]) -> Entry:
    steps = tuple(Step(**step) for step in value["steps"])
    given = tuple((key, text) for key, text in value["given"])
    return Entry(value["claim"], value["role"], steps, given, tuple(value["place"]))

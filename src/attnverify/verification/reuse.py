"""Pieces of a verification run that were found before: looked up by key, kept when complete."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from attnverify.checking import gather as run
from attnverify.checking.check import Identity, Inequality
from attnverify.checking.gather import ClaimEvidence, gather_from
from attnverify.checking.records import Record, TwinRecord, read
from attnverify.derivation import reviewed_record, run_cells
from attnverify.derivation.entry import Entry, Step
from attnverify.runtime.cache import Key, Store
from attnverify.runtime.source_dependencies import Sources
from attnverify.runtime.tasks import Task
from attnverify.support.errors import require
from attnverify.verification import cache_keys
from attnverify.verification.claim import Registry

Piece = ClaimEvidence | run_cells.NotebookRun


class Reuse:
    """The pieces that a store has, the tasks that are left, and the keys of these."""

    def __init__(self, tasks: Iterable[Task], store: Store | None, registry: Registry) -> None:
        self.store, self.registry = store, registry
        self.found: list[Piece] = []
        self.missing: list[Task] = []
        self._keys: dict[str, Key] = {}
        self._sources = Sources() if store else None
        for task in tasks:
            self._look_up(task)

    def _look_up(self, task: Task) -> None:
        key = key_of(task, self._sources, self.registry) if self._sources else None
        if self.store and key is not None:
            self._keys[task.name] = key
            piece = read_piece(task, self.store.get(key), self.registry)
            if piece is not None:
                self.found.append(piece)
                return
        self.missing.append(task)

    def keep(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The same pieces; those that are complete are put into the store on the way.

        Not after an edit of the package since the keys were made: nobody knows which text ran.
        """
        for piece in pieces:
            key = self._keys.get(name_of(piece))  # none where it depends on who knows what
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


def key_of(task: Task, sources: Sources, registry: Registry) -> Key | None:
    """All that a task's outcome depends on; None where that is not known, as of a file's claims."""
    if task.function is gather_from:
        _, claim, settings, kinds = task.arguments
        return cache_keys.of_claim(claim, settings, kinds, sources, registry)
    if task.function is run_cells.run:
        source, _ = task.arguments
        return cache_keys.of_derivations(source.notebook, source.cells, sources, registry)
    return None


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
        records = [record.as_json() for record in piece.records]
        return {"records": records, "twins": [twin.as_json() for twin in piece.twins]}
    return {"entries": [asdict(entry) for entry in piece.entries], "seconds": piece.seconds}


def read_piece(task: Task, value: Any, registry: Registry) -> Piece | None:
    """What a task found, from JSON; None unless it is complete and has all that the task finds.

    A store is a folder that others may write to: what is in it is looked at like any input.
    """
    try:
        claims = task.function is gather_from
        piece = _evidence(task, value) if claims else _derivations(task, value, registry)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        return None  # parts that are not what they should be, None in place of all
    return piece if complete(piece) else None


def _evidence(task: Task, value: Any) -> ClaimEvidence:
    """Records of every check and kind that was asked for and every twin, once and in order."""
    records = tuple(read(Record, each) for each in value["records"])
    twins = tuple(read(TwinRecord, each) for each in value["twins"])
    require(value.keys() == {"records", "twins"}, "entry", list(value), "records and twins")
    origin, claim, settings, kinds = task.arguments
    checks = origin.checks_of(claim)
    steps = {name: run.evidence(check, settings, name) for name, check in checks.items()}
    planned = [
        (kind, name, limits)
        for name, each in steps.items()
        for kind, (_, limits) in each.items()
        if kind in kinds
    ]
    same = planned == [(record.kind, record.check, record.limits) for record in records]
    require(same, "records", len(records), "those of the claim's checks")
    stated = [(name, t.title, t.factor) for name, check in checks.items() for t in check.twins]
    same = stated == [(twin.check, twin.twin, twin.factor) for twin in twins]
    require(same, "twins", len(twins), "those of the claim's checks")
    for record in records:
        check = checks[record.check]
        right = record.instances >= record.decided >= 0
        if record.kind == "sampled" and isinstance(check, Inequality | Identity):
            right = right and record.instances == settings.cases(check.sizes)
        require(right, "instances", record.instances, "as many as were asked for")
    return ClaimEvidence(claim, records, twins)


def _derivations(task: Task, value: Any, registry: Registry) -> run_cells.NotebookRun:
    """The entries of a notebook, which hand in every derivation as it is recorded."""
    source, _ = task.arguments
    entries, seconds = tuple(map(_entry, value["entries"])), value["seconds"]
    whole = value.keys() == {"entries", "seconds"} and type(seconds) is float and seconds >= 0
    require(whole, "entry", list(value), "entries and seconds")
    for claim in registry.values():
        if claim.derived and claim.notebook == source.notebook:
            own = [entry for entry in entries if entry.claim == claim.id]
            changed = reviewed_record.differences(claim, own)
            require(not changed, "entries", changed, "the recorded derivations")
    return run_cells.NotebookRun(source, entries, "", seconds)


def _entry(value: Any) -> Entry:
    steps = tuple(read(Step, step) for step in value["steps"])
    given = tuple((key, text) for key, text in value["given"])
    entry = Entry(value["claim"], value["role"], steps, given, tuple(value["place"]))
    words = [entry.claim, entry.role, *(word for pair in given for word in pair)]
    file, line = entry.place
    plain = all(type(word) is str for word in [*words, file]) and type(line) is int
    same = plain and json.loads(json.dumps(asdict(entry))) == value
    require(same, "entry", list(value), "an entry of the ledger")
    return entry

"""The reviewed record: what somebody has read of each claim, one line a claim.

A derivation proves what its steps say; that the steps prove the statement, only a reader can judge.
So ``reviewed.json`` of this folder holds digests of what was read: of the statement, of the cells
that check it, of the derivation (its steps with all source that they come from, their false
neighbors and the given facts) and of the sides that come out. A derivation counts as evidence, and
a claim as more than partial, only while they equal their line. After a change somebody reads the
derivation against the statement and records it with ``attnverify derivations --write``; the lines
of the record that differ say what to read. White space changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attnverify.derivation.assumptions import Claims
from attnverify.derivation.entry import Entry
from attnverify.support.files import read_json, write_text

FILE = Path(__file__).resolve().with_name("reviewed.json")
#: The parts of a line, and what a difference in them means.
STATEMENT, CHECK, DERIVATION, SIDES = "statement", "check", "derivation", "sides"
CHANGED = {
    STATEMENT: "its statement changed since it was read",
    CHECK: "the cells that check it changed since they were read",
    DERIVATION: "its steps, their source, their false neighbors or the given facts changed",
    SIDES: "its steps come out as other expressions",
}
UNREAD = "nobody has recorded that it was read"
REVIEW = (
    "Read the derivation of {notebook}.md against the statement; if it is right, accept it with "
    "`attnverify derivations --write {notebook}` and commit the record"
)

Line = Mapping[str, str]


def of_claim(claim: Any, entries: Sequence[Entry]) -> Line:
    """The line of a claim: digests of its statement and of its derivation, if it has one.

    Another version of sympy may write the same expression in another way, so it is named.
    """
    own = [[e.role, e.given, [[s.name, s.source, s.how, s.code] for s in e.steps]] for e in entries]
    read = {STATEMENT: claim.digest} | ({CHECK: claim.checked} if claim.checked else {})
    if not own:
        return read
    sides = [step.sides for entry in entries for step in entry.steps]
    sympy = ".".join(version("sympy").split(".")[:2])  # as 1.14, which decides how it writes
    made = f"{sympy} {_digest(sides)}"
    return {**read, DERIVATION: _digest(own), SIDES: made}


def _digest(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def load() -> Mapping[str, Line]:
    """The lines of the record by claim id; none where there is no file yet."""
    return _load(FILE) if FILE.is_file() else {}


@cache
def _load(path: Path) -> Mapping[str, Line]:
    with read_json(path, "derivations", "record of derivations") as body:
        return {claim: dict(line) for claim, line in body.items()}


def differences(claim: Any, entries: Sequence[Entry]) -> list[str]:
    """How a claim differs from its line in the record, in words; empty if it does not.

    Sides are compared only with those that the same version of sympy made.
    """
    line, now = load().get(claim.id), of_claim(claim, entries)
    if line is None:
        return [UNREAD]
    other = line.get(SIDES, "").split()[:1] != now.get(SIDES, "").split()[:1]
    parts = [STATEMENT, CHECK, DERIVATION] + [SIDES] * (not other)
    return [CHANGED[part] for part in parts if line.get(part) != now.get(part)]


def unread(claim: Any) -> str:
    """Why the statement or the check of a claim is not the one that was read; "" if both are."""
    line = load().get(claim.id)
    if line is None:
        return UNREAD
    now = {STATEMENT: claim.digest, CHECK: claim.checked}
    return next((CHANGED[part] for part in now if line.get(part, "") != now[part]), "")


def in_words(changed: Sequence[str], notebook: str) -> str:
    """Message with the differences and with what to do about them."""
    return f"not the recorded derivation: {'; '.join(changed)}. {REVIEW.format(notebook=notebook)}"


def write(notebook: str, entries: Sequence[Entry], claims: Claims) -> Path:
    """Record all claims of a notebook with their derivations; returns the file."""
    lines = dict(load())
    for claim in claims.values():
        if claim.notebook == notebook:
            own = [entry for entry in entries if entry.claim == claim.id]
            lines[claim.id] = of_claim(claim, own)
    kept = [f' "{id}": {json.dumps(lines[id])}' for id in claims if id in lines]
    write_text(FILE, "{\n" + ",\n".join(kept) + "\n}\n")
    _load.cache_clear()
    return FILE

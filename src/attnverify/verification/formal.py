"""Formal evidence: theorems that a proof assistant has checked, read from the record of its run.

The theories, the list of registered theorems and the record lie in the folder ``formal``: beside
the source in a checkout, inside the package where it was installed from a wheel. `make proofs`
runs the proof assistant and compares the record with what it finds. Here nothing is compiled: a
record is evidence as long as it is whole, as it was written; as it names the theory of a theorem
with all that it imports, byte for byte; and as every axiom is on the list. Its own SHA-256 catches
edits by hand and no forgery: what is printed there is believed until the proof assistant runs
again. Only the standard library is needed.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from attnverify.checking.records import Outcome, Record, TwinRecord
from attnverify.support.errors import InputError, require
from attnverify.support.files import read_json

PACKAGE = Path(__file__).resolve().parents[1]
FOLDER, LIST, ALLOWED, RECORD = "formal", "registered.toml", "axioms.txt", "checked.json"
LOGICAL = "AttnVerify"  # the name under which the prover knows the theories
#: How the words on a theorem start where it is the claim itself, or refutes just that.
EXACT = ("Exactly as registered", "The negation of the registered statement")
#: The same, or the same spelled out in other words, which are told.
SAME = (*EXACT, "As registered")
CHECKED, DIFFERS = "machine-checked", "machine-checked with a difference"
AGAIN = "run `make proofs ARGS=--write`, read what differs and commit the record"


@dataclass(frozen=True)
class Theorem:
    """A formal theorem and the claim it is for; says: how it differs from the claim's prose.

    read: the digest of the claim's statement that the two were compared with.
    """

    claim: str
    name: str
    says: str
    read: str = ""

    @property
    def exact(self) -> bool:
        return self.says.startswith(EXACT)

    @property
    def same(self) -> bool:
        return self.says.startswith(SAME)


@dataclass(frozen=True)
class Neighbor:
    """A false neighbor of a theorem: its negation is a theorem, or the proof script fails on it."""

    theorem: str
    says: str
    negation: str = ""
    script: str = ""

    @property
    def name(self) -> str:
        return self.negation or self.script


@dataclass(frozen=True)
class Registered:
    """What is registered in a folder, the axioms allowed there, and what the record holds."""

    folder: Path
    theorems: tuple[Theorem, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()
    axioms: Mapping[str, str] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)

    def recorded(self, name: str) -> Mapping[str, Any] | None:
        """The record of a theorem, or of a neighbor by its negation or script; None without one."""
        entries = [*self.record.get("theorems", ()), *self.record.get("neighbors", ())]
        return next((e for e in entries if name in (e.get("name"), e.get("script"))), None)


def module(name: str) -> str:
    """The theory that a qualified name lies in: "SharpLayer" of "AttnVerify.SharpLayer.main"."""
    parts = name.split(".")
    if len(parts) < 3 or parts[0] != LOGICAL:
        raise InputError(f"name: got {name!r}, expected {LOGICAL}.THEORY.THEOREM")
    return parts[1]


def folder() -> Path | None:
    """The folder of the theories: shipped with the package, or beside the checkout's source."""
    shipped, checkout = PACKAGE / FOLDER, PACKAGE.parents[1]
    if (shipped / LIST).is_file():
        return shipped
    if PACKAGE.parent.name == "src" and (checkout / "pyproject.toml").is_file():
        return checkout / FOLDER if (checkout / FOLDER / LIST).is_file() else None
    return None


@cache
def registered() -> Registered:
    """What comes with the package; nothing is registered where there is no folder."""
    found = folder()
    return Registered(Path(FOLDER)) if found is None else read(found)


def read(folder: Path, *, recorded: bool = True) -> Registered:
    """The theorems, neighbors, axioms and record of a folder; recorded: the record, too.

    Raises InputError for a list or a record that cannot be read. A record may be missing.
    """
    path = folder / LIST
    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
        theorems = tuple(Theorem(**_texts(entry)) for entry in body.get("theorem", ()))
        neighbors = tuple(Neighbor(**_texts(entry)) for entry in body.get("neighbor", ()))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path.name}: {error}, expected the tables of {FOLDER}/README.md"
        ) from None
    _require_consistent(theorems, neighbors)
    record = _record(folder / RECORD) if recorded else {}
    return Registered(folder, theorems, neighbors, allowed(folder), record)


def _texts(entry: dict[str, Any]) -> dict[str, str]:
    wrong = [key for key, value in entry.items() if not isinstance(value, str)]
    if wrong:
        raise TypeError(f"{wrong[0]} is no text")
    return entry


def _require_consistent(theorems: Iterable[Theorem], neighbors: Iterable[Neighbor]) -> None:
    names = [t.name for t in theorems]
    for name in names:
        module(name)
        if names.count(name) > 1:
            raise InputError(f"{LIST}: got theorem {name} twice, expected each once")
    for n in neighbors:
        if n.theorem not in names:
            raise InputError(
                f"{LIST}: got a neighbor of {n.theorem}, which is no [[theorem]] there"
            )
        if bool(n.negation) == bool(n.script):
            raise InputError(f"{LIST}: neighbor {n.says!r}: expected a negation or a script")
        if n.negation:
            module(n.negation)


def allowed(folder: Path) -> dict[str, str]:
    """The axioms that a theorem may use, each with what it says: lines "NAME  # words"."""
    path = folder / ALLOWED
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    except UnicodeDecodeError as error:
        raise InputError(f"{ALLOWED}: {error}, expected lines NAME  # words in UTF-8") from None
    parts = (line.partition("#") for line in lines)
    return {name.strip(): words.strip() for name, _, words in parts if name.strip()}


def _record(path: Path) -> Mapping[str, Any]:
    """What the record holds; nothing if there is none, InputError if it is none."""
    if not path.is_file():
        return {}
    with read_json(path, "formal", "record of proofs", expected=AGAIN) as body:
        given = f"{RECORD} with contents that do not match its own SHA-256"
        require(body["sha256"] == seal(body), "formal", given, f"it as written: {AGAIN}")
        return body


def seal(record: Mapping[str, Any]) -> str:
    """The SHA-256 of all that a record holds but its own."""
    rest = {key: value for key, value in record.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest).encode()).hexdigest()


def digest(folder: Path, names: Iterable[str]) -> str:
    """What ``sha256sum NAMES... | sha256sum`` prints in the folder; "" if a file is missing."""
    total = hashlib.sha256()
    for name in names:
        path = folder / name
        if not path.is_file():
            return ""
        total.update(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n".encode())
    return total.hexdigest()


def theorems_of(claim: str) -> list[Theorem]:
    """The formal theorems that are registered for a claim."""
    return [t for t in registered().theorems if t.claim == claim]


def evidence_of(
    claim: str, given: Registered | None = None, *, statement: str = ""
) -> tuple[list[Record], list[TwinRecord]]:
    """A record for each theorem of the claim, a twin for each neighbor that was rejected.

    given: another folder than the package's own; statement: the digest of the claim's, unless it is
    not to be compared. A theorem with a neighbor of which that is not
    known is unknown itself.
    """
    known = registered() if given is None else given
    own = [t for t in known.theorems if t.claim == claim]
    twins = [_twin(n, known) for t in own for n in beside(t, known) if not trouble(n.name, known)]
    return [_evidence(t, known, statement) for t in own], twins


def beside(theorem: Theorem, known: Registered) -> list[Neighbor]:
    """The false neighbors of a theorem."""
    return [n for n in known.neighbors if n.theorem == theorem.name]


def unfit(theorem: Theorem, known: Registered, statement: str = "") -> str:
    """Why the record is no evidence for a theorem and all its neighbors; "" if it is."""
    if statement and statement != theorem.read:
        return (
            f"the statement of {theorem.claim} changed since {theorem.name} was compared with it: "
            f'compare them, then register it with read = "{statement}" in {FOLDER}/{LIST}'
        )
    reasons = [trouble(theorem.name, known, claim=theorem.claim)]
    reasons += [trouble(neighbor.name, known) for neighbor in beside(theorem, known)]
    return next(filter(None, reasons), "")


def _evidence(theorem: Theorem, known: Registered, statement: str) -> Record:
    reason = unfit(theorem, known, statement)
    outcome: Outcome = "unknown" if reason else "pass"
    detail = reason or _found(known.recorded(theorem.name) or {}, known)
    return Record("formal", theorem.name, outcome, None, 1, 0.0, theorem.says, detail)


def _twin(neighbor: Neighbor, known: Registered) -> TwinRecord:
    how = f"its negation is proved: {neighbor.negation}"
    if neighbor.script:
        error = (known.recorded(neighbor.script) or {}).get("error", "")
        how = f"the proof script fails: {error}"
    return TwinRecord(neighbor.theorem, neighbor.says, True, None, how)


def _found(entry: Mapping[str, Any], known: Registered) -> str:
    axioms = ", ".join(entry["axioms"]) or "none"
    return f"{known.record.get('prover')}; axioms: {axioms}"


def trouble(name: str, known: Registered, claim: str = "") -> str:
    """Why the record is no evidence for a theorem, a negation or a script; "" if it is."""
    entry = known.recorded(name)
    if entry is None:
        return f"{RECORD} has no {name}: {AGAIN}"
    if claim and entry.get("claim") != claim:
        return f"{RECORD} has {name} for {entry.get('claim')}: {AGAIN}"
    sources = entry.get("sources") or ["none"]
    if entry["sha256"] != digest(known.folder, sources):
        return f"{name}: one of {', '.join(sources)} is not what was checked: {AGAIN}"
    used = known.record["negations use"] if "theorem" in entry else entry["axioms"]
    foreign = [] if "error" in entry else [axiom for axiom in used if axiom not in known.axioms]
    return f"{name}: {ALLOWED} does not list {', '.join(foreign)}" if foreign else ""


def statement(name: str) -> str:
    """A theorem's statement as the proof assistant printed it; "" without a record."""
    return str((registered().recorded(name) or {}).get("statement", ""))


def prover() -> str:
    """The proof assistant of the record, with its version."""
    return str(registered().record.get("prover", ""))


def checked(records: Iterable[Mapping[str, Any]]) -> str:
    """The mark of a claim with these records; "" unless all of its formal evidence passed.

    "with a difference" where no theorem is said to be as registered, or the negation of that.
    """
    own = [r for r in records if r["kind"] == "formal"]
    if not own or any(r["outcome"] != "pass" for r in own):
        return ""
    return CHECKED if any(r["limits"].startswith(SAME) for r in own) else DIFFERS

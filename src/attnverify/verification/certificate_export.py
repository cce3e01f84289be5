"""Certificates as files for a second program: instance, formulas and verdict, self-contained.

A file holds the exact inputs, and both sides and the hypotheses as one straight-line program
(:mod:`attnverify.arithmetic.tracing`), written down by the formulas themselves.
``tools/recheck.py`` evaluates it in another interval arithmetic and shares no code with this
package.

The certificates are those of inequalities that need no search: the extremal instances, the random
ones that a certificate adds, and the extremal instances that refute the false twins. A searched
instance, saved in a replay file, is exported like them (:func:`write_saved`). The ``index.json``
beside the files has what the second program demands: every file with its SHA-256, the number of
instances of every inequality and false twin, and for each without a file the reason and the
engine's verdict.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnverify.arithmetic.tracing import Program, UntraceableError
from attnverify.checking.ball_comparison import compare
from attnverify.checking.certify import random_instances
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.checking.records import Settings
from attnverify.support.errors import require
from attnverify.support.files import require_writable, write_text
from attnverify.verification.claim import Registry
from attnverify.verification.replay import exact, inequality, load, require_size

FORMAT, INDEX_FORMAT = "attnverify program 1", "attnverify index 2"
MOST_LINES = 200_000  # of one program; the second program evaluates some 10^5 lines a second
NO_INEQUALITY = {
    "Identity": "an identity: it has no ratio of two sides",
    "Decision": "a decision: a computation that branches on the values it meets",
    "Measured": "an experiment: a table is judged, nothing is certified",
}
MEANING = {
    "pass": "for all k: left[k] <= right[k]; hypotheses: smaller <= larger",
    "fail": "for some k: left[k] > right[k]; hypotheses: smaller <= larger",
    "attained": "the largest left[k] / right[k] is within 2^-40 of 1; hypotheses: as for pass",
}


Key = tuple[str, str, str | None]  # claim, check, title of a false twin


@dataclass(frozen=True)
class Certificate:
    """One exact instance of a check, or of one of its false twins, whose title is ``twin``."""

    claim: str
    name: str
    twin: str | None
    kind: str
    check: Inequality
    instance: Instance

    @property
    def key(self) -> Key:
        return self.claim, self.name, self.twin


def certificates(registry: Registry, claim: str, settings: Settings) -> Iterator[Certificate]:
    """The certificates of one claim that need no search."""
    for name, check in registry.checks_of(claim).items():
        if not isinstance(check, Inequality):
            continue
        for make in check.extremal:
            yield Certificate(claim, name, None, "extremal", check, make())
        for instance in random_instances(check, settings, f"{claim}/{name}"):
            yield Certificate(claim, name, None, "random", check, instance)
        for twin in check.twins:
            if isinstance(twin.check, Inequality):
                for make in twin.check.extremal:
                    yield Certificate(claim, name, twin.title, "extremal", twin.check, make())


def program_of(statement: str, certificate: Certificate, expected: str) -> dict[str, Any]:
    """The contents of a file. Raises UntraceableError where a formula cannot be written down."""
    program, check = Program(), certificate.check
    traced = {name: _inputs(program, name, v) for name, v in certificate.instance.items()}
    left, right = (_ids(side) for side in check.sides(**traced))
    given = check.hypotheses(**traced) if check.hypotheses else ()
    pairs = [pair for x, y in given for pair in zip(_ids(x), _ids(y), strict=True)]
    if len(program.lines) > MOST_LINES:
        raise UntraceableError(f"{len(program.lines)} operations, more than {MOST_LINES}")
    return {
        "format": FORMAT,
        "claim": certificate.claim,
        "check": certificate.name,
        "false twin": certificate.twin,
        "instance": certificate.kind,
        "statement": statement.strip(),
        "expected": expected,
        "meaning": MEANING[expected],
        "inputs": {name: exact(v) for name, v in certificate.instance.items()},
        "program": program.lines,
        "left": left,
        "right": right,
        "hypotheses": pairs,
    }


def _inputs(program: Program, name: str, value: Any) -> np.ndarray:
    """A line for every number of the array; equal numbers share the line of the first."""
    out = np.empty(tuple(value.shape), dtype=object)
    first: dict[str, int] = {}
    for place, number in enumerate(exact(value)["values"]):
        out.flat[place] = program.node("input", name, first.setdefault(number, place))
    return out[None]


def _ids(x: Any) -> list[int]:
    return [entry.id for entry in np.asarray(x, dtype=object).reshape(-1)]


def outcome(certificate: Certificate) -> str:
    """What the engine finds: pass, fail, attained (and not settled), unknown."""
    seen = compare(certificate.check, certificate.instance)
    return "attained" if seen.outcome == "unknown" and seen.attained else seen.outcome


def write(
    registry: Registry, ids: list[str], folder: Path, settings: Settings | None = None
) -> dict[str, Any]:
    """Write the files of the selected claims into an empty or new folder, and return the index.

    The index lists the files, the inequalities, and with reasons what has no file.
    """
    empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    require(empty, "out", f"{folder}, which exists and holds something", "a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    inequalities: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []
    for claim in registry.select(ids):
        checks = registry.checks_of(claim.id)
        left_out += [
            _entry(claim.id, n, None, reason=_reason(c), engine=None)
            for n, c in checks.items()
            if _reason(c)
        ]
        instances: Counter[Key] = Counter()
        for number, certificate in enumerate(
            certificates(registry, claim.id, settings or Settings())
        ):
            name = f"{claim.id}-{number:03}.json"
            instances[certificate.key] += 1
            found, content = _content(claim.statement, certificate)
            if isinstance(content, dict):
                files[name] = _write(folder / name, content)
            else:
                left_out.append(_entry(*certificate.key, reason=content, engine=found))
        inequalities += [_entry(*key, instances=instances[key]) for key in _keys(claim.id, checks)]
    index = {
        "format": INDEX_FORMAT,
        "files": files,
        "inequalities": inequalities,
        "not exported": left_out,
    }
    _write(folder / "index.json", index, indent=1)
    return index


def write_saved(registry: Registry, file: Path, target: Path) -> None:
    """Write the program of a replay file's instance; raises InputError where there is none.

    And for a target that is the replay file itself, or that holds something else.
    """
    claim, name, instance = load(registry, file)
    other = target.resolve() != file.resolve()
    require(other, "export", f"{target}, the file with the instance", "another file")
    require_writable("export", target)
    check = inequality(registry, claim, name)
    require_size(check, instance)
    certificate = Certificate(claim, name, None, "saved", check, instance)
    _, content = _content(registry[claim].statement, certificate)
    words = f"an instance without a program ({content})"
    require(isinstance(content, dict), "file", words, "another one")
    _write(target, content)


def _content(statement: str, certificate: Certificate) -> tuple[str, dict[str, Any] | str]:
    """What the engine finds, and the contents of the file, or why there is none."""
    found = outcome(certificate)
    if found == "unknown":
        return found, "the engine does not settle it"
    if certificate.twin is not None and found != "fail":
        return found, "the false twin is not refuted by this instance"
    try:
        return found, program_of(statement, certificate, found)
    except UntraceableError as error:
        return found, str(error)


def _write(path: Path, content: Any, indent: int | None = None) -> str:
    """Write a JSON file; returns its SHA-256."""
    text = json.dumps(content, indent=indent) + "\n"
    write_text(path, text)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _reason(check: Check) -> str | None:
    return NO_INEQUALITY.get(type(check).__name__)


def _keys(claim: str, checks: Mapping[str, Check]) -> Iterator[Key]:
    """The inequalities of a claim, each followed by its false twins that are inequalities."""
    for name, check in checks.items():
        if isinstance(check, Inequality):
            yield claim, name, None
            for twin in check.twins:
                if isinstance(twin.check, Inequality):
                    yield claim, name, twin.title


def _entry(claim: str, check: str, twin: str | None, **others: Any) -> dict[str, Any]:
    return {"claim": claim, "check": check, "false twin": twin, **others}

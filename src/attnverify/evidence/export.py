"""Certificates as files for a second program: instance, formulas and verdict, self-contained.

A file holds the exact inputs, and both sides and the hypotheses as one straight-line program
(:mod:`attnverify.tracing`), written down by the formulas themselves. ``tools/recheck.py``
evaluates it in another interval arithmetic and shares no code with this package.

The certificates are those of inequalities that need no search: the extremal instances, the random
ones that a certificate adds, and the extremal instances of the false twins. A searched instance,
saved in a replay file, is exported like them (:func:`write_saved`). What is not exported is listed
with its reason, in the ``index.json`` beside the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnverify.checks import CHECKS
from attnverify.claims import registry
from attnverify.errors import require
from attnverify.evidence.certify import random_instances
from attnverify.evidence.exact import compare
from attnverify.evidence.forms import Check, Inequality, Instance
from attnverify.evidence.replay import inequality, load
from attnverify.evidence.search import Settings
from attnverify.files import require_writable, write_text
from attnverify.tracing import Program, UntraceableError

FORMAT = "attnverify program 1"
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


@dataclass(frozen=True)
class Certificate:
    """One exact instance of a check, or of one of its false twins, whose title is ``twin``."""

    claim: str
    name: str
    twin: str | None
    kind: str
    check: Inequality
    instance: Instance


def certificates(claim: str, settings: Settings) -> Iterator[Certificate]:
    """The certificates of one claim that need no search."""
    for name, check in CHECKS.get(claim, {}).items():
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


def program_of(certificate: Certificate, expected: str) -> dict[str, Any]:
    """The contents of a file. Raises UntraceableError where a formula cannot be written down."""
    program, check = Program(), certificate.check
    traced = {name: _inputs(program, name, v) for name, v in certificate.instance.items()}
    left, right = _ids(check.left(**traced)), _ids(check.right(**traced))
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
        "statement": registry[certificate.claim].statement.strip(),
        "expected": expected,
        "meaning": MEANING[expected],
        "inputs": {name: _numbers(v) for name, v in certificate.instance.items()},
        "program": program.lines,
        "left": left,
        "right": right,
        "hypotheses": pairs,
    }


def _inputs(program: Program, name: str, value: Any) -> np.ndarray:
    """A line for every number of the array; equal numbers share the line of the first."""
    out = np.empty(tuple(value.shape), dtype=object)
    first: dict[str, int] = {}
    for place, number in enumerate(_numbers(value)["values"]):
        out.flat[place] = program.node("input", name, first.setdefault(number, place))
    return out[None]


def _numbers(value: Any) -> dict[str, Any]:
    return {"shape": list(value.shape), "values": [float(v).hex() for v in value.flatten()]}


def _ids(x: Any) -> list[int]:
    return [entry.id for entry in np.asarray(x, dtype=object).reshape(-1)]


def outcome(certificate: Certificate) -> str:
    """What the engine finds: pass, fail, attained (and not settled), unknown."""
    seen = compare(certificate.check, certificate.instance)
    return "attained" if seen.outcome == "unknown" and seen.attained else seen.outcome


def write(ids: list[str], folder: Path, settings: Settings | None = None) -> dict[str, Any]:
    """Write the files of the selected claims into an empty or new folder, and return the index.

    The index lists the files, and with reasons the certificates and checks that have none.
    """
    empty = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    require(empty, "out", f"{folder}, which exists and holds something", "a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    files: list[str] = []
    left_out: list[dict[str, str | None]] = []
    for claim in registry.select(ids):
        checks = CHECKS.get(claim.id, {}).items()
        left_out += [_without(claim.id, n, c) for n, c in checks if _reason(c)]
        for number, certificate in enumerate(certificates(claim.id, settings or Settings())):
            name = f"{claim.id}-{number:03}.json"
            reason = _write(folder / name, certificate)
            if reason is None:
                files.append(name)
            else:
                left_out.append(_entry(certificate, reason))
    index = {"format": f"{FORMAT}, index", "files": files, "not exported": left_out}
    write_text(folder / "index.json", json.dumps(index, indent=1) + "\n")
    return index


def write_saved(file: Path, target: Path) -> None:
    """Write the program of a replay file's instance; raises InputError where there is none.

    And for a target that is the replay file itself, or that holds something else.
    """
    claim, name, instance = load(file)
    other = target.resolve() != file.resolve()
    require(other, "export", f"{target}, the file with the instance", "another file")
    require_writable("export", target)
    check = inequality(claim, name)
    reason = _write(target, Certificate(claim, name, None, "saved", check, instance))
    require(reason is None, "file", f"an instance without a program ({reason})", "another one")


def _write(path: Path, certificate: Certificate) -> str | None:
    """Write one file, or say why there is none."""
    expected = outcome(certificate)
    if expected == "unknown":
        return "the engine does not settle it"
    try:
        content = program_of(certificate, expected)
    except UntraceableError as error:
        return str(error)
    write_text(path, json.dumps(content) + "\n")
    return None


def _reason(check: Check) -> str | None:
    return NO_INEQUALITY.get(type(check).__name__)


def _without(claim: str, name: str, check: Check) -> dict[str, str | None]:
    return {"claim": claim, "check": name, "false twin": None, "reason": _reason(check)}


def _entry(certificate: Certificate, reason: str) -> dict[str, str | None]:
    where = {"claim": certificate.claim, "check": certificate.name}
    return {**where, "false twin": certificate.twin, "reason": reason}

"""The reviewed record of all derivations: which steps a claim's derivation consists of.

A derivation proves what its steps say; that the steps prove the statement, only a reader can judge.
So the derivation that was read is kept in ``reviewed/NOTEBOOK.json`` of this folder, one line a
step, and a derivation counts as evidence only while it equals its record: the same steps with the
same source and expressions, the same false neighbors and the same given facts. After a change
somebody reads the new derivation against the statement and records it with ``attnverify derivations
--write``; the diff of the record shows what to read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import sympy as sp

from attnverify.derivation.entry import Entry, Step
from attnverify.support.files import read_json, write_text

FOLDER = Path(__file__).resolve().parent / "reviewed"
SHOWN = 160  # characters of a side that the record shows; the digest covers all
#: The parts of a step that are compared, and what a difference in them means.
COMPARED = {
    "how": "is decided in another way",
    "source": "is written otherwise",
    "code": "is computed from other source",
    "sides": "comes out as other expressions",
}
REVIEW = (
    "Read the derivation of {notebook}.md against the statement; if it is right, accept it with "
    "`attnverify derivations --write {notebook}` and commit the record"
)

Lines = list[dict[str, str]]
Recorded = Mapping[str, Mapping[str, Any]]


def of_claim(entries: Iterable[Entry]) -> dict[str, Lines]:
    """The record of a claim's derivation: given facts, steps and rejected neighbors, in order."""
    out: dict[str, Lines] = {"given": [], "derived": [], "rejected": []}
    for entry in entries:
        out["given"] += [{"on": key, "fact": text} for key, text in entry.given]
        out[entry.role] += [_line(step) for step in entry.steps]
    return out


def _line(step: Step) -> dict[str, str]:
    return {
        "step": step.name,
        "source": step.source,
        "left": _short(step.left),
        "right": _short(step.right),
        "how": step.how,
        "sides": step.sides,
        "code": step.code,
    }


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def load() -> Recorded:
    """The records of all notebooks by claim id, each with the version of sympy that made it."""
    return _load(FOLDER)


@cache
def _load(folder: Path) -> Recorded:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        with read_json(path, "derivations", "record of derivations") as body:
            for claim, lines in body["claims"].items():
                found[claim] = {"sympy": body["sympy"], **lines}
    return found


def differences(claim: str, entries: Sequence[Entry], recorded: Recorded) -> list[str]:
    """Differences of a claim's derivation from its record, in words; empty if there are none.

    Another version of sympy may write the same expression in another way. Then the sides are not
    compared, only the source that they come from.
    """
    if claim not in recorded:
        return ["nobody has recorded this derivation"]
    record, now = recorded[claim], of_claim(entries)
    parts = [p for p in COMPARED if p != "sides" or record["sympy"] == _version()]
    found = _givens(record["given"], now["given"])
    for role, word in (("derived", "step"), ("rejected", "rejected neighbor")):
        found += _steps(word, record[role], now[role], parts)
    return found


def _givens(before: Lines, now: Lines) -> list[str]:
    old, new = (Counter((g["on"], g["fact"]) for g in lines) for lines in (before, now))
    lost = [f"given no longer: {fact} ({key})" for key, fact in old - new]
    return lost + [f"given anew: {fact} ({key})" for key, fact in new - old]


def _steps(word: str, before: Lines, now: Lines, parts: Sequence[str]) -> list[str]:
    old, new = _by_name(before), _by_name(now)
    found = [f"{word} {name!r} is gone" for name, _ in old.keys() - new.keys()]
    found += [f"{word} {name!r} is new" for name, _ in new.keys() - old.keys()]
    for key in old.keys() & new.keys():
        changed = [COMPARED[part] for part in parts if old[key][part] != new[key][part]]
        found += [f"{word} {key[0]!r} {' and '.join(changed)}"] if changed else []
    return sorted(found)


def _by_name(lines: Lines) -> dict[tuple[str, int], dict[str, str]]:
    """Lines by name and number, since several steps may have one name."""
    seen: Counter[str] = Counter()
    out = {}
    for line in lines:
        out[line["step"], seen[line["step"]]] = line
        seen[line["step"]] += 1
    return out


def in_words(changed: Sequence[str], notebook: str) -> str:
    """Message with the differences and with what to do about them."""
    shown = "; ".join(changed[:5]) + (f"; {len(changed) - 5} more" if len(changed) > 5 else "")
    return f"not the recorded derivation: {shown}. {REVIEW.format(notebook=notebook)}"


def write(notebook: str, entries: Sequence[Entry]) -> Path:
    """Write the record of all derivations of a notebook; returns the file."""
    claims = dict.fromkeys(entry.claim for entry in entries)
    lines = {c: of_claim(e for e in entries if e.claim == c) for c in claims}
    path = FOLDER / f"{notebook}.json"
    write_text(path, _text(lines))
    _load.cache_clear()
    return path


def _text(claims: Mapping[str, Mapping[str, Lines]]) -> str:
    """JSON text with one line a step."""
    parts = []
    for claim, roles in claims.items():
        lists = []
        for role, lines in roles.items():
            body = ",\n".join("    " + json.dumps(line, ensure_ascii=False) for line in lines)
            lists.append(f'   "{role}": [' + (f"\n{body}\n   ]" if lines else "]"))
        parts.append(f'  "{claim}": {{\n' + ",\n".join(lists) + "\n  }")
    body = ",\n".join(parts)
    return f'{{\n "sympy": "{_version()}",\n "claims": {{\n{body}\n }}\n}}\n'


def _version() -> str:
    """The part of sympy's version that decides how it writes expressions, as 1.14."""
    return ".".join(sp.__version__.split(".")[:2])

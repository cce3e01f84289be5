"""The record of a run: each theorem's statement as printed, its axioms, the sources' digest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnverify.verification import formal
from attnverify.verification.formal import Neighbor, Registered, Theorem
from rocq import prover, scripts
from rocq.definitions import Entry, definitions
from rocq.prover import ProofError

NEGATIONS = "negations"
#: What another version of the prover may word otherwise.
WORDING = {"statement", "text", "error", "type"}


def make(known: Registered, copy: Path) -> Entry:
    """What the prover says of everything that is registered; the theories are compiled already."""
    files = [n.script.removeprefix(f"{formal.FOLDER}/") for n in known.neighbors if n.script]
    needs = prover.needs(copy, *files)
    theories = [name for name in _in_order(needs) if name not in files]
    theorems = [t.name for t in known.theorems]
    negations = [n.negation for n in known.neighbors if n.negation]
    _require_theories([*theorems, *negations], theories)
    said = _statements(copy, theories, [*theorems, *negations])
    axioms = _axioms(copy, theories, theorems, negations)
    found = {
        "format": "attnverify formal 1",
        "prover": prover.version(),
        "axioms": dict(sorted({k: v for own in axioms.values() for k, v in own.items()}.items())),
        "negations use": sorted(axioms[NEGATIONS]),
        "theorems": [_theorem(t, said, axioms, needs, known.folder) for t in known.theorems],
        "neighbors": [_neighbor(n, said, needs, known.folder, copy) for n in known.neighbors],
        "definitions": definitions(copy, theories, theorems),
    }
    return found | {"sha256": formal.seal(found)}


def _statements(copy: Path, theories: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The statement of each theorem and negation, as it is printed."""
    answers = prover.ask(copy, prover.opening(theories), (f"Check @{name}." for name in names))
    return {name: _statement(answer) for name, answer in zip(names, answers, strict=True)}


def _axioms(
    copy: Path, theories: Sequence[str], theorems: Sequence[str], negations: Sequence[str]
) -> dict[str, dict[str, str]]:
    """The axioms of each theorem, and of all negations together: each answer takes a second."""
    start = prover.opening(theories, plain=True)
    start += f"Definition {NEGATIONS} := ({', '.join(['O', *(f'@{n}' for n in negations)])}).\n"
    names = [*theorems, NEGATIONS]
    answers = prover.ask(copy, start, (f"Print Assumptions {name}." for name in names))
    return dict(zip(names, map(prover.axioms, answers), strict=True))


def _in_order(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """All theories, each after what it needs."""
    return list(dict.fromkeys(name for own in needs.values() for name in own))


def _require_theories(names: Iterable[str], theories: Sequence[str]) -> None:
    for name in names:
        if f"{formal.module(name)}.v" not in theories:
            raise ProofError(f"{name}: {formal.LIST} names a theory that is not in _CoqProject")


def _statement(answer: str) -> str:
    """The type in an answer to Check: what stands behind the name."""
    _, _, text = answer.partition("\n     : ")
    return "\n".join(line.removeprefix(" " * 7).rstrip() for line in text.rstrip().splitlines())


def _theorem(
    theorem: Theorem,
    said: Mapping[str, str],
    axioms: Mapping[str, Mapping[str, str]],
    needs: Mapping[str, Sequence[str]],
    folder: Path,
) -> Entry:
    name = theorem.name
    head = {"claim": theorem.claim, "name": name, "says": theorem.says, "statement": said[name]}
    used = {"axioms": sorted(axioms[name])}
    return head | used | _sources(needs[f"{formal.module(name)}.v"], folder)


def _neighbor(
    neighbor: Neighbor,
    said: Mapping[str, str],
    needs: Mapping[str, Sequence[str]],
    folder: Path,
    copy: Path,
) -> Entry:
    head = {"theorem": neighbor.theorem, "says": neighbor.says}
    if neighbor.negation:
        head |= {"name": neighbor.negation, "statement": said[neighbor.negation]}
        return head | _sources(needs[f"{formal.module(neighbor.negation)}.v"], folder)
    file = neighbor.script.removeprefix(f"{formal.FOLDER}/")
    error = scripts.rejected(copy, file)
    return head | {"script": neighbor.script, "error": error} | _sources(needs[file], folder)


def _sources(names: Sequence[str], folder: Path) -> Entry:
    return {"sources": list(names), "sha256": formal.digest(folder, names)}


def text(record: Mapping[str, Any]) -> str:
    """The record as it is written: canonical, so that equal findings are equal bytes."""
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What a record says that the prover does not, and the other way round."""
    same = before.get("prover") == now["prover"]
    found = []
    for part, key in (("theorems", "name"), ("neighbors", "says"), ("definitions", "name")):
        if part == "definitions" and not same:
            continue
        old = {_key(e, key): e for e in before.get(part, ())}
        new = {_key(e, key): e for e in now[part]}
        found += [f"{name}: is recorded and not found" for name in old.keys() - new.keys()]
        found += [f"{name}: is found and not recorded" for name in new.keys() - old.keys()]
        for name in old.keys() & new.keys():
            found += _of_entry(name, old[name], new[name], same)
    if same and not found and text(before) != text(now):
        found.append("the order, the axioms' types or the form of the record")
    return sorted(found)


def _key(entry: Mapping[str, str], key: str) -> str:
    return f"{entry['theorem']}, neighbor {entry[key]!r}" if "theorem" in entry else entry[key]


def _of_entry(name: str, old: Entry, new: Entry, same: bool) -> list[str]:
    return [
        f"{name}: {part}: recorded {_brief(old.get(part))}, found {_brief(new.get(part))}"
        for part in {**old, **new}
        if old.get(part) != new.get(part) and (same or part not in WORDING)
    ]


def _brief(value: object) -> str:
    words = " ".join(str(value).split())
    return words if len(words) <= 160 else f"{words[:160]}…"

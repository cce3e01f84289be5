"""The record of a run: statements and definitions as printed, axioms, neighbors, sources' digest.

A neighbor whose negation is not proved has a proof script, which must fail on it, and in its proof.
A script could fail for a slip of the pen. So it says which of its numbers are not those of the
theorem, ``(* True with: 16384 -> 1048576; 128 -> 1024 *)``, and with these put in their places it
must compile: what makes the proof fail is the neighbor's statement and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnverify.verification import formal
from attnverify.verification.formal import Neighbor, Registered, Theorem
from rocq import prover, scan
from rocq.prover import LOGICAL, ProofError, run
from rocq.scan import sentences

PLACE = re.compile(r'File "[^"]*", line (\d+), characters [\d-]+:\s*Error:\s*(.*)', re.S)
TRUE_WITH = re.compile(r"\(\*\s*True with:\s*((?:[^*]|\*(?!\)))*?)\s*\*\)")
ENDS = re.compile(r"(?:Qed|Defined)$")
NAMES = re.compile(r'\[\n\s*"[\w./-]*"(?:,\n\s*"[\w./-]*")*\n\s*\]')  # in JSON, a line each
CONTROL = "true_"  # how the name of the script starts that must compile


def rejected(copy: Path, script: str) -> str:
    """The error with which a script fails; raises :class:`ProofError` if it is no such script.

    The error must come between the `Proof` and the `Qed` of its last theorem, and the script must
    compile once it is made true.
    """
    first, last = proof(copy / script)
    done = run("coqc", "-w", "none", *LOGICAL, script, cwd=copy)
    if done.returncode == 0:
        raise ProofError(f"{script}: compiles: the neighbor is not rejected, or it is true")
    found = PLACE.search(done.stderr)
    if found is None:
        raise ProofError(f"{script}: fails without a place: {done.stderr[-300:]}")
    line, error = int(found[1]), " ".join(found[2].split())
    if not first <= line <= last:
        raise ProofError(
            f"{script}, line {line}: fails outside the last proof (lines {first} to {last}): "
            f"{error[:200]}"
        )
    _require_compiling(copy, script)
    return f"line {line}: {error}"[:200]


def _require_compiling(copy: Path, script: str) -> None:
    """Raise ProofError unless the script compiles once it is made true."""
    path = copy / script
    control = path.with_name(f"{CONTROL}{path.name}")
    control.write_text(made_true(path.read_text(encoding="utf-8"), script), encoding="utf-8")
    name = control.relative_to(copy).as_posix()
    done = run("coqc", "-w", "none", *LOGICAL, name, cwd=copy)
    control.unlink()
    if done.returncode:
        words = " ".join(done.stderr.split())[-300:]
        raise ProofError(f"{script}: fails for another reason, as it also fails made true: {words}")


def made_true(text: str, script: str) -> str:
    """The text with the replacements that its comment states, "True with: A -> B; C -> D"."""
    found = TRUE_WITH.search(text)
    pairs = [part.partition(" -> ") for part in found[1].split(";")] if found else []
    table = {old.strip(): new.strip() for old, arrow, new in pairs if arrow}
    if not table or len(table) < len(pairs):
        raise ProofError(f"{script}: expected a comment (* True with: OLD -> NEW; OLD -> NEW *)")
    missing = [old for old in table if old not in text.replace(found[0] if found else "", "")]
    if missing:
        raise ProofError(f"{script}: True with: {missing[0]!r} does not occur")
    either = "|".join(map(re.escape, sorted(table, key=len, reverse=True)))
    return re.sub(rf"(?<!\w)(?:{either})(?!\w)", lambda m: table[m[0]], text)


def proof(path: Path) -> tuple[int, int]:
    """The lines of `Proof` and `Qed` of the last theorem in a script."""
    if not path.is_file():
        raise ProofError(f"{path.name}: is registered as a script and is not there")
    found = list(scan.sentences(path.read_text(encoding="utf-8")))
    starts = [s.line for s in found if s.text == "Proof"]
    ends = [s.line for s in found if ENDS.match(s.text)]
    if not starts or not ends or ends[-1] < starts[-1]:
        raise ProofError(f"{path.name}: expected a theorem with `Proof.` and `Qed.` at its end")
    return starts[-1], ends[-1]


Entry = dict[str, Any]
TYPES = "Record|Structure|Inductive|Variant"
TYPE = re.compile(rf"(?:{TYPES})\s+(\w+)")
DEFINES = f"Definition|Fixpoint|{TYPES}"


def definitions(copy: Path, theories: Sequence[str], theorems: Sequence[str]) -> list[Entry]:
    """Every definition of the project that a registered statement reaches, as it is printed.

    The prover is asked for the transparent constants below the statements, not below the proofs.
    """
    if not theorems:
        return []
    types = "".join(f"let t{k} := type of @{n} in " for k, n in enumerate(theorems))
    product = " * ".join(f"t{k}" for k in range(len(theorems)))
    start = prover.opening(theories, plain=True)
    start += f"Definition statements := ltac:({types}exact ({product})%type).\n"
    (answer,) = prover.ask(copy, start, ["Print All Dependencies statements."])
    stems = {name.removesuffix(".v") for name in theories}
    constants, _, _ = answer.partition("Opaque constants:")
    reached = re.findall(r"^(?:AttnVerify\.)?(\w+)\.(\w+) :(?! bigop\.Monoid)", constants, re.M)
    names = [f"{m}.{name}" for m, name in reached if m in stems]
    names += _types(copy, theories)
    start = prover.opening(theories)
    answers = prover.ask(copy, start, (f"Print AttnVerify.{name}." for name in names))
    found = [
        {"name": f"AttnVerify.{name}", "text": _printed(answer)}
        for name, answer in zip(names, answers, strict=True)
    ]
    return sorted(_without_fields(found), key=lambda e: _place(e["name"], copy, theories))


def _types(copy: Path, theories: Sequence[str]) -> list[str]:
    """The records and inductive types of the project."""
    texts = {name: (copy / name).read_text(encoding="utf-8") for name in theories}
    return [
        f"{name.removesuffix('.v')}.{found[1]}"
        for name, text in texts.items()
        for sentence in sentences(text)
        if (found := TYPE.match(sentence.bare))
    ]


def _printed(answer: str) -> str:
    """A definition without the note on its arguments."""
    text = re.split(r"\n\s*\n?Arguments ", answer.rstrip())[0]
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def _without_fields(found: Sequence[Entry]) -> list[Entry]:
    """The definitions without fields, which their record shows, and without unused types."""
    records = [e for e in found if e["text"].startswith(("Record", "Inductive", "Variant"))]
    fields = {f for e in records for f in re.findall(r"[{;]\s*(\w+) :", e["text"])}
    plain = [e for e in found if e not in records and _short(e) not in fields]
    texts = " ".join(e["text"] for e in [*plain, *records])
    return [*plain, *(e for e in records if len(re.findall(rf"\b{_short(e)}\b", texts)) > 1)]


def _short(entry: Mapping[str, str]) -> str:
    return entry["name"].rpartition(".")[2]


def _place(name: str, copy: Path, theories: Sequence[str]) -> tuple[int, int]:
    """The place of a definition: its theory, and the line there."""
    file = f"{formal.module(name)}.v"
    text = (copy / file).read_text(encoding="utf-8")
    starts = re.compile(rf"(?:{DEFINES})\s+{name.rpartition('.')[2]}\b")
    lines = (s.line for s in sentences(text) if starts.match(s.bare))
    return theories.index(file), next(lines, len(text))


NEGATIONS = "negations"
#: What another version of the prover may word otherwise.
WORDING = {"statement", "text", "error", "type"}


def make(known: Registered, copy: Path) -> Entry:
    """What the prover says of everything that is registered; the theories are compiled already."""
    files = [n.script.removeprefix(f"{formal.FOLDER}/") for n in known.neighbors if n.script]
    needs = prover.needs(copy, *files)
    each = dict.fromkeys(name for own in needs.values() for name in own)  # after what it needs
    theories = [name for name in each if name not in files]
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
    error = rejected(copy, file)
    return head | {"script": neighbor.script, "error": error} | _sources(needs[file], folder)


def _sources(names: Sequence[str], folder: Path) -> Entry:
    return {"sources": list(names), "sha256": formal.digest(folder, names)}


def text(record: Mapping[str, Any]) -> str:
    """The record as it is written: canonical, so that equal findings are equal bytes.

    Lists of names stand on one line.
    """
    lines = json.dumps(record, indent=1, ensure_ascii=False)
    return NAMES.sub(lambda found: re.sub(r"\n\s*", "", found[0]).replace(",", ", "), lines) + "\n"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences between a record and what the prover says."""
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

"""Neighbors whose negation is not proved: the proof script must fail on them, and in its proof.

A script could fail for a slip of the pen. So it says which of its numbers are not those of the
theorem, ``(* True with: 16384 -> 1048576; 128 -> 1024 *)``, and with these put in their places it
must compile: what makes the proof fail is the neighbor's statement and nothing else.
"""

from __future__ import annotations

import re
from pathlib import Path

from rocq import scan
from rocq.prover import LOGICAL, ProofError, run

PLACE = re.compile(r'File "[^"]*", line (\d+), characters [\d-]+:\s*Error:\s*(.*)', re.S)
TRUE_WITH = re.compile(r"\(\*\s*True with:\s*((?:[^*]|\*(?!\)))*?)\s*\*\)")
ENDS = re.compile(r"(?:Qed|Defined)$")
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
    """The script with the words of the theorem in their places goes through."""
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
    """The text with what its comment says, all at once: "True with: A -> B; C -> D"."""
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

"""Neighbors whose negation is not proved: the proof script must fail on them, and in its proof."""

from __future__ import annotations

import re
from pathlib import Path

from rocq import scan
from rocq.prover import LOGICAL, ProofError, run

PLACE = re.compile(r'File "[^"]*", line (\d+), characters [\d-]+:\s*Error:\s*(.*)', re.S)
#: Errors that say nothing about the statement: a slip of the pen would do.
SLIPS = re.compile(
    r"Syntax error|was not found in the current|Cannot find a physical|Unable to locate"
)
ENDS = re.compile(r"(?:Qed|Defined)$")


def rejected(copy: Path, script: str) -> str:
    """The error with which a script fails; raises :class:`ProofError` if it is no such script.

    Its last theorem must be stated without an error, and the error must come between its `Proof`
    and its `Qed`.
    """
    first, last = proof(copy / script)
    done = run("coqc", "-w", "none", *LOGICAL, script, cwd=copy)
    if done.returncode == 0:
        raise ProofError(f"{script}: compiles: the neighbor is not rejected, or it is true")
    found = PLACE.search(done.stderr)
    if found is None:
        raise ProofError(f"{script}: fails without a place: {done.stderr[-300:]}")
    line, error = int(found[1]), " ".join(found[2].split())
    if SLIPS.search(error):
        raise ProofError(f"{script}, line {line}: fails for another reason: {error[:200]}")
    if not first <= line <= last:
        raise ProofError(
            f"{script}, line {line}: fails outside the last proof (lines {first} to {last}): "
            f"{error[:200]}"
        )
    return f"line {line}: {error}"[:200]


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

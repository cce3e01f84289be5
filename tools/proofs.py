"""`make proofs`: check the formal proofs and compare what is found with the record.

python tools/proofs.py             build, scan, axioms, neighbors, comparison with the record
python tools/proofs.py --write     the same, and write the record
python tools/proofs.py --coqchk    and have coqchk check every compiled file again (slower)

Needs Rocq (Coq) and Python, no package. The theories are compiled in a copy, `_build/formal`.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

from attnverify.chapters import registry  # noqa: E402
from attnverify.support.errors import InputError  # noqa: E402
from attnverify.support.files import write_text  # noqa: E402
from attnverify.verification import formal  # noqa: E402
from rocq import prover, record, scan  # noqa: E402
from rocq.prover import ProofError  # noqa: E402


def check(folder: Path, copy: Path, say=print) -> dict:
    """Check everything that is asked of the theories; returns the record of what was found.

    folder: the theories with their list and record; copy: where they are compiled. Raises
    ProofError with all that is wrong at the first stage that finds something.
    """
    known = formal.read(folder, recorded=False)
    _stop([f"{t.name}: {t.claim!r} is no claim" for t in known.theorems if t.claim not in registry])
    _stop(scan.offences_in(folder))
    prover.copy(folder, copy)
    start = prover.clock()
    prover.build(copy)
    say(f"compiled: {prover.seconds(start)}")
    found = record.make(known, copy)
    _stop(_foreign(found, known.axioms))
    return found


def _stop(wrong: list[str]) -> None:
    if wrong:
        raise ProofError("\n".join(wrong))


def _foreign(found: dict, allowed) -> list[str]:
    """The axioms that are used and not on the list."""
    used = {e["name"]: e["axioms"] for e in found["theorems"]}
    used["a negation of a neighbor"] = found["negations use"]
    return [
        f"{name}: uses {axiom}, which {formal.ALLOWED} does not list"
        for name, axioms in used.items()
        for axiom in axioms
        if axiom not in allowed
    ]


def compare(found: dict, folder: Path) -> str:
    """Compare a run with the record; raises ProofError if the record is not as would be written."""
    before = formal.read(folder).record
    wrong = record.differences(before, found)
    if wrong:
        head = f"{formal.RECORD} is not what this run found:"
        raise ProofError("\n    ".join([head, *wrong, formal.AGAIN]))
    if before["prover"] != found["prover"]:
        return f"as recorded; wording not compared: this is {found['prover']}"
    return "as recorded"


@contextmanager
def alone(copy: Path) -> Iterator[None]:
    """Hold a copy alone: another run waits until this one is done."""
    copy.mkdir(parents=True, exist_ok=True)
    with (copy / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(options: argparse.Namespace) -> tuple[dict, str]:
    """Do what the command line asks for: the record of the run, and how it compares."""
    found = check(options.folder, options.copy)
    if options.write:
        write_text(options.folder / formal.RECORD, record.text(found))
    words = "recorded" if options.write else compare(found, options.folder)
    if options.coqchk:
        before = prover.clock()
        prover.check_again(options.copy, formal.allowed(options.folder))
        print(f"coqchk: every theory checked again: {prover.seconds(before)}")
    return found, words


def main(arguments: list[str] | None = None) -> int:
    """Command line: exit code 0 if all is as recorded, 1 with the reasons otherwise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the record")
    parser.add_argument("--coqchk", action="store_true", help="have coqchk check again (slower)")
    parser.add_argument("--folder", type=Path, default=ROOT / formal.FOLDER)
    parser.add_argument("--copy", type=Path, default=ROOT / "_build" / formal.FOLDER)
    options = parser.parse_args(arguments)
    start = prover.clock()
    try:
        prover.require()
        with alone(options.copy):
            found, words = run(options)
    except (ProofError, InputError) as error:
        print(f"proofs: {error}", file=sys.stderr)
        return 1
    theorems, claims = found["theorems"], {t["claim"] for t in found["theorems"]}
    print(
        f"{len(theorems)} theorems for {len(claims)} claims, {len(found['neighbors'])} false "
        f"neighbors, {found['prover']}, {words}: {prover.seconds(start)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

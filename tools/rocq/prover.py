"""The proof assistant as a program: its version, builds, questions, and the second checker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from rocq import scan
from rocq.scan import listed

PACKAGES = "coq libcoq-mathcomp-ssreflect"
PROGRAMS = ("coqc", "coqdep", "coq_makefile", "make")
LOGICAL = ("-Q", ".", "AttnVerify")
WIDTH = 78  # columns of a printed statement
IMPORTS = """\
From mathcomp Require Import ssreflect ssrfun ssrbool eqtype ssrnat seq choice fintype bigop.
Require Import Reals.
"""
#: So that a statement is printed as a mathematician would write it.
PRINTING = f"""\
Local Open Scope R_scope.
Set Printing Width {WIDTH}.
Unset Printing Implicit Defensive.
Set Printing Depth 1000.
"""


class ProofError(Exception):
    """The reason why proofs do not count as checked, in words for a reader."""


def require() -> None:
    """Raise :class:`ProofError` that names the packages, unless the programs are there."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise ProofError(
            f"needs Rocq (Coq): {', '.join(missing)} not found. On Debian or Ubuntu:\n"
            f"    apt-get install --no-install-recommends make {PACKAGES}"
        )


def version() -> str:
    """The prover with its version, "Coq 8.16.1"."""
    done = subprocess.run(["coqc", "--print-version"], capture_output=True, text=True, check=True)
    return f"Coq {done.stdout.split()[0]}"


def run(*command: str | Path, cwd: Path, limit: float = 1800) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without the variables of an outer make."""
    own = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    own |= {"LC_ALL": "C.UTF-8", "COQPATH": ""}
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=own,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


def copy(source: Path, target: Path) -> None:
    """Copy the theories and the scripts of the neighbors into a folder of their own.

    A file that is as it was keeps its time, so that what was compiled from it is not made again.
    """
    target.mkdir(parents=True, exist_ok=True)
    names = ["_CoqProject", *listed(source / "_CoqProject")[0]]
    names += [f"neighbors/{path.name}" for path in sorted(source.glob("neighbors/*.v"))]
    for name in names:
        content, place = (source / name).read_bytes(), target / name
        place.parent.mkdir(exist_ok=True)
        if not place.is_file() or place.read_bytes() != content:
            place.write_bytes(content)
    for path in [*target.glob("*.v*"), *target.glob("neighbors/*.v")]:
        stem = path.relative_to(target).with_suffix(".v").as_posix()
        if stem not in names:
            path.unlink()


def build(folder: Path) -> None:
    """Compile the theories of a copy; raises :class:`ProofError` with the prover's own words."""
    made = run("coq_makefile", "-f", "_CoqProject", "-o", "CoqMakefile", cwd=folder)
    jobs = min(2, os.cpu_count() or 1)
    if made.returncode == 0:
        made = run("make", "-f", "CoqMakefile", f"-j{jobs}", "--no-print-directory", cwd=folder)
    if made.returncode:
        raise ProofError(f"the theories do not compile:\n{_tail(made.stderr or made.stdout)}")


def _tail(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-20:])


def needs(folder: Path, *scripts: str) -> dict[str, list[str]]:
    """For each theory (and script) of a copy, the files it is compiled from, itself last."""
    done = run("coqdep", "-f", "_CoqProject", *scripts, cwd=folder)
    if done.returncode:
        raise ProofError(f"coqdep failed:\n{_tail(done.stderr)}")
    direct: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        left, _, right = line.partition(": ")
        if ".vo" in left:
            file, *others = right.split()
            own = [
                o.removesuffix("o") for o in others if o.endswith(".vo") and not o.startswith("/")
            ]
            direct[file] = own
    return {file: _closed(file, direct) for file in direct}


def _closed(file: str, direct: Mapping[str, list[str]]) -> list[str]:
    """The file with all it needs, each after what it needs itself."""
    found: list[str] = []
    for other in direct[file]:
        found += [name for name in _closed(other, direct) if name not in found]
    return [*found, file]


def ask(folder: Path, opening: str, questions: Iterable[str]) -> list[str]:
    """What the prover answers to each question, in a file that starts with ``opening``."""
    questions = list(questions)
    place = folder / "questions"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    lines = [f'Redirect "questions/{k}" {q}' for k, q in enumerate(questions)]
    (place / "questions.v").write_text(opening + "\n".join(lines) + "\n", encoding="utf-8")
    done = run("coqc", "-w", "none", *LOGICAL, "questions/questions.v", cwd=folder)
    if done.returncode:
        raise ProofError(f"the prover cannot answer:\n{_tail(done.stderr)}")
    return [(place / f"{k}.out").read_text(encoding="utf-8") for k in range(len(questions))]


def opening(theories: Iterable[str], *, plain: bool = False) -> str:
    """The start of a file of questions; plain: nothing is imported, so that names are long."""
    stems = " ".join(name.removesuffix(".v") for name in theories)
    if plain:
        return f"From AttnVerify Require {stems}.\nSet Printing Width {WIDTH}.\n"
    return f"{IMPORTS}From AttnVerify Require Import {stems}.\n{PRINTING}"


def axioms(answer: str) -> dict[str, str]:
    """Name and type of each assumption in an answer to Print Assumptions.

    Whatever is no axiom with a type (a check that was switched off) is its own name.
    """
    found: dict[str, list[str]] = {}
    last = ""
    for line in answer.splitlines():
        if line[:1].isspace() and last:
            found[last].append(line.strip().removeprefix(": "))
        elif line.strip() and line.strip() not in ("Axioms:", "Closed under the global context"):
            plain = re.fullmatch(r"([\w.']+)(?: : (.*))?", line)
            last = plain[1] if plain else line.strip()
            found[last] = [plain[2]] if plain and plain[2] else []
    return {name: " ".join(filter(None, parts)) for name, parts in found.items()}


def seconds(start: tuple[float, float]) -> str:
    """Time since ``start``, of the clock and of the processor in all commands since then."""
    wall, processor = clock()
    return f"{wall - start[0]:.0f} s, {processor - start[1]:.0f} s of processor time"


def clock() -> tuple[float, float]:
    """The clock, and the processor time of this process and of those it waited for."""
    times = os.times()
    used = times.user + times.system + times.children_user + times.children_system
    return time.monotonic(), used


def check_again(copy: Path, allowed: Iterable[str]) -> None:
    """Have coqchk check every compiled theory and all it rests on, the prover's library included.

    Raises :class:`ProofError` if it refuses something or its summary names an axiom that is not
    allowed, or something whose check was switched off.
    """
    theories, _ = scan.listed(copy / "_CoqProject")
    names = [f"AttnVerify.{name.removesuffix('.v')}" for name in theories]
    done = run("coqchk", "-silent", "-o", *LOGICAL, *names, cwd=copy)
    if done.returncode:
        raise ProofError(f"coqchk: exit code {done.returncode}:\n{done.stderr[-2000:]}")
    wrong = summary(done.stdout + done.stderr, tuple(allowed))  # the summary is on either
    if wrong:
        raise ProofError("\n".join(f"coqchk: {words}" for words in wrong))


def summary(text: str, allowed: tuple[str, ...]) -> list[str]:
    """The faults that the summary of coqchk states."""
    blocks = re.findall(r"^\* ([^:\n]*):((?:[^*]|\*(?! ))*)", text, re.M)
    parts = {title: body.split() for title, body in blocks}
    if "Axioms" not in parts:
        return [f"a summary without a list of axioms: {text[:200]!r}"]
    axioms = [name for name in parts.pop("Axioms") if name != "<none>"]
    ends = tuple(f".{name}" for name in allowed)
    found = [f"axiom {name}" for name in axioms if not f".{name}".endswith(ends)]
    for title, body in parts.items():
        if title != "Theory" and body != ["<none>"]:
            found.append(f"{title}: {' '.join(body)}")
    return found

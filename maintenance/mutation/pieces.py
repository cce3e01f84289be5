"""Pieces of evidence, what each reaches without a planted error, and whether it notices one."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from attnverify.chapters import registry
from attnverify.checking.check import Measured
from attnverify.checking.gather import evidence, reject
from attnverify.checking.search import Settings
from attnverify.derivation import notebook_sources, run_cells
from attnverify.verification import derived_evidence

ROOT = Path(__file__).resolve().parents[2]
QUICK = Settings()  # the search of every build
FORMULAS = ("attnverify/mathematics/",)
#: Tests that build, install or time something, or plant errors themselves.
NOT_RUN = ("imports", "benchmarks", "costs", "interactive", "mutants", "recheck")

Lines = dict[str, list[int]]


@dataclass(frozen=True)
class Piece:
    """One check of a claim with its twins, or the derivations of one notebook.

    seconds and lines: what it took without an error, and the lines of formulas that it ran; twins:
    those that were rejected. A piece that does not pass without an error notices nothing.
    """

    name: str
    seconds: float
    lines: Lines
    twins: tuple[str, ...]
    trouble: str = ""

    def runs(self, file: str, first: int, last: int) -> bool:
        return any(first <= line <= last for line in self.lines.get(file, ()))


def all_names(claims: Iterable[str] = ()) -> list[str]:
    """The names of all pieces, or of those of some claims; a check that claims share comes once.

    A criterion on a committed table computes no formula and is left out.
    """
    seen: set[int] = set()
    found = []
    for claim in list(claims) or list(registry):
        for name, check in registry.checks_of(claim).items():
            if not isinstance(check, Measured) and id(check) not in seen:
                seen.add(id(check))
                found.append(f"{claim}/{name}")
    deriving = {registry[id].notebook for id in claims or registry if registry[id].derived}
    return found + [f"derivations of {notebook}" for notebook in sorted(deriving)]


def measure(name: str) -> dict[str, Any]:
    """A piece without an error, as the fields of :class:`Piece`."""
    start = time.process_time()
    with _traced() as lines:
        trouble = _trouble(name, None)
    twins = [] if trouble else _rejected(name)
    seconds = time.process_time() - start
    found = {file: sorted(numbers) for file, numbers in lines.items()}
    return {"name": name, "seconds": seconds, "lines": found, "twins": twins, "trouble": trouble}


def notices(piece: Piece) -> str:
    """What goes wrong in a piece now, "" if nothing does."""
    try:
        return _trouble(piece.name, piece.twins)
    except Exception as error:  # whatever a planted error raises is noticed
        return f"{piece.name}: {type(error).__name__}: {str(error)[:120]}"


def _trouble(name: str, twins: tuple[str, ...] | None) -> str:
    if name.startswith("derivations of "):
        return _of_derivations(name.removeprefix("derivations of "))
    claim, check_name = name.split("/", 1)
    check = registry.checks_of(claim)[check_name]
    for kind, (step, _) in evidence(check, QUICK, name).items():
        outcome = step().outcome
        if outcome != "pass":
            return f"{name}: {kind}: {outcome}"
    for twin in check.twins:
        if twins and twin.title in twins:
            if not reject(twin.check, QUICK, f"{name}/{twin.title}")[0]:
                return f"{name}: not rejected: {twin.title}"
    return ""


def _of_derivations(notebook: str) -> str:
    done = run_cells.run(notebook_sources.load(notebook))
    for claim in registry.values():
        if claim.derived and claim.notebook == notebook:
            (record,), _ = derived_evidence.records(claim, done)
            if record.outcome != "pass":
                return f"derivations of {notebook}: {record.detail[:160]}"
    return ""


def _rejected(name: str) -> list[str]:
    if name.startswith("derivations of "):
        return []
    claim, check_name = name.split("/", 1)
    twins = registry.checks_of(claim)[check_name].twins
    return [t.title for t in twins if reject(t.check, QUICK, f"{name}/{t.title}")[0]]


@contextmanager
def _traced():
    """The lines of formulas that run within the block, by file below ``src``."""
    lines: dict[str, set[int]] = {}

    def in_formula(frame: Any, event: str, argument: Any) -> Callable[..., Any]:
        lines.setdefault(_file(frame.f_code.co_filename), set()).add(frame.f_lineno)
        return in_formula

    def anywhere(frame: Any, event: str, argument: Any) -> Callable[..., Any] | None:
        inside = any(folder in frame.f_code.co_filename for folder in FORMULAS)
        return in_formula(frame, event, argument) if inside else None

    before = sys.gettrace()
    sys.settrace(anywhere)
    try:
        yield lines
    finally:
        sys.settrace(before)


def _file(path: str) -> str:
    return "attnverify/" + path.split("attnverify/")[-1]


def tests_of(module: str) -> list[str]:
    """The test files that name a module, its own first, then those that name one which names it.

    The name is its last part, as a word anywhere in the text.
    """
    files = [p for p in (ROOT / "src").rglob("*.py") if p.stem != "__init__"]
    words = {path: _words(path) for path in [*files, *sorted((ROOT / "tests").rglob("test_*.py"))]}
    name = module.rpartition(".")[2]
    near = {path.stem for path in files if name in words[path]}
    found = []
    for path in words.keys() - set(files):
        if path.stem.removeprefix("test_") not in NOT_RUN and words[path] & {name, *near}:
            order = path.stem != f"test_{name}", name not in words[path], path.stat().st_size
            found.append((order, path.relative_to(ROOT).as_posix()))
    return [path for _, path in sorted(found)]


@cache
def _words(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", path.read_text("utf-8")))

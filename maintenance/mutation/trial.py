"""One mutant on trial: in forked processes, against evidence first and then against tests."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis  # noqa: F401  # with pytest imported before the fork: every child needs them
import pytest
import torch

from mutation.pieces import ROOT, Piece, notices, tests_of
from mutation.plant import NOTHING, plant
from mutation.rules import TESTED, Mutant

EVIDENCE_SECONDS = 240  # of processor time; whoever takes longer is noticed
TEST_SECONDS = 200
CHEAPEST = 1.0  # seconds of evidence for an error in the engine, which every piece of it runs
ENDED = "ended by signal"
SEPARATOR = "\n"
VOID = "void"  # nothing was changed: what was to be scaled is no number
QUICKLY, SLOWLY = "not slow and not browser", "slow and not browser"


@dataclass(frozen=True)
class Outcome:
    """How a mutant ended: caught by "evidence", by "tests", "survived", or "void" (no change)."""

    area: str
    name: str
    caught: str
    by: str = ""


def try_mutant(mutant: Mutant, pieces: Sequence[Piece]) -> Outcome:
    """Plant it, gather the evidence that runs it, and run tests if evidence says nothing."""
    seen = in_child(lambda: _evidence(mutant, pieces), EVIDENCE_SECONDS)
    if seen and seen != VOID:
        return Outcome(mutant.area, mutant.name, "evidence", seen)
    failed = _first_failure(mutant, _tests(mutant))
    if failed and failed != VOID:
        return Outcome(mutant.area, mutant.name, "tests", failed)
    return Outcome(mutant.area, mutant.name, VOID if VOID in (seen, failed) else "survived")


def _first_failure(mutant: Mutant, files: Sequence[str]) -> str:
    """The first test that fails with the error and passes with the text as it is, file by file.

    Running out of time is a failure if the file does not run out of it without the error.
    """
    nothing = ""
    # what measures a part of a table again is slow
    for marks in (QUICKLY, SLOWLY) if mutant.area == "experiments" else (QUICKLY,):
        for file in files:
            seen = _failure_in(mutant, file, marks)
            if seen not in ("", VOID):
                return seen
            nothing = seen or nothing
    return nothing


def _none(mutant: Mutant) -> Mutant:
    """Its module's text without the error: what planting alone does is no catch either."""
    place = importlib.util.find_spec(mutant.module)
    return replace(mutant, source=Path(place.origin).read_text("utf-8"))  # type: ignore


def _failure_in(mutant: Mutant, file: str, marks: str) -> str:
    """The first failure in a file that is not one without the error, which are found once."""
    run, seconds = partial(_run_tests, file, marks), TEST_SECONDS * (1 + 2 * (marks == SLOWLY))
    key = mutant.module, file, marks
    while True:
        seen = in_child(partial(run, mutant, _failing.get(key, ())), seconds)
        if seen in ("", VOID):
            return seen
        if key not in _failing:
            same = in_child(partial(run, _none(mutant)), seconds)
            names = [file] if same.startswith(ENDED) else same.split(SEPARATOR)
            _failing[key] = [name for name in names if name not in ("", VOID)]
        if file in _failing[key]:  # out of time without the error too
            return ""
        if seen.startswith(ENDED):
            return f"{file}: {seen}"
        if (first := seen.split(SEPARATOR)[0]) not in _failing[key]:
            return first


#: By module, file and marks: the tests that fail without an error as well. They ask for a fixture
#: that is not loaded here, or planting alone breaks them.
_failing: dict[tuple[str, str, str], list[str]] = {}


def reached(mutant: Mutant, pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces that run the mutant's lines, the quickest first; for the engine the cheapest."""
    if mutant.area in TESTED:
        return []
    sound = sorted((p for p in pieces if not p.trouble), key=lambda p: p.seconds)
    if mutant.area != "engine":
        file = mutant.module.replace(".", "/") + ".py"
        return [p for p in sound if p.runs(file, mutant.first, mutant.last)]
    taken, total = [], 0.0
    for piece in sound:
        total += piece.seconds
        if total <= CHEAPEST:
            taken.append(piece)
    return taken


def _evidence(mutant: Mutant, pieces: Sequence[Piece]) -> str:
    try:
        plant(mutant.module, mutant.source)
    except Exception as error:  # it does not even load
        return f"import: {type(error).__name__}: {str(error)[:120]}"
    seen = next(filter(None, map(notices, reached(mutant, pieces))), "")
    return seen or (VOID if NOTHING else "")


def _tests(mutant: Mutant) -> list[str]:
    if mutant.area in TESTED:  # what its own folder of tests does not see counts as not seen
        folder = f"tests/{mutant.area}/"
        return [name for name in tests_of(mutant.module) if name.startswith(folder)]
    if mutant.area != "engine":
        return tests_of(mutant.module)
    own = f"test_engine_{mutant.module.rpartition('.')[2]}.py"
    tests = [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "tests").rglob("test_*.py"))]
    files = [name for name in tests if name.split("/")[-1].startswith("test_engine_")]
    files += ["tests/derivation/test_ledger.py", "tests/derivation/test_symbolic.py"]
    files += ["tests/arithmetic/test_ops.py"]
    return sorted(files, key=lambda name: not name.endswith(own))


def _run_tests(file: str, marks: str, mutant: Mutant, without: Sequence[str] | None = None) -> str:
    """The first test of a file that fails, but for those left out; all that fail without a list."""
    plant(mutant.module, mutant.source)
    os.chdir(ROOT)
    failed = _Failed()
    options = ["-q", "-p", "no:cacheprovider", "--noconftest", "-m", marks]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options += [] if without is None else ["-x", *(f"--deselect={name}" for name in without)]
    code = pytest.main([*options, file], plugins=[failed])
    if code not in (0, 1, 2, 5) and not failed.names:  # passed, failed, not loaded, none selected
        raise RuntimeError(f"pytest ended with {code}")
    return SEPARATOR.join(dict.fromkeys(failed.names)) or (VOID if NOTHING else "")


class _Failed:
    """A plugin that remembers the failures."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.names.append(report.nodeid)


def in_child(function: Callable[[], Any], seconds: int) -> Any:
    """What a function returns (JSON) in a forked process; words if it ends otherwise."""
    near, far = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _be_the_child(function, seconds, far)
    os.close(far)
    with os.fdopen(near, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return f"{ENDED} {os.WTERMSIG(status)} (24: out of time)"
    answer = json.loads(data)
    if "broken" in answer:  # the tool itself: nothing is caught by that
        raise RuntimeError(f"a child of this run: {answer['broken']}")
    return answer["value"]


def _be_the_child(function: Callable[[], Any], seconds: int, far: int) -> None:
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        # What the parent holds is no garbage; pytest would look at all of it five times at its end.
        gc.freeze()
        # A fork has none of the threads of its parent: a kernel that waits for them never ends.
        torch.set_num_threads(1)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            answer = {"value": function()}
        except BaseException as error:
            answer = {"broken": f"{type(error).__name__}: {error}"}
        os.write(far, json.dumps(answer).encode())
    finally:
        os._exit(0)

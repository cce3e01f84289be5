"""Commands that answer at once, in both checkouts: the best of several runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result, judge
from benchmarks.trees import REFERENCE, Trees, run

RUNS = 3
BAR = 0.3  # seconds
COMMANDS = (("--help",), ("list",), ("show", "softmax.total-variation"))


def best(tree: Path, *arguments: str) -> float:
    """Least seconds of RUNS runs, start of Python included."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run(tree, str(tree / ".venv" / "bin" / "attnverify"), *arguments).check_returncode()
        times.append(time.perf_counter() - start)
    return min(times)


def results(trees: Trees) -> Iterator[Result]:
    """Each command against its bar."""
    for command in COMMANDS:
        before, now = (best(tree, *command) for tree in (trees.before, trees.now))
        note = f" ({REFERENCE}: {before:.2f} s)"
        yield judge(f"attnverify {command[0]}", now, BAR, note)

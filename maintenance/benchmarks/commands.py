"""Commands that answer at once, in both checkouts: the best of several runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result, judge
from benchmarks.trees import REFERENCE, Trees, python

RUNS = 3
BAR = 0.3  # seconds
START = "import sys; from attnverify.cli import main; sys.argv[0] = 'attnverify'; sys.exit(main())"
COMMANDS = (("--help",), ("list",), ("show", "softmax.total-variation"))


def best(tree: Path, *arguments: str) -> float:
    """Least seconds of RUNS runs, start of Python included."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        python(tree, *arguments).check_returncode()
        times.append(time.perf_counter() - start)
    return min(times)


def results(trees: Trees) -> Iterator[Result]:
    """Each command against its bar."""
    for command in COMMANDS:
        before, now = (best(tree, "-c", START, *command) for tree in (trees.before, trees.now))
        note = f" ({REFERENCE}: {before:.2f} s)"
        yield judge(f"attnverify {command[0]}", now, BAR, note)

"""The whole test suite, in both checkouts, each with the book that it builds first."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result, judge
from benchmarks.trees import REFERENCE, Trees, python

SHARE = 0.6


def suite(tree: Path) -> tuple[float, str]:
    """Seconds of all tests, and pytest's closing line. Failures are told, not raised."""
    shutil.rmtree(tree / "_build", ignore_errors=True)
    start = time.perf_counter()
    done = python(tree, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider")
    lines = done.stdout.strip().splitlines() or ["no output"]
    return time.perf_counter() - start, lines[-1].strip("= ")


def results(trees: Trees) -> Iterator[Result]:
    """One line; what failed on either side is in it."""
    before, closing_before = suite(trees.before)
    now, closing = suite(trees.now)
    note = f" ({closing}; {REFERENCE}: {before:.1f} s, {closing_before})"
    yield judge("all tests", now, SHARE * before, note)

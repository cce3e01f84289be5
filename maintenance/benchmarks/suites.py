"""The tests of both checkouts, each with the book and the store that were built before."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.builds import build
from benchmarks.result import Result, judge
from benchmarks.trees import REFERENCE, Trees, make

MOST, SHARE, SHARE_OF_ALL = 480.0, 0.30, 0.65  # seconds; of the reference


def suite(tree: Path, options: str = "") -> tuple[float, str]:
    """Seconds of ``make test`` with these options of pytest, and pytest's closing line.

    Failures are told, not raised.
    """
    start = time.perf_counter()
    done = make(tree, "test", f"ARGS=-q -p no:cacheprovider {options}")
    lines = [line for line in done.stdout.splitlines() if re.search(r"\d+ passed|\d+ failed", line)]
    return time.perf_counter() - start, (lines or ["no summary"])[-1].strip("= ")


def results(trees: Trees) -> Iterator[Result]:
    """`make test` and `make test-all` against all tests of the reference."""
    for tree in (trees.before, trees.now):
        build(tree)
    before, closing_before = suite(trees.before)
    now, closing = suite(trees.now)
    rest, closing_rest = suite(trees.now, "-m full")
    note = f" ({REFERENCE}: {before:.1f} s, {closing_before})"
    yield judge("make test", now, min(MOST, SHARE * before), f" ({closing}){note}")
    whole = f" ({closing}; {closing_rest}){note}"
    yield judge("make test-all", now + rest, SHARE_OF_ALL * before, whole)

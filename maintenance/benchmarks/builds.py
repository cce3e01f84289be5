"""Builds of the book: cold in both checkouts; unchanged, prose edited, code edited in this one."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result, judge
from benchmarks.trees import REFERENCE, Trees, make

CHAPTER = "norms"
SHARE, UNCHANGED, PROSE, REST = 0.55, 2.0, 20.0, 25.0  # of the reference; seconds
PROSE_EDIT = ("**What is claimed.**", "**What is claimed, edited.**")
CODE_EDIT = ("import sympy as sp\n", "import sympy as sp  # edited\n")


def build(tree: Path) -> tuple[float, str]:
    """Seconds of one build, and what it printed; raises CalledProcessError if it fails."""
    start = time.perf_counter()
    done = make(tree, "book")
    if done.returncode:
        sys.stderr.write(done.stdout[-4000:])
        done.check_returncode()
    return time.perf_counter() - start, done.stdout


def edit(path: Path, change: tuple[str, str]) -> None:
    """Replace the first occurrence; raises ValueError if there is none."""
    text = path.read_text(encoding="utf-8")
    if change[0] not in text:
        raise ValueError(f"{path.name}: got no {change[0]!r}, expected one to edit")
    path.write_text(text.replace(*change, 1), encoding="utf-8")


def run_of(chapter: str, log: str) -> float:
    """Seconds that the build says a chapter's cells took; 0 if it did not run."""
    found = re.search(rf"^ *{re.escape(chapter)}: ([\d.]+) s$", log, re.M)
    return float(found[1]) if found else 0.0


def results(trees: Trees) -> Iterator[Result]:
    """A line for each kind of build."""
    reference, _ = build(trees.before)
    yield from _now(trees.now, reference)


def _now(tree: Path, reference: float) -> Iterator[Result]:
    chapter = tree / "notebooks" / f"{CHAPTER}.md"
    cold, _ = build(tree)
    note = f" ({REFERENCE}: {reference:.1f} s)"
    yield judge("cold build", cold, SHARE * reference, note)
    yield judge("nothing changed", build(tree)[0], UNCHANGED)
    edit(chapter, PROSE_EDIT)
    seconds, log = build(tree)
    if run_of(CHAPTER, log):
        raise RuntimeError(f"{CHAPTER}: ran after an edit of its prose")
    yield judge("prose of one chapter edited", seconds, PROSE)
    edit(chapter, CODE_EDIT)
    seconds, log = build(tree)
    alone = run_of(CHAPTER, log)
    if not alone:
        raise RuntimeError(f"{CHAPTER}: did not run after an edit of its code")
    note = f" ({alone:.1f} s of them its run)"
    yield judge("code of one chapter edited", seconds, alone + REST, note)

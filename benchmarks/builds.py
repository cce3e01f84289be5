"""Builds of the book against their bars, all in one run on one machine.

    python -m benchmarks builds

Two temporary worktrees, one of the reference commit and one of HEAD (edits that are not committed
are not measured), are built with this interpreter, each from its own source. About ten minutes on
a quiet machine with two cores.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.result import Result

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = "f6bafae"
CHAPTER = "norms"
SHARE, UNCHANGED, PROSE, REST = 0.6, 10.0, 30.0, 30.0  # of the reference; seconds
PROSE_EDIT = ("**What is claimed.**", "**What is claimed, edited.**")
CODE_EDIT = ("import sympy as sp\n", "import sympy as sp  # edited\n")


@contextmanager
def worktree(commit: str, folder: Path) -> Iterator[Path]:
    """A checkout of a commit in a folder of its own, removed afterwards."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def environment(tree: Path) -> dict[str, str]:
    """The package comes from the worktree, and kept work from a store that starts empty."""
    own = {"PYTHONPATH": str(tree / "src"), "ATTNVERIFY_STORE": str(tree / "_build" / "store")}
    return {**{k: v for k, v in os.environ.items() if k != "CI"}, **own}


def check_source(tree: Path) -> None:
    """Refuse to measure another source than the worktree's."""
    command = [sys.executable, "-c", "import attnverify; print(attnverify.__file__)"]
    done = subprocess.run(
        command, cwd=tree, env=environment(tree), capture_output=True, text=True, check=True
    )
    if not Path(done.stdout.strip()).is_relative_to(tree / "src"):
        raise RuntimeError(f"source: got {done.stdout.strip()}, expected one below {tree}")


def build(tree: Path) -> tuple[float, str]:
    """Seconds of one build, and what it printed; raises CalledProcessError if it fails."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(tree / "tools" / "build_book.py")],
        cwd=tree,
        env=environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
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


def judge(name: str, seconds: float, bar: float, note: str = "") -> Result:
    """One line of the table."""
    return Result(name, f"{seconds:.1f} s{note}", f"<= {bar:.1f} s", seconds <= bar)


def results() -> list[Result]:
    """Build cold twice, then unchanged, after an edit of prose, after an edit of code."""
    with tempfile.TemporaryDirectory(prefix="attnverify-builds-") as name:
        with worktree(REFERENCE, Path(name).resolve() / "before") as tree:
            check_source(tree)
            reference, _ = build(tree)
        with worktree("HEAD", Path(name).resolve() / "now") as tree:
            check_source(tree)
            return [*_now(tree, reference)]


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

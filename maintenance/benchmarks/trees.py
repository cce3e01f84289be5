"""Two checkouts that are measured in one run: the reference commit and HEAD.

Each runs from its own source, with this interpreter and a store that starts empty. Edits that are
not committed are not measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = "1681301"  # the second edition


@dataclass(frozen=True)
class Trees:
    """Folders of the two checkouts."""

    before: Path
    now: Path


@contextmanager
def trees() -> Iterator[Trees]:
    """Temporary worktrees of the two commits, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="attnverify-trees-") as name, ExitStack() as stack:
        folder = Path(name).resolve()
        made = [(REFERENCE, folder / "before"), ("HEAD", folder / "now")]
        for commit, tree in made:
            stack.enter_context(_worktree(commit, tree))
            check_source(tree)
        yield Trees(*(tree for _, tree in made))


@contextmanager
def _worktree(commit: str, folder: Path) -> Iterator[None]:
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def environment(tree: Path) -> dict[str, str]:
    """The package comes from the worktree, and kept work from a store that starts empty."""
    own = {"PYTHONPATH": str(tree / "src"), "ATTNVERIFY_STORE": str(tree / "_build" / "store")}
    return {**{k: v for k, v in os.environ.items() if k != "CI"}, **own}


def python(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """This interpreter in a checkout; both streams in ``stdout``."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def check_source(tree: Path) -> None:
    """Refuse to measure another source than the checkout's."""
    done = python(tree, "-c", "import attnverify; print(attnverify.__file__)")
    if not Path(done.stdout.strip()).is_relative_to(tree / "src"):
        raise RuntimeError(f"source: got {done.stdout.strip()}, expected one below {tree}")

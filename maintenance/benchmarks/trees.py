"""Two checkouts that are measured in one run: the reference commit and HEAD.

Each is installed by its own Makefile, because what they need differs, and has a store that starts
empty. Edits that are not committed are not measured.
"""

from __future__ import annotations

import os
import subprocess
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
            make(tree, ".venv/.installed").check_returncode()
        yield Trees(*(tree for _, tree in made))


@contextmanager
def _worktree(commit: str, folder: Path) -> Iterator[None]:
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def make(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``make`` in a checkout."""
    return run(tree, "make", *arguments)


def run(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in a checkout, with a store that starts empty; both streams in ``stdout``.

    Without what CI or an outer ``make`` adds to the environment.
    """
    outer = {"CI", "ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}
    own = {name: value for name, value in os.environ.items() if name not in outer}
    return subprocess.run(
        command,
        cwd=tree,
        env=own | {"ATTNVERIFY_STORE": str(tree / "_build" / "store")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

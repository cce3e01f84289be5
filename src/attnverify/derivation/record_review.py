"""Comparison of claims and derivations with the reviewed record, for a reader who accepts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attnverify.derivation import notebook_sources, reviewed_record, run_cells
from attnverify.derivation.assumptions import Claims
from attnverify.support.errors import InputError, nearest


def run(names: Sequence[str], write: bool, say: Callable[[str], None], claims: Claims) -> bool:
    """Run the derivations of notebooks (all if none is named) and compare or record them.

    True if every statement and derivation is now the recorded one. Raises InputError for an unknown
    notebook, and if the package is installed and not a checkout, whose record is reviewed.
    """
    known = list(dict.fromkeys(claim.notebook for claim in claims.values()))
    for name in names:
        if name not in known:
            words = f"one of {', '.join(known)}{nearest(name, known)}"
            raise InputError(f"notebook: got {name!r}, expected {words}")
    if write and not (reviewed_record.FILE.parents[3] / "pyproject.toml").is_file():
        raise InputError(
            "write: got an installed package, expected a checkout, where files are read"
        )
    return all([_one(name, write, say, claims) for name in names or known])


def _one(name: str, write: bool, say: Callable[[str], None], claims: Claims) -> bool:
    done = run_cells.run(notebook_sources.load(name), claims)
    if done.error or not done.source.found:
        say(f"{name}: {done.error or done.source.origin}")
        return False
    changed = list(_changes(done, claims))
    for line in changed:
        say(f"{name}: {line}")
    if write and changed:
        say(f"{name}: recorded in {reviewed_record.write(name, done.entries, claims)}")
    if not changed:
        say(f"{name}: {sum(len(e.steps) for e in done.entries)} steps as recorded")
    return write or not changed


def _changes(done: run_cells.NotebookRun, claims: Claims) -> Iterable[str]:
    for claim in claims.values():
        if claim.notebook == done.notebook:
            own = [e for e in done.entries if e.claim == claim.id]
            for words in reviewed_record.differences(claim, own):
                yield f"{claim.id}: {words}"

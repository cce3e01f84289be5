"""The checks of the book's claims, found by id."""

from __future__ import annotations

from collections.abc import Mapping

from attnverify.chapters import cells, registry
from attnverify.checking.check import Check
from attnverify.support.errors import require


def checks_of(claim: str) -> Mapping[str, Check]:
    """The checks of a claim by name; raises InputError for an unknown id, and one without any."""
    if not registry[claim].derived:
        from attnverify.chapters import measured  # loads all experiments

        return measured.checks_of(claim)
    require(bool(cells.sources(claim)), "id", f"{claim!r}, which has no checks", "a check cell")
    return cells.checks_of(claim)

"""What a check cell shows when a reader runs it: a row a check, in about a second."""

from __future__ import annotations

import html
import os
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING

from attnverify.checking.gather import ClaimEvidence, gather
from attnverify.checking.records import KINDS, Settings
from attnverify.support.errors import in_words
from attnverify.support.tables import Table

if TYPE_CHECKING:
    from attnverify.checking.declare import Declared

QUICK = Settings(samples=100, restarts=4, steps=20)
#: Environment: nothing is shown while the book is built; its pages say what all the evidence is.
BUILDING = "ATTNVERIFY_BUILDING"
WORDS = {"fail": "false", "unknown": "unknown"}


class LiveTable:
    """What a quick search finds for some checks: a table, and in words what went wrong.

    >>> import attnverify as av
    >>> @av.identity("mine.sum", "x[n] y[n]", 3)
    ... def squares(x, y, sign=1):
    ...     return (x + y) * (x - y), x * x - sign * y * y
    >>> LiveTable([squares.false("the sum of the squares", sign=-1)])
    mine.sum: cases without a counterexample, in a quick search
    check    certified  false neighbors rejected
    squares  32         1 of 1
    """

    def __init__(self, checks: Iterable[Declared]) -> None:
        self.notes: list[str] = []
        seen = [(check, self._gathered(check)) for check in checks]
        rows = [_row(check.name, found) for check, found in seen]
        header = ["check", *(k for k in (*KINDS, RATIO, TWINS) if any(k in row for row in rows))]
        ids = ", ".join(dict.fromkeys(check.claim for check, _ in seen))
        caption = f"{ids}: cases without a counterexample, in a quick search"
        self.table = Table(caption, header, [[row.get(k, "") for k in header] for row in rows])

    def __repr__(self) -> str:
        return "\n".join([repr(self.table), *self.notes])

    def _repr_html_(self) -> str:
        notes = (f"<p>{html.escape(note)}</p>" for note in self.notes)
        return self.table._repr_html_() + "".join(notes)

    def _gathered(self, check: Declared) -> ClaimEvidence | None:
        """What is found for a check; None after an error, which is told in one line."""
        try:
            found = gather(check.claim, {check.name: check.check}, QUICK)
        except Exception as error:  # whatever a formula raises is what is wrong with it
            file = check.place.rpartition(":")[0]
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == file]
            at = f" (line {lines[-1]} of the cell)" if lines else ""
            self.notes.append(f"{check.name}: {in_words(error)}{at}")
            return None
        wrong = sorted((r for r in found.records if r.outcome in WORDS), key=lambda r: r.outcome)
        self.notes += [f"{r.check}, {r.kind}: {WORDS[r.outcome]}, {r.detail}" for r in wrong[:1]]
        left = [twin for twin in found.twins if not twin.rejected]
        self.notes += [f"{t.check}: {t.twin!r} is not rejected, {t.detail}" for t in left]
        return found


RATIO, TWINS = "largest left/right", "false neighbors rejected"


def _row(name: str, found: ClaimEvidence | None) -> dict[str, str]:
    """What a row says, by the heads of its columns."""
    if found is None:
        return {"check": name, TWINS: "error"}
    row = {r.kind: WORDS.get(r.outcome, f"{r.decided:,}") for r in found.records}
    ratios = [r.ratio for r in found.records if r.ratio is not None]
    rejected = sum(twin.rejected for twin in found.twins)
    row |= {RATIO: f"{max(ratios):.6g}"} if ratios else {}
    return {"check": name, **row, TWINS: f"{rejected} of {len(found.twins)}"}


def show(checks: Iterable[Declared]) -> None:
    """Show the table in a notebook or in IPython."""
    if BUILDING not in os.environ:
        from IPython.display import display

        display(LiveTable(checks))

"""Words for evidence: its kinds and outcomes, and the statuses of claims.

Each word stands here once, with its mark and color; reports, pages, figures and the command read
them from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

#: Kinds of evidence, in the order in which they are shown.
Kind = Literal["sampled", "attacked", "certified", "decided", "derived", "formal", "measured"]
KINDS: tuple[Kind, ...] = get_args(Kind)

#: Version of the format of evidence files; readers accept no other.
REPORT_VERSION = 2

Outcome = Literal["pass", "fail", "unknown"]

#: Statuses of a claim. "criterion met" and "criterion not met" are for experiments, which prove
#: and refute nothing; "not checked" is for claims without any outcome.
Status = Literal[
    "verified",
    "criterion met",
    "criterion not met",
    "refuted",
    "corrected",
    "partial",
    "failed",
    "not checked",
]
STATUSES: tuple[Status, ...] = get_args(Status)
UNCHECKED: Status = "not checked"

#: Mark of each status, since a color alone must never tell it.
MARKS: dict[str, str] = {
    "verified": "✓",
    "criterion met": "●",
    "criterion not met": "○",
    "refuted": "✗",
    "corrected": "↻",
    "partial": "◐",
    "failed": "!",
    "not checked": "?",
}
#: Okabe-Ito colors (and a red and a gray): told apart by readers with any color vision.
STATUS_COLORS: dict[str, str] = {
    "verified": "#009E73",
    "criterion met": "#0072B2",
    "criterion not met": "#56B4E9",
    "refuted": "#D55E00",
    "corrected": "#CC79A7",
    "partial": "#E69F00",
    "failed": "#B00020",
    "not checked": "#7F7F7F",
}
#: Colors of curves beside those of statuses, legible on white and on dark.
COLORS: dict[str, str] = {
    **STATUS_COLORS,
    "measured": STATUS_COLORS["criterion met"],
    "published": STATUS_COLORS["refuted"],
    "repaired": STATUS_COLORS["corrected"],
    "sharp": STATUS_COLORS["verified"],
    "reference": STATUS_COLORS["not checked"],
}


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 step", "2,000 steps", "3 entries", "2 passes"."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else f"{noun}{'e' * noun.endswith('s')}s"
    return f"{number:,} {noun if number == 1 else plural}"


def tally(statuses: Iterable[str]) -> str:
    """How many claims have which status: "60 verified, 4 corrected"."""
    counts = Counter(statuses)
    return ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts[s])

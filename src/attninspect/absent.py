"""Why a part of a report is absent: a sentence for each table with columns without a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attninspect.columns import Column
from attninspect.shares import MOST_TOKENS

if TYPE_CHECKING:
    from attninspect.findings import Findings

BRIEF = "a brief report has none (--brief)"
_EQUAL = "the tokens are equal there, up to rounding"
_FAILS = "the hypotheses of the sharp theorem fail in every layer, or no diameter is a threshold"
_ALONE = "no token sees two"
_ZERO = "W = 0 in every head"
#: Column to why it may have no value in any row.
REASONS = {
    "share": _EQUAL,
    "share_whole": "the output is 0",
    "residual": "the stream is 0",
    "residual_of_rest": "there are fewer than three tokens",
    "factor": _EQUAL,
    "threshold": _FAILS,
    "over_threshold": _FAILS,
    "nearest": "there is one token",
    "nearest_distance": _EQUAL,
    "part": "what attention adds is equal for all tokens, up to rounding",
    "moves": "what attention adds is equal for all tokens, up to rounding",
    "sink": "no other token sees the first",
    "itself": _ALONE,
    "gate": "no head is gated",
    "entropy": _ALONE,
    "entropy_floor": _ALONE,
    "xi": "tr W^2 is at most 0 in every head",
    "xi_frobenius": _ZERO,
    "symmetry": _ZERO,
    "asymmetry": _ZERO,
    "word": "no text was given",
    "number": "no number was chosen",
    "position": "no number was chosen",
}


def shown(rows: list[dict[str, Any]], columns: Mapping[str, Column]) -> list[str]:
    """The columns with a value in some row; an empty sharp bound is shown as such."""
    return [
        name
        for name in columns
        if any(row.get(name) is not None for row in rows) or name == "bound"
    ]


def columns(rows: list[dict[str, Any]], every: Mapping[str, Column], brief: bool) -> str:
    """A sentence on the columns that are not shown; empty where all are."""
    by_reason: dict[str, list[str]] = {}
    for name in [name for name in every if name not in {*shown(rows, every), "why_no_threshold"}]:
        measured = name in {"residual", "residual_of_rest", "share", "word"}
        reason = BRIEF if brief and not measured else REASONS.get(name, "nowhere measured")
        by_reason.setdefault(reason, []).append(every[name].title)
    parts = (f"{', '.join(map(repr, titles))} ({reason})" for reason, titles in by_reason.items())
    return f"Columns without a value are left out: {'; '.join(parts)}." if by_reason else ""


def rollout(report: Findings) -> list[str]:
    """Why rollout is not compared, if it is not."""
    if report.rollout is not None:
        return []
    needed = f"one text of at most {MOST_TOKENS} tokens, without a mask of padding"
    why = BRIEF if is_brief(report) else f"that takes {needed}"
    return [f"Attention rollout is not compared: {why}."]


def is_brief(report: Findings) -> bool:
    """Whether heads were not measured."""
    return not report.heads

"""An experiment measures rows and has a criterion, stated before it runs, that answers on them.

An answer is True, False, or None where what was measured does not decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from attnverify.support.verdict import Verdict

Answer = bool | None
Number = float | int


def all_of(answers: Iterable[Answer]) -> Answer:
    """False if one is False, else None if one is None or there is none at all, else True."""
    found = list(answers)
    if any(answer is False for answer in found):
        return False
    return None if not found or None in found else True


def any_of(answers: Iterable[Answer]) -> Answer:
    """True if one is True, else None if one is None or there is none at all, else False."""
    found = list(answers)
    if any(answer is True for answer in found):
        return True
    return None if not found or None in found else False


def at_most(value: Number, limit: Number) -> Answer:
    """Whether value <= limit; None if the value is NaN. An infinite value is too large."""
    return None if math.isnan(value) else value <= limit


def above(value: Number | None, limit: Number) -> Answer:
    """Whether value > limit; None if either is missing, NaN or infinite (overflowed)."""
    if value is None or not (math.isfinite(value) and math.isfinite(limit)):
        return None
    return value > limit


def at_least(value: Number | None, limit: Number) -> Answer:
    """Whether value >= limit, decided as by :func:`above`."""
    short = None if value is None else above(limit, value)
    return None if short is None else not short


def below(value: Number | None, limit: Number) -> Answer:
    """Whether value < limit, decided as by :func:`above`."""
    return None if value is None else above(-value, -limit)


# One line of a table of results: JSON scalars, or short lists of them.
Row = dict[str, Any]
# Told what is running and which fraction of the whole is done.
Progress = Callable[[str, float], None]
Judge = Callable[[list[Row]], Verdict]


def silent(what: str, done: float) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Settings:
    """How to run an experiment. Equal settings give equal rows on one machine.

    quick: the small setting that the chapters run; device: "cpu" or "cuda"; folder: where
    checkpoints and metrics go, None for nowhere; model, text: a folder with the user's own model
    and a text file, for experiments that take one.
    """

    quick: bool = True
    seed: int = 0
    device: str = "cpu"
    folder: Path | None = None
    model: Path | None = None
    progress: Progress = silent
    text: Path | None = None


class Rerun(NamedTuple):
    """A figure of the committed table beside the same figure measured again.

    chance: the probability that they differ by more than the tolerance although nothing is wrong;
    0 if the tolerance bounds rounding, so that the verdict is the same on every machine.
    """

    what: str
    stored: float
    again: float
    tolerance: float
    chance: float = 0.0


@dataclass(frozen=True)
class Experiment:
    """An experiment; its claim is ``experiment.NAME`` unless ``claim_id`` names another.

    run: measures the rows. judge: the criterion on the rows of the full setting, as the claim
    states it. twins: (title, criterion) of false neighbors, which must come out false on the
    same rows. limits: what the experiment does not show. sample: measures a cheap part of the
    table of the full setting again, each figure with a derived tolerance; ``by_chance`` of them
    are of networks trained anew, which differ by chance
    (:mod:`attnverify.experiments.engine.agreement`). takes_model, takes_text: whether
    ``Settings.model`` and ``Settings.text`` may be given. quick_decides: False if the rows of the
    quick setting are too few for the criterion; it is then left undecided there, whatever it says.
    """

    name: str
    run: Callable[[Settings], list[Row]]
    judge: Judge
    limits: str
    sample: Callable[[list[Row]], list[Rerun]]
    twins: tuple[tuple[str, Judge], ...] = ()
    takes_model: bool = False
    claim_id: str | None = None
    takes_text: bool = False
    by_chance: int = 0
    quick_decides: bool = True

    @property
    def claim(self) -> str:
        """Id of the experiment's claim."""
        return self.claim_id or f"experiment.{self.name}"

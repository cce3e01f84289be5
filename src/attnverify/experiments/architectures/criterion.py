"""The criterion of ``experiment.architectures`` and its false neighbors, on the table's rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile

from attnverify.experiments.engine.answers import Answer, above, all_of, at_least, at_most, below
from attnverify.experiments.engine.model import Judge, Row
from attnverify.experiments.trained_encoder.layer_bounds import SMALLEST
from attnverify.support.verdict import Verdict

FALL = 1e3  # pure attention falls by this factor or more, with skip connections by less
WITH_SKIP = ("attention + skip", "attention + skip + mlp + norm")


def falls(rows: list[Row], name: str, least: float = FALL) -> dict[str, list[float]]:
    """Model -> for each seed, relative residual of the input over that after the last layer.

    Bounds on the optimal center are used against the fall: its low end at the input, its high end
    after the last layer. A value below SMALLEST may have underflowed, in a degenerate model at
    once, and a floor of floats is no measurement. Then the fall is told that was seen before, down
    to the last layer that is resolved, if it is by ``least`` or more; if not, nothing is known. NaN
    where a value is unknown.
    """
    found: dict[str, list[float]] = {}
    for model in dict.fromkeys(row["model"] for row in rows if row["judged"]):
        own = [r for r in rows if r["model"] == model and r["variant"] == name]
        layers = zip(*(row["high"] for row in own), strict=True)  # of every seed
        found[model] = [_fall(a, b, least) for a, b in zip(own[0]["low"], layers, strict=True)]
    return found


def _fall(first: float | None, layers: Sequence[float | None], least: float) -> float:
    last = layers[-1]
    if last is None or last >= SMALLEST:
        return _quotient(first, last)
    resolved = list(takewhile(lambda value: value is not None and value >= SMALLEST, layers))
    seen = _quotient(first, resolved[-1] if resolved else None)
    return seen if seen >= least else math.nan


def largest_falls(rows: list[Row], name: str) -> dict[str, list[float]]:
    """As :func:`falls`, but down to the lowest of all layers, and with the bounds' other ends.

    A value below SMALLEST counts as SMALLEST: the fall is at least that large.
    """
    found: dict[str, list[float]] = {}
    for model in dict.fromkeys(row["model"] for row in rows if row["judged"]):
        own = [r for r in rows if r["model"] == model and r["variant"] == name]
        layers = zip(*(row["low"] for row in own), strict=True)  # of every seed
        least = [None if None in values else min(values) for values in layers]
        found[model] = [_quotient(a, b) for a, b in zip(own[0]["high"], least, strict=True)]
    return found


def _quotient(a: float | None, b: float | None) -> float:
    if a is None or b is None:
        return math.nan  # every comparison with it is False
    return a / max(b, SMALLEST)


def _all(found: dict[str, list[float]], holds: Callable[[float], Answer]) -> Answer:
    return all_of(holds(v) for values in found.values() for v in values)


def judge(rows: list[Row], least_fall: float = FALL, most_fall: float = FALL) -> Verdict:
    """Pure attention falls by 1,000 or more in every model and seed, with skips by less."""
    pure = falls(rows, "attention", least_fall)
    skip = {name: largest_falls(rows, name) for name in WITH_SKIP}
    lasting = [_all(found, lambda v: below(v, most_fall)) for found in skip.values()]
    holds = all_of([_all(pure, lambda v: at_least(v, least_fall)), *lasting])
    if holds is None:
        why = (
            "not all residuals are known: they are undefined, or underflow before they have fallen"
        )
        return Verdict(None, why, cases=sum(map(len, pure.values())))
    least = min(min(values) for values in pure.values())
    most = max(max(values) for found in skip.values() for values in found.values())
    return Verdict(
        holds,
        f"pure attention falls by {least:.1e} or more, with skip connections by {most:.3g} at most",
        cases=sum(len(v) for v in pure.values()),
        ratio=most / FALL,
    )


def _no_fall_without_skip(rows: list[Row]) -> Verdict:
    found = largest_falls(rows, "attention")
    return Verdict(_all(found, lambda v: below(v, FALL)), "pure attention falls by less than 1,000")


def _fall_with_skip(rows: list[Row]) -> Verdict:
    found = falls(rows, "attention + skip")
    return Verdict(
        _all(found, lambda v: at_least(v, FALL)), "attention with skip falls by 1,000 or more"
    )


def _large_with_skip(rows: list[Row]) -> Verdict:
    """What a draft of the criterion asked, before a trial run."""
    found = [v for row in rows for v in row["low"] if row["judged"] and row["variant"] in WITH_SKIP]
    holds = all_of(above(v, 0.1) for v in found)
    return Verdict(holds, "with skip connections every residual stays above 0.1")


def _doubly_exponential_everywhere(rows: list[Row]) -> Verdict:
    """A cubic fall that is at 0.1 after one layer is at 0.1^(3^5) = 1e-243 after six."""
    found = [
        v
        for row in rows
        for v in row["high"]
        if row["judged"] and row["variant"] == "attention" and row["layer"] == 6
    ]
    holds = all_of(None if v is None else at_most(v, 1e-100) for v in found)
    return Verdict(holds, "every pure attention stack is below 1e-100 after 6 layers")


TWINS: tuple[tuple[str, Judge], ...] = (
    ("pure attention does not fall by 1,000", _no_fall_without_skip),
    ("pure attention falls by 1e35 everywhere", partial(judge, least_fall=1e35)),
    ("with skip connections it falls by 1,000 as well", _fall_with_skip),
    ("with skip connections it falls by less than 8", partial(judge, most_fall=8.0)),
    ("with skip connections the residual stays above 0.1", _large_with_skip),
    ("doubly exponential in every stack", _doubly_exponential_everywhere),
)

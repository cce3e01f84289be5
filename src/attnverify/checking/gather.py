"""Gather the evidence for one claim: every check, every kind asked for, every twin."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, singledispatch

from attnverify.arithmetic import interval_cover
from attnverify.checking.ball_comparison import compare
from attnverify.checking.certify import certify, certify_identity
from attnverify.checking.check import (
    Check,
    Decision,
    Form,
    Identity,
    Inequality,
    Instance,
    Measured,
    Twin,
    described,
)
from attnverify.checking.formula_agreement import require_agreement
from attnverify.checking.records import (
    KINDS,
    ClaimEvidence,
    Kind,
    Outcome,
    Record,
    TwinRecord,
    require_kinds,
)
from attnverify.checking.search import Found, Settings, attack, sample
from attnverify.support.errors import InputError, as_given, require
from attnverify.support.threads import one_thread
from attnverify.support.verdict import Verdict

SAMPLED = "no counterexample among these instances"
ATTACKED = "no counterexample found by this search"
CERTIFIED = "these instances"
SHOWN = 4  # entries of an array in a line

OUTCOMES: dict[bool | None, Outcome] = {True: "pass", False: "fail", None: "unknown"}

Step = tuple[Callable[[], Found], str]  # what gathers a piece of evidence, and its limits


def gather(
    claim: str, checks: Mapping[str, Check], settings: Settings, kinds: Iterable[str] = KINDS
) -> ClaimEvidence:
    """Run every check of a claim. One thread and seeds by name: the same figures every time.

    claim: its id, of which the seeds are made. Raises InputError for an unknown kind of evidence.
    """
    wanted = list(kinds)
    require_kinds(wanted)
    with one_thread():
        records, twins = [], []
        for name, check in checks.items():
            for kind, (step, limits) in evidence(check, settings, f"{claim}/{name}").items():
                if kind in wanted:
                    records.append(_timed(kind, name, step, limits))
            twins += [_twin(claim, name, twin, settings) for twin in check.twins]
        known = {name: described(check) for name, check in checks.items()}
        return ClaimEvidence(claim, tuple(records), tuple(twins), known)


def _timed(kind: Kind, name: str, step: Callable[[], Found], limits: str) -> Record:
    start = time.perf_counter()
    found = step()
    seconds = round(time.perf_counter() - start, 3)
    where = f", at {_shortly(found.instance)}" if found.outcome == "fail" and found.instance else ""
    figures = (found.outcome, found.ratio, found.instances, seconds, limits, found.detail + where)
    return Record(kind, name, *figures, found.decided, found.refuted_at)


def _shortly(instance: Instance) -> str:
    """An instance in a line, by shapes and first entries."""
    parts = []
    for name, value in instance.items():
        first = ", ".join(f"{entry:.6g}" for entry in value.flatten()[:SHOWN].tolist())
        more = ", ..." if value.numel() > SHOWN else ""
        parts.append(f"{name} {tuple(value.shape)} = {first}{more}")
    return "; ".join(parts)


def _twin(claim: str, name: str, twin: Twin, settings: Settings) -> TwinRecord:
    rejected, ratio, detail = reject(twin.check, settings, f"{claim}/{name}/{twin.title}")
    known = ratio if ratio is not None and math.isfinite(ratio) else None  # right may be 0
    return TwinRecord(name, twin.title, rejected, known, detail, twin.factor)


@singledispatch
def evidence(check: Form, settings: Settings, label: str) -> dict[Kind, Step]:
    """What gathers each kind of evidence that a form of check offers, in the order to run it."""
    raise TypeError(f"check: got {type(check).__name__}, expected one of the four forms")


@singledispatch
def reject(check: Form, settings: Settings, label: str) -> tuple[bool, float | None, str]:
    """Whether the checker finds the statement false, for certain: (rejected, ratio, how)."""
    raise TypeError(f"check: got {type(check).__name__}, expected one of the four forms")


def _differing(check: Inequality | Identity) -> Found | None:
    """What a search is worth where floats are not the formula: nothing."""
    try:
        require_agreement("", check)
    except InputError as error:
        return Found("fail", None, None, 0, 0, str(error))
    return None


@evidence.register(Inequality)
def _(check: Inequality, settings: Settings, label: str) -> dict[Kind, Step]:
    found: list[Instance] = []

    def searched(search: Callable[..., Found]) -> Found:
        result = differing() or search(check, settings, label)
        if result.instance is not None:
            found.append(result.instance)
        return result

    differing = cache(lambda: _differing(check))
    return {
        "sampled": (lambda: searched(sample), SAMPLED),
        "attacked": (lambda: searched(attack), ATTACKED),
        "certified": (lambda: certify(check, settings, label, found), CERTIFIED),
    }


@reject.register(Inequality)
def _(check: Inequality, settings: Settings, label: str) -> tuple[bool, float | None, str]:
    for make in check.extremal:
        seen = compare(check, make())
        if seen.outcome == "fail":
            return True, seen.certain_ratio, f"extremal instance, {seen.told(8)}"
    ratio = None
    for search in (sample, attack):
        found = search(check, settings, label)
        ratio = found.ratio
        if found.outcome == "fail":
            return True, ratio, found.detail
    return False, ratio, "no certain violation found"


@evidence.register(Identity)
def _(check: Identity, settings: Settings, label: str) -> dict[Kind, Step]:
    return {
        "certified": (
            lambda: _differing(check) or certify_identity(check, settings, label),
            CERTIFIED,
        )
    }


@reject.register(Identity)
def _(check: Identity, settings: Settings, label: str) -> tuple[bool, float | None, str]:
    found = certify_identity(check, settings, label)
    return found.outcome == "fail", None, found.detail


@evidence.register(Decision)
def _(check: Decision, settings: Settings, label: str) -> dict[Kind, Step]:
    limits = check.limits + interval_cover.in_words(check.over)
    return {check.kind: (lambda: _found(_decided(check)), limits)}


@reject.register(Decision)
def _(check: Decision, settings: Settings, label: str) -> tuple[bool, float | None, str]:
    verdict = _decided(check)
    return verdict.holds is False, verdict.ratio, verdict.argument


def _decided(check: Decision) -> Verdict:
    """What the computation came to; raises InputError unless it says for which cases."""
    verdict = check.run()
    require(isinstance(verdict, Verdict), "run", type(verdict).__name__, "av.Verdict")
    require(verdict.holds in OUTCOMES, "run: holds", verdict.holds, "True, False or None")
    named = isinstance(verdict.argument, str) and bool(verdict.argument.strip())
    require(named, "run: argument", as_given(verdict.argument), "which cases it looked at, and how")
    least = 0 if verdict.holds is False else 1  # the first case may be the one that differs
    some = isinstance(verdict.cases, int) and verdict.cases >= least
    expected = f"how many cases it looked at, at least {least}"
    require(some, "run: cases", as_given(verdict.cases), expected)
    ratio = verdict.ratio is None or isinstance(verdict.ratio, float | int)
    require(ratio, "run: ratio", as_given(verdict.ratio), "a number or None")
    covered = interval_cover.cover(verdict.over, check.over)
    if verdict.holds and not (covered and verdict.cases >= check.cases):
        said = f"{check.cases} are said to be covered{interval_cover.in_words(check.over)}"
        words = f"{verdict.argument}: {verdict.cases} cases, {said}"
        return replace(verdict, holds=None, argument=words)
    return verdict


@evidence.register(Measured)
def _(check: Measured, settings: Settings, label: str) -> dict[Kind, Step]:
    return {"measured": (lambda: _found(_judge(check)), check.limits)}


@reject.register(Measured)
def _(check: Measured, settings: Settings, label: str) -> tuple[bool, float | None, str]:
    verdict = _judge(check)
    return verdict.holds is False, verdict.ratio, verdict.argument


def _judge(check: Measured) -> Verdict:
    """The criterion on the committed table: holds if it comes out as the book says."""
    verdict = check.judge(check.rows())
    asserted = None if verdict.holds is None else verdict.holds is check.expected
    return replace(verdict, holds=asserted)


def _found(verdict: Verdict) -> Found:
    """A verdict as the result of looking at all its cases; none is decided where it is unknown."""
    decided = 0 if verdict.holds is None else verdict.cases
    outcome = OUTCOMES[verdict.holds]
    return Found(outcome, verdict.ratio, None, verdict.cases, decided, verdict.argument)

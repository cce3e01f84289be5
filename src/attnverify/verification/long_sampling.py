"""Samples of one claim in numbers that take hours: a campaign of pieces, each a known command.

Piece k, counted from 1, finds exactly what ``attnverify verify CLAIM --evidence sampled --samples
PIECE --seed S+k-1`` finds, S the seed of the whole; so anyone can repeat a single one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnverify.checking import gather
from attnverify.checking.ball_comparison import compare
from attnverify.checking.check import Identity, Inequality
from attnverify.checking.float_identity import TOO_WIDE
from attnverify.checking.records import Outcome, read
from attnverify.checking.search import Found, Settings, shortfall, violation
from attnverify.runtime.cache import digest
from attnverify.runtime.campaign import Campaign, Finished, ran
from attnverify.runtime.tasks import Task
from attnverify.support import files
from attnverify.support.environment import versions
from attnverify.support.errors import require
from attnverify.verification import replay
from attnverify.verification.claim import Origin
from attnverify.verification.claim_files import ClaimFile

FORMAT = "attnverify sample 1"
REPORT = "report.json"
PIECES = "pieces"
ORDER = ("pass", "unknown", "fail")


@dataclass(frozen=True)
class Plan:
    """A claim of an origin, how many random instances a check, how many a piece, the first seed."""

    origin: Origin
    claim: str
    samples: int
    piece: int
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("piece", 1), ("seed", 0)):
            value = getattr(self, name)
            require(
                isinstance(value, int) and value >= least, name, value, f"an integer >= {least}"
            )
        sampled = bool(_sampling(self.origin, self.claim))
        require(sampled, "id", f"{self.claim!r}, which has no check that samples", "one that has")

    @property
    def pieces(self) -> int:
        return -(-self.samples // self.piece)

    def settings(self, number: int) -> Settings:
        """Of a piece, numbered from 0; the last one takes what is left."""
        size = min(self.piece, self.samples - number * self.piece)
        return Settings(samples=size, seed=self.seed + number)

    def command(self, number: int) -> str:
        """The command that repeats a piece, with all else that there is to say of the claim."""
        file, settings = self.origin, self.settings(number)
        what = file.name if isinstance(file, ClaimFile) and not file.module else self.claim
        numbers = f"--samples {settings.samples} --seed {settings.seed}"
        return f"attnverify verify {what} --evidence sampled {numbers}"

    def campaign(self) -> Campaign:
        """The pieces, and what they follow from."""
        file = self.origin if isinstance(self.origin, ClaimFile) else None
        settings: dict[str, Any] = {
            "claim": self.claim,
            "stated in": file and {"file": file.name, "sha256": file.sha256},
            "samples": self.samples,
            "piece": self.piece,
            "seed": self.seed,
        }
        tasks = [
            Task(f"piece {k + 1}", piece, (self.origin, self.claim, self.settings(k)))
            for k in range(self.pieces)
        ]
        return Campaign("samples of a claim", settings, tasks, self.possible)

    def possible(self, number: int, entries: Any) -> bool:
        """Whether a piece can find this: every check that samples, on as many cases as planned."""
        checks, settings = _sampling(self.origin, self.claim), self.settings(number)
        return [entry["check"] for entry in entries] == list(checks) and all(
            _possible(self.origin, self.claim, checks[entry["check"]], settings, entry)
            for entry in entries
        )


def _sampling(origin: Origin, claim: str) -> dict[str, Inequality | Identity]:
    """The checks of a claim that sample, by name."""
    checks = origin.checks_of(claim).items()
    return {name: check for name, check in checks if isinstance(check, Inequality | Identity)}


@dataclass(frozen=True)
class Entry:
    """What a piece found of one check; instance: a replay file's contents, where one was kept."""

    check: str
    outcome: Outcome
    ratio: float | None
    cases: int
    undecided: int
    detail: str
    instance: dict | None


def _possible(
    origin: Origin, claim: str, check: Inequality | Identity, settings: Settings, entry: Any
) -> bool:
    """Whether a piece can have this entry, with exactly the cases that were planned."""
    ratio = entry["ratio"]
    found = read(Entry, {**entry, "ratio": None if ratio == math.inf else ratio})
    found = replace(found, ratio=ratio)
    planned = found.cases == settings.cases(check.sizes)
    planned = planned and 0 <= found.undecided <= found.cases
    if isinstance(check, Identity):
        return planned and _possible_of_identity(found)
    return planned and _possible_of_inequality(origin, claim, check, found)


def _possible_of_identity(found: Entry) -> bool:
    few = 2 * found.undecided > found.cases
    words = shortfall(found.undecided, found.cases)
    told = {
        "pass": found.detail == words and not few,
        "unknown": found.detail == words if few else found.detail.startswith(TOO_WIDE),
        "fail": found.detail == "",
    }[found.outcome]
    if found.instance is not None or found.ratio is None or found.ratio < 0:
        return False
    return told and (found.outcome == "fail") == (found.ratio > 1)


def _possible_of_inequality(origin: Origin, claim: str, check: Inequality, found: Entry) -> bool:
    """What is said of an instance is compared anew: the larger part of what is believed."""
    seen = None
    if found.instance is not None:
        instance = replay.instance_of(found.instance)
        seen = compare(check, instance)
        if digest(replay.body_of(origin, claim, found.check, instance)) != digest(found.instance):
            return False
    if found.ratio != (None if seen is None else _number(seen.midpoint)):
        return False
    if seen is not None and seen.outcome == "fail":
        return found.outcome == "fail" and found.detail == violation(seen)
    told = found.detail == shortfall(found.undecided, found.cases)
    few = 2 * found.undecided > found.cases
    if found.outcome == "unknown":
        return told and found.undecided > 0
    return told and found.outcome == "pass" and not few


def _number(ratio: float | None) -> float | None:
    """A ratio as JSON has it: none where balls enclose no number."""
    return None if ratio is None or math.isnan(ratio) else ratio


def piece(origin: Origin, claim: str, settings: Settings) -> list[dict[str, Any]]:
    """One piece, in whatever process: an entry for every check that samples."""
    found = gather.sampled(claim, origin.checks_of(claim), settings)
    return [_entry(origin, claim, name, each) for name, each in found.items()]


def _entry(origin: Origin, claim: str, check: str, found: Found) -> dict[str, Any]:
    kept = found.instance
    return {
        "check": check,
        "outcome": found.outcome,
        "ratio": _number(found.ratio),
        "cases": found.instances,
        "undecided": found.instances - found.decided,
        "detail": found.detail,
        "instance": replay.body_of(origin, claim, check, kept) if kept is not None else None,
    }


def sample(
    plan: Plan,
    folder: Path,
    *,
    scheduler: str | None = None,
    jobs: int | None = None,
    finished: Finished = lambda name, result: None,
) -> dict[str, Any]:
    """Do what of a plan is not done yet, write the report and the worst instances; the report.

    folder: of the campaign, which gets ``report.json`` and ``worst-N.json``, a replay file for the
    N-th check. scheduler, jobs, finished: as in :func:`attnverify.runtime.campaign.ran`. Equal
    plans give equal files, byte by byte, wherever the pieces are computed.
    """
    with ran(
        plan.campaign(), folder / PIECES, scheduler=scheduler, jobs=jobs, finished=finished
    ) as results:
        worst = merged(results)
        checks = [_row(plan, number, each) for number, each in enumerate(worst.values(), 1)]
        report = {
            "format": FORMAT,
            "environment": versions(),
            **plan.campaign().settings,
            "pieces": plan.pieces,
            "outcome": max((row["outcome"] for row in checks), key=ORDER.index),
            "checks": checks,
        }
        for row, each in zip(checks, worst.values(), strict=True):
            if row["replay"] is not None:
                files.write_text(folder / row["replay"], replay.dumps(each["instance"]))
        files.write_text(folder / REPORT, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    return report


def merged(results: Iterable[list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """For every check its worst entry, of the piece ``number``, with the cases of all pieces.

    The worst has the worst outcome, then the largest ratio; of equal ones the first.
    """
    worst: dict[str, dict[str, Any]] = {}
    for number, entries in enumerate(results):
        for entry in entries:
            new = {**entry, "number": number}
            old = worst.setdefault(entry["check"], new)
            if old is new:
                continue
            sums = {key: old[key] + new[key] for key in ("cases", "undecided")}
            worst[entry["check"]] = {**max(old, new, key=_badness), **sums}
    return worst


def _badness(entry: Mapping[str, Any]) -> tuple[int, float]:
    ratio = entry["ratio"]
    return ORDER.index(entry["outcome"]), float("-inf") if ratio is None else ratio


def _row(plan: Plan, number: int, worst: Mapping[str, Any]) -> dict[str, Any]:
    """What the report says of a check, from its worst entry."""
    return {
        "check": worst["check"],
        "outcome": worst["outcome"],
        "cases": worst["cases"],
        "undecided": worst["undecided"],
        "ratio": worst["ratio"],
        "piece": worst["number"] + 1,
        "detail": worst["detail"],
        "repeat": plan.command(worst["number"]),
        "replay": None if worst["instance"] is None else f"worst-{number}.json",
    }


def violations(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """The checks that a piece found violated, with what it says of them."""
    failed = [entry for entry in entries if entry["outcome"] == "fail"]
    return [f"{entry['check']}: {entry['detail'] or entry['ratio']}" for entry in failed]

"""An experiment that takes no time, and how to put it into the registry for one test."""

from __future__ import annotations

from dataclasses import replace

import attnverify.checking.gather as run
from attnverify.experiments import EXPERIMENTS
from attnverify.experiments.engine import results
from attnverify.experiments.engine.model import Experiment, Rerun, Row, Settings
from attnverify.support.verdict import Verdict
from attnverify.topics import Claim, registry
from attnverify.topics.lookup import CHECKS
from attnverify.topics.shared.measured import _check


def measure(settings: Settings) -> list[Row]:
    settings.progress("counting", 0.5)
    return [{"value": value} for value in (1, 2, 3)]


def at_most(limit: int):
    def judge(rows: list[Row]) -> Verdict:
        largest = max(row["value"] for row in rows)
        return Verdict(largest <= limit, f"largest value {largest}", cases=len(rows))

    return judge


TOY = Experiment(
    name="toy",
    run=measure,
    judge=at_most(3),
    limits="anything",
    sample=lambda rows: [Rerun("first value", rows[0]["value"], 1.0, 0.0)],
    twins=(("at most 2", at_most(2)),),
)


def register(monkeypatch, asserts: str = "holds", **changes) -> Claim:
    """Add the toy experiment, its claim, its check and its table until the test ends."""
    toy = replace(TOY, **changes)
    claim = Claim(toy.claim, "A toy", "experiment", "s", "softmax", here="the toy", asserts=asserts)
    monkeypatch.setitem(EXPERIMENTS, "toy", toy)
    monkeypatch.setitem(registry._claims, claim.id, claim)
    monkeypatch.setitem(CHECKS, claim.id, {"criterion": _check(toy)})
    table = results.run(toy, Settings(quick=False))
    committed = results.committed
    monkeypatch.setattr(
        run.results, "committed", lambda name: table if name == "toy" else committed(name)
    )
    return claim

"""An experiment that takes no time, and how to put it into the registry for one test."""

from __future__ import annotations

from dataclasses import replace

from attnverify.chapters import Claim, measured, registry
from attnverify.experiments import EXPERIMENTS
from attnverify.experiments.engine import results
from attnverify.experiments.engine.model import Experiment, Rerun, Row, Settings
from attnverify.support.verdict import Verdict
from attnverify.verification.claim import Origin


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


class ToyOrigin(Origin):
    """Where the toy experiment's claim comes from."""

    checks: dict = {}

    def checks_of(self, id: str) -> dict:
        return self.checks


def register(monkeypatch, asserts: str = "holds", **changes) -> Claim:
    """Add the toy experiment, its claim, its check and its table until the test ends."""
    toy = replace(TOY, **changes)
    claim = Claim(toy.claim, "A toy", "experiment", "s", "softmax", here="the toy", asserts=asserts)
    monkeypatch.setitem(EXPERIMENTS, "toy", toy)
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    registry.join([claim], origin := ToyOrigin(), instead_of=[claim.id])  # of an earlier toy
    origin.checks = {"criterion": measured._check(toy)}
    table = results.run(toy, Settings(quick=False))
    committed = results.committed
    monkeypatch.setattr(
        measured.results, "committed", lambda name: table if name == "toy" else committed(name)
    )
    return claim

"""The criteria of the experiments as checks of claims, judged on the committed tables."""

from __future__ import annotations

from functools import partial

from attnverify.chapters import registry
from attnverify.checking.check import Check, Measured, Twin
from attnverify.experiments import EXPERIMENTS
from attnverify.experiments.engine import results
from attnverify.experiments.engine.model import Experiment, Judge, Row


def _rows(name: str) -> list[Row]:
    return results.committed(name).rows


def _measured(experiment: Experiment, judge: Judge, **options) -> Measured:
    rows = partial(_rows, experiment.name)
    return Measured(rows, experiment.run, judge, experiment.limits, **options)


def _check(experiment: Experiment) -> Measured:
    """Criterion of an experiment with its twins, neighbors that must come out false."""
    twins = tuple(Twin(title, _measured(experiment, judge)) for title, judge in experiment.twins)
    expected = registry[experiment.claim].asserts == "holds"
    return _measured(experiment, experiment.judge, expected=expected, twins=twins)


def checks_of(id: str) -> dict[str, Check]:
    """The criterion of the experiment that a claim is the outcome of."""
    (experiment,) = (e for e in EXPERIMENTS.values() if e.claim == id)
    return {"criterion": _check(experiment)}

"""Figures of the committed table measured again: of the same networks, and of others like them.

**The same networks.** The weights of the first KEPT networks come with the package, so nothing is
trained, the same paths are drawn, and only rounding differs between machines; it is bounded as in
:mod:`attnverify.experiments.engine.rounding`. An accuracy is a count of tokens. It changes only at
a token whose two largest logits are nearer than twice the error of a logit; such tokens are
counted, and only so many may differ. For the committed weights there is none.

**Others like them.** Networks trained anew for the first steps, with other seeds, against all
networks of the table: their loss agrees up to chance
(:mod:`attnverify.experiments.engine.agreement`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from attnverify.experiments import shortpaths
from attnverify.experiments.engine import agreement, results, rounding, weights
from attnverify.experiments.engine.model import Rerun, Row, Settings
from attnverify.experiments.engine.train import Plan, train
from attnverify.experiments.shortpaths import lengths
from attnverify.experiments.shortpaths.tasks import TASKS

COUNTS = ("accuracy", "up_to", "sampled_accuracy", "alone")
FIGURES = ("score", "spread", "farthest", "sampled_score", "sampled_error")
EXACT = ("length", "paths", "sampled", "chance")
ANEW, STEPS = 8, (75, 150)  # networks trained anew; when their loss is compared


class Watch:
    """Counts right labels as :func:`lengths.accuracy` does, and keeps the logits."""

    def __init__(self) -> None:
        self.logits: list[Tensor] = []

    def __call__(self, logits: Tensor, labels: Tensor) -> float:
        self.logits.append(logits)
        return lengths.accuracy(logits, labels)


def roundings(trainee: shortpaths.Trainee) -> int:
    """Roundings along one chain of products: see ``FixedAttention.rounding_bound``."""
    width, tokens = trainee.task.width, trainee.task.tokens
    return shortpaths.DEPTH * (2 * width + tokens + 3)


def near_ties(wide: Watch, narrow: Watch, share: float) -> int:
    """Tokens whose two largest logits are nearer than rounding can move them, in all counts."""
    total = 0
    for logits, rough in zip(wide.logits, narrow.logits, strict=True):
        error = share * float((logits - rough.double()).abs().max())
        first, second = logits.topk(2).values.unbind(-1)
        total += int((first - second <= 2 * error).sum())
    return total


def kept_trainee(name: str) -> tuple[shortpaths.Trainee, int]:
    """The kept networks with their weights and their tests, and the seed of their run."""
    seed = shortpaths.seed_of(name, Settings(seed=results.seed(name)), shortpaths.FULL)
    task = TASKS[name](shortpaths.FULL.networks, seed, shortpaths.FULL.sequences)
    kept = weights.committed(name)
    count = len(kept["readout"])
    test = (task.test[0][:count], task.test[1][:count])
    trainee = shortpaths.Trainee(replace(task, test=test), count, seed)
    trainee.weights = kept
    return trainee, seed


def same_networks(name: str, rows: list[Row]) -> list[Rerun]:
    """Every figure of the kept networks, measured again from their weights."""
    trainee, seed = kept_trainee(name)
    found: list[Rerun] = []
    for index in range(len(trainee.weights["readout"])):
        stored = [row for row in shortpaths.longest(rows) if row["network"] == index]
        found += _one(trainee, index, seed, stored)
    return found


def _one(trainee: shortpaths.Trainee, index: int, seed: int, stored: list[Row]) -> list[Rerun]:
    wide, narrow = Watch(), Watch()
    again, rough = (
        _rows(shortpaths.measured(trainee, index, shortpaths.FULL, seed, dtype, watch))
        for dtype, watch in ((torch.float64, wide), (torch.float32, narrow))
    )
    share = rounding.share(roundings(trainee))
    ties = near_ties(wide, narrow, share)
    tokens = trainee.task.test[1][0].numel()
    out: list[Rerun] = []
    for old, new in zip(stored, again, strict=True):
        rerun = partial(_rerun, old, new, f"network {index}, length {old.get('length', 'any')}")
        out += [rerun(key, 0.0) for key in EXACT if key in old]
        for key in COUNTS:
            if key in old:
                counted = tokens * (new["sampled"] if key == "alone" else 1)
                out.append(rerun(key, (ties + 0.5) / counted))  # half a token: means round
        for key in FIGURES:
            if key in old:
                out.append(rerun(key, share * _relative(again, rough, key) * abs(new[key])))
    return out


def _rerun(old: Row, new: Row, where: str, key: str, tolerance: float) -> Rerun:
    return Rerun(f"{key}, {where}", old[key], new[key], tolerance)


def _rows(measured: tuple[Row, list[Row]]) -> list[Row]:
    return [measured[0], *measured[1]]


def _relative(again: list[Row], rough: list[Row], key: str) -> float:
    """What a figure is off by in float32 relative to itself, at the length where it is most."""
    return rounding.relative(*([row.get(key, 0.0) for row in rows] for rows in (again, rough)))


def other_networks(name: str, rows: list[Row]) -> list[Rerun]:
    """The loss of networks trained anew against that of all networks of the table."""
    size = replace(shortpaths.FULL, networks=ANEW)
    seed = shortpaths.seed_of(name, Settings(), size)
    trainee = shortpaths.Trainee(TASKS[name](ANEW, seed, size.sequences), ANEW, seed)
    plan = Plan(STEPS[-1], size.rate, warmup=shortpaths.WARMUP, measure_every=STEPS[0])
    history = train(trainee.weights, *shortpaths.goals(trainee, size, seed), plan)
    return [_loss(rows, step, history) for step in STEPS]


def _loss(rows: list[Row], step: int, history: list[Row]) -> Rerun:
    """The table has the loss before training and then every ``FULL.every`` steps."""
    losses = [row["loss"] for row in shortpaths.longest(rows) if "loss" in row]
    before = agreement.Group.of([each[step // shortpaths.FULL.every] for each in losses])
    (line,) = (line for line in history if line["step"] == step)
    after = agreement.Group.of(line["loss"])
    return agreement.compared(f"mean loss after {step} steps", before, after)


def sample(name: str, rows: list[Row]) -> list[Rerun]:
    """Both of the above; see the module."""
    return [*same_networks(name, rows), *other_networks(name, rows)]

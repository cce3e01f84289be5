"""Training that survives interruption: killed and resumed, it measures the same bits.

The data of a step are a function of the seed and the step (:func:`stream`), so nothing about them
needs saving. A checkpoint holds the parameters and the optimizer's state; its metadata hold the
number of steps done, digests of the configuration, of the code that trains and of the metrics so
far; the file has a digest of all it holds (:mod:`attnverify.experiments.engine.stored`). Metrics
are one JSON object a line. Both files are replaced as a whole, metrics first, so that a checkpoint
never runs ahead of them; on resuming, lines after the checkpoint are dropped and measured again.
One run at a time has the folder.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnverify.experiments.engine import stored
from attnverify.experiments.engine.model import Progress, Row, silent
from attnverify.support.environment import code_digest
from attnverify.support.errors import require
from attnverify.support.files import write_text
from attnverify.support.seeds import generator

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.jsonl"
STATE = ("exp_avg", "exp_avg_sq", "step")  # what Adam keeps of every parameter
AGAIN = "remove both files to start again"

Parameters = dict[str, Tensor]
Loss = Callable[[Parameters, int], Tensor]  # parameters, steps done -> a scalar
Measure = Callable[[Parameters, int], Row]  # parameters, steps done -> one line of metrics


@dataclass(frozen=True)
class Plan:
    """How to train with AdamW, that is Adam with decoupled weight decay.

    The learning rate rises linearly over the first ``warmup`` steps, stays, and falls linearly
    over the last ``cooldown`` steps. Metrics are taken before the first step, every
    ``measure_every`` steps and after the last one.
    """

    steps: int
    learning_rate: float
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    warmup: int = 0
    measure_every: int = 50
    checkpoint_every: int = 100
    cooldown: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "measure_every", "checkpoint_every"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "a positive whole number")
        require(self.learning_rate > 0, "learning_rate", self.learning_rate, "a positive number")

    def rate(self, done: int) -> float:
        """Learning rate of the step after ``done`` steps."""
        up = (done + 1) / max(1, self.warmup)
        down = (self.steps - done) / max(1, self.cooldown)
        return self.learning_rate * min(1.0, up, down)

    def measured_at(self, done: int) -> bool:
        return done % self.measure_every == 0 or done == self.steps

    def saved_at(self, done: int) -> bool:
        return done % self.checkpoint_every == 0 or done == self.steps


def stream(seed: int, name: str, step: int) -> torch.Generator:
    """The random numbers of one step, which depend on the seed, the name and the step alone."""
    return generator(seed, name, str(step))


def train(
    parameters: Parameters,
    loss: Loss,
    measure: Measure,
    plan: Plan,
    *,
    configuration: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    progress: Progress = silent,
    what: str = "training",
) -> list[Row]:
    """Train ``parameters`` in place and return the metrics, one row each time they are taken.

    loss: of the parameters and the number of steps done, which decides the data. configuration:
    JSON values that, together with the plan and the parameters' shapes, must be the same to
    resume. folder: where the checkpoint and the metrics are, None to keep nothing; a folder that
    holds a checkpoint is resumed from it, by the version of the package that wrote it. A row
    gets the number of steps done as "step". Raises InputError for a checkpoint of another
    configuration or other code, for files that are not as they were written, and for a folder that
    another run is using.
    """
    with nullcontext() if folder is None else stored.own(folder):
        return _train(parameters, loss, measure, plan, configuration or {}, folder, progress, what)


def _train(
    parameters: Parameters,
    loss: Loss,
    measure: Measure,
    plan: Plan,
    configuration: Mapping[str, Any],
    folder: Path | None,
    progress: Progress,
    what: str,
) -> list[Row]:
    optimizer = torch.optim.AdamW(
        _leaves(parameters), lr=plan.learning_rate, betas=plan.betas, weight_decay=plan.weight_decay
    )
    digests, done, rows = {}, 0, []
    if folder is not None:
        digests["configuration"] = _digest(parameters, plan, configuration)
        digests["code"] = code_digest()
        done, rows = _resume(folder, parameters, optimizer, digests, plan)
    while True:
        progress(what, done / plan.steps)
        if plan.measured_at(done) and (not rows or rows[-1]["step"] < done):
            with torch.no_grad():
                rows.append({"step": done, **measure(parameters, done)})
            if folder is not None:
                with stored.told(folder / METRICS):
                    write_text(folder / METRICS, "\n".join(_lines(rows)) + "\n")
        if plan.saved_at(done) and done > 0:
            _write_checkpoint(folder, parameters, optimizer, done, digests, rows)
        if done == plan.steps:
            return rows
        _step(parameters, optimizer, loss, plan.rate(done), done)
        done += 1


def _leaves(parameters: Parameters) -> list[Tensor]:
    for name, value in parameters.items():
        require(value.is_leaf, name, "a computed tensor", "a leaf tensor")
    return [value.requires_grad_() for value in parameters.values()]


def _step(parameters: Parameters, optimizer, loss: Loss, rate: float, done: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    value = loss(parameters, done)
    size = float(value.detach())
    require(math.isfinite(size), "loss", f"{size} at step {done}", "a finite loss")
    value.backward()
    optimizer.step()


def _digest(parameters: Parameters, plan: Plan, configuration: Mapping[str, Any]) -> str:
    shapes = {name: [str(v.dtype), *v.shape] for name, v in parameters.items()}
    body = {"plan": asdict(plan), "shapes": shapes, "configuration": dict(configuration)}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _lines(rows: list[Row]) -> list[str]:
    return [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows]


def _digest_of(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _write_checkpoint(
    folder: Path | None,
    parameters: Parameters,
    optimizer: torch.optim.Optimizer,
    done: int,
    digests: Mapping[str, str],
    rows: list[Row],
) -> None:
    if folder is None:
        return
    tensors = {f"parameter/{name}": value for name, value in parameters.items()}
    for name, value in parameters.items():
        tensors |= {f"{key}/{name}": optimizer.state[value][key] for key in STATE}
    words = {"step": str(done), **digests, "metrics": _digest_of(_lines(rows))}
    stored.save(folder / CHECKPOINT, tensors, words)


def _resume(
    folder: Path,
    parameters: Parameters,
    optimizer: torch.optim.Optimizer,
    digests: Mapping[str, str],
    plan: Plan,
) -> tuple[int, list[Row]]:
    """Steps done and their metrics; nothing done if there is no checkpoint."""
    path = folder / CHECKPOINT
    if not path.exists():
        return 0, []
    tensors, words = stored.load(path)
    for name, digest in digests.items():
        require(
            words.get(name) == digest,
            "folder",
            f"a checkpoint of {'other' if name == 'code' else 'another'} {name} in {folder}",
            f"an empty folder, or the {name} that wrote the checkpoint",
        )
    done = _steps(words, plan)
    expected = {f"{key}/{name}" for name in parameters for key in ("parameter", *STATE)}
    require(set(tensors) == expected, "folder", f"{path.name} with other tensors", AGAIN)
    rows = _read_metrics(folder / METRICS, done, plan, words.get("metrics"))
    with torch.no_grad():
        for name, value in parameters.items():
            value.copy_(tensors[f"parameter/{name}"])
            state = {key: tensors[f"{key}/{name}"] for key in STATE}
            moved = {k: v.to(value.device) for k, v in state.items() if k != "step"}
            optimizer.state[value] = {**state, **moved}  # Adam keeps its step count on the CPU
    return done, rows


def _steps(words: Mapping[str, str], plan: Plan) -> int:
    """The number of steps done that a checkpoint states."""
    stated = words.get("step", "none")
    sane = stated.isdecimal() and len(stated) < 16 and 1 <= int(stated) <= plan.steps
    require(sane, "folder", f"a checkpoint of step {stated[:20]}", f"1 to {plan.steps}; {AGAIN}")
    return int(stated)


def _read_metrics(path: Path, done: int, plan: Plan, digest: str | None) -> list[Row]:
    """The metrics up to ``done`` steps; later ones belong to steps that will be made again.

    They are parsed only if they are, to the last letter, those that the checkpoint was written
    beside.
    """
    count = sum(plan.measured_at(step) for step in range(done + 1))
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:count]
    except (OSError, ValueError):
        lines = []
    require(
        _digest_of(lines) == digest,
        "folder",
        f"{path.name}, which is missing or not as it was written beside {CHECKPOINT}",
        f"the metrics of {count} steps; {AGAIN}",
    )
    return [json.loads(line) for line in lines]

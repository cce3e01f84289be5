"""Training that survives interruption: killed and resumed, it measures the same bits.

The data of a step are a function of the seed and the step (:func:`stream`), so nothing about them
needs saving. A checkpoint holds the parameters and the optimizer's state; its metadata hold the
number of steps done and a digest of the configuration. Metrics are one JSON object a line.
Both files are replaced as a whole, metrics first, so that a checkpoint never runs ahead of them;
on resuming, lines after the checkpoint are dropped and measured again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from attnverify.errors import InputError, require
from attnverify.evidence.draw import generator
from attnverify.experiments.engine.model import Progress, Row, silent
from attnverify.files import write_bytes, write_text

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.jsonl"
STATE = ("exp_avg", "exp_avg_sq", "step")  # what Adam keeps of every parameter

Parameters = dict[str, Tensor]
Loss = Callable[[Parameters, int], Tensor]  # parameters, steps done -> a scalar
Measure = Callable[[Parameters, int], Row]  # parameters, steps done -> one line of metrics


@dataclass(frozen=True)
class Plan:
    """How to train. Adam with decoupled weight decay (AdamW).

    The learning rate rises linearly over the first ``warmup`` steps and then stays. Metrics are
    taken before the first step, every ``measure_every`` steps and after the last one.
    """

    steps: int
    learning_rate: float
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    warmup: int = 0
    measure_every: int = 50
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        for name in ("steps", "measure_every", "checkpoint_every"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "a positive whole number")
        require(self.learning_rate > 0, "learning_rate", self.learning_rate, "a positive number")

    def rate(self, done: int) -> float:
        """Learning rate of the step after ``done`` steps."""
        return self.learning_rate * min(1.0, (done + 1) / max(1, self.warmup))

    def measured_at(self, done: int) -> bool:
        return done % self.measure_every == 0 or done == self.steps

    def saved_at(self, done: int) -> bool:
        return done % self.checkpoint_every == 0 or done == self.steps


def stream(seed: int, name: str, step: int) -> torch.Generator:
    """The random numbers of one step: they depend on nothing else."""
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
    holds a checkpoint is resumed from it. A row gets the number of steps done as "step". Raises
    InputError for a checkpoint of another configuration or a file that cannot be used.
    """
    optimizer = torch.optim.AdamW(
        _leaves(parameters), lr=plan.learning_rate, betas=plan.betas, weight_decay=plan.weight_decay
    )
    digest = _digest(parameters, plan, configuration or {})
    done, rows = 0, []
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        done, rows = _resume(folder, parameters, optimizer, digest, plan)
    while True:
        progress(what, done / plan.steps)
        if plan.measured_at(done) and (not rows or rows[-1]["step"] < done):
            with torch.no_grad():
                rows.append({"step": done, **measure(parameters, done)})
            _write_metrics(folder, rows)
        if plan.saved_at(done) and done > 0:
            _write_checkpoint(folder, parameters, optimizer, done, digest)
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


def _write_metrics(folder: Path | None, rows: list[Row]) -> None:
    if folder is not None:
        lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows]
        write_text(folder / METRICS, "\n".join(lines) + "\n")


def _write_checkpoint(folder: Path | None, parameters, optimizer, done: int, digest: str) -> None:
    if folder is None:
        return
    tensors = {f"parameter/{name}": value for name, value in parameters.items()}
    for name, value in parameters.items():
        state = optimizer.state[value]
        tensors |= {f"{key}/{name}": state[key] for key in STATE}
    tensors = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    content = save(tensors, {"step": str(done), "configuration": digest})
    write_bytes(folder / CHECKPOINT, content)


def _resume(folder: Path, parameters, optimizer, digest: str, plan: Plan) -> tuple[int, list[Row]]:
    """Steps done and their metrics; nothing done if there is no checkpoint."""
    path = folder / CHECKPOINT
    if not path.exists():
        return 0, []
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            done, found = int(metadata["step"]), metadata["configuration"]
            tensors = {key: file.get_tensor(key) for key in file.keys()}
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"folder: got {path.name}, which is truncated or no checkpoint "
            f"({type(error).__name__}: {error})"
        ) from error
    require(
        found == digest,
        "folder",
        f"a checkpoint of another configuration in {folder}",
        "an empty folder, or the configuration that wrote the checkpoint",
    )
    with torch.no_grad():
        for name, value in parameters.items():
            value.copy_(tensors[f"parameter/{name}"])
            state = {key: tensors[f"{key}/{name}"] for key in STATE}
            moved = {k: v.to(value.device) for k, v in state.items() if k != "step"}
            optimizer.state[value] = {**state, **moved}  # Adam keeps its step count on the CPU
    return done, _read_metrics(folder / METRICS, done, plan)


def _read_metrics(path: Path, done: int, plan: Plan) -> list[Row]:
    """The metrics up to ``done`` steps; later ones belong to steps that will be made again."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        kept = [row for row in rows if row["step"] <= done]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"folder: got {path.name}, which cannot be used beside the checkpoint "
            f"({type(error).__name__}: {error})"
        ) from error
    expected = [step for step in range(done + 1) if plan.measured_at(step)]
    require(
        [row["step"] for row in kept] == expected,
        "folder",
        f"{path.name} with missing lines",
        f"metrics of {len(expected)} steps before the checkpoint",
    )
    return kept

"""The trainer: killed and resumed it measures the same bits; it refuses what does not fit."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from attnverify import InputError
from attnverify.experiments.engine import train as trainer
from attnverify.experiments.engine.train import Plan, stream, train

PLAN = Plan(
    steps=23, learning_rate=0.05, weight_decay=0.01, warmup=4, measure_every=3, checkpoint_every=5
)


def start(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {"W": torch.randn(3, 3, generator=generator), "b": torch.zeros(3)}


def loss(parameters, step):
    x = torch.randn(8, 3, generator=stream(0, "data", step))
    return ((x @ parameters["W"] + parameters["b"] - torch.sin(x)) ** 2).mean()


def measure(parameters, step):
    return {"loss": float(loss(parameters, 10**6)), "norm": float(parameters["W"].norm())}


def trained(folder: Path | None = None, plan: Plan = PLAN, loss=loss, **options):
    parameters = start()
    return train(parameters, loss, measure, plan, folder=folder, **options), parameters


def interrupted_at(k: int):
    def stopping(parameters, step):
        if step == k:
            raise KeyboardInterrupt
        return loss(parameters, step)

    return stopping


@pytest.mark.parametrize("k", range(PLAN.steps))
def test_interrupted_anywhere_and_resumed_gives_the_same_bits(tmp_path, k):
    rows, parameters = trained()
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, loss=interrupted_at(k))
    again, resumed = trained(tmp_path)
    assert again == rows
    assert all(torch.equal(parameters[name], resumed[name]) for name in parameters)
    lines = (tmp_path / trainer.METRICS).read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows


def test_resuming_goes_on_from_the_checkpoint(tmp_path):
    """Steps before the checkpoint are not made again; a finished run makes none."""
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, loss=interrupted_at(13))
    made = []

    def counting(parameters, step):
        made.append(step)
        return loss(parameters, step)

    trained(tmp_path, loss=counting)
    assert made == list(range(10, PLAN.steps))
    assert trained(tmp_path, loss=counting)[0] == trained()[0] and len(made) == 13


def test_a_failed_write_of_a_checkpoint_loses_nothing(tmp_path, monkeypatch):
    """The disk fills up at the second checkpoint: metrics are ahead of it and are dropped."""
    written = []

    def failing(path, content, write=trainer.write_bytes):
        written.append(path)
        if len(written) == 2:
            raise OSError("disk full")
        write(path, content)

    monkeypatch.setattr(trainer, "write_bytes", failing)
    with pytest.raises(OSError, match="disk full"):
        trained(tmp_path)
    assert trained(tmp_path)[0] == trained()[0]


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_train as t

def killed(parameters, step):
    if step == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
    return t.loss(parameters, step)

t.torch.set_num_threads(1)
t.trained(Path({folder!r}), loss=killed)
"""


def child(folder: Path, step: int) -> int:
    script = CHILD.format(tests=str(Path(__file__).parent), folder=str(folder), step=step)
    return subprocess.run([sys.executable, "-c", script], timeout=300, check=False).returncode


@pytest.mark.slow
def test_a_process_killed_at_random_steps_and_resumed_gives_the_same_bits(tmp_path):
    """Each process runs alone, and no Python code gets to clean up: SIGKILL."""
    first = random.SystemRandom().randrange(PLAN.steps)
    second = random.SystemRandom().randrange(first // 5 * 5, PLAN.steps)  # after the checkpoint
    killed, whole = tmp_path / f"killed at {first} and {second}", tmp_path / "whole"
    assert [child(killed, step) for step in (first, second)] == [-signal.SIGKILL] * 2
    assert child(killed, -1) == child(whole, -1) == 0
    metrics = [(folder / trainer.METRICS).read_bytes() for folder in (killed, whole)]
    assert metrics[0] == metrics[1], killed.name
    ours, theirs = (load_file(folder / trainer.CHECKPOINT) for folder in (killed, whole))
    assert list(ours) == list(theirs) and len(ours) == 2 * 4
    assert all(torch.equal(ours[name], theirs[name]) for name in ours), killed.name


@pytest.mark.parametrize(
    "changed",
    [
        {"plan": Plan(steps=24, learning_rate=0.05)},
        {"configuration": {"width": 4}},
    ],
)
def test_another_configuration_is_refused(tmp_path, changed):
    trained(tmp_path)
    with pytest.raises(InputError, match="checkpoint of another configuration"):
        trained(tmp_path, **changed)


def test_spoiled_files_are_refused(tmp_path):
    trained(tmp_path)
    metrics, checkpoint = tmp_path / trainer.METRICS, tmp_path / trainer.CHECKPOINT
    lines = metrics.read_text().splitlines()
    for text, message in (("\n".join(lines[1:]), "missing lines"), ("{", "cannot be used")):
        metrics.write_text(text)
        with pytest.raises(InputError, match=message):
            trained(tmp_path)
    metrics.unlink()
    with pytest.raises(InputError, match="cannot be used beside the checkpoint"):
        trained(tmp_path)
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(InputError, match="truncated or no checkpoint"):
        trained(tmp_path)


def test_a_loss_that_is_not_finite_stops_the_run():
    with pytest.raises(InputError, match="loss: got inf at step 0"):
        trained(loss=lambda parameters, step: parameters["W"].square().sum() * torch.inf)


@pytest.mark.parametrize("options", [{"steps": 0}, {"measure_every": 0}, {"learning_rate": 0.0}])
def test_a_bad_plan_is_refused(options):
    with pytest.raises(InputError, match=f"{next(iter(options))}: got 0"):
        Plan(**{"steps": 1, "learning_rate": 0.1, **options})


def test_progress_and_warmup():
    seen = []
    trained(progress=lambda what, done: seen.append(done))
    assert seen == [k / PLAN.steps for k in range(PLAN.steps + 1)]
    assert [PLAN.rate(k) for k in (0, 3, 9)] == [0.0125, 0.05, 0.05]

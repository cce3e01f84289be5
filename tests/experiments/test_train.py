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
from attnverify.experiments.engine import stored
from attnverify.experiments.engine import train as trainer
from attnverify.experiments.engine.train import Plan, stream, train
from tiers import in_tiers

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


@pytest.mark.parametrize("k", in_tiers(range(PLAN.steps), (0, 6, 22)))
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

    def failing(path, content, write=stored.write_bytes):
        written.append(path.name)
        if written.count(trainer.CHECKPOINT) == 2:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(stored, "write_bytes", failing)
    with pytest.raises(InputError, match="cannot be written .No space left on device"):
        trained(tmp_path)
    monkeypatch.undo()
    assert trained(tmp_path)[0] == trained()[0]


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = {tests!r}
import test_train as t

def killed(parameters, step):
    if step == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
    return t.loss(parameters, step)

t.torch.set_num_threads(1)
t.trained(Path({folder!r}), loss=killed)
"""


def child(folder: Path, step: int) -> int:
    own = [str(path) for path in Path(__file__).parents[:2]]
    script = CHILD.format(tests=own, folder=str(folder), step=step)
    return subprocess.run([sys.executable, "-c", script], timeout=300, check=False).returncode


@pytest.mark.full
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


def test_a_checkpoint_of_other_code_is_refused(tmp_path, monkeypatch):
    """Nothing that is there changes."""
    trained(tmp_path)
    monkeypatch.setattr(trainer, "code_digest", lambda: "of another package")
    before = {p: p.read_bytes() for p in tmp_path.glob("*.*")}
    with pytest.raises(InputError, match="^folder: got a checkpoint of other code in .* empty f"):
        trained(tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.glob("*.*")} == before


def rewritten(path: Path, tensors=None, **words) -> None:
    """The checkpoint with other tensors or words, and with the digest that belongs to them."""
    old, stated = stored.load(path)
    stored.save(path, {**old, **(tensors or {})}, {**stated, **words})


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


SPOILED = {
    "half a line": lambda c, m: m.write_text("{"),
    "no metrics": lambda c, m: m.unlink(),
    "a digit of the metrics": lambda c, m: m.write_text(m.read_text().replace("1", "2")),
    "half a checkpoint": lambda c, m: c.write_bytes(c.read_bytes()[:100]),
    "a bit of the weights": lambda c, m: flip(c, -1),
    "a step beyond the plan": lambda c, m: rewritten(c, step=str(10**12)),
    "one tensor more": lambda c, m: rewritten(c, {"more": torch.zeros(1)}),
}


@pytest.mark.parametrize("spoil", in_tiers(SPOILED, ("no metrics", "half a checkpoint")))
def test_spoiled_files_are_refused_with_the_advice_to_start_again(tmp_path, spoil):
    trained(tmp_path)
    SPOILED[spoil](tmp_path / trainer.CHECKPOINT, tmp_path / trainer.METRICS)
    with pytest.raises(InputError, match="^folder: got .*to start again$"):
        trained(tmp_path)
    for name in (trainer.CHECKPOINT, trainer.METRICS):
        (tmp_path / name).unlink(missing_ok=True)
    assert trained(tmp_path)[0] == trained()[0], "the advice helps"


def test_metrics_after_the_checkpoint_may_be_anything(tmp_path):
    """They belong to steps that are made again."""
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, loss=interrupted_at(13))
    with (tmp_path / trainer.METRICS).open("a") as out:
        out.write("half a li")
    assert trained(tmp_path)[0] == trained()[0]


def test_a_folder_is_for_one_run_at_a_time(tmp_path):
    with stored.own(tmp_path):
        with pytest.raises(InputError, match="^folder: got .*which another run is using"):
            trained(tmp_path)
    assert trained(tmp_path)[0] == trained()[0]


KILLED = """
import os, pathlib, sys
from attnverify.support import files
os.replace = pathlib.Path.replace = lambda *_: os._exit(9)
files.write_bytes(pathlib.Path(sys.argv[1]), b"x" * 1000)
"""


def test_what_a_killed_writer_left_is_swept_and_nothing_else(tmp_path):
    """The writer itself leaves it: it is what names the file."""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "toy.json")]
    assert subprocess.run(command, timeout=300, check=False).returncode == 9
    (left,) = tmp_path.iterdir()
    end = "0123456789abcdef"
    names = ("mine.txt", f"b.json.{end}", f".mine.txt.{end}", ".toy.json.12345678")
    for name in names:
        (tmp_path / name).write_text("x")
    trained(tmp_path)
    assert not left.exists() and all((tmp_path / name).exists() for name in names)


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, file / "below"):
        with pytest.raises(InputError, match="^folder: got .*cannot be written"):
            trained(folder)


def test_a_loss_that_is_not_finite_stops_the_run():
    with pytest.raises(InputError, match="loss: got inf at step 0"):
        trained(loss=lambda parameters, step: parameters["W"].square().sum() * torch.inf)


@pytest.mark.parametrize("options", [{"steps": 0}, {"measure_every": 0}, {"learning_rate": 0.0}])
def test_a_bad_plan_is_refused(options):
    with pytest.raises(InputError, match=f"{next(iter(options))}: got 0"):
        Plan(**{"steps": 1, "learning_rate": 0.1, **options})


def test_progress_is_told_step_by_step():
    seen = []
    trained(progress=lambda what, done: seen.append(done))
    assert seen == [k / PLAN.steps for k in range(PLAN.steps + 1)]


def test_the_rate_rises_stays_and_falls():
    """Up by quarters of 0.5 to the 4th step, down by halves over the last two; then without."""
    plan = Plan(8, 0.5, warmup=4, cooldown=2)
    assert [plan.rate(k) for k in range(8)] == [0.125, 0.25, 0.375, 0.5, 0.5, 0.5, 0.5, 0.25]
    assert [Plan(3, 0.5).rate(k) for k in range(3)] == [0.5, 0.5, 0.5]


def test_metrics_and_checkpoints_come_at_their_steps_and_at_the_end():
    plan = Plan(7, 0.5, measure_every=3, checkpoint_every=2)
    assert [k for k in range(8) if plan.measured_at(k)] == [0, 3, 6, 7]
    assert [k for k in range(8) if plan.saved_at(k)] == [0, 2, 4, 6, 7]


def test_the_steps_are_those_of_adam(tmp_path):
    """By hand, in the order of AdamW's operations: decay, moments, step. float32 entries of size 1
    and 5 steps of some 20 roundings: 1e-5 is 80 units."""
    plan = Plan(5, 0.05, weight_decay=0.5, betas=(0.75, 0.5), warmup=2)
    rows, parameters = trained(plan=plan)
    value = {name: v.clone().requires_grad_() for name, v in start().items()}
    first, second = ({name: torch.zeros_like(v) for name, v in value.items()} for _ in range(2))
    for k, rate in enumerate((0.025, 0.05, 0.05, 0.05, 0.05)):
        slopes = torch.autograd.grad(loss(value, k), list(value.values()))
        for (name, v), g in zip(value.items(), slopes, strict=True):
            first[name] = 0.75 * first[name] + 0.25 * g
            second[name] = 0.5 * second[name] + 0.5 * g**2
            size = (second[name] / (1 - 0.5 ** (k + 1))).sqrt() + 1e-8
            with torch.no_grad():
                v.copy_(v * (1 - rate * 0.5) - rate * first[name] / (1 - 0.75 ** (k + 1)) / size)
    for name, v in value.items():
        assert torch.allclose(parameters[name], v, rtol=0, atol=1e-5)
    assert [row["step"] for row in rows] == [0, 5]

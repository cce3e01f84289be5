"""A watch measures what it says, changes nothing, and keeps a log that survives being killed."""

import json
import math
import subprocess
import sys
import time

import pytest
import torch
from torch import nn

import attnverify as av
import modelzoo
from attnverify import InputError
from attnverify.mathematics import norms


def encoder(**options) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def batch(seed: int = 0) -> torch.Tensor:
    return torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("case", ["gpt2", "bert", "llama"])
def test_figures_are_those_of_the_trace(case):
    """Of the same forward pass in float64: attention weights and tokens as a trace has them."""
    model = modelzoo.model(case).double()
    inputs = modelzoo.inputs(case, batch=2, tokens=7)
    found = av.Watch(model).step(0, inputs)
    traced = av.trace(model, inputs[:1])
    for layer, known in zip(found.layers, traced.layers, strict=True):
        X, P = known.heads.input[0], known.heads.P[0]
        assert layer.diameter == pytest.approx(float(norms.diameter(X)), rel=1e-9)
        centered = X - X.mean(0)
        assert layer.residual == pytest.approx(float(centered.norm() / X.norm()), rel=1e-9)
        seen = (P > 0).any(0)
        rows = [i for i in range(len(X)) if seen[i].sum() > 1]
        for head, weights in zip(layer.heads, P, strict=True):
            entropies = [float(torch.special.entr(weights[i]).sum()) for i in rows]
            assert head.entropy == pytest.approx(sum(entropies) / len(rows), rel=1e-9)
            assert head.least_entropy == pytest.approx(min(entropies), rel=1e-9)
            gauges = []
            for i in rows:
                m = max(0.5, float(weights[i].max()))
                gauges.append(m * (1 - m) * float(norms.diameter(X[seen[i]])) ** 2)
            assert head.gauge == pytest.approx(sum(gauges) / len(rows), rel=1e-9)


def trained(watched: bool, path) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Weights after some steps with dropout, and the next random number."""
    model = encoder(dropout=0.2)
    watch = av.Watch(model, path, every=20) if watched else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(1)
    for step in range(200):
        optimizer.zero_grad()
        model(batch(step)).square().mean().backward()
        optimizer.step()
        if watch:
            watch.step(step, batch(step))
            assert model.training and all(p.training for p in model.modules())
    return [p.detach().clone() for p in model.parameters()], torch.rand(1)


def test_training_is_the_same_to_the_last_bit(tmp_path):
    (with_watch, random), (without, other) = (
        trained(watched, tmp_path / "log.jsonl") for watched in (True, False)
    )
    assert all(torch.equal(a, b) for a, b in zip(with_watch, without, strict=True))
    assert torch.equal(random, other)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 1 + 10


def test_a_model_of_transformers_is_left_as_it_was():
    """Its kind of attention, its hooks, its modes."""
    model = modelzoo.model("llama").train()
    model.set_attn_implementation("sdpa")
    found = av.Watch(model).step(0, modelzoo.inputs("llama"))
    assert found and model.config._attn_implementation == "sdpa"
    assert all(part.training for part in model.modules())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_nothing_happens_between_measured_steps(monkeypatch):
    model = encoder()
    watch = av.Watch(model, every=5)
    monkeypatch.setattr(model, "forward", lambda *_: pytest.fail("the model was run"))
    assert watch.step(3, batch()) is None


def test_a_torn_line_is_dropped_and_no_step_is_doubled(tmp_path):
    path, model = tmp_path / "runs" / "log.jsonl", encoder()
    watch = av.Watch(model, path, every=1)
    for step in range(3):
        watch.step(step, batch(step))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])  # killed while it wrote the third
    again = av.Watch(model, path, every=1)
    assert [record.step for record in again.records] == [0, 1]
    assert again.step(1, batch(1)) is None, "it is in the log"
    again.step(2, batch(2))
    assert path.read_bytes() == whole
    steps = [json.loads(line)["step"] for line in path.read_text().splitlines()[1:]]
    assert steps == [0, 1, 2]


KILLED = """
import sys, torch, attnverify as av
from torch import nn
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
watch = av.Watch(model, sys.argv[1], every=1)
for step in range(10**6):
    watch.step(step, torch.randn(1, 5, 8))
"""


def test_killed_while_it_measures_and_resumed(tmp_path):
    """No step is lost or doubled, wherever the process was killed: twice, at some step."""
    path = tmp_path / "log.jsonl"
    for lines in (5, 12):
        running = subprocess.Popen([sys.executable, "-c", KILLED, str(path)])
        while running.poll() is None and (not path.exists() or _lines(path) < lines):
            time.sleep(0.01)
        running.kill()
        running.wait()
    watch = av.Watch(encoder(), path, every=1)
    steps = [record.step for record in watch.records]
    assert len(steps) >= 11 and steps == list(range(len(steps)))
    watch.step(len(steps), batch())
    assert _lines(path) == len(steps) + 2


def _lines(path) -> int:
    return path.read_bytes().count(b"\n")


def test_records_come_back_from_the_log(tmp_path):
    model = encoder()
    first = av.Watch(model, tmp_path / "log.jsonl").step(0, batch())
    assert av.Watch(model, tmp_path / "log.jsonl").records == [first]


def test_a_fallen_gauge_is_named():
    model = encoder()
    watch = av.Watch(model, every=1)
    watch.step(0, batch())
    assert watch.fallen() == []
    watch.step(1, 1e-3 * batch())
    (layer, head, quotient), *rest = watch.fallen(1e-5)
    assert (layer, head) == (1, 1) and quotient == pytest.approx(1e-6, rel=0.5) and len(rest) == 1


def test_padding_is_left_out():
    """The figures of a padded text are those of the text."""
    model = modelzoo.model("bert").double()
    ids = modelzoo.inputs("bert", batch=1, tokens=7)
    mask = torch.tensor([[1, 1, 1, 1, 1, 0, 0]])
    padded = av.Watch(model).step(0, {"input_ids": ids, "attention_mask": mask, "labels": ids})
    alone = av.Watch(model).step(0, ids[:, :5])
    gauges = padded.gauges().double(), alone.gauges().double()
    assert torch.allclose(*gauges, rtol=1e-6, atol=0)


def test_wrappers_are_opened():
    model = encoder()
    wrapped = nn.Module()
    wrapped.module = model
    assert av.Watch(wrapped).model is model


def test_tokens_first_and_a_limit_of_tokens():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=False)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    found = av.Watch(model, tokens=4).step(0, batch())
    same = encoder()
    same.load_state_dict(model.state_dict())
    assert found == av.Watch(same, tokens=4).step(0, batch())
    assert found != av.Watch(same).step(0, batch())


def test_infinite_figures_are_valid_json(tmp_path):
    model = encoder()
    watch = av.Watch(model, tmp_path / "log.jsonl")
    watch.step(0, torch.full((1, 4, 8), math.nan))
    json.loads(
        (tmp_path / "log.jsonl").read_text().splitlines()[1],
        parse_constant=lambda name: pytest.fail(name),
    )
    assert math.isnan(av.Watch(model, tmp_path / "log.jsonl").records[0].layers[0].residual)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": 0}, "every: got 0, expected a number of steps >= 1"),
        ({"tokens": 1}, "tokens: got 1, expected an integer >= 2"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(InputError, match=words):
        av.Watch(encoder(), **options)


def test_a_model_that_cannot_be_read():
    with pytest.raises(InputError, match="model: got Linear without config.model_type, expected"):
        av.Watch(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"labels": torch.zeros(1, 3)}, "batch: got labels, expected some of input_ids"),
        (torch.zeros(3), r"batch: got Tensor of shape \(3,\), expected \(batch, tokens\)"),
        ("text", "batch: got str of shape"),
        (torch.zeros(2, 1, 8), "batch: got a text of 1 tokens, expected 2 or more"),
    ],
)
def test_a_bad_batch(given, words):
    with pytest.raises(InputError, match=words):
        av.Watch(encoder()).step(0, given)


def test_a_log_of_another_model(tmp_path):
    av.Watch(encoder(), tmp_path / "log.jsonl")
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 4, 16, batch_first=True)
    other = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    with pytest.raises(InputError, match="log: got log.jsonl of .*, expected a log of"):
        av.Watch(other, tmp_path / "log.jsonl")
    (tmp_path / "notes.txt").write_text("notes\n")
    with pytest.raises(InputError, match="log, line 1 of notes.txt: got JSONDecodeError"):
        av.Watch(encoder(), tmp_path / "notes.txt")


def test_a_share_has_a_unit():
    with pytest.raises(InputError, match="share: got 3.0, expected .* of the first gauge"):
        av.Watch(encoder()).fallen(3.0)

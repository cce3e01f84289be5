"""A number without a head: the model with that head's weights zeroed, and other ways to it."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from test_scalar import CASES, DIFFERENCE, LOGIT, OWN, headed, maps_of
from torch import nn
from typer.testing import CliRunner

import attnverify as av
import modelzoo
from attninspect import ablate, command
from attninspect.families import architecture_of
from attninspect.forward import trace
from attninspect.watch import attention_of
from attnverify import InputError
from attnverify.cli import app
from attnverify.mathematics.maps import Dense

#: Two runs of one model differ by the order of sums: 1000 roundings lie on a path, and parts are at
#: most 1000 times the number, which is of the order of 1 here. Effects are larger by far.
OFF = 1000 * 1000 * 2.0**-53


def of(model, ids, choice) -> float:
    """The number of a choice, by the model's own forward pass and nothing of this package."""
    model.set_attn_implementation("eager")
    if hasattr(model.config, "num_experts_per_tok"):
        model.set_experts_implementation("eager")  # the others take no float64
    given = ids if isinstance(ids, dict) else {model.main_input_name: ids}
    given = {k: v.double() if v.is_floating_point() else v for k, v in given.items()}
    with torch.no_grad():
        out = model(**given)
    if "coordinate" in choice:
        return float(out.last_hidden_state[0, choice["at"] - 1, choice["coordinate"]])
    scores = out.logits[0]
    scores = scores if scores.ndim == 1 else scores[choice.get("at", len(scores)) - 1]
    value = scores[choice.get("logit", choice.get("class"))]
    return float(value - (scores[choice["against"]] if "against" in choice else 0.0))


def projections(model) -> list[nn.Module]:
    """The output projection of each layer, in order, and the number of heads; none is shared."""
    base = getattr(model, "base_model", model)
    found = [body.output.module for body in attention_of(architecture_of(base))]
    assert len(set(map(id, found))) == len(architecture_of(base).layers)
    return found


def without(model, layer: int, head: int | None, heads: int):
    """A copy of a model in float64 whose W_O has rows of zeros for a head; None: all heads."""
    model = copy.deepcopy(model).double()
    part = projections(model)[layer - 1]
    weight = part.weight if isinstance(part, nn.Linear) else part.weight.mT
    size = weight.shape[1] // heads
    rows = slice(None) if head is None else slice((head - 1) * size, head * size)
    with torch.no_grad():
        weight[:, rows] = 0
    return model


def unshared(model):
    """An ALBERT with the weights of each layer in a group of its own."""
    other = copy.deepcopy(model)
    groups, depth = other.base_model.encoder.albert_layer_groups, model.config.num_hidden_layers
    apart = [copy.deepcopy(groups[i * len(groups) // depth]) for i in range(depth)]
    other.base_model.encoder.albert_layer_groups = nn.ModuleList(apart)
    for part in other.modules():
        if hasattr(part, "config"):
            part.config.num_hidden_groups = depth
    return other


@pytest.mark.parametrize(("case", "auto", "choice"), CASES)
def test_zero_is_the_model_with_zeros_in_its_output_projection(case, auto, choice):
    """Every head and every layer, in every family, shared layers one at a time."""
    model, ids = headed(case, auto), modelzoo.inputs(case, batch=1)
    report = av.inspect(model, ids, scalar=choice, ablate="zero")
    own = unshared(model) if "albert" in case else model
    value, heads = of(copy.deepcopy(own).double(), ids, choice), report.model["heads"]
    assert report.scalar["ablation"]["unchanged"] <= OFF
    # Llama and its kin round 5 norms to float32, perhaps up in one run and down in the other; parts
    # are at most 100 times the number.
    single = case in ("llama", "qwen2", "mixtral", "gpt_oss, clamped", "afmoe")
    off = 5 * 100 * 2.0**-24 if single else OFF
    rows = [*report.scalar_heads, *(r for r in report.scalar_layers if type(r["layer"]) is int)]
    for row in rows:
        want = of(without(own, row["layer"], row.get("head"), heads), ids, choice) - value
        assert row["lost"] == pytest.approx(-want, abs=off)
    assert max(abs(row["lost"]) for row in rows) > 1e-3
    assert [r["lost"] for r in report.scalar_layers if type(r["layer"]) is str] == [None] * 3


@pytest.mark.parametrize("norm_first", [True, False])
def test_attention_of_torch(norm_first):
    """Its projection is no call of a module; a mask and a batch axis at another place."""
    model = modelzoo.encoder(norm_first=norm_first, batch_first=False).double()
    x = torch.randn(7, 1, 12, generator=torch.Generator().manual_seed(0)).double()
    mask = torch.full((7, 7), -torch.inf).triu(1).double()
    mask = mask if norm_first else mask.expand(3, 7, 7)  # one a head
    given = {"src": x, "mask": mask}
    report = av.inspect(model, given, scalar={"coordinate": 4, "at": 3}, ablate="zero")

    def value(other) -> float:
        with torch.no_grad():
            return float(other(x, mask)[2, 0, 4])

    for row in report.scalar_heads:
        other = copy.deepcopy(model)
        with torch.no_grad():
            part = other.layers[row["layer"] - 1].self_attn.out_proj.weight
            part[:, (row["head"] - 1) * 4 : row["head"] * 4] = 0
        assert row["lost"] == pytest.approx(value(model) - value(other), abs=OFF)


def test_without_anything_behind_it_that_moves_an_effect_is_the_share():
    """A layer without an MLP and a last norm: the number is linear in what a head writes."""
    model = modelzoo.encoder(norm_first=True).layers[0]
    nn.init.zeros_(model.linear2.weight)
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(1))
    report = av.inspect(model, x, scalar={"coordinate": 4, "at": 2}, ablate="zero")
    assert min(abs(row["lost"]) for row in report.scalar_heads) > 1e-3
    for row in report.scalar_heads:
        assert row["lost"] == pytest.approx(row["direct"], abs=OFF)


def test_behind_a_last_norm_an_effect_is_the_share_and_what_the_norm_moves():
    """One layer without an MLP: y = beta + (u - d)/s', with the share d/s held at the old s."""
    model, ids = modelzoo.model("gpt2", num_hidden_layers=1), modelzoo.inputs("gpt2", batch=1)
    nn.init.zeros_(model.h[0].mlp.c_proj.weight)
    report = av.inspect(model, ids, scalar={"coordinate": 3, "at": 6}, ablate="zero")
    beta, norm = model.ln_f.bias[3].item(), model.ln_f
    seen: list[torch.Tensor] = []

    def scale(other) -> float:
        handle = other.ln_f.register_forward_hook(lambda m, args, out: seen.append(args[0][0, 5]))
        of(other, ids, {"coordinate": 3, "at": 6})
        handle.remove()
        return float((seen[-1].var(correction=0) + norm.eps).sqrt())

    s, y = scale(copy.deepcopy(model).double()), report.scalar["value"]
    for row in report.scalar_heads:
        moved = scale(without(model, 1, row["head"], report.model["heads"]))
        want = (y - beta - row["direct"]) * s / moved + beta - y
        assert row["lost"] == pytest.approx(-want, abs=OFF)
        assert abs(moved / s - 1) > 1e6 * OFF


def written(model, ids, layer: int) -> torch.Tensor:
    """What every head gives to the output projection of a layer, (tokens, heads * size)."""
    found = trace(model, ids).layers[layer - 1]
    branch = next(b for block in found.blocks for b in block.branches if b.attention)
    maps = maps_of(branch.steps)
    x = next(block.branches and found.input for block in found.blocks)
    last = max(i for i, each in enumerate(maps) if isinstance(each, Dense))
    for each in maps[:last]:
        x = each.linear(x) + each.shift
    return x[0]


@pytest.mark.parametrize("kind", ["mean", "resample"])
@pytest.mark.parametrize("case", ["gpt2", "bert", "phi"])
def test_mean_and_resample_put_something_else_in_its_place(kind, case):
    """The projection's rows zeroed, and what the stand-in writes added behind it."""
    model, ids, choice = modelzoo.model(case), modelzoo.inputs(case, batch=1), {"coordinate": 3}
    choice["at"] = 6
    report = av.inspect(model, ids, scalar=choice, ablate=kind, seed=5)
    order = torch.randperm(5, generator=torch.Generator().manual_seed(5))
    assert order.tolist() != sorted(order.tolist())
    other = torch.cat([ids[:, :1], ids[:, 1:6][:, order], ids[:, 6:]], 1)
    value, heads = of(copy.deepcopy(model).double(), ids, choice), report.model["heads"]
    for row in report.scalar_heads:
        z = written(model, other if kind == "resample" else ids, row["layer"])
        z = z.mean(0).expand(z.shape) if kind == "mean" else z
        cut = without(model, row["layer"], row["head"], heads)
        part, own = (projections(m)[row["layer"] - 1] for m in (cut, model))
        W = own.weight.double().mT if isinstance(own, nn.Linear) else own.weight.double()
        size = len(W) // heads
        at = slice((row["head"] - 1) * size, row["head"] * size)
        part.register_forward_hook(lambda m, args, out, add=z[:, at] @ W[at]: out + add)
        assert row["lost"] == pytest.approx(value - of(cut, ids, choice), abs=OFF)


@pytest.mark.parametrize("case", ["gpt2", "llama"])
def test_a_classifier_without_a_token_of_padding_reads_the_last_of_every_row(case):
    model = headed(case, "AutoModelForSequenceClassification")
    ids = modelzoo.inputs(case, batch=1)
    model.config.pad_token_id = None
    found = av.inspect(model, ids, scalar={"class": 1}, ablate="zero")
    value = of(copy.deepcopy(model).double(), ids, {"class": 1})
    off = 5 * 100 * 2.0**-24 if case == "llama" else OFF  # as above
    for row in found.scalar_heads[:2]:
        cut = without(model, row["layer"], row["head"], found.model["heads"])
        assert row["lost"] == pytest.approx(value - of(cut, ids, {"class": 1}), abs=off)
    assert max(abs(row["lost"]) for row in found.scalar_heads[:2]) > 1e-3
    assert model.config.pad_token_id is None


def test_losses_within_rounding_are_told_as_none():
    """All tokens are equal, so the mean over them is what stood there."""
    found = av.inspect(modelzoo.model("t5"), [5] * 7, scalar={"coordinate": 3}, ablate="mean")
    assert "what is lost not defined with the share through" in str(found)
    assert "opposite signs at 0 of 6 heads" in str(found)


@pytest.mark.parametrize("kind", ablate.KINDS)
def test_padding_changes_nothing(kind):
    model, ids = modelzoo.model("bert"), modelzoo.inputs("bert", batch=1)
    padded = torch.cat([ids, torch.zeros(1, 2, dtype=torch.long)], -1)
    mask = torch.ones_like(padded)
    mask[:, 7:] = 0
    choice = {"coordinate": 3, "at": 6}
    given = {"input_ids": padded, "attention_mask": mask}
    long, short = (av.inspect(model, x, scalar=choice, ablate=kind) for x in (given, ids))
    for a, b in zip(long.scalar_heads, short.scalar_heads, strict=True):
        assert a["lost"] == pytest.approx(b["lost"], abs=OFF) and a["lost"] != 0


def test_rows_are_as_many_as_the_room_allows(monkeypatch):
    """The same effects in passes of 4 rows as in one; and the model is left as it was."""
    model, ids = headed("gpt2", LOGIT), modelzoo.inputs("gpt2", batch=1)
    many = av.inspect(model, ids, scalar=OWN, ablate="resample")
    monkeypatch.setattr(ablate, "ROOM", 1)
    few = av.inspect(model, ids, scalar=OWN, ablate="resample")
    parts = 2 * 5 + 2
    assert many.scalar["ablation"] | {"unchanged": 0} == {
        "kind": "resample",
        "seed": 0,
        "passes": 1,
        "rows": parts + 2,
        "unchanged": 0,
    }
    assert (few.scalar["ablation"]["passes"], few.scalar["ablation"]["rows"]) == (6, parts + 12)
    for a, b in zip(many.scalar_heads, few.scalar_heads, strict=True):
        assert a["lost"] == pytest.approx(b["lost"], abs=OFF)
    plain = av.inspect(model, ids, scalar=OWN)
    assert plain.scalar_lengths == many.scalar_lengths and "ablation" not in plain.scalar


def test_what_stands_out_is_said():
    model, ids = headed("gpt2", LOGIT), modelzoo.inputs("gpt2", batch=1)
    report = av.inspect(model, ids, scalar=DIFFERENCE, ablate="zero")
    line = next(line for line in str(report).split("\n") if line.startswith("Each head removed"))
    lost = {(r["layer"], r["head"]): (r["lost"], r["through"]) for r in report.scalar_heads}
    flips = sum(a * b < 0 for a, b in lost.values())
    assert f"opposite signs at {flips} of 10 heads" in line
    far = max(lost, key=lambda place: abs(lost[place][0] - lost[place][1]))
    assert f"most at {far[0]}.{far[1]} (lost {lost[far][0]:+.4g}" in line


def test_page_files_and_command(tmp_path):
    folder, out = tmp_path / "model", tmp_path / "out"
    modelzoo.saved_bert(folder)
    (tmp_path / "text").write_text("the paths are short")
    call = ["inspect", str(folder), "--text", str(tmp_path / "text"), "--out", str(out)]
    asked = ["--coordinate", "3", "--ablate", "resample", "--seed", "2"]
    done = CliRunner().invoke(app, [*call, *asked])
    assert done.exit_code == 0, done.output
    body = json.loads((out / "inspect.json").read_text())
    assert body["scalar"]["ablation"]["seed"] == 2
    for name in ("scalar_heads", "scalar_layers"):
        assert all(set(row) == set(body["columns"][name]) for row in body[name])
        assert "lost" in (out / f"{name}.csv").read_text().split("\n")[0]
    html = (out / "inspect.html").read_text()
    assert "lost without it" in html and (out / "scalar_ablation.svg").read_text().strip() in html
    command.require_own(out)
    done = CliRunner().invoke(app, [*call, "--ablate", "zero"])
    assert "ablate: got 'zero' alone, expected a number beside it" in str(done.exception)
    assert CliRunner().invoke(app, [*call, "--coordinate", "3"]).exit_code == 0
    assert not (out / "scalar_ablation.svg").exists()
    assert "lost without it" not in (out / "inspect.html").read_text()
    command.require_own(out)


@pytest.mark.parametrize(
    ("case", "tokens", "options", "message"),
    [
        ("bert", 7, {"ablate": "zeros"}, "ablate: got 'zeros', expected one of zero, mean, resa"),
        ("bert", 7, {"ablate": "zero", "scalar": None}, "ablate: got 'zero' alone, expected a num"),
        ("bert", 7, {"ablate": "mean", "seed": -1}, "seed: got -1, expected a whole number from 0"),
        ("bert", 3, {"ablate": "resample"}, "ablate: got resample of a text of 3 tokens"),
        ("vit", 7, {"ablate": "resample"}, "ablate: got resample of pixels"),
    ],
)
def test_what_is_refused(case, tokens, options, message):
    options = {"scalar": {"coordinate": 3}} | options
    with pytest.raises(InputError, match=message):
        av.inspect(modelzoo.model(case), modelzoo.inputs(case, batch=1, tokens=tokens), **options)


def test_another_order_is_another_order():
    """Two tokens in the middle are exchanged, whatever the seed draws."""
    model, ids = modelzoo.model("bert"), torch.tensor([[3, 4, 5, 6]])
    found = [
        av.inspect(model, ids, scalar={"coordinate": 3}, ablate="resample", seed=seed).scalar_heads
        for seed in range(3)
    ]
    assert found[0] == found[1] == found[2]
    assert all(abs(row["lost"]) > 1e-6 for row in found[0])

"""A number of a model in parts: they add up, they are what an enumeration gives, mistakes show."""

from __future__ import annotations

import copy
import importlib
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from math import fsum
from types import ModuleType

import pytest
import torch

import attnverify as av
import modelzoo
from attninspect import chosen, scalar
from attninspect.columns import TABLES
from attninspect.findings import Findings
from attninspect.forward import trace
from attninspect.reconstruction import ReconstructionError
from attninspect.trace import Step, gamma
from attnverify import InputError
from attnverify.mathematics.maps import Dense, Gate, Mix, Norm
from modelzoo import headed

LOGIT, MASKED = "AutoModelForCausalLM", "AutoModelForMaskedLM"
CLASS, IMAGE = "AutoModelForSequenceClassification", "AutoModelForImageClassification"
DIFFERENCE, OWN = {"logit": 5, "against": 7}, {"logit": 5, "at": 3}
#: Norms before and after, branches in parallel, grouped keys, shared layers, heads of all kinds.
CASES = [
    ("gpt2", LOGIT, DIFFERENCE),
    ("llama", LOGIT, DIFFERENCE),
    ("qwen2", CLASS, {"class": 1}),
    ("bert", CLASS, {"class": 1, "against": 0}),
    ("bert", MASKED, OWN),
    ("gpt_neox", LOGIT, OWN),
    ("phi", LOGIT, OWN),
    ("gemma", LOGIT, OWN),
    ("gemma2", LOGIT, DIFFERENCE),
    ("gemma3", LOGIT, OWN),
    ("olmo2", LOGIT, DIFFERENCE),
    ("opt", CLASS, {"class": 1}),
    ("opt, norms after, narrow", LOGIT, OWN),
    ("phi3", LOGIT, OWN),
    ("distilbert", CLASS, {"class": 0}),
    ("distilbert", MASKED, OWN),
    ("roberta", CLASS, {"class": 1}),
    ("albert, groups", CLASS, {"class": 1}),
    ("vit", IMAGE, {"class": 1}),
    ("bloom", LOGIT, DIFFERENCE),
    ("falcon", LOGIT, OWN),
    ("mixtral", LOGIT, DIFFERENCE),
    ("gpt_oss, clamped", LOGIT, OWN),
    ("afmoe", LOGIT, DIFFERENCE),
]
DEEP = {"num_hidden_layers": 3}


def logits(model, ids) -> torch.Tensor:
    """The model's own logits in float64, without anything of this package."""
    own = modelzoo.visible(copy.deepcopy(model).double())
    given = ids.double() if ids.is_floating_point() else ids
    with torch.no_grad():
        return own(given).logits[0]


@pytest.mark.parametrize(("case", "auto", "choice"), CASES)
def test_parts_add_up_to_the_models_own_number(case, auto, choice):
    """All four sums. The library has checked them within its bound; here they are added again."""
    model, ids = headed(case, auto), modelzoo.inputs(case, batch=1)
    report = av.inspect(model, ids, scalar=choice)
    scores = logits(model, ids)
    if scores.ndim == 2:
        scores = scores[choice.get("at", len(scores)) - 1]
    kind = "logit" if "logit" in choice else "class"
    value = float(scores[choice[kind]])
    value -= float(scores[choice["against"]]) if "against" in choice else 0.0
    assert report.scalar["value"] == value  # the last bit too: the same forward pass
    sums = {
        "lengths": [row["value"] for row in report.scalar_lengths],
        "tokens": [row["value"] for row in report.scalar_tokens],
        "direct": [row[k] or 0.0 for row in report.scalar_layers for k in ("direct", "biases")],
        "stream": [row["stream"] or 0.0 for row in report.scalar_layers],
    }
    for name, parts in sums.items():
        # A path has at most 1000 roundings here, and parts are at most 60 times what they add up
        # to within themselves.
        size = fsum(map(abs, parts))
        assert abs(fsum(parts) - value) <= 1000 * 60 * 2.0**-53 * size, name
    direct = fsum(row["direct"] for row in report.scalar_heads)
    layers = [row["direct"] for row in report.scalar_layers if type(row["layer"]) is int]
    assert direct == pytest.approx(fsum(layers), abs=2.0**-40)
    assert [each["logit"] for each in report.scalar["top"]] == scores.topk(min(5, len(scores)))[
        0
    ].tolist()


def test_a_torch_encoder_and_a_last_norm():
    model = modelzoo.encoder(norm_first=True)
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
    report = av.inspect(model, x, scalar={"coordinate": 4, "at": 2})
    with torch.no_grad():
        own = modelzoo.encoder(norm_first=True).double()(x.double()[None])[0, 1, 4]
    assert report.scalar["value"] == pytest.approx(float(own), rel=2.0**-40)
    assert report.scalar["top"] == [] and report.scalar["position"] == 2


def masked(mix: Mix, keep: list[int]) -> Mix:
    """Attention with some of its heads alone."""
    chosen = torch.zeros(mix.P.shape[1], dtype=mix.P.dtype)
    chosen[keep] = 1
    return Mix(mix.P * chosen[:, None, None], mix.key_heads)


def sent(maps, y, affine: bool):
    for each in maps:
        y = each.linear(y) + (each.shift if affine else 0.0)
    return y


def maps_of(steps):
    return [each for step in steps for each in step.maps]


def through_block(block, layer: int, streams: list, heads: int) -> list:
    """All (last head, length, is a bias, stream) behind a block, each stream in 1 + H ways."""
    zero, found = torch.zeros_like(streams[0][3]), []
    attention = [maps_of(b.steps) for b in block.branches if b.attention]
    others = [maps_of(b.steps) for b in block.branches if not b.attention]
    for last, length, bias, y in streams:
        found.append((last, length, bias, y + sum(sent(maps, y, False) for maps in others)))
    found += [(None, None, True, sent(maps, zero, True)) for maps in others]
    for maps in attention:
        at = next(i for i, each in enumerate(maps) if isinstance(each, Mix))
        found.append((None, None, True, sent(maps[at + 1 :], zero, True)))
        for head in range(heads):
            one = [*maps[:at], masked(maps[at], [head])], maps[at + 1 :]
            for _, length, bias, y in streams:
                longer = None if length is None else length + 1
                written = sent(one[1], sent(one[0], y, False), False)
                found.append(((layer, head + 1), longer, bias, written))
            written = sent(one[1], sent(one[0], zero, True), False)
            found.append(((layer, head + 1), None, True, written))
    after = maps_of(block.after)
    ends = [(*rest, sent(after, y, False)) for *rest, y in found]
    return [*ends, (None, None, True, sent(after, zero, True))]


@pytest.mark.parametrize("case", ["gpt2", "bert", "gpt_neox, in series", "phi"])
def test_parts_are_those_of_all_paths(case):
    """Every path by itself, forward: by length and by last head, biases as paths that begin late.

    Some 400 roundings lie on a path, in absolute values at most 1000 times the number: the same
    with every entry's sign dropped is below that here. A wrong part is wrong by 1e-3 and more.
    """
    model, ids = modelzoo.model(case), modelzoo.inputs(case, batch=1)
    report = av.inspect(model, ids, scalar={"coordinate": 3, "at": 6})
    found = trace(model, ids)
    streams = [(None, 0, False, found.input)]
    heads = report.model["heads"]
    for layer in found.layers:
        for block in layer.blocks:
            streams = through_block(block, layer.number, streams, heads)
    final, zero = maps_of(found.final), torch.zeros_like(found.input)
    streams = [(*rest, sent(final, y, False)) for *rest, y in streams]
    streams.append((None, None, True, sent(final, zero, True)))
    assert sum(not bias for _, _, bias, _ in streams) == (1 + heads) ** len(found.layers)
    parts = [(last, length, bias, float(y[0, 5, 3])) for last, length, bias, y in streams]
    off = 400 * 1000 * 2.0**-53

    def added(keep) -> float:
        return fsum(value for last, length, bias, value in parts if keep(last, length, bias))

    for row in report.scalar_lengths[:-2]:
        want = added(lambda last, length, bias, row=row: length == row["length"])
        assert row["value"] == pytest.approx(want, abs=off)
        assert row["paths"] == sum(length == row["length"] for _, length, _, _ in parts)
    want = added(lambda last, length, bias: bias)
    assert report.scalar_lengths[-2]["value"] == pytest.approx(want, abs=off)
    for row in report.scalar_heads:
        place = row["layer"], row["head"]
        want = added(lambda last, length, bias, place=place: last == place)
        assert row["direct"] == pytest.approx(want, abs=off)
    want = added(lambda last, length, bias: last is None and bias)
    own = fsum(row["biases"] or 0.0 for row in report.scalar_layers)
    assert own == pytest.approx(want, abs=off)


def frozen(found, X, cut=None, without=None) -> float:
    """The frozen model at X; cut: a (layer, head) that is silent; without: a layer's biases."""
    for layer in found.layers:
        affine = layer.number != without
        for block in layer.blocks:
            total = X
            for branch in block.branches:
                maps = maps_of(branch.steps)
                if cut is not None and cut[0] == layer.number and branch.attention:
                    at = next(i for i, each in enumerate(maps) if isinstance(each, Mix))
                    rest = [h for h in range(maps[at].P.shape[1]) if h + 1 != cut[1]]
                    maps = [*maps[:at], masked(maps[at], rest), *maps[at + 1 :]]
                total = total + sent(maps, X, affine)
            X = sent(maps_of(block.after), total, affine)
    return float(sent(maps_of(found.final), X, True)[0, 5, 3])


@pytest.mark.parametrize("case", ["gpt2", "bert", "phi"])
def test_a_part_is_what_its_removal_takes_from_the_frozen_model(case):
    """A token's embedding replaced, a head's output left out, a layer's biases left out."""
    model, ids = modelzoo.model(case), modelzoo.inputs(case, batch=1)
    report = av.inspect(model, ids, scalar={"coordinate": 3, "at": 6})
    found = trace(model, ids)
    X, off = found.input, 400 * 1000 * 2.0**-53
    whole = frozen(found, X)
    for row in report.scalar_tokens[:-2]:
        other = X.clone()
        other[:, row["token"] - 1] *= -0.5
        want = (whole - frozen(found, other)) / 1.5
        assert row["value"] == pytest.approx(want, abs=off)
    for layer, row in zip(found.layers, report.scalar_layers[1:], strict=False):
        written = {"attention": 0.0, "mlp": 0.0}
        for number, block in enumerate(layer.blocks):
            rest = [
                *layer.blocks[number:],
                *(b for f in found.layers[layer.number :] for b in f.blocks),
            ]
            for branch in block.branches:
                y = sent(
                    [each for b in rest for each in maps_of(b.after)], branch.steps[-1].seen, False
                )
                value = float(sent(maps_of(found.final), y, False)[0, 5, 3])
                written["attention" if branch.attention else "mlp"] += value
        for name, value in written.items():
            assert row[name] == pytest.approx(value, abs=off)
    for row in report.scalar_heads:
        want = whole - frozen(found, X, cut=(row["layer"], row["head"]))
        assert row["through"] == pytest.approx(want, abs=off)
    for row in report.scalar_layers[1:-2]:
        want = whole - frozen(found, X, without=row["layer"])
        assert row["biases_all"] == pytest.approx(want, abs=off)


def wrong_transpose(kind, change):
    def patch(monkeypatch):
        right = kind.transposed
        monkeypatch.setattr(kind, "transposed", lambda self, g: change(self, g, right))

    return patch


def wrong_method(name, change):
    def patch(monkeypatch):
        right = getattr(scalar.Sweep, name)
        monkeypatch.setattr(scalar.Sweep, name, lambda self, *given: change(right, self, *given))

    return patch


def without_biases(right, self, what, found, kinds):
    right(self, what, found * (what != "biases"), kinds)


def without_rounding(right, self, what, found, kinds):
    right(self, what, found * (what != "rounding"), kinds)


def a_head_twice(right, self, *given):
    right(self, *given)
    self.tallies["direct"].sources.append(self.heads[0]["direct"])


MISTAKES = {
    "a map off by 2^-30": wrong_transpose(Dense, lambda s, g, f: f(s, g) * (1 + 2.0**-30)),
    "a gate left out": wrong_transpose(Gate, lambda s, g, f: g),
    "a norm's scale left out": wrong_transpose(Norm, lambda s, g, f: f(replace(s, scale=1.0), g)),
    "attention the other way": wrong_transpose(
        Mix, lambda s, g, f: f(replace(s, P=s.P.mT.contiguous()), g)
    ),
    "no biases": wrong_method("_add", without_biases),
    "a head twice": wrong_method("_heads", a_head_twice),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_decomposition_is_caught(mistake, monkeypatch):
    model, ids = modelzoo.model("bert"), modelzoo.inputs("bert", batch=1)
    MISTAKES[mistake](monkeypatch)
    with pytest.raises(ReconstructionError, match="number, by"):
        av.inspect(model, ids, scalar={"coordinate": 3})


def test_roundings_of_float32_are_a_part_of_their_own(monkeypatch):
    """In float64 Llama's norms round to float32; without that part the sums are off."""
    model, ids = headed("llama", LOGIT), modelzoo.inputs("llama", batch=1)
    report = av.inspect(model, ids, scalar=DIFFERENCE)
    assert 0 < abs(report.scalar_lengths[-1]["value"]) < 1e-5
    wrong_method("_add", without_rounding)(monkeypatch)
    with pytest.raises(ReconstructionError, match="number, by length"):
        av.inspect(model, ids, scalar=DIFFERENCE)


def test_brief_and_whole_reports_agree_and_without_a_choice_nothing_is_kept():
    model, ids = headed("gpt2", LOGIT), modelzoo.inputs("gpt2", batch=1)
    whole, brief = (av.inspect(model, ids, scalar=OWN, brief=b) for b in (False, True))
    assert whole.scalar == brief.scalar and whole.scalar_heads == brief.scalar_heads
    bare, short = (av.inspect(model, ids, brief=b) for b in (False, True))
    assert brief.lengths == short.lengths and whole.lengths == bare.lengths
    body = bare.as_json()
    assert not [name for name in (*body, *body["columns"]) if name.startswith("scalar")]
    assert bare.proof["steps"] < whole.proof["steps"]
    assert (
        Findings(
            **{
                k: body[k]
                for k in (
                    "model",
                    "inputs",
                    "proof",
                    "lengths",
                    "layers",
                    "heads",
                    "rollout",
                    "notes",
                )
            }
        ).scalar
        is None
    )


def test_padding_gives_nothing_and_the_last_real_token_is_taken():
    model, ids = headed("bert", MASKED), modelzoo.inputs("bert", batch=1)
    padded = torch.cat([ids, torch.zeros(1, 2, dtype=torch.long)], -1)
    mask = torch.ones_like(padded)
    mask[:, 7:] = 0
    given = {"input_ids": padded, "attention_mask": mask}
    report = av.inspect(model, given, scalar={"logit": 4})
    alone = av.inspect(model, ids, scalar={"logit": 4})
    assert report.scalar["position"] == 7
    assert report.scalar["value"] == pytest.approx(alone.scalar["value"], abs=2.0**-40)
    assert [row["value"] for row in report.scalar_tokens[7:9]] == [0.0, 0.0]
    with pytest.raises(InputError, match="scalar: got at 8, expected a position of the text"):
        av.inspect(model, given, scalar={"logit": 4, "at": 8})


REFUSED = [
    ("gpt2", LOGIT, {"logit": 5, "class": 1}, "got logit and class"),
    ("gpt2", LOGIT, {}, "got none of them"),
    ("gpt2", LOGIT, {"logit": "Paris"}, "the token 'Paris' for a module"),
    ("gpt2", LOGIT, {"logit": 23}, r"got logit \[23\], expected numbers from 0 to 22"),
    ("gpt2", LOGIT, {"logit": 5, "at": 8}, "got at 8, expected a position of the text, from 1 to"),
    ("gpt2", LOGIT, {"logit": 5, "at": 0}, "got at 0, expected a position from 1"),
    ("gpt2", LOGIT, {"logit": 5, "against": 5}, "against itself"),
    ("gpt2", LOGIT, {"logit": 5, "aginst": 6}, "did you mean 'against'"),
    ("gpt2", LOGIT, {"logit": 1.5}, "got logit 1.5, expected a whole number or a name"),
    ("gpt2", LOGIT, {"class": 1}, "got class for GPT2LMHeadModel, which has no such head"),
    ("gpt2", "AutoModel", {"logit": 1}, "got logit for GPT2Model, which has no such head"),
    ("gpt2", "AutoModel", {"coordinate": 15}, r"got coordinate \[15\], expected numbers from 0"),
    ("gpt2", "AutoModel", {"coordinate": "3"}, "got coordinate '3', expected a whole number"),
    ("bert", CLASS, {"class": "joy"}, "got class 'joy', expected one of"),
    ("bert", CLASS, {"class": 1, "at": 2}, "got at 2 for a head that reads a token of its own"),
]


@pytest.mark.parametrize(("case", "auto", "choice", "message"), REFUSED)
def test_wrong_choices_are_refused(case, auto, choice, message):
    with pytest.raises(InputError, match=f"^scalar: .*{message}"):
        av.inspect(headed(case, auto), modelzoo.inputs(case, batch=1), scalar=choice)


def test_one_text_at_a_time():
    with pytest.raises(InputError, match="inputs: got 2 texts, expected one"):
        av.inspect(modelzoo.model("bert"), modelzoo.inputs("bert"), scalar={"coordinate": 1})


def test_heads_that_do_something_else_are_refused():
    """A soft cap behind the last map; a mean over tokens in front of the first."""
    model, ids = headed("gpt2", LOGIT), modelzoo.inputs("gpt2", batch=1)
    forward = type(model).forward

    class Capped(type(model)):
        def forward(self, *args, **kwargs):
            out = forward(self, *args, **kwargs)
            out.logits = 3 * torch.tanh(out.logits / 3)
            return out

    model.__class__ = Capped
    with pytest.raises(InputError, match="a head that changes what its last linear map gives"):
        av.inspect(model, ids, scalar=OWN)

    other = headed("distilbert", CLASS)
    last = {}  # under 0, what the head gets
    other.distilbert.register_forward_hook(lambda m, args, out: last.update({0: out[0]}))
    other.pre_classifier.register_forward_pre_hook(lambda m, args: (last[0].mean(1),))
    with pytest.raises(InputError, match="a head that reads no single token"):
        av.inspect(other, modelzoo.inputs("distilbert", batch=1), scalar={"class": 0})


def test_another_head_than_the_one_that_ran_is_caught(monkeypatch):
    class Wrong(Dense):
        def __init__(self, weight, bias):
            super().__init__(weight * (1 + 2.0**-40), bias)

    monkeypatch.setattr(chosen, "Dense", Wrong)
    with pytest.raises(ReconstructionError, match="number, head"):
        av.inspect(headed("gpt2", LOGIT), modelzoo.inputs("gpt2", batch=1), scalar=OWN)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of a classifier with names, a masked and a causal language model, all of WORDS."""
    root = tmp_path_factory.mktemp("headed")
    size = {"vocab_size": len(modelzoo.WORDS)}
    labels = {"id2label": {0: "dull", 1: "bright", 2: "odd"}}
    for name, case, auto, more in (
        ("class", "bert", CLASS, labels),
        ("masked", "bert", MASKED, {}),
        ("causal", "gpt2", LOGIT, {}),
    ):
        headed(case, auto, **size, **more).save_pretrained(root / name)
        (root / name / "vocab.txt").write_text("\n".join(modelzoo.WORDS) + "\n")
    return root


@pytest.mark.parametrize(
    ("case", "auto"),
    [("xlm-roberta", MASKED)]
    + [(c, LOGIT) for c in ("gemma", "gemma2", "gemma3", "olmo2", "opt", "phi3")]
    + [("opt, norms after, narrow", LOGIT)],
)
def test_a_folder_gives_what_the_module_gives(case, auto, tmp_path):
    model, ids = headed(case, auto), modelzoo.inputs(case, batch=1)
    model.save_pretrained(tmp_path)
    # Gemma's scale of embeddings is no weight; it is rounded to the dtype it is read in.
    model = type(model).from_pretrained(tmp_path, dtype=torch.float64)
    found, want = (av.inspect(each, ids, scalar=OWN) for each in (tmp_path, model))
    assert found.scalar == want.scalar and found.lengths == want.lengths
    assert av.inspect(tmp_path, ids).lengths == av.inspect(model, ids).lengths


def test_folders_know_their_tokens_and_classes(folders, tmp_path):
    text = "the paths are short"
    report = av.inspect(folders / "class", text=text, scalar={"class": "bright", "against": "dull"})
    assert report.scalar["name"] == "logit of class 'bright' (#1) minus 'dull' (#0)"
    assert report.scalar["word"] == report.scalar_tokens[0]["word"] == "[CLS]"
    assert {each["name"] for each in report.scalar["top"]} == {"dull", "bright", "odd"}
    same = av.inspect(folders / "class", text=text, scalar={"class": "1", "against": "#0"})
    assert same.scalar == report.scalar
    report = av.inspect(folders / "causal", text=text, scalar={"logit": "path"})
    assert report.scalar["name"] == "logit of token 'path' (#6)"
    assert report.scalar["of"] == "next tokens" and len(report.scalar["top"]) == 5
    report = av.inspect(folders / "masked", text=text, scalar={"logit": "##s", "at": 4})
    assert report.scalar["word"] == "##s" and report.scalar["of"] == "tokens"
    for name, choice, message in (
        ("masked", {"logit": "paths"}, "got 'paths', which is no token"),
        ("masked", {"logit": "xyz"}, "got 'xyz', which is no token"),
        ("masked", {"class": 1}, "got no .*, expected the weights of Bert.*'s head"),
        ("class", {"logit": "path"}, "got no .*, expected the weights of Bert.*'s head"),
        ("class", {"class": "brigth"}, "did you mean 'bright'"),
    ):
        with pytest.raises(InputError, match=message):
            av.inspect(folders / name, text=text, scalar=choice)


def test_the_command_takes_a_number_apart(folders, tmp_path):
    from typer.testing import CliRunner

    from attnverify.cli import app

    (tmp_path / "text.txt").write_text("the paths are short")
    call = ["inspect", str(folders / "class"), "--text", str(tmp_path / "text.txt")]
    done = CliRunner().invoke(app, [*call, "--class", "bright", "--json"])
    assert done.exit_code == 0 and "\"logit of class 'bright' (#1)\"" in done.stdout
    for more in (["--class", "bright", "--logit", "path"], ["--at", "2"]):
        done = CliRunner().invoke(app, [*call, *more])
        assert done.exit_code != 0
    done = CliRunner().invoke(app, [*call, "--coordinate", "3", "--against", "5", "--json"])
    assert done.exit_code == 0 and "coordinate 3 minus 5 of the last hidden state" in done.stdout
    for more, message in (
        (["--at", "2"], "number: got --at, expected one of --logit, --class, --coordinate"),
        (["--class", "1", "--logit", "2"], "got --logit and --class, expected one of --logit"),
        (["--coordinate", "3", "--against", "x"], "against: got 'x', expected another coordinate"),
        (["--class", "1", "--at", "2"], "class: got at 2 for a head that reads a token of its own"),
    ):
        found = CliRunner().invoke(app, [*call, *more])
        assert message in str(found.exception), found.exception


def test_frames(monkeypatch):
    model, ids = modelzoo.model("bert"), modelzoo.inputs("bert", batch=1)
    report = av.inspect(model, ids, scalar={"coordinate": 1}, paths=2)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name, columns in TABLES.items():
        rows = report.frame(name)
        assert len(rows) == len(getattr(report, name)) > 0
        assert all(list(row) == list(columns) for row in rows)
    with pytest.raises(InputError, match="name: got 'head' .*'heads'.*, expected one of lengths"):
        report.frame("head")
    monkeypatch.undo()
    fake = ModuleType("pandas")
    fake.__spec__ = ModuleSpec("pandas", None)
    fake.DataFrame = lambda rows, columns: ("a frame", len(rows), columns)
    monkeypatch.setitem(sys.modules, "pandas", fake)
    assert report.frame("heads") == ("a frame", 6, list(TABLES["heads"]))


def saved(folder, model, **tensors):
    """A folder with a model and more tensors."""
    from safetensors.torch import load_file, save_file

    model.save_pretrained(folder)
    file = folder / "model.safetensors"
    save_file({**load_file(file), **tensors}, file, metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("case", ["llama", "mistral", "qwen2", "qwen3", "phi"])
def test_tensors_of_the_used_head_must_be_explained(case, tmp_path):
    """A classifier of tokens has a bias that a classifier of texts lacks."""
    model, ids = headed(case, CLASS.replace("Sequence", "Token")), modelzoo.inputs(case, batch=1)
    folder = saved(tmp_path, model)
    with pytest.raises(InputError, match=r"1 tensors in .* does not explain: \['score.bias'\]"):
        av.inspect(folder, ids, scalar={"class": 1})
    assert av.inspect(folder, ids, scalar={"coordinate": 1}).scalar["position"] == 7


def test_tensors_of_other_heads_may_be_there(tmp_path):
    ids = modelzoo.inputs("bert", batch=1)
    pair = headed("bert", "AutoModelForPreTraining")
    report = av.inspect(saved(tmp_path / "a", pair), ids, scalar={"logit": 4})
    assert report.scalar["of"] == "tokens"
    more = {"cls.predictions.bias": torch.ones(23), "classifier.scale": torch.ones(1).char()}
    folder = saved(tmp_path / "b", headed("bert", CLASS), **more)
    with pytest.raises(InputError, match="got 'classifier.scale' of I8"):
        av.inspect(folder, ids, scalar={"class": 1})
    assert av.inspect(folder, ids, scalar={"coordinate": 1}).scalar["position"] == 7


@pytest.mark.parametrize(("case", "pad"), [("gpt2", 2), ("llama", 2), ("gpt2", 22), ("bert", 0)])
def test_a_folder_reads_the_token_that_its_module_reads(case, pad, tmp_path):
    """A classifier behind a causal model reads the last token that is no padding token."""
    model = headed(case, CLASS, pad_token_id=pad)
    ids = torch.tensor([[5, 6, 7, 2, 2]])
    module, folder = (
        av.inspect(m, ids, scalar={"class": 1}, dtype="float64")
        for m in (model, saved(tmp_path, model))
    )
    assert module.scalar == folder.scalar
    assert module.scalar["position"] == {"bert": 1, "gpt2": 3 if pad == 2 else 5}.get(case, 3)


def test_of_equal_tokens_the_one_that_the_head_reads_is_named():
    """Without positions equal ids are equal tokens; the class tells, another class does not."""
    model, ids = headed("bert", CLASS), torch.tensor([[5, 5, 5, 5]])
    torch.nn.init.zeros_(model.bert.embeddings.position_embeddings.weight)
    assert av.inspect(model, ids, scalar={"class": 1}).scalar["position"] == 1
    model.__class__ = type("Own", (type(model),), {})
    with pytest.raises(InputError, match="a head that read one of . equal tokens"):
        av.inspect(model, ids, scalar={"class": 1})
    assert av.inspect(model, modelzoo.inputs("bert", batch=1), scalar={"class": 1}).scalar


class Between(torch.nn.Module):
    """Two maps with a function of both sides of the first between them."""

    def __init__(self, width, between):
        super().__init__()
        self.a, self.b = torch.nn.Linear(width, width), torch.nn.Linear(width, 3)
        self.between = between

    def forward(self, x):
        return self.b(self.between(x, self.a(x)))


BETWEEN = {
    "a sum": (lambda x, y: x + y, False),
    "a sigmoid": (lambda x, y: torch.sigmoid(y) + 7, False),
    "a scale": (lambda x, y: 2 * y, False),
    "gelu": (lambda x, y: torch.nn.functional.gelu(y), True),
    "nothing": (lambda x, y: y, True),
}


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("case", ["bert", "gpt2"])
def test_between_two_maps_of_a_head_there_is_an_activation_that_is_0_at_0(case, name):
    between, good = BETWEEN[name]
    model, ids = headed(case, CLASS, num_labels=3), modelzoo.inputs(case, batch=1)
    part = "classifier" if case == "bert" else "score"
    setattr(model, part, Between(getattr(model, part).in_features, between))
    if good:
        assert av.inspect(model, ids, scalar={"class": 1}).scalar["name"].startswith("logit")
        return
    with pytest.raises(InputError, match="scalar: got a head with more than an activation"):
        av.inspect(model, ids, scalar={"class": 1})


def test_the_bound_of_a_step_is_the_derived_one():
    """By hand, K = 3 m + 2 (n + d) + 8: a map of 4 to 3 entries, attention with grouped keys."""
    n, unit, v = 2, 2.0**-24, 2.0**-53
    P = torch.full((1, 4, n, n), 0.5, dtype=torch.float64)
    W = torch.arange(1.0, 13.0, dtype=torch.float64).reshape(4, 3)
    for each, width, out, m, K in (
        (Dense(W), 4, 3, 5, 3 * 5 + 2 * (n + 4) + 8),
        (Mix(P, 2), 4, 8, 4, 3 * 4 + 2 * (n + 8) + 8),  # each key is read by 2 heads of 2 rows
    ):
        x, g = torch.ones(1, n, width).double(), torch.ones(3, 1, n, out).double()
        y = each.linear(x)
        sweep = scalar.Sweep(g)
        sweep.steps([Step("a step", [each], y, unit)], x)
        tally = sweep.tallies["skip"]
        assert tally.ours[0] == pytest.approx(
            float(gamma(float(K), v) * 2 * y.sum()), rel=1e-9, abs=0.0
        )
        theirs = float(gamma(each.roundings, unit) * y.sum())
        assert tally.theirs == pytest.approx([theirs], rel=1e-9, abs=0.0) and m >= each.roundings
        tally.sources.append(1.0)
        assert tally.bound == pytest.approx(2 * sum(tally.ours) + 5 * v, rel=1e-9, abs=0.0)


def test_a_map_that_is_not_the_models_is_refused_though_the_parts_add_up():
    """Another bias moves a part into the rounding, 1000 times what that may be of the step.

    The check allows the rounding of all steps and blocks together, and of what is computed here,
    so one step must be off by far more than its own.
    """
    model, ids = modelzoo.model("gpt2"), modelzoo.inputs("gpt2", batch=1)
    found = trace(model, ids)
    weights = torch.zeros(found.output.shape[-1]).double()
    weights[3] = 1
    number = scalar.Number(found.output, 6, [], weights)
    sums = [f"number, by {name}" for name in ("length", "token", "head", "layer")]
    places = [each.place for each in scalar.decompose(found.layers, found.final, number).checks]
    assert set(sums) <= set(places)
    steps = found.layers[-1].blocks[-1].branches[-1].steps
    (dense,) = steps[-1].maps
    g = found.final[-1].transposed(weights.expand(1, 7, -1))[0, 6]
    size = steps[-1].size(steps[-2].seen.abs())[0, 6]
    delta = 1000 * gamma(steps[-1].roundings, steps[-1].unit) * size * g.sign()
    steps[-1] = replace(steps[-1], maps=[Dense(dense.weight, dense.bias + delta)])
    with pytest.raises(ReconstructionError, match="number, by .*, rounding"):
        scalar.decompose(found.layers, found.final, number)

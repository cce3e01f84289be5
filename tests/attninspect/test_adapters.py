"""Adapters from outside: registered, found in packages, refused where they are wrong."""

import json
import runpy
import sys
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from transformers import AttentionInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import attnverify as av
import modelzoo
from attninspect import families, page
from attninspect.modules import COARSE_NOTE
from attninspect.reconstruction import ReconstructionError
from attnverify import InputError
from places import ROOT

EXAMPLE = ROOT / "book" / "examples" / "own_model.py"


@pytest.fixture
def table():
    """The families, as they were again after the test."""
    with patch.dict(families.FAMILIES):
        yield families.FAMILIES


@pytest.fixture
def example(table):
    """What the example of the page defines."""
    return runpy.run_path(str(EXAMPLE))


def test_the_example_of_the_page(example):
    page = (ROOT / "book" / "inspect.md").read_text(encoding="utf-8")
    assert "{literalinclude} examples/own_model.py" in page
    report, model = example["report"], example["Model"]()
    assert report.proof["largest_error_over_bound"] <= 1 and report.proof["deciding_nothing"] == 0
    assert report.model["family"] == "own" and len(report.heads) == 4
    X = model.embedding(torch.tensor([[3, 4, 5]]))
    model.embedding = nn.Identity()  # embeddings in
    assert av.inspect(model, X).model["width"] == 8


def test_a_wrong_scale_names_the_step(example):
    """What the page says of ``scale=0.4``; a norm left out is an error of its own step."""
    good = example["own"]

    def changed(model, **fields):
        architecture = good(model)

        def blocks(layer):
            first, second = architecture.blocks(layer)
            ((norm, body),) = first.branches
            norm = None if "norm" in fields else norm
            body = replace(body, scale=fields.get("scale", body.scale))
            return [replace(first, branches=[(norm, body)]), second]

        return replace(architecture, blocks=blocks)

    av.adapter("own", replace=True)(lambda model: changed(model, scale=0.4))
    with pytest.raises(ReconstructionError, match="^layer 1, scores: the adapter is not this"):
        av.inspect(example["Model"](), [3, 4, 5])
    av.adapter("own", replace=True)(lambda model: changed(model, norm=None))
    with pytest.raises(ReconstructionError, match="^layer 1, block 1, values: the adapter is not"):
        av.inspect(example["Model"](), [3, 4, 5])


def test_names_that_are_taken(table):
    with pytest.raises(InputError, match="^model_type: got 'llama', which has an adapter"):
        av.adapter("llama")
    mine = av.adapter("llama", replace=True)(lambda model: None)
    assert table["llama"] is mine
    for wrong in (None, "", 3):
        with pytest.raises(InputError, match="^model_type: got"):
            av.adapter(wrong)
    with pytest.raises(InputError, match="^model: got None from the adapter of 'llama', exp"):
        av.inspect(modelzoo.model("llama"), [3, 4])


def test_an_architecture_without_layers_or_attention_is_refused(example, table):
    def changed(**fields):
        av.adapter("own", replace=True)(lambda model: replace(example["own"](model), **fields))

    changed(layers=[])
    with pytest.raises(InputError, match="^model: got an Architecture without layers, expected"):
        av.inspect(example["Model"](), [3, 4, 5])
    changed(blocks=lambda layer: example["own"](example["Model"]()).blocks(layer)[1:])
    for run in (av.inspect, av.trace):
        with pytest.raises(InputError, match="^model: got a layer without attention, expected"):
            run(example["Model"](), [3, 4, 5])


def test_a_module_without_a_configuration_is_told_what_to_do(table):
    with pytest.raises(InputError, match=r"Linear without config.model_type, .*@av.adapter\("):
        av.inspect(nn.Linear(2, 2), torch.ones(1, 2))
    model = nn.Linear(2, 2)
    model.config = SimpleNamespace(model_type="unheard")
    with pytest.raises(InputError, match=r"got model_type 'unheard' in Linear, .*@av.adapter\("):
        av.inspect(model, torch.ones(1, 2))


def test_a_package_brings_an_adapter(example, table, tmp_path, monkeypatch):
    """Found by the name of its entry point, when it is needed; two of a name are refused."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text("def adapter(model):\n    return None\n")
        made = tmp_path / name / f"{name}-1.dist-info"
        made.mkdir()
        (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        points = f"[attnverify.adapters]\nfrom_outside = {name}:adapter\n"
        (made / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path / "one"))
    assert "from_outside" not in table
    import one

    one.adapter = example["own"]
    model = example["Model"]()
    model.config.model_type = "from_outside"
    assert av.inspect(model, [3, 4, 5]).model["family"] == "from_outside"
    assert table.pop("from_outside") is one.adapter
    monkeypatch.syspath_prepend(str(tmp_path / "two"))
    with pytest.raises(InputError, match=r"from several packages \(one, two\), expected one"):
        av.inspect(model, [3, 4, 5])
    sys.modules.pop("one")


def test_a_folder_of_another_family_is_read_with_an_adapter_of_ones_own(table, tmp_path):
    """Where transformers has a class for it, which is all that is run."""
    transformers = pytest.importorskip("transformers")
    config = transformers.Data2VecTextConfig(**modelzoo.SMALL)
    model = modelzoo.shaken(transformers.AutoModel.from_config(config))
    model.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="'data2vec-text' in config.json, .*; a module of"):
        av.inspect(tmp_path, [3, 4])
    av.adapter("data2vec-text")(table["bert"])
    assert av.inspect(tmp_path, [3, 4]).lengths == av.inspect(model, [3, 4]).lengths
    av.adapter("own_of_a_folder")(table["bert"])
    (tmp_path / "config.json").write_text('{"model_type": "own_of_a_folder"}')
    with pytest.raises(InputError, match="^model: got config.json, which does not load"):
        av.inspect(tmp_path, [3, 4])


class Linear4bit(nn.Linear):
    """A map with two weights in a byte."""


def packed(model):
    part = model.layers[1].mlp.up_proj
    part.__class__ = Linear4bit
    part.weight = nn.Parameter(torch.zeros(102, 1, dtype=torch.uint8), requires_grad=False)
    return model


def of_torch(model):
    """As in torch.ao.nn.quantized, where the weight is a method."""
    part = model.layers[1].mlp.up_proj
    del part.weight
    part.weight = lambda: torch.zeros(17, 12)
    return model


def of_gptq(model):
    model.layers[1].mlp.up_proj.qweight = torch.zeros(2, 2, dtype=torch.int32)
    return model


@pytest.mark.parametrize(
    ("make", "kind"), [(packed, "Linear4bit"), (of_torch, "Linear"), (of_gptq, "Linear")]
)
def test_quantized_weights_are_refused_with_what_to_do(make, kind):
    said = f"^model: got layers.1.mlp.up_proj, a {kind} with quantized weights, expected full prec"
    with pytest.raises(InputError, match=said):
        av.inspect(make(modelzoo.model("llama")), [3, 4])


def test_a_report_in_bfloat16(tmp_path):
    """Of a module and of a folder, with the note; a folder of float32 is not rounded."""
    model = modelzoo.model("llama")
    model.save_pretrained(tmp_path / "single")
    with pytest.raises(InputError, match="^dtype: got bfloat16 for weights of float32, expected"):
        av.inspect(tmp_path / "single", [3, 4, 5], dtype="bfloat16")
    model = modelzoo.loaded(model, tmp_path / "half")
    found = av.inspect(tmp_path / "half", [3, 4, 5], dtype="bfloat16")
    for report in (found, av.inspect(model, [3, 4, 5], dtype=None)):
        assert report.model["dtype"] == "bfloat16" and COARSE_NOTE in report.notes
        assert report.lengths == found.lengths and COARSE_NOTE in str(report)
    shares = [row["share"] for row in found.lengths]
    # Sums of 12 * 3 products in float64, of parts up to 60 times the output.
    assert abs(sum(shares) - 1) <= 60 * 36 * 2.0**-52


@pytest.mark.parametrize(
    ("stored", "said"),
    [("bfloat16", None), ("bfloat16", "float32"), ("float32", None), ("bfloat16", "bfloat16")],
)
def test_without_a_dtype_a_folder_runs_as_transformers_loads_it(stored, said, tmp_path):
    model = modelzoo.model("llama").to(getattr(torch, stored))
    model.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "dtype": said}))
    own = type(model).from_pretrained(tmp_path)
    report = av.inspect(tmp_path, [3, 4, 5], dtype=None, scalar={"coordinate": 3})
    names = report.model["dtype"], report.model["stored"]
    assert names == (str(own.dtype).removeprefix("torch."), stored)
    with torch.no_grad():
        value = float(own(torch.tensor([[3, 4, 5]])).last_hidden_state[0, -1, 3])
    assert report.scalar["as_given"] == value
    assert f"run in {names[0]} (weights in {stored})" in page.page(report)


@pytest.mark.parametrize("case", modelzoo.CASES)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_number_that_is_called_the_models_own_is(case, implementation):
    """To the last bit, in the attention that the model came with, which the report names."""
    model, ids = modelzoo.model(case).double(), modelzoo.inputs(case, batch=1)
    if implementation == "sdpa" and case.startswith(("bloom", "gemma2", "gpt_oss")):
        return  # has eager attention alone
    model.set_attn_implementation(implementation)
    if case.startswith("falcon"):  # whose setter does nothing
        model.config._attn_implementation = implementation
    with torch.no_grad():
        own = model(ids.double() if case == "vit" else ids).last_hidden_state[0, -1, 3]
    report = av.inspect(model, ids, scalar={"coordinate": 3}, brief=True)
    assert report.scalar["as_given"] == float(own)
    assert report.model["attention_as_given"] == implementation
    # Two forward passes: 120 roundings a layer as in test_models_trace, of float32 inside.
    off = abs(report.scalar["value"] - float(own))
    assert off <= (implementation == "sdpa") * 2 * 120 * 4 * 2.0**-24 * 10


def halved(module, query, *rest, **more):
    """An attention whose scores are half as large."""
    return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query / 2, *rest, **more)


def nowhere(*given, **more):
    raise RuntimeError("no kernel for this device")


@pytest.mark.parametrize(("attention", "said"), [(halved, "the number is"), (nowhere, "it does")])
def test_attention_that_is_another_or_does_not_run_here_is_said(attention, said):
    AttentionInterface.register(attention.__name__, attention)
    model, ids = modelzoo.model("bert").double(), torch.tensor([[3, 4, 5]])
    model.set_attn_implementation(attention.__name__)
    report = av.inspect(model, ids, scalar={"coordinate": 3})
    own = float(model(ids).last_hidden_state[0, -1, 3].detach()) if attention is halved else None
    assert report.scalar["as_given"] == own != report.scalar["value"]
    start = f"with {attention.__name__} attention, as the model came, "
    assert start + said in str(report)
    assert start in str(av.inspect(model, ids))


# ---------------------------------------------------------------- wrappers and weights


class Adapted(nn.Module):
    """As PEFT has it: a map beside the base layer."""

    __module__ = "peft.tuners.lora.layer"

    def __init__(self, base):
        super().__init__()
        self.base_layer, self.lora_A = base, nn.Linear(base.in_features, 2)

    weight = property(lambda self: self.base_layer.weight)
    bias = property(lambda self: self.base_layer.bias)

    def forward(self, x):
        return self.base_layer(x)


class Wrapper(nn.Module):
    """As a model of PEFT."""

    __module__ = "peft.peft_model"

    def __init__(self, model):
        super().__init__()
        self.base_model = nn.ModuleDict({"model": model})

    def get_base_model(self):
        return self.base_model["model"]


def test_a_model_in_a_wrapper_is_that_model():
    """For a report with a number behind the head, and for a watch."""
    model, ids = modelzoo.headed("gpt2", "AutoModelForCausalLM"), torch.tensor([[3, 4, 5]])
    own = av.inspect(model, ids, scalar={"logit": 5}).scalar
    watched = av.Watch(model, every=1).step(0, ids).gauges()
    compiled = torch.compile(model, backend="eager")
    for wrapped in (compiled, nn.DataParallel(compiled)):
        assert (
            av.inspect(wrapped, {"input_ids": ids, "labels": ids}, scalar={"logit": 5}).scalar
            == own
        )
        assert torch.equal(av.trace(wrapped, ids).output, av.trace(model, ids).output)
        assert torch.equal(av.Watch(wrapped, every=1).step(0, ids).gauges(), watched)


@pytest.mark.parametrize("wrap", [Wrapper, lambda model: model])
def test_weights_with_an_adapter_beside_them(wrap):
    """A watch reads no weights, so a model with an adapter can be watched while it is trained."""
    model, ids = modelzoo.model("llama"), torch.tensor([[3, 4, 5]])
    part = model.layers[1].self_attn
    part.q_proj = Adapted(part.q_proj)
    for read in (av.inspect, av.trace, av.clip_scores):
        with pytest.raises(InputError, match=r"of peft .*model.merge_and_unload\(\)"):
            read(wrap(model), ids)
    assert av.Watch(wrap(model), every=1).step(0, ids).gauges().shape == (2, 6)


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated")
@pytest.mark.parametrize(
    "make",
    [
        nn.utils.weight_norm,
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.spectral_norm,
        lambda part: prune.random_unstructured(part, "weight", 0.5),
    ],
)
def test_weights_that_are_computed_are_refused_with_what_to_do(make):
    model = modelzoo.model("llama")
    make(model.layers[1].mlp.up_proj)
    said = "^model: got layers.1.mlp.up_proj, a .*Linear whose weight is computed.*remove_weight_n"
    with pytest.raises(InputError, match=said):
        av.inspect(model, [3, 4])


def test_a_folder_and_a_dtype_by_name_or_as_torch_has_it(tmp_path):
    model = modelzoo.saved_bert(tmp_path)
    for dtype in ("float32", torch.float32):
        expected = av.trace(model, [2, 5, 6, 3], dtype=dtype).output
        for given in ([2, 5, 6, 3], "the path"):
            assert torch.equal(av.trace(tmp_path, given, dtype).output, expected)
        assert av.inspect(str(tmp_path), "the path", dtype=dtype).model["dtype"] == "float32"
    with pytest.raises(InputError, match="^dtype: got 'float8', expected one of float32, float64"):
        av.trace(model, [3], dtype="float8")


def test_a_name_and_the_root_of_a_cache_are_told_what_to_do(tmp_path):
    for name in ("gpt2", "openai-community/gpt2"):
        with pytest.raises(InputError, match=rf"download a snapshot first: .*\('{name}'\)"):
            av.inspect(name, [3])
    root = tmp_path / "models--openai-community--gpt2"
    (root / "snapshots" / "607a30d").mkdir(parents=True)
    with pytest.raises(InputError, match="expected its snapshot .*/snapshots/607a30d$"):
        av.trace(root, [3])

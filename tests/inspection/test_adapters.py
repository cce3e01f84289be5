"""Adapters from outside: registered, found in packages, refused where they are wrong."""

import runpy
import sys
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from torch import nn

import attnverify as av
import modelzoo
from attnverify import InputError
from attnverify.inspection import families
from attnverify.inspection.forward import COARSE_NOTE
from attnverify.inspection.reconstruction import ReconstructionError
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


def test_a_folder_is_read_for_the_families_of_this_package_alone(table, tmp_path):
    av.adapter("own_of_a_folder")(lambda model: None)
    (tmp_path / "config.json").write_text('{"model_type": "own_of_a_folder"}')
    with pytest.raises(InputError, match="'own_of_a_folder' in config.json, .*; a module of"):
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
    with pytest.raises(InputError, match="^dtype: got bfloat16 .weights rounded from float32 to b"):
        av.inspect(tmp_path / "single", [3, 4, 5], dtype="bfloat16")
    model = model.to(torch.bfloat16)
    model.save_pretrained(tmp_path / "half")
    found = av.inspect(tmp_path / "half", [3, 4, 5], dtype="bfloat16")
    for report in (found, av.inspect(model, [3, 4, 5], dtype=None)):
        assert report.model["dtype"] == "bfloat16" and COARSE_NOTE in report.notes
        assert report.lengths == found.lengths and COARSE_NOTE in str(report)
    shares = [row["share"] for row in found.lengths]
    # Sums of 12 * 3 products in float64, of parts up to 60 times the output.
    assert abs(sum(shares) - 1) <= 60 * 36 * 2.0**-52

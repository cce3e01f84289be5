"""Families with a bias in their scores: what they add, from a folder too, and what is refused."""

import json

import pytest
import torch

import attnverify as av
import modelzoo
from attnverify import InputError
from attnverify.inspection import configuration

BIASED = ["bloom", "falcon, alibi", "t5"]


@pytest.mark.parametrize(
    "case", [*BIASED, "falcon", "falcon, grouped", "t5, gated", "mixtral", "gpt_oss"]
)
def test_a_folder_is_the_module(case, tmp_path):
    """Every figure of the report of a folder is that of the module that was saved there."""
    model, ids = modelzoo.model(case), modelzoo.inputs(case, batch=1)
    model.save_pretrained(tmp_path)
    found, expected = (av.inspect(each, ids) for each in (str(tmp_path), model))
    assert (found.lengths, found.layers) == (expected.lengths, expected.layers)


@pytest.mark.parametrize("case", BIASED)
def test_a_bias_is_a_position_in_the_scores(case):
    """The sharp theorem is about scores of tokens alone; the sum of the norms holds with any."""
    report = av.inspect(modelzoo.model(case), modelzoo.inputs(case, batch=1))
    for row in report.layers:
        assert "positions are in the scores (a bias)" in row["why_no_threshold"]
        assert row["threshold"] is None and row["factor"] <= row["bound"]


def test_of_t5_the_encoder_alone_is_read(tmp_path):
    """Published weights have a decoder and a head: they are left out, as that of the encoder."""
    import transformers

    config = transformers.T5Config(**modelzoo.CASES["t5"][1])
    model = modelzoo.shaken(transformers.T5ForConditionalGeneration(config))
    model.save_pretrained(tmp_path)
    ids = modelzoo.inputs("t5", batch=1)
    found, alone = av.inspect(str(tmp_path), ids), av.inspect(model.encoder, ids)
    assert found.lengths == alone.lengths
    words = "a decoder that attends to other tokens, expected its encoder"
    for whole in (model, model.decoder, transformers.T5Model(config)):
        with pytest.raises(InputError, match=f"^model: got {words}"):
            av.inspect(whole, ids)
    for choice in ({"logit": 3}, {"class": 0}):
        with pytest.raises(InputError, match="^scalar: got a head for the encoder of T5"):
            av.inspect(str(tmp_path), ids, scalar=choice)
    assert av.inspect(str(tmp_path), ids, scalar={"coordinate": 3}).scalar


def test_alibi_of_falcon_is_added_once():
    """As in its default attention. The visible one adds it in the mask and beside it."""
    model, ids = modelzoo.model("falcon, alibi").double(), modelzoo.inputs("falcon, alibi")
    heads = av.trace(model, ids).layers[0].heads
    # two slopes of 2^-4 and 2^-8 for two heads, and 2^-2 for the third (Press and others 2022)
    distance = torch.arange(7.0).double()
    slopes = torch.tensor([2.0**-4, 2.0**-8, 2.0**-2]).double()
    expected = slopes[:, None, None] * distance / 2  # over the root of the width of a head
    assert torch.equal(heads.bias, expected.expand(2, 3, 1, 7))


def written(case, **changes):
    name, options = modelzoo.CASES[case]
    family = {"BloomConfig": "bloom", "FalconConfig": "falcon"}[name]
    return {"model_type": family, **options, **changes}


def test_other_names_of_sizes():
    """Published configurations of BLOOM have n_embed, num_attention_heads."""
    body = written("bloom")
    width, heads = body.pop("hidden_size"), body.pop("n_head")
    other = {**body, "n_embed": width, "num_attention_heads": heads}
    assert configuration.cleaned(other) == configuration.cleaned(written("bloom"))
    with pytest.raises(InputError, match="^model: got n_embed 13 and hidden_size 12 in config"):
        configuration.cleaned(written("bloom", n_embed=13))


def test_products_without_their_biases_are_refused():
    with pytest.raises(InputError, match="^model: got slow_but_exact True in config.json"):
        configuration.cleaned(json.loads(json.dumps(written("bloom", slow_but_exact=True))))
    model = modelzoo.model("bloom", slow_but_exact=True, pretraining_tp=2)
    with pytest.raises(InputError, match="^model: got slow_but_exact with pretraining_tp > 1"):
        av.inspect(model, modelzoo.inputs("bloom"))

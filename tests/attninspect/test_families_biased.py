"""Families with a bias in their scores: what they add, from a folder too, and what is refused."""

import math

import pytest
import torch

import attnverify as av
import modelzoo
from attninspect import command, configuration
from attninspect.reconstruction import scores
from attnverify import InputError

BIASED = ["bloom", "falcon, alibi", "t5"]


OTHERS = ["falcon", "falcon, grouped", "t5, gated", "mixtral", "gpt_oss", "afmoe"]


@pytest.mark.parametrize("case", [*BIASED, *OTHERS])
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


@pytest.fixture(scope="module")
def sunk():
    """A report of attention with sinks, and its trace."""
    model, ids = modelzoo.model("gpt_oss"), modelzoo.inputs("gpt_oss", batch=1)
    return av.inspect(model, ids), av.trace(model, ids)


def test_rows_with_a_sink_add_up_to_less_than_one(sunk):
    """What the theorems need of rows fails, and each figure says so or is of a row over its sum."""
    report, traced = sunk
    sums = traced.layers[0].heads.P.sum(-1)
    assert (sums < 1).all() and (sums > 0).all()
    assert report.rollout is None and any("(sinks)" in note for note in report.notes)
    assert "No threshold and no bound at" in str(report)
    for row in report.layers:
        assert row["bound"] is None and row["threshold"] is None
        assert row["why_no_threshold"].endswith("rows of attention add up to less than 1 (a sink)")


def test_figures_of_heads_with_a_sink(sunk, tmp_path):
    """Entropies by the definition, of p_j / sum p; weights as they are; parts add up to 1."""
    report, traced = sunk
    for layer in traced.layers:
        rows = [row for row in report.heads if row["layer"] == layer.number]
        assert sum(row["part"] for row in rows) == pytest.approx(1, abs=2.0**-20)
        for row, P in zip(rows, layer.heads.P[0], strict=True):
            entropy, first = [], []
            for i, p in enumerate(P):
                keys = [j for j in range(7) if p[j] > 0]
                if len(keys) > 1:
                    q = [float(p[j] / p.sum()) for j in keys]
                    entropy.append(-sum(x * math.log(x) for x in q) / math.log(len(q)))
                if i > 0 and 0 in keys:
                    first.append(float(p[0]))
            assert row["entropy"] == pytest.approx(sum(entropy) / len(entropy), rel=2.0**-40)
            assert row["sink"] == pytest.approx(sum(first) / len(first), rel=2.0**-40)
            assert row["entropy_floor"] <= row["entropy"]
    assert {path.name for path in command.write(report, tmp_path)} >= {"inspect.html", "heads.csv"}


def test_one_more_key_of_value_zero_is_a_sink(sunk):
    """The weights of a row are those of n + 1 scores, one of them the sink's."""
    heads = sunk[1].layers[0].heads
    own = scores(heads)[0].masked_fill(heads.P == 0, -math.inf)
    added = heads.sinks[:, None, None].expand(1, 6, 7, 1)
    expected = torch.softmax(torch.cat([own, added], -1), -1)[..., :-1]
    assert (heads.P - expected).abs().max() <= 2.0**-40


def test_a_sink_has_no_gauge():
    with pytest.raises(InputError, match="^model: got attention with sinks, for which claim"):
        av.Watch(modelzoo.model("gpt_oss"))


@pytest.mark.parametrize("case", ["mixtral", "gpt_oss", "afmoe"])
def test_experts_in_another_kernel_are_the_same(case):
    """The default kernel computes all experts at once; a report runs them one by one."""
    model, ids = modelzoo.model(case), modelzoo.inputs(case, batch=1)
    expected = av.inspect(model, ids, dtype="float32")
    for kernel in ("grouped_mm", "batched_mm"):
        model.set_experts_implementation(kernel)
        found = av.inspect(model, ids, dtype="float32")
        assert found.lengths == expected.lengths
        assert model.config._experts_implementation == kernel  # the model itself is as it was


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


def test_alibi_of_falcon_is_added_as_often_as_its_attention_adds_it():
    """In its default attention; eager attention, where it was asked for, adds it twice."""
    model, ids = modelzoo.model("falcon, alibi").double(), modelzoo.inputs("falcon, alibi")
    # two slopes of 2^-4 and 2^-8 for two heads, and 2^-2 for the third (Press and others 2022)
    distance = torch.arange(7.0).double()
    slopes = torch.tensor([2.0**-4, 2.0**-8, 2.0**-2]).double()
    expected = slopes[:, None, None] * distance / 2  # over the root of the width of a head
    for implementation, times in (("sdpa", 1), ("eager", 2)):
        model.config._attn_implementation = implementation
        bias = av.trace(model, ids).layers[0].heads.bias
        seen = torch.ones(7, 7).tril().bool()
        assert torch.equal(bias[..., seen], times * expected.expand(2, 3, 7, 7)[..., seen])


def test_products_without_their_biases_are_refused():
    with pytest.raises(InputError, match="^model: got slow_but_exact True in config.json"):
        configuration.checked({"model_type": "bloom", "slow_but_exact": True})
    model = modelzoo.model("bloom", slow_but_exact=True, pretraining_tp=2)
    with pytest.raises(InputError, match="^model: got slow_but_exact with pretraining_tp > 1"):
        av.inspect(model, modelzoo.inputs("bloom"))

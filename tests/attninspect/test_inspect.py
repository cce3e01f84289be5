"""The report on a model: its figures against their definitions, its files, every bad input."""

import copy
import csv
import dataclasses
import io
import itertools
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import safetensors.torch
import torch
from markupsafe import escape
from safetensors.torch import save_file
from typer.testing import CliRunner

import attnverify as av
import modelzoo
from attninspect import absent, command, inspect_model, load, page, patterns
from attninspect import layers as measured_layers
from attninspect.columns import TABLES
from attninspect.command import ids_from
from attninspect.findings import dumps
from attninspect.forward import Subject, trace
from attninspect.inputs import Inputs
from attninspect.reconstruction import reconstruct
from attninspect.report import Report
from attninspect.shares import Rollout
from attnverify import cli
from attnverify.experiments.trained_models import folders
from attnverify.support.errors import InputError
from attnverify.support.typeset import numbers
from benchmarks.memory import peak_bytes
from places import ROOT


@pytest.fixture(scope="module")
def bert():
    return modelzoo.model("bert")


@pytest.fixture(scope="module")
def report(bert) -> Report:
    return av.inspect(bert, modelzoo.inputs("bert")[0])


@pytest.fixture
def folder(tmp_path, bert):
    bert.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(modelzoo.MORE_WORDS) + "\n")
    return tmp_path


# ---------------------------------------------------------------- figures


@pytest.mark.parametrize("case", ["bert", "llama", "gpt_neox", "vit"])
def test_shares_add_up_to_one(case):
    """Each share is a quotient of sums of at most 12 * 9 * 2 products of streams of order 1."""
    found = av.inspect(modelzoo.model(case), modelzoo.inputs(case))
    for name in ("share", "share_whole"):
        shares = [row[name] for row in found.lengths]
        limit = 2 * 12 * 9 * 2 * 2.0**-53 * sum(map(abs, shares)) * 4
        assert abs(sum(shares) - 1) <= limit
    assert [row["length"] for row in found.lengths] == [0, 1, 2, "biases", "rounding"]
    assert sum(row["paths"] for row in found.lengths[:3]) == (1 + found.model["heads"]) ** 2


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("gpt2", "some attention weights are zero (a mask, or underflow)"),
        (
            "llama",
            "some attention weights are zero (a mask, or underflow); "
            "positions are in the scores (rotary)",
        ),
        ("vit", None),
    ],
)
def test_a_threshold_only_where_its_hypotheses_hold(case, reason):
    found = av.inspect(modelzoo.model(case), modelzoo.inputs(case))
    for row in found.layers:
        assert row["why_no_threshold"] == reason
        assert (row["threshold"] is None) == (reason is not None)
        assert row["factor"] <= row["bound"] * (1 + 1e-9)


def test_without_a_threshold_the_bound_is_that_of_any_attention():
    """The sum of the norms of the heads' value maps, from the whole matrices."""
    model, tokens = modelzoo.model("llama"), modelzoo.inputs("llama")
    found, report = trace(model, tokens[0]), av.inspect(model, tokens[:1])
    for layer, row in zip(found.layers, report.layers, strict=True):
        v = torch.linalg.matrix_norm(layer.heads.W_V @ layer.heads.W_O, ord=2)
        assert row["bound"] == pytest.approx(float(v.sum()), rel=1e-9)


@pytest.mark.parametrize(
    ("case", "more"), [("llama", ""), ("qwen3", "; queries and keys are normalized")]
)
def test_one_token_sees_all_but_positions_are_in_the_scores(case, more):
    """A text of one token is full attention under any mask."""
    found = av.inspect(modelzoo.model(case), [5])
    reason = "positions are in the scores (rotary)" + more
    assert {row["why_no_threshold"] for row in found.layers} == {reason}
    assert found.layers[0]["nearest"] is None and found.heads[0]["entropy"] is None
    dumps(found)


def test_causal_rows_count_their_own_keys():
    """The first row of a causal mask has one key, and no entropy to speak of."""
    model, ids = modelzoo.model("gpt2"), modelzoo.inputs("gpt2")[:1]
    P = trace(model, ids).layers[0].heads.P[0, 0]
    rows = [-(p[: i + 1] * p[: i + 1].log()).sum() for i, p in enumerate(P)][1:]
    most = torch.arange(2, 8, dtype=torch.float64).log()
    expected = float((torch.stack(rows) / most).mean())
    assert av.inspect(model, ids).heads[0]["entropy"] == pytest.approx(expected)


def test_a_window_hides_the_first_token_and_the_weight_on_it():
    """Rows whose window hides it are none of those the mean is over; token 1 has no other key."""
    model, ids = modelzoo.model("mistral"), modelzoo.inputs("mistral", batch=1)
    found = trace(model, ids)
    rows = iter(av.inspect(model, ids).heads)
    for layer in found.layers:
        for P, row in zip(layer.heads.P[0].tolist(), rows, strict=False):
            assert all(P[i][0] == 0 for i in range(3, 7)), "a window of three tokens"
            # A mean of n numbers in [0, 1]: n roundings.
            assert row["sink"] == pytest.approx((P[1][0] + P[2][0]) / 2, abs=4 * 2.0**-53)
            own = sum(P[i][i] for i in range(1, 7)) / 6
            assert row["itself"] == pytest.approx(own, abs=8 * 2.0**-53)
    assert "from the others that see it" in TABLES["heads"]["sink"].meaning
    assert "all but the first" in TABLES["heads"]["itself"].meaning


def test_a_weight_that_underflows_is_one_of_zero_and_hides_nothing():
    """Where another head sees the token. Row 2 of the first head is all on one key: entropy 0."""
    P = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]]]).double()
    found = measured_layers._attention_of(P, sunk=False)
    assert torch.isnan(torch.stack([*found.values()])[..., 0]).all(), "token 1 sees one key"
    assert {name: values[:, 1].tolist() for name, values in found.items()} == {
        "entropy": [0.0, 1.0],
        "entropy_floor": [0.0, 1.0],
        "sink": [0.0, 0.5],
        "itself": [1.0, 0.5],
    }


def test_parts_of_single_tokens_are_the_output(bert):
    """Summed over input tokens, with the biases, they are the model."""
    found = trace(bert, modelzoo.inputs("bert")[:1])
    rollout, streams = Rollout.of(found.input), reconstruct(found)
    for layer in found.layers:
        rollout.advance(layer)
    whole = rollout.parts.sum(0) + streams.bias + streams.rest
    assert (whole - found.output).abs().max() <= 7 * 240 * 2.0**-53 * 10
    assert torch.allclose(rollout.product.sum(-1), torch.ones(7, dtype=torch.float64))
    compared = rollout.compared(list(found.final), 2.0**-53)
    assert -1 <= compared["rank_correlation"] <= 1 and 0 <= compared["same_top"] <= 1


def test_padding_does_not_enter(bert):
    """Figures of a padded text are those of the text alone."""
    ids = modelzoo.inputs("bert")[:1]
    alone = av.inspect(bert, ids)
    padded = torch.cat([ids, torch.zeros(1, 3, dtype=torch.long)], 1)
    mask = torch.tensor([[1] * 7 + [0] * 3])
    found = av.inspect(bert, {"input_ids": padded, "attention_mask": mask})
    assert found.inputs["padding"] == 3 and found.rollout is None
    for name in ("lengths", "layers", "heads"):
        for row, other in zip(getattr(found, name), getattr(alone, name), strict=True):
            for key, value in row.items():
                if isinstance(value, float) and row.get("length") != "rounding":
                    assert value == pytest.approx(other[key], rel=1e-6, abs=1e-9), key


def test_texts_of_a_batch_have_rows_of_their_own(bert):
    ids = modelzoo.inputs("bert")
    both = av.inspect(bert, ids)
    second = av.inspect(bert, ids[1])
    assert [(row["text"], row["layer"]) for row in both.layers] == [(1, 1), (2, 1), (1, 2), (2, 2)]
    for row, other in zip(both.layers[1::2], second.layers, strict=True):
        assert row["diameter"] == pytest.approx(other["diameter"], rel=1e-9)


def test_only_chosen_layers_are_reported(bert):
    found = av.inspect(bert, [3, 4, 5], layers=[2])
    assert {row["layer"] for row in found.layers + found.heads} == {2}
    assert len(found.lengths) == 5
    with pytest.raises(InputError, match=r"^layers: got \[3\], expected numbers from 1 to 2"):
        av.inspect(bert, [3, 4, 5], layers=[3])


@pytest.mark.parametrize("case", modelzoo.CASES)
@pytest.mark.parametrize("batch", [1, 2])
def test_brief_shares_are_those_of_the_streams(case, batch):
    """From the middle of the model, where half of the lengths of a path are still to come."""
    given = modelzoo.inputs(case, batch=batch)
    model = modelzoo.model(case)
    full, brief = (av.inspect(model, given, brief=each) for each in (False, True))
    assert [(r["length"], r["paths"]) for r in brief.lengths] == [
        (r["length"], r["paths"]) for r in full.lengths
    ]
    # sums of at most 2 * 12 * 9 products behind 240 roundings, of parts up to 60 times the output
    limit = 60 * (240 + 2 * 12 * 9) * 2.0**-53 * 4
    for row, other in zip(brief.lengths, full.lengths, strict=True):
        assert abs(row["share"] - other["share"]) <= limit
    assert abs(sum(row["share"] for row in brief.lengths) - 1) <= limit


def test_a_brief_report_has_the_same_shares_and_residuals(bert, report, tmp_path):
    brief = av.inspect(bert, modelzoo.inputs("bert")[0], brief=True)
    assert brief.proof["steps"] == report.proof["steps"]
    assert 0 < brief.proof["largest_error_over_bound"] <= 1
    same = ("layer", "residual", "residual_of_rest")
    residuals = [[row[name] for name in same] for row in report.layers]
    assert [[row[name] for name in same] for row in brief.layers] == residuals
    assert brief.heads == [] and brief.rollout is None
    assert all(
        set(row) == set(TABLES["layers"]) and row["diameter"] is None for row in brief.layers
    )
    assert "only shares and residuals were asked for" in str(brief)
    names = {path.name for path in command.write(brief, tmp_path)}
    assert {"lengths.csv", "layers.csv", "residual.svg", "inspect.html"} <= names
    assert not {"heads.csv", "sink.svg", "factor.svg"} & names


def test_torch_encoder_is_reported():
    found = av.inspect(modelzoo.encoder(), torch.randn(5, 12))
    assert found.model["family"] == "torch" and len(found.layers) == 2
    assert all(row["why_no_threshold"] is None for row in found.layers)


def test_float32_is_kept_if_asked(bert):
    found = av.inspect(bert, [3, 4, 5], dtype=None)
    assert found.model["dtype"] == "float32" and found.notes == ()
    assert 2.0**-30 < found.proof["rounding_of_output"] < 2.0**-18
    streams = reconstruct(trace(bert, [3, 4, 5], None))
    largest, rest = (float(x.abs().max()) for x in (streams.seen, streams.rest))
    assert found.proof["rounding_of_output"] == rest / largest


# ---------------------------------------------------------------- the report's forms


def test_page_stands_alone(report):
    whole = page.page(report)
    assert "http" not in whole.replace("http://www.w3.org/2000/svg", "")
    assert "prefers-color-scheme:dark" in whole and whole.count("<table>") == 3
    start, end = report._repr_html_().split(f"<p>{patterns.ELSEWHERE}</p>")
    assert start in whole and end in whole and 'id="patterns"' in whole
    assert escape(numbers(str(report).splitlines()[0])) in whole


@pytest.mark.browser
def test_tables_sort(report, tmp_path, browser):
    (tmp_path / "page.html").write_text(page.page(report), encoding="utf-8")
    for scheme in ("light", "dark"):
        view = browser.new_page(color_scheme=scheme, viewport={"width": 390, "height": 800})
        errors = []
        view.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        view.goto((tmp_path / "page.html").as_uri())
        assert view.evaluate("document.documentElement.scrollWidth") <= 390
        table = view.locator("table").nth(2)
        column = absent.shown(report.heads, TABLES["heads"]).index("value_norm")
        for order in (True, False):
            table.locator("th button").nth(column).click()
            cells = table.locator(f"tbody td:nth-child({column + 1})").all()
            values = [float(cell.get_attribute("data-n")) for cell in cells]
            assert values == sorted(values, reverse=order)
        assert errors == []
        view.close()


BOXES = """() => [...document.querySelectorAll(".figures svg")].map(svg => {
  const box = each => { const r = each.getBoundingClientRect();
    return [r.left, r.right, r.top, r.bottom]; };
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const texts = [...svg.querySelectorAll("text")];
  return {frame: box(svg), boxes: texts.map(box),
          sizes: texts.map(text => scale * parseFloat(getComputedStyle(text).fontSize))}; })"""


@pytest.mark.browser
@pytest.mark.parametrize(("width", "low"), [(390, -0.577), (390, -8.51e-05), (1280, -0.577)])
def test_letters_of_figures_are_readable_and_apart(report, tmp_path, browser, width, low):
    """As many lengths as twelve layers have, with the longest numbers at the axis."""
    names = [*range(13), "biases", "rounding"]
    lengths = [{"length": n, "share": low if n == "biases" else 0.549, "paths": 1} for n in names]
    many = dataclasses.replace(report, lengths=[row | {"share_whole": 0.0} for row in lengths])
    (tmp_path / "page.html").write_text(page.page(many), encoding="utf-8")
    view = browser.new_page(viewport={"width": width, "height": 800})
    view.goto((tmp_path / "page.html").as_uri())
    for drawn in view.evaluate(BOXES):
        assert min(drawn["sizes"]) >= 9
        left, right, top, bottom = drawn["frame"]
        for a in drawn["boxes"]:
            assert left <= a[0] and a[1] <= right and top <= a[2] and a[3] <= bottom + 1
        for a, b in itertools.combinations(drawn["boxes"], 2):
            across, down = min(a[1], b[1]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[2], b[2])
            assert across <= 0 or down <= 3  # a line's box is higher than its letters
    view.close()


def test_nearest_tokens_have_their_words(folder):
    found = av.inspect(folder, text="the path s are short .")
    words, (i, k) = found.inputs["words"], found.layers[0]["nearest"]
    assert f"{i} {words[i - 1]}, {k} {words[k - 1]}</td>" in page.page(found)
    assert all(isinstance(each, int) for each in found.layers[0]["nearest"]), "numbers in the JSON"


def run_command(*arguments):
    code = "import sys; from attnverify import cli; sys.argv[0] = 'attnverify'; cli.main()"
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)


def test_command_writes_everything(folder, tmp_path):
    (tmp_path / "text.txt").write_text("the path s are short .")
    out = tmp_path / "out"
    done = run_command("inspect", folder, "--text", tmp_path / "text.txt", "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Reconstruction: 26 steps of 2 layers and 3 heads")
    assert done.stderr.startswith("memory: at most ")
    body = json.loads((out / command.JSON).read_text())
    assert body["inputs"]["words"] == [
        "[CLS]",
        "the",
        "path",
        "[UNK]",
        "are",
        "short",
        ".",
        "[SEP]",
    ]
    rows = list(csv.DictReader(io.StringIO((out / "heads.csv").read_text())))
    assert len(rows) == 6 and float(rows[0]["sink"]) == body["heads"][0]["sink"]
    assert (out / "lengths.svg").read_text().startswith("<svg xmlns=")
    assert (out / command.HTML).read_text().startswith("<!doctype html>")


def test_every_file_of_a_report_is_known_as_ours(bert, tmp_path):
    number = {"coordinate": 1}
    report = av.inspect(bert, modelzoo.inputs("bert")[0], scalar=number, paths=2, ablate="mean")
    paths = command.write(report, tmp_path)
    assert {path.name for path in paths} == set(command.OWN)
    assert set(command.write(report, tmp_path)) == set(paths), "and is replaced"


@pytest.mark.parametrize("name", command.OWN)
def test_a_file_of_somebody_else_is_kept(bert, report, tmp_path, name):
    """Also by a report that has no such file."""
    foreign = tmp_path / name
    foreign.write_text("length,mine\n1,2\n")
    brief = av.inspect(bert, modelzoo.inputs("bert")[0], brief=True)
    for found in (report, brief):
        with pytest.raises(InputError, match=rf"^out: got .*{name}, which was not written by this"):
            command.write(found, tmp_path)
    assert foreign.read_text() == "length,mine\n1,2\n" and list(tmp_path.iterdir()) == [foreign]


def test_the_command_looks_at_all_names_before_the_run(folder, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "layers.csv").write_text("my own measurements")
    monkeypatch.setattr(inspect_model, "inspect", lambda *a, **b: pytest.fail("the run started"))
    done = CliRunner().invoke(cli.app, ["inspect", str(folder), "--out", str(tmp_path / "out")])
    assert str(done.exception).startswith(f"out: got {tmp_path / 'out' / 'layers.csv'}, which was")
    assert (tmp_path / "out" / "layers.csv").read_text() == "my own measurements"


def test_a_folder_holds_the_files_of_one_report(bert, report, tmp_path):
    """A brief report after a full one: no table of the full one stays beside it."""
    command.write(report, tmp_path)
    (tmp_path / "notes.txt").write_text("a letter")
    brief = av.inspect(bert, modelzoo.inputs("bert")[0], brief=True)
    written = {path.name for path in command.write(brief, tmp_path)}
    assert {path.name for path in tmp_path.iterdir()} == {*written, "notes.txt"}
    assert "heads.csv" not in written and "moves.svg" not in written


def test_command_prints_json(folder, tmp_path):
    (tmp_path / "ids.json").write_text("[5, 6, 7]")
    done = run_command(
        "inspect", folder, "--tokens", tmp_path / "ids.json", "--json", "--layers", 1
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["inputs"]["tokens"] == 3


def test_command_says_what_is_wrong(tmp_path):
    done = run_command("inspect", tmp_path / "nowhere")
    assert done.returncode == 2 and "model: got" in done.stderr and "no folder" in done.stderr


# ---------------------------------------------------------------- memory


def test_memory_is_asked_for_before_the_run(bert, monkeypatch):
    from attnverify.support import memory

    monkeypatch.setattr(memory, "available", lambda device: 1000.0)
    with pytest.raises(InputError, match="^inputs: got .* of working memory, expected at most the"):
        av.inspect(bert, [3, 4])


def test_a_picture_has_as_many_tokens_as_the_model_makes_of_it():
    model, pictures = modelzoo.model("vit"), modelzoo.inputs("vit")
    subject = Subject.of(model)
    shape = Inputs.of(subject.model, subject.architecture, pictures).shape
    assert shape == tuple(model(pictures).last_hidden_state.shape[:2]) == (2, 5)


@pytest.mark.parametrize("kept", [0, 3])
@pytest.mark.parametrize("ids", [[3, 4], [3, 4, 5], [[3, 4, 5], [6, 7, 8]]])
def test_memory_is_counted_array_by_array(bert, ids, kept):
    """A layer: weights twice and their absolute values, 16 arrays of attention; the streams.

    Streams: one a length, and three more, three times; eight single activations; where rollout is
    compared (one text), one a token, four times. A byte a weight of the first text stays. Each kept
    layer: weights twice, its attention, 16 arrays at the widest.
    """
    subject = Subject.of(bert)
    inputs = Inputs.of(subject.model, subject.architecture, ids)
    texts, tokens = inputs.shape
    depth, heads = bert.config.num_hidden_layers, bert.config.num_attention_heads
    weights = sum(p.numel() for p in subject.architecture.layers[0].parameters())
    attention = texts * heads * tokens**2
    widest = texts * tokens * max(bert.config.intermediate_size, bert.config.hidden_size)
    layer = 3 * weights + 16 * attention
    rollout = 4 * tokens if texts == 1 else 0
    streams = (3 * (depth + 3) + 8 + rollout) * widest
    all_kept = kept * (2 * weights + attention + 16 * widest)
    for_small_things = 2**24
    patterns_of_one = attention / texts * depth / 8
    entries = layer + streams + all_kept + patterns_of_one
    assert subject.memory(inputs, kept) == 8 * entries + for_small_things


def test_memory_that_is_asked_for_is_enough_and_not_far_too_much():
    """Where attention matrices are most of it: three texts of 200 tokens, width 12, measured."""
    model = modelzoo.model("bert, one layer", max_position_embeddings=200)
    ids = torch.randint(3, 23, (3, 200), generator=torch.Generator().manual_seed(0))
    subject = Subject.of(model)
    needed = subject.memory(Inputs.of(subject.model, subject.architecture, ids))
    for_small_things = 2**24
    peak = peak_bytes(lambda: av.inspect(model, ids))
    assert 0.4 <= peak / (needed - for_small_things) <= 1


# ---------------------------------------------------------------- bad inputs


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("a text", "^inputs: got a text, expected token ids"),
        ([23], "^inputs: got token id 23, expected ids from 0 to 22: does the tokenizer belong"),
        ([-1], "^inputs: got token id -1"),
        ([[1, 2], [3]], "^inputs: got list, expected token ids"),
        (object(), "^inputs: got object, expected token ids"),
        ([], r"^inputs: got no token"),
        ([1.5, 2.0], "^inputs: got ids of dtype torch.float64, expected whole numbers"),
        (torch.tensor([[3.0, 4.0]]), "^inputs: got inputs_embeds of width 2, .*whole numbers"),
        (list(range(3, 20)), "^inputs: got 17 tokens, expected at most 16, the positions"),
        (torch.zeros(2, 2, 2, 2, 2), "^inputs: got inputs_embeds of shape"),
        (torch.full((3, 12), torch.nan), "^inputs: got 36 NaN or infinite entries"),
        ({"input_ids": torch.tensor([[1.5]])}, "^inputs: got ids of dtype torch.float32"),
        ({}, r"^inputs: got \[\], expected exactly one of"),
        (
            {"input_ids": torch.ones(1, 3).long(), "attention_mask": torch.ones(1, 2)},
            r"^inputs: got a mask of shape \(1, 2\), expected shape \(1, 3\)",
        ),
        (
            {"input_ids": torch.ones(1, 3).long(), "attention_mask": torch.zeros(1, 3)},
            "^inputs: got a text of padding alone",
        ),
        (None, "^inputs: got NoneType, expected token ids"),
        (
            {"input_ids": [3], "attention_masks": [1]},
            r"^inputs: got the argument 'attention_masks' \(did you mean 'attention_mask'\?\)",
        ),
        (
            {"input_ids": torch.tensor([3]), "token_type_ids": torch.tensor([[7]])},
            "^inputs: got input_ids, token_type_ids, at which the model's own forward pass fails",
        ),
        ([10**30], "^inputs: got a whole number of more than 64 bits, expected"),
        ([-(2**63) - 1], "^inputs: got a whole number of more than 64 bits, expected"),
        (torch.zeros(2, 11), "^inputs: got inputs_embeds of width 11, expected width 12"),
        (
            {"input_ids": [3, 4], "attention_mask": np.array([1.0, 0.5])},
            "^inputs: got a mask of others, expected a mask of 0 and 1",
        ),
    ],
)
def test_bad_inputs(bert, inputs, message):
    with pytest.raises(InputError, match=message):
        av.inspect(bert, inputs)


def test_masks_of_numpy_and_lists(bert):
    ids, mask = [3, 4, 5], torch.tensor([[1, 1, 0]])
    expected = av.inspect(bert, {"input_ids": torch.tensor([ids]), "attention_mask": mask})
    for value in (mask.numpy(), mask.tolist(), mask[0].numpy(), mask.bool()[0]):
        found = av.inspect(bert, {"input_ids": ids, "attention_mask": value})
        assert found.lengths == expected.lengths and found.inputs["padding"] == 1


def test_the_name_of_a_file_is_no_text(tmp_path):
    modelzoo.saved_bert(tmp_path / "model")
    (tmp_path / "text.txt").write_text("the paths are short")
    with pytest.raises(InputError, match=r"^text: got '.*text\.txt', the name of a file, expected"):
        av.inspect(tmp_path / "model", text=str(tmp_path / "text.txt"))


def test_bad_models(bert):
    from transformers import MPNetConfig, MPNetModel

    options = {"hidden_size": 8, "intermediate_size": 8}
    options |= {"num_hidden_layers": 1, "num_attention_heads": 2}
    other = MPNetModel(MPNetConfig(vocab_size=9, **options))
    for model, message in (
        (other, "^model: got model_type 'mpnet' in MPNet.*expected one of afmoe, albert"),
        (
            torch.nn.Linear(2, 2),
            "^model: got Linear without config.model_type, expected model.config",
        ),
        (3, "^model: got int, expected a module or a folder"),
    ):
        with pytest.raises(InputError, match=message):
            av.inspect(model, [1, 2])
    with pytest.raises(InputError, match="^text: got a text for a module, expected inputs"):
        av.inspect(bert, text="words")
    with pytest.raises(InputError, match="^dtype: got 'float16', expected one of float32, float64"):
        av.inspect(bert, [3], dtype="float16")
    with torch.no_grad():
        broken = modelzoo.model("gpt2")
        broken.h[0].ln_1.bias[3] = torch.nan
    with pytest.raises(InputError, match="^model: got 1 NaN or infinite entries in h.0.ln_1.bias"):
        av.inspect(broken, [3])
    for wrong in ("nowhere", "cuda:99"):
        with pytest.raises(InputError, match=f"^device: got '{wrong}'"):
            av.inspect(bert, [3], device=wrong)
    for layers in ([True], [0], [3], 3):
        with pytest.raises(InputError, match="^layers: got"):
            av.inspect(bert, [3], layers=layers)
    assert {row["layer"] for row in av.inspect(bert, [3, 4], layers=2).layers} == {2}


@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
def test_weights_that_are_no_numbers_are_named(value):
    """And not taken for padding, whose attention is NaN too."""
    model = modelzoo.model("phi")
    with torch.no_grad():
        model.layers[1].mlp.fc1.weight[2, 3] = value
    named = "^model: got 1 NaN or infinite entries in layers.1.mlp.fc1.weight, expected finite weig"
    with pytest.raises(InputError, match=named):
        av.inspect(model, [3, 4])


def test_attention_that_hides_its_matrices(bert):
    subject = Subject.of(bert)
    subject.model.set_attn_implementation("sdpa")
    given = Inputs.of(subject.model, subject.architecture, [3, 4])
    with pytest.raises(InputError, match="does not return its matrices .*eager"):
        subject.follow(given, lambda layer: None)


def changed_config(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def changed_weights(folder, change):
    file = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    save_file(change(tensors), file, metadata={"format": "pt"})


def without(name):
    return lambda tensors: {k: v for k, v in tensors.items() if not k.endswith(name)}


SPOILED = {
    "family": (
        lambda f: changed_config(f, model_type="robertta"),
        "^model: got model_type 'robertta' in config.json, expected one of afmoe, albert",
    ),
    "no family": (lambda f: changed_config(f, model_type=None), "^model: got model_type None"),
    "no config": (
        lambda f: (f / "config.json").unlink(),
        "^model: got .* without config.json, expected",
    ),
    "config cut": (
        lambda f: (f / "config.json").write_text('{"model_type"'),
        "^model: got config.json, which is truncated or no JSON",
    ),
    "no weights": (
        lambda f: (f / "model.safetensors").unlink(),
        r"^model: got no \*.safetensors in",
    ),
    "cut": (
        lambda f: (f / "model.safetensors").write_bytes(b"\x10" + b"\0" * 20),
        "^model: got .* no whole safetensors file",
    ),
    "missing": (
        lambda f: changed_weights(f, without("0.output.dense.bias")),
        "^model: got 1 tensors missing in .*output.dense.bias",
    ),
    "extra": (
        lambda f: changed_weights(f, lambda t: {**t, "encoder.strange": torch.zeros(2)}),
        "^model: got 1 tensors in .* that config.json does not explain: .*encoder.strange",
    ),
    "shape": (
        lambda f: changed_config(f, intermediate_size=18),
        "^model: got 6 tensors in .* of other shapes, the first .*intermediate",
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_spoiled_folders(folder, name):
    spoil, message = SPOILED[name]
    spoil(folder)
    with pytest.raises(InputError, match=message):
        av.inspect(folder, [3, 4])


def test_a_pickle_is_refused_with_the_command_that_converts_it(folder, bert):
    """A shell that gets the command runs it, and nothing that stands in the name of a folder."""
    expected = av.inspect(folder, [3, 4])
    (folder / "model.safetensors").unlink()
    torch.save({k: v.half().float() for k, v in bert.state_dict().items()}, folder / "other.bin")
    torch.save(bert.state_dict(), folder / "pytorch_model.bin")
    hostile = folder.rename(folder.with_name(f"{folder.name}'s $(touch x) \"`touch y`; touch z"))
    before = set(hostile.iterdir())
    with pytest.raises(InputError, match="^model: got pytorch_model.bin, a pickle") as refused:
        av.inspect(hostile, [3, 4])
    command = str(refused.value).partition("running anything: python")[2]
    subprocess.run(sys.executable + command, shell=True, check=True, timeout=120, cwd=hostile)
    assert set(hostile.iterdir()) - before == {hostile / "model.safetensors"}
    assert av.inspect(hostile, [3, 4]).lengths == expected.lengths


def test_tied_weights_that_differ(tmp_path):
    import transformers

    name, options = modelzoo.CASES["gpt2"]
    config = getattr(transformers, name)(**options)
    torch.manual_seed(0)
    modelzoo.shaken(transformers.AutoModelForCausalLM.from_config(config)).save_pretrained(tmp_path)
    av.inspect(tmp_path, [3, 4])
    changed_weights(tmp_path, lambda t: {**t, "lm_head.weight": torch.zeros(23, 15)})
    with pytest.raises(InputError, match="^model: got lm_head.weight and transformer.wte.weight"):
        av.inspect(tmp_path, [3, 4])
    changed_config(tmp_path, tie_word_embeddings=False)
    av.inspect(tmp_path, [3, 4])


def test_code_of_the_folder_does_not_run(folder):
    (folder / "evil.py").write_text("open('ran', 'w')\nclass Model: pass\nConfig = Model\n")
    changed_config(folder, auto_map={"AutoModel": "evil.Model", "AutoConfig": "evil.Config"})
    with pytest.raises(InputError, match="^model: got auto_map in config.json"):
        av.inspect(folder, [3, 4])
    assert "evil" not in sys.modules and not (folder / "ran").exists()


def test_texts(folder, tmp_path):
    for options, message in (
        ({}, "^inputs: got neither, expected one of the two"),
        ({"inputs": [3], "text": "the"}, "^inputs: got both inputs and text"),
    ):
        with pytest.raises(InputError, match=message):
            av.inspect(folder, **options)
    assert av.inspect(folder, "the path").inputs["words"] == ["[CLS]", "the", "path", "[SEP]"]
    (folder / "vocab.txt").write_text("\n".join([*modelzoo.MORE_WORDS, "extra"]) + "\n")
    with pytest.raises(InputError, match="^inputs: got token id 23.*does the tokenizer belong"):
        av.inspect(folder, "extra")
    (folder / "vocab.txt").unlink()
    with pytest.raises(InputError, match="^text: got a text, and no tokenizer.json .*--tokens"):
        av.inspect(folder, "the path")


def test_a_tokenizer_that_does_not_know_the_text(folder):
    with pytest.raises(InputError, match="^text: got 4 unknown tokens of 6, expected a text that"):
        av.inspect(folder, "une autre langue ici")


def test_a_vision_model_reads_no_text(tmp_path):
    modelzoo.model("vit").save_pretrained(tmp_path)
    with pytest.raises(InputError, match="^text: got a model of family 'vit', expected one that"):
        av.inspect(tmp_path, "a text")
    found = av.inspect(tmp_path, modelzoo.inputs("vit"))
    assert found.inputs["tokens"] == 5 and found.model["family"] == "vit"


def test_promotion_is_said(folder):
    assert av.inspect(folder, [3]).notes == ("weights promoted from float32 to float64",)
    changed_weights(folder, lambda t: {k: v.bfloat16() for k, v in t.items()})
    changed_config(folder, dtype="bfloat16")
    found = av.inspect(folder, [3], dtype="float32")
    assert found.notes == ("weights promoted from bfloat16 to float32",)
    assert found.model["dtype"] == "float32"


def test_rounding_is_said_of_wider_weights_alone(folder):
    """One tensor of float64 among bfloat16: only the first loses digits."""

    def mixed(tensors: dict) -> dict:
        first = next(iter(tensors))
        return {k: v.double() if k == first else v.bfloat16() for k, v in tensors.items()}

    changed_weights(folder, mixed)
    assert av.inspect(folder, [3], dtype="float32").notes == (
        "weights promoted from bfloat16 to float32",
        "weights rounded from float64 to float32",
    )


def test_files_of_token_ids(tmp_path):
    file = tmp_path / "ids"
    for content in ("[3, 4]", "3 4", "3\n4\n"):
        file.write_text(content)
        assert ids_from(file) == [3, 4]
    for content in (
        "three",
        "",
        "[3, null]",
        "[[3]]",
        "[1.5, 2]",
        "[true]",
        '["3"]',
        "1_0",
        "[" * 10**5,
    ):
        file.write_text(content)
        with pytest.raises(InputError, match="^tokens: got"):
            ids_from(file)
    with pytest.raises(InputError, match="^tokens: got no file"):
        ids_from(tmp_path / "none")


def test_layer_numbers():
    assert command.numbers("1,3-5") == [1, 3, 4, 5]
    for wrong in ("a", "1-", "3-1", "0", "-1", "1,,2", "1_0", "1-99999", ""):
        with pytest.raises(InputError, match="^layers: got .*, expected layer numbers"):
            command.numbers(wrong)


def test_transformers_is_optional(folder, monkeypatch):
    monkeypatch.setattr(load.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="^model: got no package transformers, expected it .pip"):
        av.inspect(folder, [3, 4])


def test_nothing_is_shared_with_what_was_given(bert):
    before = copy.deepcopy(bert.state_dict())
    av.inspect(bert, [3, 4])
    assert all(torch.equal(v, before[k]) for k, v in bert.state_dict().items())


@pytest.mark.full  # a minute: the first report that a reader sees is one of a whole model
def test_the_report_of_the_page_is_what_is_printed():
    """Every line but the first, whose rounding errors are those of a machine, as nodes may be."""
    page = (ROOT / "book" / "inspect.md").read_text(encoding="utf-8")
    shown, paths = re.findall(r"```text\n(.*?)```", page, re.S)
    code = next(c for c in re.findall(r"```python\n(.*?)```", page, re.S) if "folders" in c)
    number = {"coordinate": 5, "at": 3}
    given = re.findall(r'text="(.+?)"', code)[0]
    report = av.inspect(folders.albert(), text=given, scalar=number, paths=20)
    text = str(report)
    assert text.splitlines()[1 : 1 + len(shown.splitlines())] == shown.splitlines()
    first, *_, last = paths.splitlines()
    assert first.split(" So")[0] in text and last in text.splitlines()
    number = {"logit": "c", "against": "n", "at": 10}
    cut = av.inspect(folders.albert(), text=given, scalar=number, ablate="zero")
    head = next(r for r in cut.scalar_heads if (r["layer"], r["head"]) == (12, 6))
    assert [round(x, 2) for x in (head["through"], head["lost"])] == [1.80, 0.48]
    assert f"{cut.scalar['value']:.1f}" == "12.2" and "0.27 with the share through" in str(cut)
    assert [cut.scalar["ablation"][name] for name in ("rows", "passes")] == [112, 4]
    assert "In layer 11,\nhead 6, every atom of the product looks most at the atom" in page
    assert report.patterns is not None
    looks = report.patterns.weights[11, 6].int().argmax(-1)
    atoms = [i for i, word in enumerate(report.inputs["words"]) if word.isalpha()]
    origins = {15: 1, 16: 2, 17: 5, 18: 6, **{20 + i: 8 + i for i in range(5)}}  # CCO, the ring
    assert set(origins) == {i for i in atoms if i > report.inputs["words"].index(">>")}
    assert {i: int(looks[i]) for i in origins} == origins

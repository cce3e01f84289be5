"""The largest paths to a number of a model: the other tables check them, limits and files."""

from __future__ import annotations

import json
from collections import defaultdict
from math import fsum

import pytest
import torch
from typer.testing import CliRunner

import attnverify as av
import modelzoo
from attninspect import command, path_table
from attninspect.columns import TABLES
from attninspect.findings import dumps
from attnverify import InputError
from attnverify.cli import app
from attnverify.mathematics import maps
from modelzoo import headed

LOGIT, CLASS = "AutoModelForCausalLM", "AutoModelForSequenceClassification"
#: Norms before and after, branches in parallel, grouped keys, shared layers, poolers, pictures.
CASES = [
    ("gpt2", LOGIT, {"logit": 5, "against": 7}),
    ("llama", LOGIT, {"logit": 5}),
    ("afmoe", LOGIT, {"logit": 5}),
    ("bert", CLASS, {"class": 1, "against": 0}),
    ("bert", "AutoModelForMaskedLM", {"logit": 5, "at": 3}),
    ("gpt_neox", LOGIT, {"logit": 5, "at": 3}),
    ("phi, norms of heads", LOGIT, {"logit": 5}),
    ("albert, groups", CLASS, {"class": 1}),
    ("vit", "AutoModelForImageClassification", {"class": 1}),
]
FACTS = "asked listed number nodes budget certified unseen error energy share_of_energy".split()
FACTS += ["effective", "sum"]
NUMBER = {"coordinate": 3, "at": 6}


def listed(report):
    return [row for row in report.scalar_paths if row["path"] is not None]


def adds_up(report):
    """All rows give the number, within its bound and the bounds of the paths."""
    rows, p = report.scalar_paths, report.scalar["paths"]
    off = fsum(row["value"] for row in rows) - report.scalar["value"]
    terms = fsum(abs(row["value"]) for row in rows)
    assert abs(off) <= report.scalar["bound"] + 2.0**-50 * terms
    assert p["sum"] == fsum(row["value"] for row in listed(report))
    assert [row["rank"] for row in rows[-3:]] == ["others", "biases", "rounding"]
    assert all(list(row) == list(TABLES["scalar_paths"]) for row in rows)


@pytest.mark.parametrize(("case", "auto", "choice"), CASES)
def test_all_paths_are_the_tables_by_length_and_by_head(case, auto, choice):
    """Those tables come from a sweep that knows no single path. A path is off by its error.

    Biases are 0, since heads write what they make of earlier biases, too. What they write has the
    model's own rounding in it, and Llama rounds to float32 within.
    """
    model, ids = headed(case, auto), modelzoo.inputs(case, batch=1)
    for name, each in model.named_parameters():
        torch.nn.init.zeros_(each) if name.endswith("bias") else None
    report = av.inspect(model, ids, scalar=choice, paths=1000)
    p, rows = report.scalar["paths"], listed(report)
    assert p["certified"] and p["listed"] == len(rows) == p["number"] and list(p) == FACTS
    adds_up(report)
    off = p["number"] * p["error"] + report.scalar["bound"]
    assert off < 1e-6 * max(abs(row["value"]) for row in rows)
    lengths, heads = defaultdict(list), defaultdict(list)
    for row in rows:
        passed = [(layer, head) for layer, head in enumerate(row["heads"], 1) if head]
        assert row["path"] == (" > ".join(f"{a}.{b}" for a, b in passed) or "no head")
        lengths[len(passed)].append(row["value"])
        heads[passed[-1] if passed else None].append(row["value"])
        assert row["certified"] and row["most"] == abs(row["value"]) + p["error"]
        assert row["share"] == row["value"] / report.scalar["value"]
    for row in report.scalar_lengths[:-2]:
        assert abs(row["value"] - fsum(lengths[row["length"]])) <= off
        assert row["paths"] == len(lengths[row["length"]])
    for row in report.scalar_heads if case not in ("llama", "afmoe") else ():
        assert abs(row["direct"] - fsum(heads[row["layer"], row["head"]])) <= off
    others = report.scalar_paths[-3]
    assert abs(others["value"]) <= off and others["most"] == 0


@pytest.mark.parametrize("case", ["bert", "phi", "afmoe", "torch"])
def test_the_token_that_gives_most_of_a_path(case):
    """Every token by itself, sent forward along the path."""
    model = modelzoo.encoder() if case == "torch" else modelzoo.model(case)
    X = torch.randn(7, 12, generator=torch.Generator().manual_seed(0))
    ids = X if case == "torch" else modelzoo.inputs(case, batch=1)
    report, held = av.inspect(model, ids, scalar=NUMBER, paths=6), av.trace(model, ids).held()
    for row in listed(report):
        Y = torch.diag_embed(held.X.mT).movedim(0, -1)  # (tokens, tokens, width): one each
        for layer, head in zip(held.layers, row["heads"], strict=True):
            Y = maps.linear(layer.rows, layer.head(head, Y))
        Y = maps.linear(held.final, Y)
        each = Y[:, NUMBER["at"] - 1, NUMBER["coordinate"]]
        # Two evaluations of a path differ by roundings, for which the search has a bound.
        off = 2 * report.scalar["paths"]["error"]
        assert abs(float(each[row["token"] - 1]) - row["token_value"]) <= off
        assert float(each.abs().max()) <= abs(row["token_value"]) + 2 * off
        assert abs(float(each.sum()) - row["value"]) <= off


def test_a_larger_budget_certifies_more_and_says_so():
    model, ids = modelzoo.model("gpt2", n_layer=6), modelzoo.inputs("gpt2", batch=1)
    found = {}
    for nodes in (6, 2000):
        report = found[nodes] = av.inspect(model, ids, scalar=NUMBER, paths=40, nodes=nodes)
        p = report.scalar["paths"]
        adds_up(report)
        assert p["number"] == 6**6 and p["nodes"] <= p["budget"] == nodes
        smallest = abs(listed(report)[-1]["value"])
        assert p["certified"] == (p["unseen"] <= smallest + 2 * p["error"])
        told = [line for line in str(report).split("\n") if line.startswith("The largest paths:")]
        assert len(told) == 1 and f"40 of {6**6:,} listed" in told[0]
        assert ("So the list is certified" in told[0]) == p["certified"]
        assert ("a larger budget of nodes may help" in told[0]) != p["certified"]
        certain = sum(row["certified"] for row in listed(report))
        assert f"the proof certifies {certain} of them" in told[0] or p["certified"]
    few, many = (each.scalar["paths"] for each in found.values())
    assert not few["certified"] and many["certified"] and few["unseen"] > many["unseen"]
    again = av.inspect(model, ids, scalar=NUMBER, paths=40)
    assert dumps(again) == dumps(found[2000])  # no seconds in it


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": 0}, "paths: got 0, expected a whole number from 1 to 1,000"),
        ({"paths": True}, "paths: got True, expected a whole number"),
        ({"paths": 1001}, "paths: got 1001, expected a whole number from 1 to 1,000"),
        ({"paths": 3, "scalar": None}, "paths: got 3 without a number, expected a number to take"),
        ({"nodes": 3}, "nodes: got 3 without paths, expected it with paths alone"),
        ({"paths": 3, "nodes": 0}, "nodes: got 0, expected a positive whole number"),
        ({"paths": 3, "nodes": 1}, "nodes: got 1, expected at least the depth, 2"),
    ],
)
def test_what_is_asked_for_is_looked_at(options, message):
    model, ids = modelzoo.model("bert"), modelzoo.inputs("bert", batch=1)
    with pytest.raises(InputError, match=message):
        av.inspect(model, ids, **{"scalar": NUMBER} | options)


def test_what_is_too_large_is_refused_before_the_search(monkeypatch):
    model, ids = modelzoo.model("bert"), modelzoo.inputs("bert", batch=1)
    with monkeypatch.context() as patch:
        patch.setattr(path_table, "WORK", 7.0 * 12**3 * 2 - 1)
        with pytest.raises(InputError, match=r"7 tokens of width 12 in 2 layers, 2\.4e\+04 of"):
            av.inspect(model, ids, scalar=NUMBER, paths=3)
    with monkeypatch.context() as patch:
        patch.setattr("attnverify.support.memory.available", lambda device: 2.0**20)
        with pytest.raises(InputError, match=r"paths: got .* of bounds of paths, expected at most"):
            path_table.require_fits(torch.zeros(1, 100, 384), 6, path_table.NODES)
    torch.nn.init.constant_(model.encoder.layer[0].attention.output.LayerNorm.weight, 2.0**25)
    with pytest.raises(InputError, match=r"paths: got a factor of 3\.36e\+07"):
        av.inspect(model, ids, scalar=NUMBER, paths=3)


def test_files_and_the_command(tmp_path):
    folder, out, text = tmp_path / "model", tmp_path / "out", tmp_path / "text.txt"
    modelzoo.saved_bert(folder)
    text.write_text("the paths are short")
    call = ["inspect", str(folder), "--text", str(text), "--out", str(out)]
    done = CliRunner().invoke(app, [*call, "--coordinate", "3", "--paths", "4", "--nodes", "9"])
    assert done.exit_code == 0, done.exception
    assert "The largest paths: 4 of 16 listed." in done.stdout
    body = json.loads((out / "inspect.json").read_text())
    assert body["scalar"]["paths"]["budget"] == 9
    assert set(body["columns"]["scalar_paths"]) == set(body["scalar_paths"][0])
    assert len((out / "scalar_paths.csv").read_text().splitlines()) == 1 + 4 + 3
    figure, page = (out / "scalar_paths.svg").read_text(), (out / "inspect.html").read_text()
    assert figure.count("<path class=") == 4 and "<h3>The paths that contribute most" in page
    word = body["scalar_paths"][0]["word"]
    assert word in body["inputs"]["words"] and figure in page
    assert CliRunner().invoke(app, [*call, "--coordinate", "3"]).exit_code == 0
    left = {file.name for file in out.iterdir()}
    assert "scalar_heads.csv" in left and not any("paths" in name for name in left)
    body = json.loads((out / "inspect.json").read_text())
    assert not any("paths" in name for name in [*body, *body["columns"], *body["scalar"]])
    done = CliRunner().invoke(app, [*call, "--paths", "4"])
    assert "paths: got 4 without a number" in str(done.exception)
    command.require_own(out)

"""Saved reports side by side: what changed most, what cannot be compared, files of others."""

from __future__ import annotations

import copy
import json
import resource

import pytest
import torch
from typer.testing import CliRunner

import attnverify as av
import modelzoo
from attninspect import command, compare, drawings
from attnverify import InputError
from attnverify.cli import app


def trained(steps: int):
    """A small GPT-2 after so many steps on one text."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**modelzoo.GPT2, resid_pdrop=0.0, embd_pdrop=0.0))
    ids = modelzoo.inputs("gpt2", batch=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(ids).logits.mT, ids.roll(-1, 1)).backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Reports of three checkpoints, one with a number in parts."""
    root = tmp_path_factory.mktemp("steps")
    for steps in (0, 2, 9):
        report = av.inspect(trained(steps), modelzoo.inputs("gpt2", batch=1), scalar={"logit": 5})
        (root / f"step{steps}").mkdir()
        command.write(report, root / f"step{steps}")
    return root


def bodies(folders) -> list[dict]:
    return [json.loads((folders / f"step{n}" / "inspect.json").read_text()) for n in (0, 2, 9)]


def ran(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["compare", *map(str, arguments)])
    expected = (InputError, SystemExit, type(None))
    assert isinstance(result.exception, expected), result.exception  # one line, no traceback
    return result.exit_code, result.output + str(result.exception or "")


def test_reports_in_memory_and_files_are_read_alike(folders, tmp_path):
    """Two texts of one length: layers are means over texts."""
    reports = [av.inspect(trained(n), modelzoo.inputs("gpt2", batch=2)) for n in (0, 9)]
    for number, report in enumerate(reports):
        (tmp_path / f"{number}.json").write_text(json.dumps(report.as_json()))
    own = av.compare(reports, ["0", "1"])
    assert own.rows == av.compare([tmp_path / "0.json", tmp_path / "1.json"]).rows
    assert av.compare(reports).labels == ["1", "2"]
    row = next(row for row in own.of("residual") if row["layer"] == 2)
    texts = [each["residual"] for each in reports[0].layers if each["layer"] == 2]
    assert len(texts) == 2 and row["values"][0] == sum(texts) / 2


def test_a_page_is_not_left_without_its_table(tmp_path):
    """On a disk that is full at the table: the process may write files as large as the page."""
    rows = [
        {"figure": "sink", "length": None, "layer": 1 + i // 64, "head": 1 + i % 64}
        | {"values": [i / 7, i / 9], "change": i / 9 - i / 7, "spread": i / 7 - i / 9}
        for i in range(4096)
    ]
    facts = {"class": "Toy", "number": None}
    found = compare.Comparison(["a", "b"], [facts, facts], rows, [])
    before, room = resource.getrlimit(resource.RLIMIT_FSIZE), len(found.html().encode())
    assert room < len(found.csv())
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            compare.write(found, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_json(folders):
    result = CliRunner().invoke(
        app, ["compare", str(folders / "step0"), str(folders / "step9"), "--json"]
    )
    body = json.loads(result.stdout)
    assert body["format"] == "attnverify compare 1" and body["labels"] == ["step0", "step9"]
    assert body["rows"] == av.compare([folders / "step0", folders / "step9"]).rows


def report(case: str, **options):
    return av.inspect(modelzoo.model(case), modelzoo.inputs(case, batch=1), **options)


def test_other_depths_are_compared_by_length_alone():
    deep = av.inspect(modelzoo.model("gpt2", num_hidden_layers=3), modelzoo.inputs("gpt2", 1))
    found = av.compare([report("gpt2"), deep], ["a", "b"])
    assert {row["figure"] for row in found.rows} == {"share"}
    assert {row["length"] for row in found.rows} == {0, 1, 2, "biases"}
    said = str(found)
    assert "Layers are not compared: 2 in a, 3 in b" in said
    assert (
        "Share of the output by path length: left out are 1 that not" in said
        and "different models" in said
    )


def test_other_numbers_of_heads_are_compared_by_their_means():
    one, other = report("gpt2"), report("bert")
    found = av.compare([one, other], ["a", "b"])
    rows = found.of("entropy")
    assert [(row["layer"], row["head"]) for row in sorted(rows, key=lambda r: r["layer"])] == [
        (1, None),
        (2, None),
    ]
    mean = [row["entropy"] for row in one.heads if row["layer"] == 1]
    (first,) = (row["values"][0] for row in rows if row["layer"] == 1)
    assert first == pytest.approx(sum(mean) / len(mean), rel=2.0**-48)
    assert "only their means by layer: 5 in a, 3 in b" in str(found)


def test_brief_reports_other_texts_and_other_layers():
    one, brief = report("bert"), report("bert", brief=True)
    assert (
        "Entropy of attention, share of log keys: not compared; none in b."
        in av.compare([one, brief], "ab").apart
    )
    other = av.inspect(modelzoo.model("bert"), modelzoo.inputs("bert", batch=1, tokens=5))
    assert any("The texts differ" in line for line in av.compare([one, other]).apart)
    some = report("bert", layers=2)
    found = av.compare([one, some])
    assert {row["layer"] for row in found.of("residual")} == {2}
    assert "Relative residual where each layer begins: left out are 1 that" in str(found)
    nothing = av.compare([report("bert", scalar={"coordinate": 1}), one])
    assert not nothing.of("direct") and "coordinate 1 of the last hidden state in 1" in str(nothing)


def test_where_a_number_is_read_and_unknown_texts_are_told():
    one, two = (report("bert", scalar={"coordinate": 1, "at": at}) for at in (3, 5))
    found = av.compare([one, two])
    told = "The number is read at different places: token 3 in 1, token 5 in 2."
    assert told in found.apart and f"{two.scalar['value']:.4g} at token 5 in 2" in str(found)
    assert any("so the texts may differ" in line for line in found.apart)
    assert not any("read at different" in line for line in av.compare([one, one]).apart)


def test_what_is_no_report_or_label_is_named():
    one = report("bert")
    for given, labels, message in (
        ([one, 3], None, "report: got 3, expected a report, or the path of one"),
        ([one, one], [1, 2], r"labels: got \[1, 2\], expected names"),
    ):
        with pytest.raises(InputError, match=message):
            av.compare(given, labels)


def test_figures_that_are_not_defined(tmp_path):
    """Null in one report: the row stays, without a change, behind all others."""
    whole = report("bert").as_json()
    lacking = copy.deepcopy(whole)
    for row in lacking["layers"]:
        row["residual"] = None
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, body in zip(paths, (whole, lacking), strict=True):
        path.write_text(json.dumps(body))
    found = av.compare(paths)
    assert all(row["change"] is None and row["values"][1] is None for row in found.of("residual"))
    code, said = ran(*paths, "--out", tmp_path / "out")
    assert code == 0 and "Relative residual" not in said


def changed(body, change):
    body = copy.deepcopy(body)
    change(body)
    return body


HOSTILE = {
    "another format": (lambda b: b.update(format="attnverify inspect 2"), "format 'attnverify ins"),
    "many texts": (lambda b: b.update(format="attnverify inspect texts 1"), "inspect texts 1'"),
    "a list as format": (lambda b: b.update(format=[[]]), "got format [[]]"),
    "no format": (lambda b: b.pop("format"), "no report"),
    "no model": (lambda b: b.pop("model"), "no report"),
    "model is a list": (lambda b: b.update(model=[]), "no report"),
    "a table is a number": (lambda b: b.update(heads=3), "no report"),
    "a table is a dict": (lambda b: b.update(heads={"layer": 1}), "no report"),
    "a row is a list": (lambda b: b["layers"].append([1]), "no report"),
    "a word as number": (lambda b: b["heads"][0].update(sink="much"), "in place of a number"),
    "true as number": (lambda b: b["heads"][0].update(sink=True), "in place of a number"),
    "not a number": (lambda b: b["heads"][0].update(sink=float("nan")), "in place of a number"),
    "infinity": (lambda b: b["heads"][0].update(sink=float("inf")), "in place of a number"),
    "a huge number": (lambda b: b["heads"][0].update(sink=10**400), "in place of a number"),
    "a huge layer": (lambda b: b["heads"][0].update(layer=10**9), "in place of a length, a layer"),
    "a negative layer": (lambda b: b["heads"][0].update(layer=-1), "in place of a length, a layer"),
    "a word as layer": (lambda b: b["heads"][0].update(layer="<b>"), "in place of a length, a lay"),
    "a list as head": (lambda b: b["heads"][0].update(head=[1]), "in place of a length, a layer"),
    "layers as a word": (
        lambda b: b["model"].update(layers="two"),
        "in place of a length, a layer",
    ),
    "a number as class": (lambda b: b["model"].update({"class": 3}), "in place of a name"),
    "a number without value": (lambda b: b["scalar"].update(value=None), "no report"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_report_is_one_line(name, folders, tmp_path):
    change, message = HOSTILE[name]
    body = changed(bodies(folders)[0], change)
    (tmp_path / "bad.json").write_text(json.dumps(body))
    code, said = ran(folders / "step0", tmp_path / "bad.json", "--out", tmp_path / "out")
    assert code != 0 and "report: got" in said and message in said and "bad.json" in said
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe\x00", b"[]", b"3", b"[" * 100_000, b'{"format": null}']
)
def test_broken_json(content, folders, tmp_path):
    (tmp_path / "bad.json").write_bytes(content)
    code, said = ran(folders / "step0", tmp_path / "bad.json")
    assert code != 0 and "report: got" in said


def test_names_from_a_file_are_told_as_text(folders, tmp_path):
    """No control letters in a terminal, no tags in the page."""
    body = bodies(folders)[0]
    body["model"]["class"] = "\x1b[31m<script>alert(1)</script>"
    body["scalar"]["name"] = "\x1b]0;mine\x07 [bold]"
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(json.dumps(body))
    code, said = ran(tmp_path / "a.json", tmp_path / "b.json", "--out", tmp_path / "out")
    assert code == 0 and "\x1b" not in said and "\x07" not in said and "[bold]" in said
    assert "<script>alert" not in (tmp_path / "out" / "compare.html").read_text()


def test_arguments(folders, tmp_path):
    one, two = folders / "step0", folders / "step2"
    for given, message in (
        ([one], "report: got 1 of them, expected two reports or more"),
        ([one, tmp_path / "none.json"], "none.json, which does not exist, expected inspect.json"),
        ([one, tmp_path], "inspect.json, which does not exist"),
        ([one, one], "expected distinct ones"),
        ([one, two, "--labels", "a"], "labels: got 1, expected 2, one a report"),
        ([one, two, "--labels", "a,a"], "labels: got ['a', 'a'], expected distinct ones"),
    ):
        code, said = ran(*given)
        assert code != 0 and message in said


def test_labels_are_as_long_as_it_takes(tmp_path):
    body = json.dumps(report("bert").as_json())
    for place in ("x/step.10", "y/step.10"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "inspect.json").write_text(body)
    (tmp_path / "z.json").write_text(body)
    given = [tmp_path / "x/step.10", tmp_path / "y/step.10/inspect.json"]
    assert av.compare(given).labels == ["x/step.10", "y/step.10"]
    assert av.compare([given[0], tmp_path / "z.json"]).labels == ["step.10", "z"]


def test_curves_have_a_dot_for_every_value_that_is_defined():
    series = [("a", [0.1, None, 0.3]), ("b", [0.2, 0.5, None]), ("<c>", [None, None, None])]
    drawn = drawings.lines("title", ["1", "2", "3"], series, "layer")
    assert drawn.count("<circle") == 4 and "&lt;c&gt;" in drawn and "b: 0.5<" in drawn
    assert "dashed: a, full: &lt;c&gt;" in drawn

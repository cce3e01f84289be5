"""Reports on many texts: each is that on its text, and one table is made of them."""

import csv
import io
import json
import re
import shutil

import numpy as np
import pytest
import torch
from markupsafe import escape
from typer.testing import CliRunner

import accessibility
import attnverify as av
import modelzoo
from attninspect import command, texts
from attninspect.texts import Look
from attnverify import cli
from attnverify.support.errors import InputError, RunError
from attnverify.support.threads import one_thread
from attnverify.support.typeset import numbers
from visits import STICKING_OUT

TEXTS = ["the path s are short .", "word0 word1 the the the", "path", "the word2 path . ."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("model")
    modelzoo.model("bert").save_pretrained(made)
    (made / "vocab.txt").write_text("\n".join(modelzoo.MORE_WORDS) + "\n")
    return made


@pytest.fixture
def lines(tmp_path):
    file = tmp_path / "lines"
    file.write_text("\n\n".join(TEXTS) + "\n")
    return file


def written(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file()}


def look_at(folder, paths, out, **options):
    made = texts.campaign(Look(folder), texts.read(paths))
    return texts.inspect_texts(made, out, **options)


@pytest.fixture(scope="module")
def found(folder, tmp_path_factory):
    """The merged report, by one process, and where it was written."""
    place = tmp_path_factory.mktemp("found")
    (place / "lines").write_text("\n".join(TEXTS))
    return look_at(folder, [place / "lines"], place / "out", jobs=1), place / "out"


def test_a_piece_is_the_report_on_its_text(folder, found):
    for number, text in enumerate(TEXTS):
        with one_thread():
            alone = av.inspect(folder, text).as_json()
        body = json.loads((found[1] / "pieces" / f"{number:06d}.json").read_text())
        assert body["name"] == f"lines:{number + 1}"
        assert body["result"] == json.loads(json.dumps(alone))


def test_no_cell_is_a_formula(folder, tmp_path):
    """A file's name is a cell of texts.csv; numbers stay numbers, and JSON has the name itself."""
    for start in "=+-@":
        (tmp_path / f"{start}1+1.txt").write_text(TEXTS[2])
    found = look_at(folder, [tmp_path], tmp_path / "out", jobs=1)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / texts.TEXTS).read_text())))
    assert [row["text"] for row in rows] == [f"'{row['text']}" for row in found["texts"]]
    assert command.as_csv([{"a": -1.5, "b": "\t=1", "c": "a=b"}]) == "a,b,c\n-1.5,'\t=1,a=b\n"


def test_notes_of_every_text_are_kept(folder):
    """What is seen in one text alone is said as well, once."""
    made = texts.campaign(Look(folder), {"a": TEXTS[0], "b": TEXTS[1]})
    reports = [task() for task in made.tasks]
    reports[0]["notes"] = ["one", "both"]
    reports[1]["notes"] = ["both"]
    assert texts.merged(made, reports)["notes"] == ["one", "both"]


@pytest.mark.parametrize("name", texts.OWN)
def test_a_table_of_somebody_else_is_told_before_the_run(folder, lines, tmp_path, name):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("text,mine\na,1\n")
    words = ["inspect", str(folder), "--texts", str(lines), "--jobs", "1", "--out", str(out)]
    failed = CliRunner().invoke(cli.app, words)
    assert str(failed.exception).startswith(f"out: got {out / name}, which was not written by this")
    assert (out / name).read_text() == "text,mine\na,1\n"
    assert not (out / texts.PIECES).exists(), "before the run"


@pytest.mark.slow  # two processes that import torch: it buys that none of them shows in a figure
def test_two_processes_write_what_one_writes(folder, lines, tmp_path):
    look_at(folder, [lines], tmp_path / "one", jobs=1)
    look_at(folder, [lines], tmp_path / "two", jobs=2)
    for part in ("", "pieces"):
        assert written(tmp_path / "one" / part) == written(tmp_path / "two" / part)


def test_texts_of_files_and_lines(tmp_path, lines):
    (tmp_path / "b.txt").write_text("second\nline")
    (tmp_path / "a.txt").write_text("first")
    assert texts.read([tmp_path]) == {"a.txt": "first", "b.txt": "second\nline"}
    both = texts.read([tmp_path, lines])
    assert list(both)[2:] == ["lines:1", "lines:3", "lines:5", "lines:7"]
    with pytest.raises(InputError, match="^texts: got two texts lines:1, expected texts of diff"):
        texts.read([lines, lines])


def test_bad_texts_are_named(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank").write_text("\n \n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name, message in (
        ("empty", "which holds no .txt file, expected a folder of .txt files, or"),
        ("blank", "which is empty, expected"),
        ("none", "which is not there, expected"),
        ("bytes", r"which is no text \(.*, expected UTF-8"),
    ):
        with pytest.raises(InputError, match=f"^texts: got .*{message}"):
            texts.read([tmp_path / name])
    for text, message in (
        ("une autre langue ici", "^b: got 4 unknown tokens of 6"),
        ("the " * 15, "^b: got 17 tokens, expected at most 16, as the model takes"),
    ):
        with pytest.raises(InputError, match=message):
            texts.campaign(Look(folder), {"a": "the", "b": text})


def test_another_text_or_model_is_another_campaign(folder, lines, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(folder, copy)
    look_at(copy, [lines], tmp_path / "out", jobs=1)
    before = written(tmp_path / "out")
    lines.write_text(lines.read_text().replace("word2", "word3"))
    with pytest.raises(InputError, match="another campaign, with settings texts lines:7 [0-9a-f]"):
        look_at(copy, [lines], tmp_path / "out", jobs=1)
    lines.write_text(lines.read_text().replace("word3", "word2"))
    (copy / "vocab.txt").write_text("\n".join([*modelzoo.MORE_WORDS, "more"]) + "\n")
    with pytest.raises(InputError, match="another campaign, with settings model [0-9a-f]{64}, exp"):
        look_at(copy, [lines], tmp_path / "out", jobs=1)
    assert written(tmp_path / "out") == before


def test_a_model_that_is_changed_during_a_run_is_told(folder, lines, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(folder, copy)
    made = texts.campaign(Look(copy), texts.read([lines]))
    (copy / "vocab.txt").write_text("\n".join([*modelzoo.MORE_WORDS, "more"]) + "\n")
    with pytest.raises((InputError, RunError), match="^lines:1: model: got other files in"):
        texts.inspect_texts(made, tmp_path / "out", jobs=1)


def test_the_command(folder, lines, tmp_path):
    words = ["inspect", str(folder), "--texts", str(lines), "--jobs", "1"]
    done = CliRunner().invoke(cli.app, [*words, "--out", str(tmp_path / "out"), "--layers", "2"])
    assert done.exit_code == 0, done.output
    assert "104 steps over 4 texts" in done.output and "share of length 2" in done.output
    report = json.loads((tmp_path / "out" / texts.REPORT).read_text())
    assert {row["layer"] for row in report["figures"] if row["table"] in ("layers", "heads")} == {2}
    for more, message in (
        ([], "out: got none, expected a folder, which --texts needs"),
        (["--out", str(tmp_path), "--text", "x"], "texts: got another text too"),
    ):
        failed = CliRunner().invoke(cli.app, [*words, *more])
        assert isinstance(failed.exception, InputError) and message in str(failed.exception)
    alone = CliRunner().invoke(cli.app, ["inspect", str(folder), "--jobs", "2"])
    assert str(alone.exception).startswith("jobs: got 2, expected it with --texts alone")


def test_figures_do_not_depend_on_the_number_of_threads(folder):
    """What a piece finds is what one thread finds."""
    threads = torch.get_num_threads()
    made = texts.campaign(Look(folder), {"a": TEXTS[0]})
    torch.set_num_threads(2)
    try:
        two = made.tasks[0]()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    with one_thread():
        assert two == made.tasks[0]()


# ---------------------------------------------------------------- the page


def test_every_text_leads_to_its_report(found):
    report, place = found
    html = (place / texts.HTML).read_text(encoding="utf-8")
    table = html[html.index("<h2>Text by text") :]
    links = re.findall(r'<td><a href="([^"]*)">([^<]*)</a></td>', table)
    assert [name for _, name in links] == [row["text"] for row in report["texts"]]
    for path, name in links:
        assert f'"name": "{name}"' in (place / path).read_text(encoding="utf-8")
    for line in texts.lines(report):
        assert escape(numbers(line)) in html


NUMBER = {"logit": "path", "against": "#7", "at": 3}


def test_a_number_over_many_texts(lines, tmp_path):
    """Means and spread are those of the reports on one text each; page, CSV and JSON agree."""
    model, out = tmp_path / "model", tmp_path / "out"
    modelzoo.headed("bert", "AutoModelForMaskedLM").save_pretrained(model)
    (model / "vocab.txt").write_text("\n".join(modelzoo.MORE_WORDS) + "\n")
    options = [word for name, value in NUMBER.items() for word in (f"--{name}", str(value))]
    call = ["inspect", str(model), "--texts", str(lines), "--jobs", "1", "--out", str(out)]
    done = CliRunner().invoke(cli.app, [*call, *options])
    assert done.exit_code == 0, done.exception
    found = json.loads((out / texts.REPORT).read_text())
    reports = [av.inspect(model, text, scalar=NUMBER) for text in TEXTS]
    values = [report.scalar["value"] for report in reports]
    assert {report.scalar["name"] for report in reports} == {found["number"]}
    assert [row["number"] for row in found["texts"]] == pytest.approx(values, rel=1e-9)
    assert [row["position"] for row in found["texts"]] == [3] * 4
    figures = {
        tuple(row[k] for k in ("table", *texts.PLACE, "figure")): row for row in found["figures"]
    }
    wanted = {("texts", None, None, None, "number"): values}
    for place in range(6):
        own = [report.scalar_heads[place] for report in reports]
        for name in ("direct", "through"):
            key = ("scalar_heads", None, own[0]["layer"], own[0]["head"], name)
            wanted[key] = [row[name] for row in own]
    for place in range(5):
        own = [report.scalar_lengths[place] for report in reports]
        key = ("scalar_lengths", own[0]["length"], None, None, "value")
        wanted[key] = [row["value"] for row in own]
    assert {key for key in figures if "scalar" in key[0] or key[-1] == "number"} == set(wanted)
    for key, each in wanted.items():
        near = pytest.approx([np.mean(each), np.std(each, ddof=1), min(each), max(each)], rel=1e-6)
        if key[1] != "rounding":
            row = figures[key]
            assert [row[k] for k in ("mean", "deviation", "smallest", "largest")] == near
            assert row["texts"] == 4
    table = list(csv.DictReader(io.StringIO((out / texts.FIGURES).read_text())))
    html = (out / texts.HTML).read_text()
    shown = html[html.index("<h2>The number by head") : html.index("<h2>Text by text")]
    heads = [row for row in found["figures"] if row["figure"] == "direct"]
    assert [row["mean"] for row in table if row["figure"] == "direct"] == [
        repr(row["mean"]) for row in heads
    ]
    cells = re.findall(r'<td data-n="([^"]*)"', shown)
    names = ("layer", "head", "mean", "deviation", "smallest", "largest", "texts")
    assert cells == [repr(row[name]) for row in heads for name in names]
    top = max(heads, key=lambda row: abs(row["mean"]))
    assert (
        f"Of the heads most comes from {top['layer']}.{top['head']} (mean {top['mean']:+.4g}, st"
        in (done.output)
    )
    assert f"{found['number']}, mean {np.mean(values):+.4g}, standard dev" in done.output
    for more, message in (
        (
            ["--logit", "path", "--at", "4"],
            "logit: got at 4 for lines:5, a text of 3 tokens, expected",
        ),
        (["--logit", "nothing"], "logit: got 'nothing', which is no token, expected one token of"),
        (["--logit", "path", "--paths", "3"], "texts: got paths too, expected --text with one"),
        ([], "out: got .* of another campaign, with settings scalar"),
    ):
        failed = CliRunner().invoke(cli.app, [*call, *more])
        assert re.match(message, str(failed.exception)), failed.exception


@pytest.mark.browser
def test_axe_finds_nothing_and_nothing_sticks_out(found, browser):
    view = browser.new_page(viewport={"width": 390, "height": 844})
    view.goto((found[1] / texts.HTML).as_uri())
    assert view.evaluate(STICKING_OUT) == []
    assert accessibility.violations(view, accessibility.script()) == []
    view.close()

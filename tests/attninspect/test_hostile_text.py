"""What a stranger wrote is text on every page: no element, no attribute, no script comes of it."""

import dataclasses
import json
from xml.etree import ElementTree

import pytest
import torch
from bs4 import BeautifulSoup
from typer.testing import CliRunner

import attnverify as av
import modelzoo
from attninspect import command, drawings, texts_page
from attnverify.cli import app

HOSTILE = (
    '"><script>alert(1)</script></title></style></script>]]>--><svg onload=alert(1)>&lt;\'" x='
    "\"1\x00\x1b[31m\x0b\uffff<img src=x onerror='alert(1)'>"
)
PLAIN = "w" * len(HOSTILE)
NAMES = {"biases", "rounding"}  # of lengths, which a report looks for


def said(value, text: str):
    """The same with this text in place of every other one."""
    if isinstance(value, dict):
        return {key: said(each, text) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(said(each, text) for each in value)
    return text if isinstance(value, str) and value not in NAMES else value


@pytest.fixture(scope="module")
def report():
    return av.inspect(
        modelzoo.model("gpt2"), modelzoo.inputs("gpt2", batch=1), scalar={"coordinate": 3}
    )


def pages(report, text: str, folder) -> dict[str, str]:
    """Every page, with this text wherever a model, a log or a file has words of its own."""
    shown = dataclasses.replace(
        report,
        **{
            field.name: said(getattr(report, field.name), text)
            for field in dataclasses.fields(report)
            if field.name not in ("patterns", "inputs")
        },
        inputs=report.inputs | {"words": [text] * report.inputs["tokens"]},
    )
    command.write(shown, folder)
    found = {"inspect": (folder / "inspect.html").read_text()}
    found["compare"] = av.compare([shown] * 3, [f"{i}{text}" for i in range(3)]).html()
    row = dict.fromkeys(texts_page.TEXTS, 1.0) | {"text": text}
    body = {"model": {"class": text}, "proof": {"texts": 2}, "texts": [row] * 2, "figures": []}
    found["texts"] = texts_page.html(body, [text] * 3, text, text)
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model.__class__ = type("".join(filter(str.isprintable, text)), (type(model),), {})
    av.Watch(model, folder / "log.jsonl").step(0, torch.randn(1, 5, 8))
    result = CliRunner().invoke(app, ["watch", str(folder / "log.jsonl")])
    assert result.exit_code == 0, result.output
    found["watch"] = (folder / "log.html").read_text()
    return found


def elements(page: str) -> list:
    """Every element with the names of its attributes, and whatever a browser would run."""
    soup = BeautifulSoup(page, "html.parser")
    for script in soup.select("script[type='application/json']"):
        json.loads(script.string)
        script.string = ""
    return [
        (tag.name, sorted(tag.attrs), tag.string if tag.name in ("script", "style") else "")
        for tag in soup.find_all(True)
    ]


def test_a_page_has_the_elements_that_plain_text_gives(report, tmp_path):
    made = {}
    for name, text in (("plain", PLAIN), ("hostile", HOSTILE)):
        (tmp_path / name).mkdir()
        made[name] = pages(report, text, tmp_path / name)
    for name, page in made["hostile"].items():
        assert "alert(1)" in page and elements(page) == elements(made["plain"][name]), name
    for drawing in (tmp_path / "hostile").glob("*.svg"):
        ElementTree.fromstring(drawing.read_text())


@pytest.mark.browser
def test_no_script_of_a_stranger_runs(browser, report, tmp_path):
    opened, ran = browser.new_page(), []
    opened.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    (tmp_path / "log").mkdir()
    for name, page in pages(report, HOSTILE, tmp_path / "log").items():
        (tmp_path / f"{name}.html").write_text(page)
        opened.goto((tmp_path / f"{name}.html").as_uri())
        assert opened.locator("h1").count() == 1 and not ran, name
    opened.close()


@pytest.mark.parametrize(
    "drawn",
    [
        lambda text: drawings.bars(text, [text], [1.0], [text]),
        lambda text: drawings.line(text, [text], [1.0], text),
        lambda text: drawings.ranges(text, [text], [(0.0, 1.0, 2.0)]),
        lambda text: drawings.lines(text, [text], [(text, [1.0]), (text, [2.0])], text),
        lambda text: drawings.scatter(text, [text], [1.0], [2.0]),
        lambda text: drawings.grid(
            text, [{"layer": text, "head": 1, "v": 1.0}], "v", text, text, text
        ),
        lambda text: drawings.threads(text, [{"path": text, "heads": [1], "value": 1.0}], 2),
    ],
)
def test_a_drawing_is_a_file_with_the_elements_that_plain_text_gives(drawn):
    """An SVG file is XML, which has no place for a control character."""
    trees = [ElementTree.fromstring(drawn(text)) for text in (PLAIN, HOSTILE)]
    plain, hostile = ([(e.tag, sorted(e.attrib)) for e in tree.iter()] for tree in trees)
    assert plain == hostile

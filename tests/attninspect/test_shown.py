"""What a reader sees of a report, a comparison and many texts, from a toy of distinct values.

No two entries of a column are equal, no layer is the first at which something is worst, and some
entries are not defined. Tables, CSV and JSON are compared, cell by cell, with the entries under the
name of their column; ``shown.txt`` has the words around them: titles, headers, sentences, labels of
figures and the color of what they label. After a change that was meant, run this file as a program
and read the diff of ``shown.txt`` against the values of TOY.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import count, cycle
from pathlib import Path
from statistics import fmean, stdev

import pytest

from attninspect import command, compare, page, texts, texts_page, watch_page
from attninspect.columns import TABLES
from attninspect.findings import dumps
from attninspect.report import Report
from attninspect.watch_log import HEAD, Head, Layer, Log, Measured
from attnverify.runtime.campaign import Campaign
from attnverify.runtime.tasks import Task
from attnverify.support.typeset import numbers

RECORD = Path(__file__).with_name("shown.txt")
WORDS = ["the", " ", "cat", "\n", "sat"]


def toy(step: int = 0) -> Report:
    """Three layers of two heads, every entry of its own: odd multiples of 2^-7 below 2.

    step: moves every entry, and which layer, head and text is worst. Parts of a number have signs.
    """
    values = ((101 * i + 37 * step) % 251 / 128 + 2**-7 for i in count(1))

    def rows(table: str, places: list[dict], **words) -> list[dict]:
        signs = cycle((1, -1, 1) if table.startswith("scalar") else (1,))
        names = [name for name in TABLES[table] if name not in {*places[0], *words}]
        made = [{name: next(signs) * next(values) for name in names} for _ in places]
        for row, place in zip(made, places, strict=True):
            row |= words | place
            if "rounding" in place.values():
                row |= dict.fromkeys(names, 1e-6)
        return [{name: row[name] for name in TABLES[table]} for row in made]

    heads = [{"layer": i, "head": h} for i in (1, 2, 3) for h in (1, 2)]
    nearest = ([2, 4], [3, 1], [5, 2])
    layers = [{"layer": i, "nearest": each} for i, each in enumerate(nearest, 1)]
    layers = rows("layers", layers, text=1, why_no_threshold=None)
    layers[1] |= {"residual": 0.0625 + step / 8, "over_threshold": 0.375}
    layers[2] |= {"threshold": None, "over_threshold": None, "why_no_threshold": "a mask"}
    lengths = [{"length": i, "paths": n} for i, n in enumerate((1, 6, 12, 8))]
    lengths += [{"length": name, "paths": None} for name in ("biases", "rounding")]
    measured = rows("heads", heads)
    measured[4] |= {"xi": None, "sink": None}
    measured[2]["sink"], measured[3]["moves"] = 1.9375, 0.03
    paths = [
        {"rank": 1, "path": "2.1 > 3.2", "heads": [0, 1, 2], "token": 3, "word": "cat"},
        {"rank": 2, "path": "1.2", "heads": [2, 0, 0], "token": 2, "word": " "},
    ]
    paths = rows("scalar_paths", paths, certified=True)
    others = {"rank": "others", "value": next(values), "share": next(values), "most": next(values)}
    paths = [paths[0], paths[1] | {"certified": False}, dict.fromkeys(paths[0]) | others]
    tokens = [{"token": i, "word": word} for i, word in enumerate(WORDS, 1)]
    tokens += [{"token": name, "word": None} for name in ("biases", "rounding")]
    places = [{"layer": name} for name in ("input", 1, 2, 3, "end", "rounding")]
    rollout = ("tokens", "rank_correlation", "same_top", "own_rollout", "own_true")
    bounds = ("unseen", "error", "sum")
    ranges = ("energy", "share_of_energy", "effective")
    model = {"family": "gpt2", "class": "Toy", "parameters": 1234, "dtype": "float32", "layers": 3}
    proof = {"steps": 33 + step, "deciding_nothing": 4 + step, "at": f"layer {step + 1}, scores"}
    proof["largest_error_over_bound"] = (0.25, 0.75, 0.5)[step]
    top = [{"index": 7, "name": "x"}, {"index": 9, "name": None}]
    number = {"name": "logit of token 'x' (#7)", "position": 4, "word": "\n", "bound": 2e-9}
    number |= {"value": next(values), "of": "next tokens"}
    return Report(
        model=model
        | {"heads": 2, "key_heads": 1, "width": 8, "stored": "bfloat16"}
        | {"attention": "eager", "attention_as_given": "sdpa"},
        inputs={"texts": 1, "tokens": 5 + step, "padding": 0, "words": WORDS},
        proof=proof | {"rounding_of_output": 3e-8, "rounding_of_shares": 0.003},
        lengths=rows("lengths", lengths),
        layers=layers,
        heads=measured,
        rollout={name: next(values) for name in rollout},
        notes=("a <note>",),
        scalar=number
        | {"top": [each | {"logit": next(values)} for each in top]}
        | {"ablation": {"kind": "mean", "seed": 3, "passes": 2, "rows": 9, "unchanged": 0.0}}
        | {
            "paths": {"asked": 3, "listed": 2, "number": 27, "nodes": 11, "budget": 12}
            | {"certified": False}
            | {name: next(values) for name in bounds}
            | {name: [next(values), 2 + next(values)] for name in ranges}
        },
        scalar_lengths=rows("scalar_lengths", lengths),
        scalar_layers=rows("scalar_layers", places),
        scalar_heads=rows("scalar_heads", heads),
        scalar_tokens=rows("scalar_tokens", tokens),
        scalar_paths=paths,
    )


class Seen(HTMLParser):
    """A page as a reader has it: lines of text, tables with their cells, figures with their labels.

    Of a figure a line with its letters and one with what is told of its marks, each with its class,
    that is its color. Legends of columns are told by a digest.
    """

    LINES = ("p", "li", "h1", "h2", "h3")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.tables: list[tuple[str, list[str], list[list[str | None]]]] = []
        self.text, self.marks, self.legend, self.kind, self.inside = "", "", "", "", []
        self.cells = ""
        self.feed(str(html))  # a part of markup is markup, and escapes what is added to it

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag in ("meta", "canvas"):
            return
        self.inside.append(tag)
        if tag == "svg":
            self.text = self.marks = ""
        elif tag in ("rect", "circle", "path", "g"):
            self.kind = found.get("class") or self.kind
        elif tag == "div" and found.get("role") == "region":
            self.tables.append((found["aria-label"], [], []))
        elif tag == "tr" and "tbody" in self.inside:
            self.tables[-1][2].append([])
        elif tag == "td":
            self.text = ""
            self.number = found.get("data-n")
        elif tag in self.LINES and "svg" not in self.inside:
            self.text = ""

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass
        if tag == "td":
            self.tables[-1][2][-1].append(self.text if self.number is None else self.number)
            self.cells += f" {self.text}"
        elif tag == "th":
            self.tables[-1][1].append(self.text.strip())
        elif tag == "thead":
            self.lines.append(" | ".join(self.tables[-1][1]))
        elif tag == "text":
            self.text += " / "
        elif tag == "svg":
            self.lines += [self.text.strip(" /"), self.marks.strip(" ;")]
        elif tag == "dl":
            digest = hashlib.sha256(self.legend.encode()).hexdigest()
            self.lines.append(f"legend {digest[:12]}")
            self.legend = ""
        elif tag in self.LINES and "svg" not in self.inside and self.text.strip():
            self.lines.append(self.text.strip())

    def handle_data(self, data):
        if set(self.inside) & {"style", "script", "noscript", "select"}:
            return
        if "svg" in self.inside and self.inside[-1] == "title":
            self.marks += f" [{self.kind}] {data};"
        elif "dl" in self.inside:
            self.legend += f"{self.inside[-1]} {data}\n"
        elif self.inside and self.inside[-1] == "button":
            self.text = data
        else:
            self.text += data


@pytest.fixture(scope="module")
def reports():
    return [toy(step) for step in range(3)]


def over_texts(reports) -> dict:
    names = {f"{name}.txt": "0" * 64 for name in "abc"[: len(reports)]}
    made = Campaign("inspect texts", {"texts": names, "model": "1" * 64}, [Task("a", print, ())])
    return texts.merged(made, [report.as_json() for report in reports])


def watched() -> Log:
    """Three records of three layers, all values apart; the worst layer is never the first."""
    values = ((33 * i) % 127 / 64 + 2**-7 for i in count(1))
    records = []
    for step in (5, 10, 35):
        layers = []
        for _ in range(3):
            own = [Head(*(next(values) for _ in HEAD)) for _ in range(2)]
            layers.append(Layer(next(values), next(values), tuple(own)))
        records.append(Measured(step, tuple(layers)))
    log = Log.__new__(Log)
    log.words, log.records = (
        {"class": "Toy", "parameters": 9, "layers": 3, "heads": [2] * 3},
        records,
    )
    return log


def everything(reports) -> dict[str, Seen]:
    """Name to what is seen of each page."""
    many = over_texts(reports)
    return {
        "inspect": Seen(page.page(reports[0], "https://book")),
        "compare": Seen(compare.compare(reports, ["first", "second", "third"]).html()),
        "texts": Seen(texts_page.html(many, texts.lines(many), "pieces")),
        "watch": Seen(watch_page.html(watched())),
    }


def recorded(found: dict[str, Seen]) -> str:
    return "".join(f"# {name}\n" + "\n".join(each.lines) + "\n" for name, each in found.items())


def test_what_is_seen_is_what_was_read(reports):
    pages = everything(reports)
    found = recorded(pages).splitlines()
    for text in [*found, *(each.cells for each in pages.values())]:
        assert not re.search(r"\d[eE][-+]\d", text), "powers of ten"
    for line, wanted in zip(found, RECORD.read_text(encoding="utf-8").splitlines(), strict=True):
        assert line == wanted


def cell(value: object) -> str:
    """An entry as a table of a page has it."""
    if value is None or isinstance(value, int | float) and not isinstance(value, bool):
        return "\N{EN DASH}" if value is None else repr(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def agrees(table, rows: list[dict], columns: dict[str, str]) -> None:
    """Under every header stand the entries of its column; columns: header to name, all of them."""
    _, head, body = table
    assert len(set(columns)) == len(columns) and head == [h for h in columns if h in head]
    assert body == [[cell(row[columns[title]]) for title in head] for row in rows]
    left = [row[name] for title, name in columns.items() if title not in head for row in rows]
    assert set(left) <= {None}


PAGES = {**page.TITLES, **page.SCALAR}


@pytest.mark.parametrize("name", TABLES)
def test_cells_stand_under_their_headers(reports, name):
    """In the page, the CSV and the JSON; the page shows blanks, and words of nearest tokens."""
    report, columns = reports[0], {column.title: n for n, column in TABLES[name].items()}
    rows = getattr(report, name)
    (table,) = (t for t in Seen(page.page(report)).tables if t[0] == PAGES[name])
    signs = {" ": "␣", "\n": "⏎"}
    words = [signs.get(word, word) for word in WORDS]
    seen = [row | {"word": signs.get(row.get("word"), row.get("word"))} for row in rows]
    for row in seen:
        row["nearest"] = [f"{i} {words[i - 1]}" for i in row.get("nearest") or []]
    agrees(table, seen, columns)
    body = list(csv.reader(io.StringIO(command.as_csv(rows))))
    assert body[0] == list(TABLES[name])
    for line, row in zip(body[1:], rows, strict=True):
        own = [" ".join(map(str, v)) if isinstance(v, list) else v for v in row.values()]
        quoted = [f"'{v}" if isinstance(v, str) and v.startswith("\n") else v for v in own]
        assert line == ["" if v is None else str(v) for v in quoted]
    found = json.loads(dumps(report))
    assert found[name] == rows and list(found["columns"][name]) == list(TABLES[name])
    for key, column in found["columns"][name].items():
        assert column == vars(TABLES[name][key])


def test_a_terminal_has_the_sentences_of_the_page(reports):
    said = numbers(str(reports[0])).splitlines()
    lines = Seen(page.page(reports[0])).lines
    assert [line for line in lines if line in said] == [*said[:8], said[-1], *said[8:-1]]
    found = compare.compare(reports, ["first", "second", "third"])
    lines = Seen(found.html()).lines
    assert lines[1 : 1 + len(found.lines())] == str(found).splitlines() == found.lines()


def test_cells_of_a_comparison_are_differences(reports):
    labels = ["first", "second", "third"]
    found = compare.compare(reports, labels)
    tables = Seen(found.html()).tables
    table_of_csv = list(csv.DictReader(io.StringIO(found.csv())))
    places = {"path length": "length", "layer": "layer", "head": "head"}
    columns = {**places, **{x: x for x in [*labels, "change", "spread"]}}
    for table, (figure, (name, column, _)) in zip(tables, compare.FIGURES.items(), strict=True):
        rows = []
        for each in zip(*(getattr(report, name) for report in reports), strict=True):
            values = [row[column] for row in each]
            if each[0].get("length") != "rounding":
                whole = None not in values
                row = {key: each[0].get(key) for key in places.values()}
                row |= dict(zip(labels, values, strict=True))
                row["change"] = values[2] - values[0] if whole else None
                row["spread"] = max(values) - min(values) if whole else None
                rows.append(row)
        rows.sort(key=lambda row: -1.0 if row["spread"] is None else row["spread"], reverse=True)
        agrees(table, rows, columns)
        own = [row for row in table_of_csv if row["figure"] == figure]
        for line, row in zip(own, rows, strict=True):
            names = {f"in {label}": label for label in labels}
            assert {names.get(k, k): v for k, v in line.items() if k != "figure"} == {
                key: "" if value is None else str(value) for key, value in row.items()
            }


def test_cells_of_many_texts_are_those_of_the_reports(reports):
    many = over_texts(reports)
    spread, heads, table = Seen(texts_page.html(many, texts.lines(many), "pieces")).tables
    worst = [min(report.layers, key=lambda row: row["residual"]) for report in reports]
    longest = [max(report.lengths[:4], key=lambda row: row["share"]) for report in reports]
    rows = [
        {
            "text": f"{name}.txt",
            "tokens": report.inputs["tokens"],
            "length": top["length"],
            "largest share": top["share"],
            "share of biases": report.lengths[4]["share"],
            "least residual": low["residual"],
            "rollout": report.rollout["rank_correlation"],
            "number": report.scalar["value"],
            "at token": report.scalar["position"],
            "layer of least residual": low["layer"],
            "error over bound": report.proof["largest_error_over_bound"],
        }
        for name, report, low, top in zip("abc", reports, worst, longest, strict=True)
    ]
    agrees(table, rows, {title: title for title in rows[0]})

    def over(values: list[float]) -> dict[str, float]:
        found = {"mean": fmean(values), "standard deviation": stdev(values)}
        return found | {"smallest": min(values), "largest": max(values), "texts": len(values)}

    titles = ("largest share", "share of biases", "least residual", "rollout", "number")
    rows = [{"figure": title} | over([row[title] for row in rows]) for title in titles]
    agrees(spread, rows, {title: title for title in rows[0]})
    places = zip(*(report.scalar_heads for report in reports), strict=True)
    rows = [
        {"layer": each[0]["layer"], "head": each[0]["head"]} | over([row["direct"] for row in each])
        for each in places
    ]
    agrees(heads, rows, {title: title for title in rows[0]})


def test_cells_of_a_watch_are_those_of_its_log():
    log = watched()
    rows = [
        {
            "layer": number,
            "relative residual": layer.residual,
            "least entropy (nats)": min(head.entropy for head in layer.heads),
            "least gauge": min(head.gauge for head in layer.heads),
            "of its first value": min(
                head.gauge / then.gauge for head, then in zip(layer.heads, first.heads, strict=True)
            ),
        }
        for number, (layer, first) in enumerate(
            zip(log.records[-1].layers, log.records[0].layers, strict=True), 1
        )
    ]
    (table,) = Seen(watch_page.html(log)).tables
    agrees(table, rows, {title: title for title in rows[0]})


ONE = re.compile(r"(?<![\d.,^])(?<!of )\b1 (\w+ )?[a-z]*[^s\W]s\b|\b1 (of \w+ )*are\b")


def test_one_of_everything_is_singular():
    """Pages of one layer, head, token, text and path, and of one of all else that is counted."""
    names = "layers heads key_heads parameters steps tokens texts deciding_nothing listed number"
    one = dict.fromkeys([*names.split(), "nodes", "budget", "asked", "rows", "passes"], 1)
    report = toy()
    facts = [report.model, report.inputs, report.proof]
    for each in [*facts, report.scalar["paths"], report.scalar["ablation"]]:
        each |= {name: 1 for name in one if name in each}
    report = replace(report, layers=report.layers[1:2], heads=report.heads[2:3])
    many, log = over_texts([report]), watched()
    log.words, log.records = log.words | {"layers": 1}, log.records[:1]
    for html in (
        page.page(report),
        texts_page.html(many, texts.lines(many), ""),
        watch_page.html(log),
    ):
        for line in Seen(html).lines:
            assert not ONE.search(line), line


if __name__ == "__main__":
    RECORD.write_text(recorded(everything([toy(step) for step in range(3)])), encoding="utf-8")

"""Reports side by side: of checkpoints of one run, or of two models.

Read are the path lengths, layers and heads that all reports have. What only some of them have, or
what stands for another thing in each, is left out, and the reason is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attninspect import drawings, page
from attninspect.columns import TABLES, Column
from attninspect.command import JSON, REPORT, as_csv, require_own
from attninspect.findings import FORMAT, Findings
from attnverify.support import files
from attnverify.support.errors import InputError, require, shown

HTML, CSV = "compare.html", "compare.csv"
EXPECTED = "inspect.json of attnverify inspect, or a folder with one"
NAMED = 3  # changes of a figure that are told
MOST = 100  # rows of a figure on the page
LINES = 7  # reports that a figure draws as lines
SHORT = 24  # letters of a label in a figure
LARGEST_PLACE = 1 << 12  # no report has more layers or heads
PLACES = ("length", "layer", "head")
Place = tuple[int | str, ...]
Values = dict[Place, float | None]

#: Name to table, column, and title.
FIGURES = {
    "share": ("lengths", "share", "Share of the output by path length"),
    "residual": ("layers", "residual", "Relative residual where each layer begins"),
    "entropy": ("heads", "entropy", "Entropy of attention, share of log keys"),
    "sink": ("heads", "sink", "Attention to the first token"),
    "direct": ("scalar_heads", "direct", "A head's part of the number"),
}
COLUMNS = {
    "length": Column("path length", "or biases", "", ""),
    "layer": Column("layer", "counted from 1", "", ""),
    "head": Column("head", "counted from 1", "", ""),
}
ENDS = {
    "change": Column("change", "the last report minus the first", "", ""),
    "spread": Column("spread", "the largest minus the smallest of all reports", "", ""),
}


@dataclass(frozen=True)
class _Told:
    """What is read of a report: facts of its model and text, and values by figure and place."""

    facts: dict[str, Any]
    values: dict[str, Values]

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> _Told:
        """Raises LookupError or TypeError where it is none, InputError for another format."""
        kind = body["format"]
        require(kind == FORMAT, "report", f"format {shown(kind)}", f"{FORMAT!r}: {EXPECTED}")
        model, inputs, scalar = body["model"], body["inputs"], body.get("scalar")
        facts = {name: _word(model[name]) for name in ("family", "class", "dtype")}
        facts |= {name: _whole(model[name]) for name in ("layers", "heads")}
        facts |= {"parameters": _number(model["parameters"]), "tokens": _number(inputs["tokens"])}
        facts["words"] = inputs["words"]
        facts["number"] = None if scalar is None else _word(scalar["name"])
        facts["value"] = None if scalar is None else _number(scalar["value"] + 0)  # no null
        facts["place"] = None if scalar is None else _place(scalar)
        found = {
            name: _values(body.get(table, []), column, PLACES)
            for name, (table, column, _) in FIGURES.items()
        }
        return cls(facts, found)


def _values(rows: Any, column: str, places: Sequence[str]) -> Values:
    """By place, the mean over texts, without rounding; None where a figure is not defined."""
    found: dict[Place, list[float]] = defaultdict(list)
    for row in rows:
        place = tuple(_whole(row[name]) for name in places if name in row)
        value = _number(row.get(column))
        if "rounding" not in place:
            found[place] += [] if value is None else [value]
    return {place: sum(each) / len(each) if each else None for place, each in found.items()}


def _whole(value: Any) -> int | str:
    known = value in ("biases", "rounding") if isinstance(value, str) else type(value) is int
    if not known or (isinstance(value, int) and not 0 <= value <= LARGEST_PLACE):
        raise TypeError(f"{shown(value)} in place of a length, a layer or a head")
    return value


def _place(scalar: Mapping[str, Any]) -> str:
    """The token that a number is read at."""
    word = scalar.get("word")
    return f"token {_whole(scalar['position'])}{'' if word is None else f' {_word(word)!r}'}"


def _number(value: Any) -> float | None:
    if value is None:
        return None
    good = type(value) in (int, float) and -1e300 < value < 1e300  # and no NaN
    if not good:
        raise TypeError(f"{shown(value)} in place of a number")
    return float(value)


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{shown(value)} in place of a name")
    return "".join(letter if letter.isprintable() else "?" for letter in value[:120])


@dataclass(frozen=True)
class Comparison:
    """What changed between reports; ``print`` says it, and a notebook shows the page.

    models: facts of each report; rows: a row for each figure and place, ``values`` in the order of
    the labels, the largest spread of a figure first; apart: what is not compared, and why.
    """

    labels: list[str]
    models: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    apart: list[str]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return self.body()

    def of(self, figure: str) -> list[dict[str, Any]]:
        """The rows of a figure."""
        return [row for row in self.rows if row["figure"] == figure]

    def lines(self) -> list[str]:
        """What is compared, what changed most, what is not compared."""
        found = [f"{len(self.labels)} reports, {', '.join(self.labels)}."]
        for name, (_, _, title) in FIGURES.items():
            rows = [row for row in self.of(name) if row["spread"] is not None]
            told = [_said(row, self.labels) for row in rows[:NAMED]]
            if told:
                found.append(f"{title}: {_mean(rows)}most changed {'; '.join(told)}.")
        numbers = {facts["number"] for facts in self.models}
        if len(numbers) == 1 and None not in numbers:
            pairs = zip(self.labels, self.models, strict=True)
            values = (
                f"{facts['value']:.4g} at {facts['place']} in {label}" for label, facts in pairs
            )
            found.append(f"The number, {numbers.pop()}: {', '.join(values)}.")
        return [*found, *self.apart]

    def csv(self) -> str:
        """A row for each figure and place, a column for each report."""
        rows = [_flat(row, [f"{REPORT}{label}" for label in self.labels]) for row in self.rows]
        return as_csv(rows) if rows else ",".join(["figure", *PLACES, *ENDS]) + "\n"

    def html(self) -> Markup:
        """The whole page."""
        kinds = ", ".join(dict.fromkeys(facts["class"] for facts in self.models))
        return page.whole(f"{kinds}, {len(self.labels)} reports: comparison", self.body())

    def body(self) -> Markup:
        """Sentences, then curves and a table for each figure."""
        parts = [page.bullets(self.lines())]
        names = [f"r{i}" for i in range(len(self.labels))]
        own = {
            name: Column(label, "", "", "") for name, label in zip(names, self.labels, strict=True)
        }
        for name, (table, column, title) in FIGURES.items():
            rows = self.of(name)
            if not rows:
                continue
            more = f", the {MOST} largest changes of {len(rows)}" if len(rows) > MOST else ""
            parts += [Markup("<h2>{}</h2>").format(title), page.drawn(self._drawn(name))]
            shown = [_flat(row, names) for row in rows[:MOST]]
            parts.append(page.table(f"{title}{more}", shown, COLUMNS | own | ENDS))
            parts.append(page.legend({column: TABLES[table][column], **ENDS}))
        return Markup().join(parts)

    def _drawn(self, name: str) -> list[Markup]:
        """Curves over lengths or layers, and with many reports a field; means over heads."""
        title = FIGURES[name][2]
        by_place: dict[int, list[list[float | None]]] = defaultdict(list)
        for row in self.of(name):
            place = row["length"] if name == "share" else row["layer"]
            if isinstance(place, int):
                by_place[place].append(row["values"])
        places = sorted(by_place)
        columns = [zip(*by_place[place], strict=True) for place in places]  # one a report
        means = [[_average(each) for each in of_reports] for of_reports in columns]
        if not places:
            return []
        what = "length" if name == "share" else "layer"
        title += ", mean of heads" if any(row["head"] for row in self.of(name)) else ""
        count = len(self.labels)
        kept = sorted({round(i * (count - 1) / (LINES - 1)) for i in range(LINES)})
        series = [(self.labels[i][:SHORT], [each[i] for each in means]) for i in kept]
        found = [drawings.lines(title, [str(place) for place in places], series, what)]
        cells = [
            {"layer": place, "head": i, "value": value}
            for place, each in zip(places, means, strict=True)
            for i, value in enumerate(each, 1)
        ]
        if count > 2:
            title, across = f"{title}, by report", f"reports 1 to {count}"
            found.append(drawings.grid(title, cells, "value", across, "report", what))
        return found

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON."""
        facts = [{k: v for k, v in each.items() if k != "words"} for each in self.models]
        body = {"labels": self.labels, "models": facts, "rows": self.rows, "apart": self.apart}
        return {"format": "attnverify compare 1", **body}


def _flat(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A row with its values under the names of the reports."""
    start = {name: row[name] for name in ("figure", *PLACES)}
    ends = {name: row[name] for name in ENDS}
    return start | dict(zip(names, row["values"], strict=True)) | ends


def _said(row: Mapping[str, Any], labels: Sequence[str]) -> str:
    """A change in words, with what was larger or smaller between the first and the last."""
    at = {name: row[name] for name in PLACES if row[name] is not None}
    place = ", ".join(str(v) if v == "biases" else f"{name} {v}" for name, v in at.items())
    values = row["values"]
    said = f"{place}: {values[0]:.3g} to {values[-1]:.3g}"
    for told, extreme in (("largest", max(values)), ("smallest", min(values))):
        if extreme not in (values[0], values[-1]):
            said += f", {told} {extreme:.3g} in {labels[values.index(extreme)]}"
    return said


def _mean(rows: Sequence[Mapping[str, Any]]) -> str:
    """The mean over heads in the first and the last report; empty for a figure without heads."""
    if any(row["head"] is None for row in rows):
        return ""
    first, last = (sum(row["values"][k] for row in rows) / len(rows) for k in (0, -1))
    return f"mean over heads {first:.3g} to {last:.3g}; "


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def compare(reports: Sequence[Any], labels: Sequence[Any] | None = None) -> Comparison:
    """What changed between reports, from the first to the last.

    reports: two or more, each a report, its ``inspect.json`` or a folder that has one. labels: what
    they are called, by default the names of their files or folders, or numbers from 1.

    Raises InputError (arguments ``report``, ``labels``) for files that are no reports.

    >>> import torch
    >>> import attnverify as av
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    >>> model, x = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), []
    >>> for scale in (1.0, 2.0):
    ...     x.append(av.inspect(model, scale * torch.randn(5, 8)))
    >>> found = av.compare(x, ["before", "after"])
    >>> sorted({row["figure"] for row in found.rows})
    ['entropy', 'residual', 'share', 'sink']
    """
    given = list(reports)
    require(len(given) >= 2, "report", f"{len(given)} of them", "two reports or more")
    for each in given:
        known = isinstance(each, Findings | str | Path)
        require(known, "report", shown(each), "a report, or the path of one")
    good = labels is None or all(isinstance(label, str) for label in labels)
    require(good, "labels", shown(labels), "names")
    called = _labels(given) if labels is None else [_word(label) for label in labels]
    require(len(called) == len(given), "labels", f"{len(called)}", f"{len(given)}, one a report")
    require(len(set(called)) == len(called), "labels", shown(called), "distinct ones")
    told = [_read(each) for each in given]
    rows, apart = _rows(told, called)
    return Comparison(called, [each.facts for each in told], rows, apart)


def _labels(given: Sequence[Any]) -> list[str]:
    """The ends of paths, as long as it takes to tell them apart; else numbers."""
    if any(isinstance(each, Findings) for each in given):
        return [str(number) for number in range(1, len(given) + 1)]
    paths = [Path(each).absolute() for each in given]
    named = [path.parent if path.name == JSON else path for path in paths]
    parts = [[*path.parts[:-1], path.name.removesuffix(".json")] for path in named]
    length, found = 0, [""] * len(paths)
    while len(set(found)) < len(found) and length < max(map(len, parts)):
        length += 1
        found = [_word("/".join(each[-length:])) for each in parts]
    return found


def _read(given: Any) -> _Told:
    if isinstance(given, Findings):
        return _Told.of(given.as_json())
    path = Path(given) / JSON if Path(given).is_dir() else Path(given)
    with files.read_json(path, "report", "report", expected=EXPECTED) as body:
        try:
            return _Told.of(body)
        except InputError as error:
            raise InputError(f"{error} ({path})") from error


def _rows(told: Sequence[_Told], labels: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of all figures that can be compared, and what cannot."""
    apart = list(_others(told, labels))
    rows: list[dict[str, Any]] = []
    by_layer, by_head = (_same(told, name) for name in ("layers", "heads"))
    one_number = _same(told, "number")
    for name, (table, _, title) in FIGURES.items():
        values = [each.values[name] for each in told]
        lacking = [label for label, each in zip(labels, values, strict=True) if not each]
        if lacking:
            if name != "direct":
                apart.append(f"{title}: not compared; none in {', '.join(lacking)}.")
            continue
        if (name != "share" and not by_layer) or (name == "direct" and not one_number):
            continue
        if "heads" in table and not by_head:
            values = [_by_layer(each) for each in values] if name != "direct" else []
        rows += _figure(name, values)
        everywhere, anywhere = set(*values[:1]).intersection(*values), set().union(*values)
        if alone := len(anywhere - everywhere):
            apart.append(f"{title}: left out are {alone} that not all reports have.")
    return rows, apart


def _same(told: Sequence[_Told], name: str) -> bool:
    return all(each.facts[name] == told[0].facts[name] for each in told)


def _others(told: Sequence[_Told], labels: Sequence[str]) -> list[str]:
    """Sentences on how the reports differ in what they are about."""
    found = []

    def listed(name: str) -> str:
        pairs = zip(labels, told, strict=True)
        return ", ".join(f"{each.facts[name] or 'none'} in {label}" for label, each in pairs)

    if not _same(told, "layers"):
        found.append(
            f"Layers are not compared: {listed('layers')}, so a number of a layer is another place "
            "in each. Of path lengths those that all have are compared."
        )
    elif not _same(told, "heads"):
        found.append(f"Heads are not compared, only their means by layer: {listed('heads')}.")
    if not all(_same(told, name) for name in ("family", "class", "parameters")):
        found.append("These are different models: a head of one has no counterpart in another.")
    if not (_same(told, "tokens") and _same(told, "words")):
        found.append("The texts differ, so changes may come from the texts alone.")
    elif any(each.facts["words"] is None for each in told):
        found.append("Not every report has the words of its text, so the texts may differ.")
    if not _same(told, "dtype"):
        found.append(f"The models ran in different precision: {listed('dtype')}.")
    if not _same(told, "place") and _same(told, "number"):
        found.append(f"The number is read at different places: {listed('place')}.")
    if not _same(told, "number") and any(each.facts["number"] for each in told):
        found.append(f"The numbers in parts are not compared: {listed('number')}.")
    return found


def _by_layer(values: Values) -> Values:
    """Means over heads, (layer, head) to (layer,)."""
    found: dict[Place, list[float | None]] = defaultdict(list)
    for place, value in values.items():
        found[place[:1]].append(value)
    return {place: _average(each) for place, each in found.items()}


def _figure(name: str, values: Sequence[Values]) -> list[dict[str, Any]]:
    """Rows of the places that all reports have, the largest spread first."""
    rows = []
    for place in values[0] if values else ():
        if not all(place in each for each in values):
            continue
        own = [each[place] for each in values]
        known = [value for value in own if value is not None]
        whole = len(known) == len(own)
        first = 0 if name == "share" else 1
        at = dict(zip(PLACES[first:], place, strict=False))
        rows.append(
            {"figure": name}
            | {where: at.get(where) for where in PLACES}
            | {"values": own}
            | {"change": known[-1] - known[0] if whole else None}
            | {"spread": max(known) - min(known) if whole else None}
        )
    size = lambda row: -1.0 if row["spread"] is None else row["spread"]  # noqa: E731
    return sorted(rows, key=size, reverse=True)


#: The files in a folder, with the columns of the table but those of reports.
OWN = {HTML: (), CSV: ("figure", *PLACES, *ENDS)}


def write(found: Comparison, folder: Path) -> None:
    """The page and the table; raises InputError where a file there is none of ours."""
    require_own(folder, OWN)
    files.write_all({folder / HTML: found.html(), folder / CSV: found.csv()})

"""What ``attnverify inspect`` reads beside a model, and the files of a report in a folder.

The name of a file does not tell whose it is: ``layers.csv`` may hold measurements of somebody else.
So what is replaced or removed is known by its content: a table by its columns, a figure and a page
by how they begin, a JSON file by its format.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attninspect import drawings, page
from attninspect.columns import LOST, TABLES
from attninspect.findings import dumps
from attninspect.load import reading, text_of
from attninspect.report import Report
from attnverify.support import files
from attnverify.support.errors import require, shown

JSON, HTML = "inspect.json", "inspect.html"
REPORT = "in "  # how a column that has the values of one report begins
OPTIONAL = {LOST, "number", "position"}  # columns that a table may lack
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that a spreadsheet computes


def is_ours(columns: Collection[str], path: Path) -> bool:
    """Whether a file is one of ours; columns: of a table with that name, in any order."""
    if path.suffix == ".json":
        return files.own_json(path)
    start = files.start(path)
    if path.suffix != ".csv":
        figure = start.startswith(f"<svg {drawings.FRAME}") and drawings.STYLE in start
        return figure or page.begins(start)
    try:
        head = set(next(csv.reader([start.split("\n", 1)[0]]), []))
    except csv.Error:  # a line that ends with a carriage return alone, a file that is no text
        return False
    head = {name for name in head if not name.startswith(REPORT)}
    return set(columns) - OPTIONAL <= head <= set(columns)


#: Every file that a report may write, with the columns of tables.
OWN: Mapping[str, Collection[str]] = {
    **dict.fromkeys((JSON, HTML, *drawings.NAMES), ()),
    **{f"{name}.csv": columns for name, columns in TABLES.items()},
}


def require_own(folder: Path, own: Mapping[str, Collection[str]] = OWN) -> None:
    """Before a run: no file that it may write or remove there is somebody else's.

    own: names of the files, each with its columns where it is a table. Raises InputError (argument
    ``out``), also for a folder where nothing can be written.
    """
    for name, columns in own.items():
        files.require_writable("out", folder / name, partial(is_ours, columns))


def as_csv(rows: list[dict[str, Any]]) -> str:
    """A table with its columns' names; none is an empty cell.

    A name that a spreadsheet would take for a formula (``=1+1`` of a file ``=1+1``) gets a quote
    before it; texts.json has the name itself.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _cell(v) for k, v in row.items()} for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


LARGEST_IDS = 16 << 20  # bytes of a file of token ids
NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


def ids_from(file: Path) -> list[int]:
    """Token ids from a file: a JSON list, or whole numbers with spaces between."""
    expected = "token ids: a JSON list of whole numbers, or these with spaces or lines between"
    text = text_of(file, "tokens", LARGEST_IDS).strip()
    found: Any
    if text.startswith("["):
        with reading("tokens", f"{shown(file.name)}, which is no JSON"):
            found = json.loads(text)
    else:
        found = [int(each) if NUMBER.fullmatch(each) else each for each in text.split()]
    require(bool(found), "tokens", f"no token in {shown(file.name)}", expected)
    bad = [each for each in found if type(each) is not int]
    require(not bad, "tokens", f"{shown(bad[0]) if bad else ''} in {shown(file.name)}", expected)
    return found


def numbers(layers: str) -> list[int]:
    """Layer numbers of "1,3-5"; raises InputError."""
    found: list[int] = []
    for part in layers.split(","):
        ends = re.fullmatch(r"\s*([0-9]{1,4})\s*(?:-\s*([0-9]{1,4})\s*)?", part)
        low, high = (0, 0) if ends is None else (int(ends[1]), int(ends[2] or ends[1]))
        require(1 <= low <= high, "layers", repr(layers), 'layer numbers such as "1,3-5", from 1')
        found += range(low, high + 1)
    return found


def address(book: str | None) -> str:
    """The address of the published book without a slash at its end, empty where there is none.

    Raises InputError (argument ``book``) for what is no address of a web page.
    """
    good = re.fullmatch(r"(https?://[^\s<>\"']+)?", book or "") is not None
    require(good, "book", repr(book), "an address such as https://host/book")
    return (book or "").rstrip("/")


def write(report: Report, folder: Path, book: str = "") -> list[Path]:
    """The page, the JSON, a CSV for each table, the figures; returns their paths.

    book: the published book's :func:`address`, to which the claims on the page then link.
    What an earlier report left there and this one lacks is removed, so that all files of the folder
    are of one report. Raises InputError, before anything is changed, where a file is none of ours.
    """
    made = {HTML: page.page(report, book), JSON: dumps(report)}
    made |= drawings.figures(report) | drawings.scalar_figures(report)
    for name in TABLES:
        if rows := getattr(report, name):
            made[f"{name}.csv"] = as_csv(rows)
    require_own(folder)
    files.write_all({folder / name: content for name, content in made.items()})
    for name in OWN.keys() - made.keys():
        (folder / name).unlink(missing_ok=True)
    return [folder / name for name in made]

"""The files of a report in a folder: their names, and which of those there are are ours.

A name is no sign of whose a file is: ``layers.csv`` may hold measurements of somebody else. What is
replaced or removed is told by its content: a table by its columns, a figure by its style, a page by
how it begins, a JSON file by its format.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from attnverify.inspection import drawings, page
from attnverify.inspection.columns import TABLES
from attnverify.support import files

JSON, HTML = "inspect.json", "inspect.html"
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that a spreadsheet computes
FIRST = 1 << 14  # bytes of a file that are looked at: a head of columns, a style, a title


def require_own(folder: Path) -> None:
    """Before a run: no file that a report may write or remove there is somebody else's.

    Raises InputError (argument ``out``), also for a folder where nothing can be written.
    """
    for name, own in OWN.items():
        files.require_writable("out", folder / name, own)


def remove(folder: Path, keep: Collection[str]) -> None:
    """Remove the files of a report but those to keep; they were looked at by require_own."""
    for name in OWN.keys() - set(keep):
        (folder / name).unlink(missing_ok=True)


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


def table_of(columns: Collection[str]) -> Callable[[Path], bool]:
    """Whether a file is a CSV table of these columns, in any order."""

    def own(path: Path) -> bool:
        first = _start(path).split("\n", 1)[0]
        try:
            return sorted(next(csv.reader([first]), [])) == sorted(columns)
        except csv.Error:  # a line that ends with a carriage return alone, a file that is no text
            return False

    return own


def _figure(path: Path) -> bool:
    return drawings.is_ours(_start(path))


def _page(path: Path) -> bool:
    return page.is_ours(_start(path))


def _start(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(FIRST).decode("utf-8", "replace")


#: Every file that a report may write, and what tells that one is ours.
OWN: Mapping[str, Callable[[Path], bool]] = {
    JSON: files.own_json,
    HTML: _page,
    **dict.fromkeys(drawings.NAMES, _figure),
    **{f"{name}.csv": table_of(columns) for name, columns in TABLES.items()},
}

"""What ``attnverify inspect`` does: run, print, write files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnverify import files
from attnverify.errors import InputError, require
from attnverify.models import drawings, page, texts
from attnverify.models.load import ids_from
from attnverify.models.report import Report, dumps, inspect
from attnverify.models.words import summary

JSON, HTML = "inspect.json", "inspect.html"
WORDS = 96  # of the shipped essay, where no text is given


def run(
    model: Path,
    text: Path | None,
    tokens: Path | None,
    layers: str | None,
    dtype: str,
    device: str,
    brief: bool,
    progress: Callable[[str, float], None],
) -> Report:
    """The report on a folder's model at a text's or a file's tokens."""
    require(text is None or tokens is None, "text", "both text and tokens", "one of them")
    chosen = None if layers is None else numbers(layers)
    options: dict[str, Any] = {
        "dtype": dtype,
        "device": device,
        "layers": chosen,
        "brief": brief,
        "progress": progress,
    }
    if tokens is not None:
        return inspect(model, ids_from(tokens), **options)
    return inspect(model, text=_text(text), **options)


def look(model: Path, layers: str | None, dtype: str, device: str, brief: bool) -> texts.Look:
    """How many texts are looked at, from the words of the command."""
    chosen = None if layers is None else tuple(numbers(layers))
    return texts.Look(model.absolute(), str(dtype), str(device), chosen, brief)


def _text(file: Path | None) -> str:
    if file is None:
        from attnverify.experiments.trained_encoder.passages import passage

        return passage(0, WORDS)
    require(file.is_file(), "text", f"no file {file}", "a text file")
    return texts.content(file, "text")


def numbers(layers: str) -> list[int]:
    """Layer numbers of "1,3-5"; raises InputError."""
    found: list[int] = []
    for part in layers.split(","):
        first, _, last = part.strip().partition("-")
        try:
            low = int(first)
            high = int(last) if last else low
        except ValueError as error:
            expected = 'layer numbers such as "1,3-5"'
            raise InputError(f"layers: got {layers!r}, expected {expected}") from error
        found += range(low, high + 1)
    return found


def write(report: Report, folder: Path) -> list[Path]:
    """The page, the JSON, a CSV for each table, the figures; returns their paths."""
    made = {HTML: page.page(report), JSON: dumps(report), **drawings.figures(report)}
    for name in ("lengths", "layers", "heads"):
        if rows := getattr(report, name):
            made[f"{name}.csv"] = as_csv(rows)
    for name, content in made.items():
        files.write_text(folder / name, content)
    return [folder / name for name in made]


def as_csv(rows: list[dict[str, Any]]) -> str:
    """A table with its columns' names; none is an empty cell."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {k: " ".join(map(str, v)) if isinstance(v, list) else v for k, v in row.items()}
        for row in rows
    )
    return out.getvalue()


def lines(report: Report) -> list[str]:
    """What the terminal shows."""
    return summary(report)

"""What ``attnverify inspect`` does: run, print, write files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnverify import files
from attnverify.errors import InputError, require
from attnverify.models import drawings, page
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
    progress: Callable[[str, float], None],
) -> Report:
    """The report on a folder's model at a text's or a file's tokens."""
    require(text is None or tokens is None, "text", "both text and tokens", "one of them")
    chosen = None if layers is None else numbers(layers)
    options: dict[str, Any] = {
        "dtype": dtype,
        "device": device,
        "layers": chosen,
        "progress": progress,
    }
    if tokens is not None:
        return inspect(model, ids_from(tokens), **options)
    return inspect(model, text=_text(text), **options)


def _text(file: Path | None) -> str:
    if file is None:
        from attnverify.experiments.trained_encoder.passages import passage

        return passage(0, WORDS)
    require(file.is_file(), "text", f"no file {file}", "a text file")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"text: got {file}, which is no text ({error}), expected UTF-8") from error


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
    texts = {HTML: page.page(report), JSON: dumps(report), **drawings.figures(report)}
    for name in ("lengths", "layers", "heads"):
        texts[f"{name}.csv"] = as_csv(getattr(report, name))
    for name, content in texts.items():
        files.write_text(folder / name, content)
    return [folder / name for name in texts]


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

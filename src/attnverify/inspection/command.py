"""What ``attnverify inspect`` does: run, print, write files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnverify.inspection import drawings, outputs, page, texts
from attnverify.inspection.load import ids_from, text_of
from attnverify.inspection.report import Report, dumps, inspect
from attnverify.inspection.words import summary
from attnverify.support import files
from attnverify.support.errors import require

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
    return text_of(file, "text", texts.LARGEST)


def numbers(layers: str) -> list[int]:
    """Layer numbers of "1,3-5"; raises InputError."""
    found: list[int] = []
    for part in layers.split(","):
        ends = re.fullmatch(r"\s*([0-9]{1,4})\s*(?:-\s*([0-9]{1,4})\s*)?", part)
        low, high = (0, 0) if ends is None else (int(ends[1]), int(ends[2] or ends[1]))
        require(1 <= low <= high, "layers", repr(layers), 'layer numbers such as "1,3-5", from 1')
        found += range(low, high + 1)
    return found


def write(report: Report, folder: Path) -> list[Path]:
    """The page, the JSON, a CSV for each table, the figures; returns their paths.

    What an earlier report left there and this one lacks is removed, so that all files of the folder
    are of one report. Raises InputError, before anything is changed, where a file is none of ours.
    """
    made = {outputs.HTML: page.page(report), outputs.JSON: dumps(report)}
    made |= drawings.figures(report)
    for name in outputs.TABLES:
        if rows := getattr(report, name):
            made[f"{name}.csv"] = outputs.as_csv(rows)
    outputs.require_own(folder)
    outputs.remove(folder, keep=made)
    for name, content in made.items():
        files.write_text(folder / name, content)
    return [folder / name for name in made]


def lines(report: Report) -> list[str]:
    """What the terminal shows."""
    return summary(report)

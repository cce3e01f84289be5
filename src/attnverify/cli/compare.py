"""``attnverify compare``: saved reports side by side, the largest changes first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnverify.cli.options import Json
from attnverify.cli.progress import tell


def compare(
    reports: Annotated[
        list[Path],
        typer.Argument(metavar="REPORT...", help="Each an inspect.json, or a folder with one."),
    ],
    labels: Annotated[
        str | None,
        typer.Option(help='What the reports are called, as "step 0,step 100"; else their files.'),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the page and the CSV.")] = None,
    as_json: Json = False,
) -> None:
    """Compare reports of checkpoints, or of two models: what changed most, with a page and a CSV.

    Reports are those of attnverify inspect --out, in the order of the run.
    """
    from attninspect import compare as comparing

    if out is not None:
        comparing.require_own(out, comparing.OWN)
    names = None if labels is None else [name.strip() for name in labels.split(",")]
    found = comparing.compare(reports, names)
    if out is not None:
        comparing.write(found, out)
    written = [] if out is None else [f"page in {out / comparing.HTML}"]
    tell(found.as_json(), [*found.lines(), *written], as_json)

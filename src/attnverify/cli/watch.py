"""``attnverify watch``: the log of a watch as a page, also while the training goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnverify.cli.options import Json
from attnverify.cli.progress import tell


def watch(
    log: Annotated[Path, typer.Argument(help="File of JSON lines that av.Watch writes.")],
    out: Annotated[
        Path | None, typer.Option(help="The page; beside the log, as LOG.html, if omitted.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the log of av.Watch: a page with figures, and the worst layer in some lines."""
    from attninspect import watch_page
    from attninspect.watch_log import Log, plain
    from attnverify.support import files

    read = Log.of(log)
    place = log.with_suffix(".html") if out is None else out
    files.require_writable("out", place, watch_page.is_ours)
    files.write_text(place, watch_page.html(read))
    records = [plain(record.scalars()) for record in read.records]
    lines = [*watch_page.summary(read), f"page in {place}"]
    tell(read.words | {"records": records}, lines, as_json)

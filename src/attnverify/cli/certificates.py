"""``attnverify certificates``: certified instances as files for another program."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

import typer

from attnverify.cli.options import Ids
from attnverify.verification.printing import out


def certificates(
    folder: Annotated[Path, typer.Option("--out", help="New or empty folder to write to.")],
    ids: Ids = None,
) -> None:
    """Write certificates as files that tools/recheck.py evaluates in another arithmetic."""
    from attnverify.chapters import registry
    from attnverify.verification import certificate_export

    gc.disable()  # a program has 10^5 tuples and no cycle: looking for one takes a quarter
    try:
        index = certificate_export.write(registry, ids or [], folder)
    finally:
        gc.enable()
    files, left_out = len(index["files"]), len(index["not exported"])
    out.print(f"{files} certificates in {folder}; {left_out} not exported: see index.json")

"""``attnverify derivations``: statements and their derivations beside the reviewed record."""

from __future__ import annotations

from typing import Annotated

import typer


def derivations(
    names: Annotated[
        list[str] | None, typer.Argument(help="Notebooks, as softmax; all if omitted.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Record them, once you have read what differs.")
    ] = False,
) -> None:
    """Compare statements and derivations with the record of those that somebody has read."""
    from attnverify.chapters import registry
    from attnverify.derivation import record_review

    same = record_review.run(names or [], write, lambda line: print(line, flush=True), registry)
    raise typer.Exit(0 if same else 1)

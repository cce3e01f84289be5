"""``attnverify conjecture``: the best constant of an inequality, by search."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from attnverify.cli.options import Json, Restarts, Seed, Steps
from attnverify.cli.progress import console
from attnverify.support import files
from attnverify.support.errors import require
from attnverify.verification import printing


def conjecture(
    file: Annotated[Path, typer.Argument(help="Python file with left, right and SIZES.")],
    restarts: Restarts = 32,
    steps: Steps = 600,
    seed: Seed = 0,
    save: Annotated[
        Path | None, typer.Option("--out", help="Write the claim to this new file.")
    ] = None,
    as_json: Json = False,
    limit: Annotated[float, typer.Option(help="Seconds for the search.", min=1)] = 600,
) -> None:
    """Search for the best constant C of left <= C right, and propose a number of simple form."""
    if save is not None:
        require(not save.exists(), "out", f"{save}, which is there", "a new file")
        files.require_writable("out", save)
    from attnverify.chapters import registry
    from attnverify.checking.records import Settings
    from attnverify.verification import conjecture_file

    with printing.progress_bar() as bar:
        bar.add_task(f"searching {file.name}", total=None)
        settings = Settings(restarts=restarts, steps=steps, seed=seed)
        answer = conjecture_file.answer(file, settings, limit, registry.prefixes)
    found = answer.constant
    if as_json:
        print(printing.as_json(found.as_json()))
    else:
        words = f"{found} ({found.instances:,} instances, {found.seconds:.1f} s)"
        printing.out.print(words, markup=False, highlight=False, soft_wrap=True)
    if save is not None:
        files.write_text(save, answer.require_claim())
        words = f"claim in {save}; check it with: attnverify verify {shlex.quote(str(save))}"
        console(as_json).print(words, markup=False, soft_wrap=True)
    raise typer.Exit(0 if found.proposal else 1)

"""``attnverify experiment``: a measurement of the book, made again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attnverify.cli.options import OnDevice, Seed, require_device
from attnverify.support import files
from attnverify.verification import printing


def experiment(
    name: Annotated[
        str | None, typer.Argument(help="Name of an experiment; lists all of them if omitted.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Use the setting of the chapters, in which some criteria are not judged.",
        ),
    ] = False,
    device: OnDevice = "cpu",
    seed: Seed = 0,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to (default attnverify-NAME).")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Folder with a model of yours, for experiments that take one."),
    ] = None,
    text: Annotated[
        Path | None, typer.Option(help="Text file of yours, for experiments that take one.")
    ] = None,
) -> None:
    """Measure again what the book reports; a run that was interrupted goes on where it was.

    The exit code is 1 if the criterion comes out otherwise than the book says, or stays undecided.
    It is 0 for a quick run of an experiment that is judged in the full setting only, which says so.
    """
    from attnverify.chapters import registry
    from attnverify.experiments import Settings, find
    from attnverify.experiments.engine import command

    if name is None:
        command.show_all(printing.out, registry)
        return
    require_device(device)
    folder = folder or Path(f"attnverify-{find(name).name}")
    files.require_writable("out", folder / f"{name}.json")
    settings = Settings(quick=quick, seed=seed, device=device, model=model, text=text)
    agrees = command.run(name, settings, folder, printing.out, registry)
    raise typer.Exit(0 if agrees else 1)

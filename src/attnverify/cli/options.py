"""Arguments and options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from attnverify.support.errors import InputError

#: Exit code of a run that Ctrl-C ended.
INTERRUPTED = 130


Id = Annotated[str, typer.Argument(help="Id of a claim.")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(
        help="Claim ids, globs, chapters (norms or notebooks/norms.md) or files that state claims "
        "(.md, .ipynb, .py); all of the book if omitted."
    ),
]
Claims = Annotated[
    list[Path] | None,
    typer.Option("--claims", help="File that states claims (.md, .ipynb, .py); may be repeated."),
]
Jobs = Annotated[
    int | None, typer.Option(help="Number of local processes; one a core if omitted.", min=1)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option(help="Equal seeds give equal results.", min=0)]
Restarts = Annotated[int, typer.Option(help="Starting points of every search.", min=1)]
Steps = Annotated[int, typer.Option(help="Gradient steps from every starting point.", min=1)]
Samples = Annotated[int, typer.Option(help="Random instances of every check.", min=1)]
OnDevice = Annotated[Literal["cpu", "cuda"], typer.Option("--device", help="Device to compute on.")]


def require_device(device: str) -> None:
    """Raise ``InputError`` if this machine lacks the device."""
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise InputError("device: got 'cuda', expected a machine with a CUDA device (or 'cpu')")

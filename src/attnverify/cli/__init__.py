"""The console command ``attnverify``, with one module for each of its subcommands.

The exit code is 0 where no check failed or stayed unknown, 1 where some did, 2 for wrong usage or
a run that could not be finished, and 130 after an interrupt.

A subcommand imports what it computes with when it runs: ``--help`` loads no topic, and ``list`` and
``show`` load neither torch nor sympy.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from attnverify import __version__
from attnverify.cli import (
    attack,
    certificates,
    compare,
    conjecture,
    derivations,
    experiment,
    inspect,
    replay,
    show,
    verify,
    watch,
)
from attnverify.cli import list as listing
from attnverify.support import extras
from attnverify.support.errors import InputError, RunError
from attnverify.verification import printing

app = typer.Typer(
    name="attnverify",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for name, command in {
    "list": listing.list_claims,
    "show": show.show,
    "verify": verify.verify,
    "attack": attack.attack,
    "replay": replay.replay,
    "conjecture": conjecture.conjecture,
    "derivations": derivations.derivations,
    "certificates": certificates.certificates,
    "experiment": experiment.experiment,
    "inspect": inspect.inspect_model,
    "compare": compare.compare,
    "watch": watch.watch,
}.items():
    app.command(name)(command)


def main() -> None:
    """Run the command; an expected failure becomes one line on stderr and exit code 2."""
    printing.start()
    try:
        try:
            app()
        finally:
            printing.flush()
    except (InputError, RunError, OSError) as error:  # OSError: a disk or a file, not the code
        printing.error(error)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name != extras.INSPECT:
            raise
        printing.error(extras.NO_INSPECT)
        sys.exit(2)


def _version(asked: bool | None) -> None:
    if asked:
        printing.out.print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool | None,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = None,
) -> None:
    """Check the claims of the book Attention, Verified."""

"""What several subcommands show while they run and when they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from attnverify.cli.options import INTERRUPTED
from attnverify.verification import printing

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def pieces_bar(total: int) -> Iterator[Callable[[str, Any], None]]:
    """A bar that advances by a piece a call; an interrupt ends the run and says how it goes on."""
    try:
        with printing.progress_bar() as bar:
            task = bar.add_task("pieces", total=total)
            yield lambda name, result: bar.update(task, advance=1, description=name)
    except KeyboardInterrupt:
        words = "interrupted; finished pieces are kept: the same command goes on"
        printing.errors.print(words, markup=False)
        raise typer.Exit(INTERRUPTED) from None


def console(as_json: bool) -> Console:
    """Where words go: to standard error if standard output gets JSON."""
    return printing.errors if as_json else printing.out


def tell(found: Any, lines: Iterable[str], as_json: bool) -> None:
    """Print the JSON of what was found, if asked, then these lines."""
    if as_json:
        print(printing.as_json(found))
    for line in lines:
        console(as_json).print(line, markup=False, highlight=False, soft_wrap=True)

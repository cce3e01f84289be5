"""A piece of a run, as it is handed to a process."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

#: The results of pieces, in the order in which they come.
Results = Generator[Any, None, None]


@dataclass(frozen=True)
class Task:
    """A piece of a run: its name and the call that does it.

    limit: seconds after which the process of the piece is ended, or None for no limit. They are
    counted from when the process has imported what the call needs. Code from outside the package
    has a limit; its process does nothing else afterwards, since that code may have changed it.
    recorded: whether the result comes with the names of the files that its process has read, which
    does nothing else if the system can fork.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    limit: int | float | None = None
    recorded: bool = False

    def __call__(self) -> Any:
        return self.function(*self.arguments)

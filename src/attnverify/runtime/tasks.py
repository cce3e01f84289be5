"""A piece of a run, as it is sent to whatever process does it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

Results = Generator[Any, None, None]


@dataclass(frozen=True)
class Task:
    """A piece of a run: its name and the call that does it.

    limit: seconds after which a process of its own is ended, None for a piece that surely ends.
    They are counted from when the process has imported what the call needs. Code from outside the
    package has a limit; its process does nothing else afterwards, since it may have changed it.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    limit: int | float | None = None

    def __call__(self) -> Any:
        return self.function(*self.arguments)

"""Real text: documentation strings of Python's standard library, or a file of the user's."""

from __future__ import annotations

from pathlib import Path

from attnverify.experiments import texts
from attnverify.support.errors import require

CHARACTERS = 400_000


def documentation(characters: int = CHARACTERS) -> tuple[str, ...]:
    """The first documentation strings that have so many characters together.

    Of modules, classes and functions of top-level modules in alphabetical order; the same on every
    Python (:mod:`attnverify.experiments.texts`).
    """
    require(0 <= characters <= CHARACTERS, "characters", characters, f"0 to {CHARACTERS}")
    found, total = [], 0
    for each in texts.stored().docstrings.values():
        for text in each:
            if total >= characters:
                return tuple(found)
            found.append(text)
            total += len(text)
    return tuple(found)


def paragraphs(path: Path) -> tuple[str, ...]:
    """The paragraphs of a local text file in UTF-8, in order."""
    require(path.is_file(), "text", path, "an existing text file")
    text = path.read_text(encoding="utf-8", errors="replace")
    return tuple(part.strip() for part in text.split("\n\n") if part.strip())

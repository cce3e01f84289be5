"""A small reader of MyST notebooks for their code cells, and an escape for plain text.

It needs none of the book's tools and understands only what the book writes: fences of backticks or
tildes at the start of a line, tags as ``:tags: [one, two]``. tests/book/test_notebooks.py compares
every notebook with what jupytext reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from attnverify.support.errors import InputError

CELL = "{code-cell}"
FENCE = re.compile(r"(`{3,}|~{3,})([^`]*)")
PUNCTUATION = re.compile(r"([\\`*_{}\[\]<>|$#^~&])")
TAGS = re.compile(r":tags:\s*\[(.*)\]\s*")


@dataclass(frozen=True)
class Cell:
    """One code cell: its source without options, its tags, the line its source starts at (1..).

    name: of a cell of a notebook, which is a file of its own in messages.
    """

    source: str
    tags: tuple[str, ...]
    line: int
    name: str = ""


def escape(text: str) -> str:
    """Plain text as MyST that shows it unchanged."""
    return PUNCTUATION.sub(r"\\\1", text)


def fences(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """The fences: what is behind the opening, its line (1..), and the lines inside.

    Raises InputError for a directive without end.
    """
    fence, info, start, lines = "", "", 0, text.splitlines()
    for number, line in enumerate(lines):
        if fence:
            if line.rstrip().startswith(fence) and not line.strip().strip(fence[0]):
                yield info, start + 1, lines[start + 1 : number]
                fence = ""
        elif found := FENCE.fullmatch(line):
            fence, info, start = found[1], found[2].strip(), number
    if fence and info.startswith("{"):
        raise InputError(f"notebook: got {info} in line {start + 1} without end, expected one")


def code_cells(text: str) -> list[Cell]:
    """The code cells, in order; raises InputError for a cell without end or tags it cannot read."""
    lines = text.splitlines()
    found = [(at, at + len(own)) for info, at, own in fences(text) if info.startswith(CELL)]
    return [_cell(lines, start, end) for start, end in found]


def _cell(lines: list[str], start: int, end: int) -> Cell:
    """The cell of lines[start:end]: options first, then a blank line, then the source."""
    first, tags = start, ()
    if lines[first:end] and lines[first] == "---":  # a block of options
        first = lines.index("---", first + 1, end) + 1
        if any(line.startswith("tags") for line in lines[start:first]):
            raise InputError(f"notebook: got tags in a block in line {start + 1}, expected :tags:")
    while first < end and lines[first].startswith(":"):
        tags = tags + _tags(lines[first], first)
        first += 1
    while first < end and not lines[first].strip():
        first += 1
    return Cell("\n".join(lines[first:end]).rstrip(), tags, first + 1)


def _tags(line: str, number: int) -> tuple[str, ...]:
    if not line.startswith(":tags"):
        return ()
    found = TAGS.fullmatch(line)
    if found is None:
        raise InputError(f"notebook: got {line!r} in line {number + 1}, expected :tags: [one, two]")
    return tuple(tag.strip().strip("\"'") for tag in found[1].split(",") if tag.strip())

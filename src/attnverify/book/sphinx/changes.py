"""The changes of the book as an Atom feed (RFC 4287): each line of CHANGELOG.md with its day.

The days are those of the commits that brought the lines. Without the project's history, as in an
archive or a shallow clone, the feed has no entries rather than wrong days.
"""

from __future__ import annotations

import hashlib
import html
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

CODE = re.compile(r"`([^`]*)`")
NEVER = "1970-01-01T00:00:00Z"


class Change(NamedTuple):
    """One line of the changelog and when it came."""

    text: str
    time: str


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of a git command; None where it fails or there is no git."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout


def _lines(path: Path) -> list[tuple[int, str]]:
    """(time of its commit, text) of every line; empty without the whole history."""
    if (_git(path.parent, "rev-parse", "--is-shallow-repository") or "").strip() != "false":
        return []
    found, time = [], 0
    blame = _git(path.parent, "blame", "--line-porcelain", "--", path.name) or ""
    for line in blame.splitlines():
        if line.startswith("committer-time "):
            time = int(line.split()[1])
        elif line.startswith("\t"):
            found.append((time, line[1:]))
    return found


def entries(path: Path) -> list[Change]:
    """The list items of a changelog, the newest first."""
    items: list[tuple[int, str]] = []
    inside = False
    for time, line in _lines(path):
        if line.startswith("- "):
            items.append((time, line[2:]))
            inside = True
        elif inside and line.startswith("  "):
            before, text = items[-1]
            items[-1] = (max(before, time), f"{text} {line.strip()}")
        else:
            inside = False
    order = sorted(range(len(items)), key=lambda k: (items[k][0], k), reverse=True)
    return [Change(items[k][1], _time(items[k][0])) for k in order]


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _entry(change: Change, base: str) -> str:
    """An entry; the text of a line is its title and what names it."""
    name = hashlib.sha256(change.text.encode()).hexdigest()[:16]
    title = html.escape(CODE.sub(r"\1", change.text), quote=False)
    place = html.escape(base)
    return (
        f"<entry><id>{place}feed.xml#{name}</id><title>{title}</title>"
        f'<link href="{place}"/><updated>{change.time}</updated></entry>\n'
    )


def feed(changes: list[Change], title: str, base: str) -> str:
    """The feed; ``base`` is the address of the book with a slash at its end."""
    updated = changes[0].time if changes else NEVER
    place, name = html.escape(base), html.escape(title)
    head = f"<id>{place}</id><title>{name}: changes</title><updated>{updated}</updated>"
    head += f'<author><name>{name}</name></author><link href="{place}"/>'
    head += f'<link rel="self" href="{place}feed.xml"/>\n'
    body = "".join(_entry(change, base) for change in changes)
    start = '<?xml version="1.0" encoding="utf-8"?>\n'
    return f'{start}<feed xmlns="http://www.w3.org/2005/Atom">\n{head}{body}</feed>\n'

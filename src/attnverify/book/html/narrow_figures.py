"""Give phones the narrow drawing of a figure, which a notebook keeps in a comment of the wide one.

``attnverify.book.figures.narrow`` draws both. A file each, and the browser chooses by the screen's
width.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

from attnverify.book.figures.narrow import END, START
from attnverify.book.html.size_images import PICTURE, SOURCE, size

HIDDEN = re.compile(re.escape(START) + "([A-Za-z0-9+/=]*)" + re.escape(END))
#: The width below which the theme lays a page out for phones, as in book.css.
PHONE = "(max-width: 600px)"


def narrow_of(file: Path) -> Path:
    """Where the narrow drawing of a picture lies, if it has one."""
    return file.with_name(f"{file.stem}-narrow.svg")


def split(folder: Path) -> None:
    """Make files of the narrow drawings in a folder of pictures."""
    for file in sorted(folder.glob("*.svg")):
        text = file.read_text(encoding="utf-8")
        if found := HIDDEN.search(text):
            narrow_of(file).write_bytes(base64.b64decode(found[1]))
            file.write_text(HIDDEN.sub("", text), encoding="utf-8")


def with_narrow(page: str, folder: Path) -> str:
    """The page, whose file lies in ``folder``, with both drawings of its figures."""

    def both(match: re.Match) -> str:
        source = SOURCE.search(match.group())
        if source is None or ":" in source[1]:
            return match.group()
        path = source[1].split("?")[0]
        file = narrow_of((folder / path).resolve())
        found = size(file)
        if found is None:
            return match.group()
        other = path.rsplit("/", 1)[0] + f"/{file.name}"
        return (
            f'<picture><source media="{PHONE}" srcset="{other}" width="{found[0]}"'
            f' height="{found[1]}">{match.group()}</picture>'
        )

    return PICTURE.sub(both, page)

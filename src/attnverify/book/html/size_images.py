"""Say how large each picture is, so that the text does not jump when it arrives."""

from __future__ import annotations

import re
import struct
from functools import cache
from pathlib import Path

PICTURE = re.compile(r"<img\b[^>]*>")
SOURCE = re.compile(r'\bsrc="([^"]+)"')
LENGTH = re.compile(
    rb'<svg\b[^>]*?\b(width|height)="([\d.]+)(pt|px)?"[^>]*?\b(width|height)="([\d.]+)'
)
PNG = b"\x89PNG\r\n\x1a\n"
PIXELS_PER_POINT = 4 / 3  # CSS: 96 pixels and 72 points to the inch


@cache
def size(file: Path) -> tuple[int, int] | None:
    """Width and height in CSS pixels of a PNG or an SVG that says them; None otherwise."""
    if not file.is_file():
        return None
    start = file.read_bytes()[:4096]
    if start.startswith(PNG):
        width, height = struct.unpack(">II", start[16:24])
        return width, height
    found = LENGTH.search(start)
    if found is None:
        return None
    scale = PIXELS_PER_POINT if found[3] == b"pt" else 1.0
    sides = {found[1]: float(found[2]), found[4]: float(found[5])}
    return round(sides[b"width"] * scale), round(sides[b"height"] * scale)


def with_sizes(page: str, folder: Path) -> str:
    """The page, whose file lies in ``folder``, with the sizes of its pictures."""

    def sized(match: re.Match) -> str:
        tag = match.group()
        source = SOURCE.search(tag)
        if "width=" in tag or "height=" in tag or source is None or ":" in source[1]:
            return tag
        found = size((folder / source[1].split("?")[0]).resolve())
        return (
            tag
            if found is None
            else tag.replace("<img", f'<img width="{found[0]}" height="{found[1]}"', 1)
        )

    return PICTURE.sub(sized, page)

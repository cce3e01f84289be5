"""Pictures of built pages say their size before they arrive."""

from __future__ import annotations

import re
import struct

from attnverify.book.html.size_images import PNG, with_sizes

SVG = '<?xml version="1.0"?>\n<!DOCTYPE svg>\n<svg xmlns="x" width="{w}" height="{h}">'


def test_sizes_come_from_the_files(tmp_path):
    """PNG in pixels, SVG in points and in pixels; what says its size, or is not there, stays."""
    (tmp_path / "a.png").write_bytes(PNG + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 360))
    (tmp_path / "b.svg").write_text(SVG.format(w="300pt", h="150pt"))
    (tmp_path / "c.svg").write_text(SVG.format(w="30px", h="20px"))
    page = '<img src="../a.png"> <img alt="b" src="../b.svg?v=1"> <img src="../c.svg"/>'
    kept = '<img width="3" src="../a.png"> <img src="../no.png"> <img src="https://x.org/a.png">'
    sized = with_sizes(page + kept, tmp_path / "notebooks")
    assert sized.endswith(kept)
    sizes = re.findall(r'width="(\d+)" height="(\d+)"', sized)
    assert sizes == [("640", "360"), ("400", "200"), ("30", "20")]


def test_every_picture_of_the_book_has_its_size(built_book):
    """So no text jumps; figures are drawings, sharp on every screen."""
    drawings = 0
    for page in built_book.rglob("*.html"):
        pictures = re.findall(r"<img\b[^>]*>", page.read_text("utf-8"))
        assert [p for p in pictures if "width=" not in p and "height=" not in p] == [], page
        drawings += sum(".svg" in picture for picture in pictures)
    assert drawings > 40

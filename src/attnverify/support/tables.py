"""Tables that are HTML on a page and in a notebook and lines of text in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from attnverify.support.errors import require
from attnverify.support.typeset import numbers


@dataclass(frozen=True)
class Table:
    """Table of text with a caption and a header; the first column heads each row.

    Notebooks show it as HTML that scrolls inside itself on a narrow page. Its CSS class is
    one that the book's theme shows in both color modes.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        lengths = sorted({len(row) for row in self.rows})
        require(
            lengths == [len(self.header)],
            "rows",
            f"rows of {lengths} cells",
            f"rows of {len(self.header)} cells",
        )

    def __repr__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([self.caption, *(line.rstrip() for line in shown)])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{_html(cell)}</th>' for cell in self.header)
        body = "".join(f"<tr>{_row(row)}</tr>" for row in self.rows)
        label = _html(self.caption)
        return (
            f'<div class="attnverify-scroll" role="region" aria-label="{label}" tabindex="0">'
            f'<table class="dataframe"><caption>{label}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )


def _html(text: str) -> str:
    return escape(numbers(text))


def _row(cells: Sequence[str]) -> str:
    first, *others = map(_html, cells)
    return f'<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in others)

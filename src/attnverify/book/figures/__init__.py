"""One look for every figure, table and graph: a color means the same thing throughout the book."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from attnverify.support.vocabulary import COLORS as COLORS

STYLE: dict[Any, Any] = {
    "figure.figsize": (6.4, 3.6),
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "font.size": 10,
    "legend.frameon": False,
    "savefig.dpi": 144,
    "svg.hashsalt": "attnverify",  # the same figure gives the same file
}


def _draw_sharply() -> None:
    """A notebook shows figures as vectors, without a date in them, and with one for a phone."""
    if "inline" in plt.get_backend():
        from IPython.core.getipython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        from attnverify.book.figures import narrow

        set_matplotlib_formats("svg")
        shell: Any = get_ipython()
        drawn = shell.display_formatter.formatters["image/svg+xml"]
        drawn.for_type(Figure, narrow.both)


def axes(title: str, x: str, y: str, columns: int = 1, **options) -> tuple[Figure, Any]:
    """A figure with labeled axes in the book's style; options go to ``plt.subplots``.

    With ``columns`` > 1 the second value is an array of axes that all carry the labels.
    """
    plt.rcParams.update(STYLE)
    _draw_sharply()
    figure, grid = plt.subplots(1, columns, squeeze=False, **options)
    for part in grid[0]:
        part.set(xlabel=x, ylabel=y)
    figure.suptitle(title)
    return figure, grid[0, 0] if columns == 1 else grid[0]

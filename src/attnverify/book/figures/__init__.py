"""The look of every figure: a color means the same thing throughout the book.

>>> import matplotlib.pyplot as plt
>>> import attnverify as av
>>> figure, panel = av.figures.axes("Squares", "x", "x squared")
>>> _ = panel.plot([0, 1, 2], [0, 1, 4], color=av.figures.COLORS["measured"])
>>> panel.get_xlabel()
'x'
>>> plt.close(figure)
"""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from attnverify.support.vocabulary import COLORS as COLORS

#: Width of every figure in inches. A phone of 390 pixels shows it at 85 %, so that letters of 8
#: points are 9 pixels high; a wide screen shows it larger (book.css). One drawing serves both.
WIDTH = 4.1
#: The height of the lowest panel, and of the highest figure with several, in inches.
LOWEST, HIGHEST = 1.8, 5.6
LETTERS = 40  # of a title in one line
STYLE: dict[Any, Any] = {
    "figure.figsize": (WIDTH, 2.8),
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "font.size": 9,
    "legend.fontsize": 8,
    "legend.framealpha": 0.8,  # what a legend covers stays visible
    "legend.edgecolor": "none",
    "savefig.dpi": 144,
    "svg.hashsalt": "attnverify",  # the same figure gives the same file
}


def axes(
    title: str,
    x: str,
    y: str,
    columns: int = 1,
    figsize: tuple[float, float] = (6.4, 3.6),
    **options: Any,
) -> tuple[Figure, Any]:
    """A figure with labeled axes in the book's style, as wide as every other one.

    Args:
        columns: Number of panels. Two or three stand under each other, more in rows of two; the
            second value is then an array of axes that all carry the labels.
        figsize: Width and height, of which the shape of a panel follows.
        options: Passed on to ``plt.subplots``.
    """
    plt.rcParams.update(STYLE)
    if "inline" in plt.get_backend():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg", metadata={"Date": None})
    across = 1 if columns < 4 else 2
    down = -(-columns // across)
    height = max(WIDTH / across * figsize[1] * columns / figsize[0], LOWEST)
    if down > 1:
        height = min(height, HIGHEST / down)
    figure, grid = plt.subplots(
        down, across, squeeze=False, figsize=(WIDTH, height * down), **options
    )
    parts = grid.ravel()
    for part in parts:
        part.set(xlabel=x, ylabel=y)
    figure.suptitle(textwrap.fill(title, LETTERS))
    return figure, parts[0] if columns == 1 else parts


def legend(figure: Figure) -> None:
    """Say below a figure what its curves are, each once, where the words cover none of them."""
    names = {}
    for part in figure.axes:
        handles, labels = part.get_legend_handles_labels()
        names |= dict(zip(labels, handles, strict=True))
    figure.legend(names.values(), names, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2)

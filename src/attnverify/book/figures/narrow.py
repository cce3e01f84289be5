"""A figure for a phone: its panels under each other, as wide as the screen, letters as large.

A chapter's figure is drawn twice. The second drawing travels as a comment at the end of the first,
so that a notebook still has one output; ``src/attnverify/book/html/narrow_figures.py`` makes a file
of it.
"""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnverify.book.figures import legends

#: Inches, 96 CSS pixels each: what a phone of 390 pixels leaves, so that 7 points stay 9 pixels.
WIDTH = 3.5
#: A panel keeps its shape but for these: no flatter, and several no higher.
LOW, HIGH = 2.8, 3.2
#: Of the title in a line.
LETTERS = 36
START, END = "<!--narrow:", "-->"


def as_svg(figure: Figure) -> str:
    """The figure as SVG, without a date."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", bbox_inches="tight", metadata={"Date": None})
    return stream.getvalue()


def both(figure: Figure) -> str:
    """The figure as SVG, with its narrow drawing in a comment before the last tag."""
    wide = as_svg(figure)
    with stacked(figure):
        narrow = as_svg(figure)
    hidden = base64.b64encode(narrow.encode()).decode()
    return wide.replace("</svg>", f"{START}{hidden}{END}</svg>")


@contextmanager
def stacked(figure: Figure) -> Iterator[None]:
    """Within: panels under each other, each with the numbers and the label that it shared."""
    size, panels = figure.get_size_inches().copy(), _panels(figure)
    kept = [_state(part) for part in panels]
    rows = figure.add_gridspec(len(panels), 1)
    places = [rows[number] for number in range(len(panels))]
    figure.set_size_inches(WIDTH, _height(len(panels), *size) * len(panels))
    title = figure.get_suptitle()
    figure.suptitle(textwrap.fill(title, LETTERS))
    for part, place in zip(panels, places, strict=True):
        part.set_subplotspec(place)
        part.tick_params(labelleft=True, labelbottom=True)
        shares = part.get_shared_y_axes().joined(part, panels[0])
        if shares and part.get_ylabel() == "":
            part.set_ylabel(panels[0].get_ylabel())
        if legend := part.get_legend():  # which may lie on the grid
            legend.set_frame_on(True)
            legend.get_frame().set(alpha=0.8, linewidth=0, facecolor="white")
    _move_legends(figure, panels)
    try:
        yield
    finally:
        figure.suptitle(title)
        figure.set_size_inches(*size)
        for part, state in zip(panels, kept, strict=True):
            _restore(part, state)


def _move_legends(figure: Figure, panels: list[Axes]) -> None:
    """Those that cover something get a place of their own; the figure grows by it.

    And by the legends that it has outside its panels.
    """
    shown = [(part, legend) for part in panels if (legend := part.get_legend())]
    for _, legend in shown:
        legend.set_in_layout(False)  # a wide one would make its panel narrow
    figure.draw_without_rendering()
    covering = [part for part, legend in shown if legends.covers(legend, part)]
    width, height = figure.get_size_inches()
    height += sum(each.get_window_extent().height / figure.dpi for each in figure.legends)
    figure.set_size_inches(width, height + sum(map(legends.below, covering)))
    for _, legend in shown:
        legend.set_in_layout(True)


def _height(panels: int, width: float, height: float) -> float:
    """Of a panel in the narrow drawing, in inches."""
    kept = max(WIDTH * height * panels / width, LOW)
    return kept if panels == 1 else min(kept, HIGH)


def _panels(figure: Figure) -> list[Axes]:
    """The axes that have a place of their own in a row: no color bars, which follow theirs."""
    own = [part for part in figure.axes if part.get_subplotspec() is not None]
    return [part for part in own if not hasattr(part, "_colorbar")]


def _state(part: Axes) -> dict[str, Any]:
    shown = {
        f"label{side}": axis.get_tick_params()[f"label{side}"]
        for axis, side in ((part.yaxis, "left"), (part.xaxis, "bottom"))
    }
    legend = part.get_legend()
    framed = legend is not None and legend.get_frame_on()
    place, label = part.get_subplotspec(), part.get_ylabel()
    return {"place": place, "label": label, "shown": shown, "legend": legend, "framed": framed}


def _restore(part: Axes, state: dict[str, Any]) -> None:
    part.set_subplotspec(state["place"])
    part.set_ylabel(state["label"])
    part.tick_params(**state["shown"])
    part.legend_ = state["legend"]
    if legend := part.get_legend():
        legend.set_frame_on(state["framed"])

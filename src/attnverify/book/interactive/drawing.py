"""What a figure shows at one position of its controls, and how that stands in its SVG.

Everything is a line, an area, bars, a dot or a text, in the coordinates of a plot. The script
(``moving.js``) draws by the same rules, so that a test can compare the two part by part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from attnverify.support.typeset import numbers

Point = tuple[float, float]
#: A number and its decimals; ``SIGNIFICANT`` in place of decimals: three significant digits.
Number = tuple[float, int]
SIGNIFICANT = -1
#: Places further out than this are drawn here (they are cut off by the plot's frame anyway).
FARTHEST = 9999.0
#: Floats end soon after: a smaller distance is not written as zero.
SMALLEST = 1e-300


@dataclass(frozen=True)
class Drawing:
    """By name of the part: points of lines, areas and bars; places of dots; texts and numbers."""

    lines: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    dots: Mapping[str, Point] = field(default_factory=dict)
    texts: Mapping[str, str | Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Plot:
    """Axes: ranges, labels, ticks (value to label), and its corners in the SVG."""

    x: Point
    y: Point
    x_label: str
    y_label: str
    x_ticks: Mapping[float, str]
    y_ticks: Mapping[float, str]
    top: float = 26.0
    bottom: float = 226.0
    left: float = 42.0
    right: float = 344.0

    def place(self, point: Point) -> Point:
        """A point of the plot in the units of the SVG."""
        (x0, x1), (y0, y1) = self.x, self.y
        across = self.left + (point[0] - x0) / (x1 - x0) * (self.right - self.left)
        up = self.bottom + (point[1] - y0) / (y1 - y0) * (self.top - self.bottom)
        return (min(max(across, -FARTHEST), FARTHEST), min(max(up, -FARTHEST), FARTHEST))

    def axes(self) -> str:
        """Both axes with grid lines and labels."""
        parts = []
        for value, label in self.x_ticks.items():
            x, _ = self.place((value, 0.0))
            parts.append(_grid(f"M{x:.1f},{self.top:g}V{self.bottom:g}"))
            parts.append(_text(round(x, 1), self.bottom + 17, label))
        for value, label in self.y_ticks.items():
            _, y = self.place((0.0, value))
            parts.append(_grid(f"M{self.left:g},{y:.1f}H{self.right:g}"))
            parts.append(_text(self.left - 6, round(y + 4, 1), label, "end"))
        axis = f"M{self.left:g},{self.top:g}V{self.bottom:g}H{self.right:g}"
        parts.append(f'<path class="axis" d="{axis}"/>')
        parts.append(_text((self.left + self.right) / 2, self.bottom + 36, self.x_label))
        return "".join(parts) + _text(2.0, self.top - 12, self.y_label, "start")

    def as_json(self) -> list[Point]:
        """x, y, left and right, bottom and top: what the script needs."""
        return [self.x, self.y, (self.left, self.right), (self.bottom, self.top)]


@dataclass(frozen=True)
class Mark:
    """How a part looks. drag: the controls that its x and y move, for a dot that can be dragged.

    look: a color of :data:`attnverify.book.figures.COLORS`; legend: what it is, or nothing; label:
    what a screen reader says of a dot that can be dragged.
    """

    shape: Literal["line", "area", "bars", "dot"]
    look: str
    legend: str = ""
    plot: int = 0
    style: str = ""
    drag: tuple[str, str] = ("", "")
    label: str = ""

    def element(self, name: str, plot: Plot, drawing: Drawing) -> str:
        """The SVG element, drawn."""
        kind = "bars " if self.shape == "bars" else ""
        look = f"{kind}{self.look} {self.style}".strip()
        common = f'data-part="{name}" data-plot="{self.plot}" class="{look}"'
        if self.shape == "dot":
            x, y = plot.place(drawing.dots[name])
            return f'<circle {common} r="6" cx="{x:.2f}" cy="{y:.2f}"{self._handle()}/>'
        points = [plot.place(p) for p in drawing.lines[name]]
        if self.shape == "bars":
            _, zero = plot.place((0.0, max(plot.y[0], 0.0)))
            d = "".join(f"M{x:.2f},{zero:.2f}V{y:.2f}" for x, y in points)
            return f'<path {common} d="{d}"/>'
        tag = "polygon" if self.shape == "area" else "polyline"
        return f'<{tag} {common} points="{" ".join(f"{x:.2f},{y:.2f}" for x, y in points)}"/>'

    def _handle(self) -> str:
        if not any(self.drag):
            return ""
        x, y = self.drag
        names = (f' data-x="{x}"' if x else "") + (f' data-y="{y}"' if y else "")
        return f'{names} aria-label="{self.label}"'  # the script gives it its role


def shown(text: str | Number) -> str:
    """A text of a drawing as it is written."""
    if isinstance(text, str):
        return text
    value, digits = text
    if digits >= 0:
        return f"{value:.{digits}f}"
    return significant(value)


def significant(value: float) -> str:
    """Three significant digits of a positive number; powers of ten below 0.001, from 10,000 on."""
    if value < SMALLEST or value == math.inf:
        return numbers(f"< {SMALLEST:g}") if value < SMALLEST else "∞"
    if 1e-3 <= abs(value) < 1e4:
        return f"{float(f'{value:.3g}'):g}"
    return numbers(f"{value:.2e}")


def _grid(d: str) -> str:
    return f'<path class="grid" d="{d}"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>'

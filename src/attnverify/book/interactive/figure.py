"""Interactive figures described by their marks, controls, sentence and values.

One block of HTML: a drawing, its controls, the values in words, a caption, and a script that uses
no library and asks no host for anything. Without JavaScript the drawing of the starting values
stays. What is drawn is a :class:`~attnverify.book.interactive.drawing.Drawing`, made here by the
package (``draw``) and in the page by the figure's script; the tests compare the two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from importlib import resources

from attnverify.book.figures import COLORS
from attnverify.book.interactive.drawing import Drawing, Mark, Plot, shown
from attnverify.support.errors import require

Values = Mapping[str, float]
LOOKS = ("measured", "published", "repaired", "sharp", "reference")
#: Colors that carry text nowhere: a line, a dot or an area, told apart by style as well.
COLORED = "\n".join(f"FIG .{look} {{ --look: {COLORS[look]}; }}" for look in LOOKS)
STYLE = (
    """
FIG { max-width: 32rem; margin: 0; color: var(--pst-color-text-base, inherit); }
FIG svg { display: block; width: 100%; height: auto; font-size: 13px; }
FIG svg text { fill: currentColor; font-family: inherit; }
FIG .axis, FIG .grid { stroke: currentColor; fill: none; }
FIG .grid { opacity: 0.25; }
FIG polyline, FIG .bars { stroke: var(--look); stroke-width: 2.5; fill: none; }
FIG polygon { fill: var(--look); opacity: 0.3; }
FIG .bars { stroke-width: 16; }
FIG circle { fill: var(--look); }
FIG .dashed { stroke-dasharray: 7 4; } FIG .dotted { stroke-dasharray: 2 4; }
FIG polyline.thin { stroke-width: 1.5; } FIG .slim { stroke-width: 8; }
FIG [role=slider] { cursor: grab; touch-action: none; r: 8px; stroke: currentColor;
  stroke-width: 11; stroke-opacity: 0.3; }
FIG [role=slider]:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
FIG fieldset { border: 0; margin: 0; padding: 0; min-width: 0; }
FIG label { display: block; margin: 0.5rem 0; }
FIG output { float: right; }
FIG input[type=range] { display: block; width: 100%; min-height: 1.75rem; margin: 0;
  accent-color: var(--pst-color-primary, auto); }
FIG .switches { display: grid; gap: 0 0.6rem; }
FIG .switches label { display: flex; gap: 0.4rem; align-items: center; min-height: 1.75rem;
  margin: 0; }
FIG button { color: inherit; background: transparent; border: 1px solid currentColor;
  border-radius: 0.3rem; padding: 0.2rem 0.6rem; margin: 0.3rem 0.4rem 0.3rem 0; font: inherit; }
FIG p, FIG figcaption { margin: 0.4rem 0; }
FIG figcaption { text-align: start !important; color: inherit; }
FIG figcaption b { font-weight: 700; }
FIG p, FIG output { font-variant-numeric: tabular-nums; }
FIG .keys { display: flex; flex-wrap: wrap; gap: 0 1rem; }
FIG .keys svg { display: inline-block; width: 1.6rem; height: 0.9rem; margin-right: 0.35rem; }
FIG .keys polygon { opacity: 0.4; }
@media print { FIG fieldset { display: none; } }
"""
    + COLORED
)
WITHOUT_SCRIPT = (
    "The controls need JavaScript, which did not run here. The drawing and the values are those of "
    "the starting position."
)
SAMPLES = {  # what a legend shows of a shape
    "line": '<polyline class="{}" points="1,7 25,7"/>',
    "area": '<polygon class="{}" points="1,1 25,1 25,13 1,13"/>',
    "bars": '<path class="bars {}" d="M13,14V1"/>',
    "dot": '<circle class="{}" cx="13" cy="7" r="5"/>',
}


@dataclass(frozen=True)
class Slider:
    """A number that the reader moves: name, what it is, least, largest, step, decimals shown.

    folded: it stands in a box that is opened, because a dot of the drawing moves it too.
    """

    name: str
    label: str
    least: float
    largest: float
    step: float
    decimals: int = 2
    folded: bool = False

    def html(self, value: float) -> str:
        return (
            f'<div><output data-of="{self.name}" data-decimals="{self.decimals}">'
            f"{value:.{self.decimals}f}</output><label>{self.label}"
            f'<input type="range" name="{self.name}" min="{self.least:g}" max="{self.largest:g}" '
            f'step="{self.step:g}" value="{value:g}"></label></div>'
        )


@dataclass(frozen=True)
class Switch:
    """Something that is on (1) or off (0); short: the part of its label that stands beside it."""

    name: str
    label: str
    short: str
    least: float = 0.0
    largest: float = 1.0
    folded: bool = False

    def html(self, value: float) -> str:
        checked = " checked" if value else ""
        box = f'<input type="checkbox" name="{self.name}" aria-label="{self.label}"{checked}>'
        return f"<label>{box}{self.short}</label>"


@dataclass(frozen=True)
class Figure:
    """The figure at its starting values; a notebook shows it by ``_repr_html_``.

    sentence: the values in words, a part of the drawing's texts in braces; formulas: JavaScript of
    the package's formulas and data; script: the file of this folder that draws; presets: buttons
    that set controls; columns: heads of the columns in which the switches stand.
    """

    name: str
    label: str
    description: str
    caption: str
    plots: tuple[Plot, ...]
    marks: Mapping[str, Mark]
    controls: tuple[Slider | Switch, ...]
    sentence: str
    draw: Callable[[Values], Drawing]
    formulas: str
    script: str
    values: Values
    presets: Mapping[str, Values] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def __repr__(self) -> str:
        at = ", ".join(f"{name} = {value:g}" for name, value in self.values.items())
        return f"{self.label}, from {at}"

    def at(self, **values: float) -> Figure:
        """The same figure from other values of its controls.

        Errors: InputError for a value outside the range of its control.
        """
        for control in self.controls:
            value = values.get(control.name, self.values[control.name])
            expected = f"a number from {control.least} to {control.largest}"
            require(control.least <= value <= control.largest, control.name, value, expected)
        return replace(self, values={**self.values, **{k: float(v) for k, v in values.items()}})

    def _repr_html_(self) -> str:
        drawing = self.draw(self.values)
        style = (
            STYLE.replace("FIG", ".av-moved")
            .replace("; }", "}")
            .replace(" { ", "{")
            .replace("\n", "")
        )
        return (
            f'<figure class="attnverify-interactive av-moved" id="{self.id}" '
            f'aria-label="Interactive figure: {self.label}"><style>{style}</style>'
            f"{self._drawn(drawing)}{self._keys()}{self._controls()}"
            f'<p role="status">{self._sentence(drawing)}</p>'
            f'<p data-part="fallback">{WITHOUT_SCRIPT}</p>'
            f"<figcaption>{self.caption}</figcaption></figure><script>{self.javascript()}</script>"
        )

    @property
    def id(self) -> str:
        return f"attnverify-{self.name}"

    def _drawn(self, drawing: Drawing) -> str:
        """The SVG. One with dots to drag is a group: the contents of an image are not announced."""
        parts = [plot.axes() for plot in self.plots]
        for number, plot in enumerate(self.plots):
            clip = f"{self.id}-{number}"
            corner = f'x="{plot.left}" y="{plot.top}"'
            size = f'width="{plot.right - plot.left}" height="{plot.bottom - plot.top}"'
            parts.append(f'<clipPath id="{clip}"><rect {corner} {size}/></clipPath>')
            inside = {k: m for k, m in self.marks.items() if m.plot == number and m.shape != "dot"}
            drawn = "".join(m.element(k, plot, drawing) for k, m in inside.items())
            parts.append(f'<g clip-path="url(#{clip})">{drawn}</g>')
        dots = {k: m for k, m in self.marks.items() if m.shape == "dot"}
        parts += [m.element(k, self.plots[m.plot], drawing) for k, m in dots.items()]
        role = "group" if any(any(m.drag) for m in dots.values()) else "img"
        height = max(plot.bottom for plot in self.plots) + 44
        description = escape(self.description)
        head = f'<svg viewBox="0 0 360 {height:g}" role="{role}" aria-label="{description}">'
        return f"{head}{''.join(parts)}</svg>"

    def _keys(self) -> str:
        """The legend, in the text's size on every screen."""
        keys = [
            f'<span><svg viewBox="0 0 26 14" aria-hidden="true">'
            f"{SAMPLES[m.shape].format(f'{m.look} {m.style}')}</svg>{m.legend}</span>"
            for m in self.marks.values()
            if m.legend
        ]
        return f'<p class="keys">{"".join(keys)}</p>' if keys else ""

    def _controls(self) -> str:
        html = {c.name: c.html(self.values[c.name]) for c in self.controls}
        sliders = [c for c in self.controls if isinstance(c, Slider)]
        rows = "".join(html[c.name] for c in sliders if not c.folded)
        switches = "".join(html[c.name] for c in self.controls if isinstance(c, Switch))
        if switches:
            heads = "".join(f'<b aria-hidden="true">{head}</b>' for head in self.columns)
            columns = f"grid-template-columns: repeat({len(self.columns)}, auto)"
            rows = f'<div class="switches" style="{columns}">{heads}{switches}</div>{rows}'
        folded = "".join(html[c.name] for c in sliders if c.folded)
        if folded:
            rows += f"<details><summary>Move by sliders</summary>{folded}</details>"
        for text, values in self.presets.items():
            rows += f"<button type='button' data-set='{json.dumps(values)}'>{text}</button>"
        return f'<fieldset data-part="controls" hidden>{rows}</fieldset>'

    def _sentence(self, drawing: Drawing) -> str:
        part = '<span data-part="{}">{}</span>'.format
        texts = {name: part(name, escape(shown(text))) for name, text in drawing.texts.items()}
        return self.sentence.format(**texts)

    def javascript(self) -> str:
        """The figure's script, wrapped so that none of its names reaches the page."""
        plots = json.dumps([plot.as_json() for plot in self.plots])
        head = f'const root = document.getElementById("{self.id}"), plots = {plots};\n'
        body = head + self.formulas + _file(self.script) + _file("moving.js")
        return f'(() => {{\n"use strict";\n{body}}})();'


def _file(name: str) -> str:
    """A script of this folder without its comments and its indentation."""
    folder = resources.files("attnverify.book.interactive")
    text = folder.joinpath(name).read_text(encoding="utf-8")
    return re.sub(r"^\s*//.*\n|\s+// .*$|^\s+", "", text, flags=re.M)

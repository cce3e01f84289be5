"""The figures of a report as SVG, each a whole file: its style knows light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from attninspect.columns import visible
from attninspect.findings import Findings
from attnverify.support.typeset import numbers

STYLE = Markup("""<style>
svg{color-scheme:light dark;font:12px system-ui,sans-serif}
text{fill:#1d2430}.a{stroke:#8a93a3;stroke-width:1}.b{fill:#0072b2}.n{fill:#b34d00}
.l{fill:none;stroke:#0072b2;stroke-width:2}.r{stroke:#b34d00;stroke-width:1;stroke-dasharray:4 3}
@media (prefers-color-scheme:dark){text{fill:#e6e9ef}.b{fill:#56b4e9}.n{fill:#e69f00}
.l{stroke:#56b4e9}.r{stroke:#e69f00}}
</style>""")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640.0, 260.0, 72.0, 34.0, 40.0
FRAME = Markup(f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g}')
#: What an SVG file cannot have, not even by its number.
CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF), "\ufffd")

#: Column to the title of its figure: a line over the layers, a field of layers and heads.
LINES = {
    "residual": "Relative residual where each layer begins",
    "factor": "Diameter of attention's output over that of its input",
}
GRIDS = {
    "moves": "Size of every head's output in its layer",
    "sink": "Attention to the first token",
}
TOKENS, HEADS, PATHS = "scalar_tokens.svg", "scalar_heads.svg", "scalar_paths.svg"
ABLATED = "scalar_ablation.svg"
#: Every file that :func:`figures` may make.
NAMES = tuple(f"{name}.svg" for name in ("lengths", *LINES, *GRIDS))
NAMES += (TOKENS, HEADS, PATHS, ABLATED)


def figures(report: Findings) -> dict[str, Markup]:
    """Name of the file to its SVG."""
    known = [row for row in report.lengths if row["share"] is not None]
    lengths = [row for row in known if row["length"] != "rounding" and _drawn(row)]  # too small
    made = {}
    if lengths:
        made["lengths.svg"] = bars(
            "Share of the output by path length",
            [str(row["length"]) for row in lengths],
            [row["share"] for row in lengths],
        )
    for name, title in LINES.items():
        rows = [row for row in report.layers if row["text"] == 1 and row[name] is not None]
        if rows:
            labels = [str(row["layer"]) for row in rows]
            made[f"{name}.svg"] = line(title, labels, [row[name] for row in rows], "layer")
    for name, title in GRIDS.items():
        if any(row[name] is not None for row in report.heads):
            made[f"{name}.svg"] = grid(title, report.heads, name)
    return made


def scalar_figures(report: Findings) -> dict[str, Markup]:
    """The same for the number that was chosen; none where none was."""
    if report.scalar is None:
        return {}
    rows = [row for row in report.scalar_tokens if row["token"] != "rounding"]  # too small
    labels, values = [str(row["token"]) for row in rows], [row["value"] for row in rows]
    words = [visible(row["word"] or "") for row in rows]
    paths = [row for row in report.scalar_paths if row["path"] is not None]
    made = {
        TOKENS: bars("What each input token gives", labels, values, words),
        HEADS: grid("What each head writes, directly", report.scalar_heads, "direct"),
        **({PATHS: threads("The largest paths", paths, report.model["heads"])} if paths else {}),
    }
    if "ablation" in report.scalar:
        made[ABLATED] = scatter(
            "Lost without each head (up), against its share through",
            [f"layer {row['layer']}, head {row['head']}" for row in report.scalar_heads],
            [row["through"] for row in report.scalar_heads],
            [row["lost"] for row in report.scalar_heads],
        )
    return made


def _drawn(row: dict[str, Any]) -> bool:
    """Whether a row gets a bar: every length does, and biases if the model has some."""
    return row["paths"] is not None or row["share"] != 0.0


def _frame(title: str, inside: Sequence[Markup], height: float = HEIGHT) -> Markup:
    whole = Markup(
        '<svg {} {:g}" role="img" aria-label="{}">{}'
        '<text x="{:g}" y="18" font-weight="600">{}</text>{}</svg>\n'
    ).format(FRAME, height, title, STYLE, LEFT, title, Markup().join(inside))
    return Markup(whole.translate(CONTROLS))


def _text(x: float, y: float, text: str, anchor: str = "middle") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, numbers(text)
    )


def _dot(kind: str, x: float, y: float, radius: int, hint: str) -> Markup:
    return Markup(
        '<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>'
    ).format(kind, x, y, radius, numbers(hint))


def _path(kind: str, points: str) -> Markup:
    return Markup('<path class="{}" fill="none" d="M{}"/>').format(kind, points)


class _Scale:
    """Values to heights, zero always shown."""

    def __init__(self, values: Sequence[float]) -> None:
        self.low, self.high = min(0.0, *values, 0.0), max(*values, 0.0)
        self.high = self.high if self.high > self.low else self.low + 1

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    def axis(self) -> Markup:
        apart = 18  # as high as a letter on a phone
        far = (tick for tick in (self.low, self.high) if abs(self(tick) - self(0.0)) > apart)
        ticks = sorted({0.0, *far})
        parts = [_text(LEFT - 6, self(tick) + 4, f"{tick:.3g}", "end") for tick in ticks]
        zero = self(0.0)
        return Markup().join([*parts, _path("a", f"{LEFT:g},{zero:.1f}H{WIDTH - 8:g}")])


def _places(count: int) -> list[float]:
    step = (WIDTH - LEFT - 12) / count
    return [LEFT + step * (i + 0.5) for i in range(count)]


def _labels(labels: Sequence[str], places: Sequence[float]) -> list[Markup]:
    """The labels below the axis, no more than fit beside each other."""
    every = max(1, math.ceil(len(labels) * 30 / (WIDTH - LEFT)))
    shown = [
        i for i, label in enumerate(labels) if i % every == 0 or not label.lstrip("-").isdigit()
    ]
    lower = [i for i in shown if not labels[i].isdigit()]  # a word is wider than its place
    return [_text(places[i], HEIGHT - (4 if i in lower else 20), labels[i]) for i in shown]


def bars(
    title: str, labels: Sequence[str], values: Sequence[float], words: Sequence[str] = ()
) -> Markup:
    """One bar a label, of another color below 0; words: what is told of each beside its label."""
    scale, places = _Scale(values), _places(len(values))
    width = 0.7 * (WIDTH - LEFT - 12) / len(values)
    parts = [scale.axis(), *_labels(labels, places)]
    words = words or [""] * len(labels)
    hints = [" ".join(filter(None, each)) for each in zip(labels, words, strict=True)]
    for place, value, hint in zip(places, values, hints, strict=True):
        top, zero = min(scale(value), scale(0.0)), scale(0.0)
        kind = "b" if value >= 0 else "n"
        height = abs(scale(value) - zero)
        parts.append(
            Markup(
                '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}: {}</title></rect>"
            ).format(kind, place - width / 2, top, width, height, hint, numbers(f"{value:.4g}"))
        )
    return _frame(title, parts)


def line(title: str, labels: Sequence[str], values: Sequence[float], across: str) -> Markup:
    """A line through the values, in order."""
    scale, places = _Scale(values), _places(len(values))
    points = [f"{x:.1f},{scale(y):.1f}" for x, y in zip(places, values, strict=True)]
    dots = [
        _dot("b", x, scale(y), 3, f"{label}: {y:.4g}")
        for x, y, label in zip(places, values, labels, strict=True)
    ]
    path = _path("l", "L".join(points))
    below = _text((LEFT + WIDTH) / 2, HEIGHT - 4, across)
    return _frame(title, [scale.axis(), *_labels(labels, places), path, *dots, below])


def ranges(title: str, labels: Sequence[str], ends: Sequence[tuple[float, float, float]]) -> Markup:
    """A stroke a label from the smallest to the largest value, with a dot at the median."""
    scale, places = _Scale([value for each in ends for value in each]), _places(len(ends))
    strokes = []
    for x, label, (low, middle, high) in zip(places, labels, ends, strict=True):
        hint = f"{label}: {low:.4g} to {high:.4g}, median {middle:.4g}"
        strokes.append(_path("l", f"{x:.1f},{scale(low):.1f}V{scale(high):.1f}"))
        strokes.append(_dot("b", x, scale(middle), 4, hint))
    return _frame(title, [scale.axis(), *_labels(labels, places), *strokes])


def lines(
    title: str,
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[float | None]]],
    across: str,
) -> Markup:
    """A line for each of the series: the first dashed, then from faint to full; None has no dot."""
    known = [y for _, values in series for y in values if y is not None]
    scale, places = _Scale(known or [0.0]), _places(len(labels))
    parts = [scale.axis(), *_labels(labels, places)]
    for number, (name, values) in enumerate(series):
        kind = "l" if number else "r"
        faint = 0.4 + 0.6 * number / (len(series) - 1) if number else 1.0
        dots = [(x, scale(y), y) for x, y in zip(places, values, strict=True) if y is not None]
        path = "L".join(f"{x:.1f},{y:.1f}" for x, y, _ in dots) or "0,0"
        inside = [_path(kind, path)]
        inside += [
            _dot("b" if number else "n", x, y, 3, f"{name}: {value:.4g}") for x, y, value in dots
        ]
        parts.append(Markup('<g opacity="{:.2f}">{}</g>').format(faint, Markup().join(inside)))
    ends = f"{across}; dashed: {series[0][0]}, full: {series[-1][0]}"
    return _frame(title, [*parts, _text((LEFT + WIDTH) / 2, HEIGHT - 4, ends)])


def scatter(title: str, names: Sequence[str], x: Sequence[float], y: Sequence[float]) -> Markup:
    """A dot for each name on one scale both ways, and the line where both are equal.

    A dot of another color has values of opposite signs.
    """
    scale = _Scale([*x, *y])

    def across(value: float) -> float:
        share = (value - scale.low) / (scale.high - scale.low)
        return LEFT + share * (WIDTH - LEFT - 12)

    ends = scale.low, scale.high
    same = "L".join(f"{across(end):.1f},{scale(end):.1f}" for end in ends)
    upright = _path("a", f"{across(0.0):.1f},{TOP:g}V{HEIGHT - BOTTOM:g}")
    parts = [scale.axis(), upright, _path("r", same)]
    far = (end for end in ends if abs(across(end) - across(0.0)) > 60)
    anchors = {scale.low: "start", scale.high: "end"}
    parts += [
        _text(across(end), HEIGHT - 22, f"{end:.3g}", anchors.get(end, "middle"))
        for end in sorted({0.0, *far})
    ]
    for name, a, b in zip(names, x, y, strict=True):
        hint = f"{name}: {a:.4g} across, {b:.4g} up"
        parts.append(_dot("b" if a * b >= 0 else "n", across(a), scale(b), 4, hint))
    below = "dashed: equal" + "; orange: opposite signs" * any(
        a * b < 0 for a, b in zip(x, y, strict=True)
    )
    return _frame(title, [*parts, _text((LEFT + WIDTH) / 2, HEIGHT - 4, below)])


def grid(
    title: str,
    rows: Sequence[dict[str, Any]],
    name: str,
    across: str | None = None,
    unit: str = "head",
    down: str = "layer",
) -> Markup:
    """A field of layers (down) and heads (across), darker where the value is farther from 0.

    Values below 0 have another color. across: what stands there in place of heads, if something
    does, each one called ``unit``; down: what stands in place of layers.
    """
    heads, layers = max(r["head"] for r in rows), sorted({r["layer"] for r in rows})
    largest = max((abs(r[name] or 0.0) for r in rows), default=0.0) or 1.0
    step, high = (WIDTH - LEFT - 12) / heads, max(8.0, min(24.0, 360 / len(layers)))
    cells = []
    for row in rows:
        x, y = LEFT + step * (row["head"] - 1), TOP + high * layers.index(row["layer"])
        value = row[name] or 0.0
        shown = "not defined" if row[name] is None else numbers(f"{value:.4g}")
        hint = f"{down} {row['layer']}, {unit} {row['head']}: {shown}"
        kind, full = "b" if value >= 0 else "n", 0.05 + 0.95 * abs(value) / largest
        cells.append(
            Markup(
                '<rect class="{}" fill-opacity="{:.3f}" x="{:.1f}" y="{:.1f}" width="{:.1f}" '
                'height="{:.1f}"><title>{}</title></rect>'
            ).format(kind, full, x, y, step - 1, high - 1, hint)
        )
    end = TOP + high * len(layers)
    sides = [
        _text(LEFT - 6, TOP + high * (i + 0.5) + 4, str(layer), "end")
        for i, layer in enumerate(layers)
        if high >= 18 or i % 3 == 0
    ]
    below = f"{across or f'heads 1 to {heads}'}; {down}s down; full color: {largest:.3g}"
    if any((r[name] or 0.0) < 0 for r in rows):
        below += ", orange below 0"
    return _frame(title, [*cells, *sides, _text((LEFT + WIDTH) / 2, end + 20, below)], end + 30)


def threads(title: str, rows: Sequence[dict[str, Any]], heads: int) -> Markup:
    """A line a path, from layer to layer at the height of its head, 0 where it takes none.

    The larger the value, the thicker the line; a dashed one is below 0. rows: the largest first.
    """
    places, largest = _places(len(rows[0]["heads"])), abs(rows[0]["value"]) or 1.0
    step = (HEIGHT - BOTTOM - TOP - 16) / heads
    base, shown = HEIGHT - BOTTOM - 8, range(0, heads + 1, math.ceil(18 / step))
    parts = [_text(LEFT - 6, base - step * h + 4, str(h), "end") for h in shown]
    parts += _labels([str(i + 1) for i in range(len(places))], places)
    below = "layer; up: head, 0 for none; dashed: below 0"
    parts.append(_text((LEFT + WIDTH) / 2, HEIGHT - 4, below))
    for number, row in reversed([*enumerate(rows)]):
        apart = min(step, 16) * (number / len(rows) - 0.5) * 0.6  # lines that share a head
        heights = [f"{base - step * head - apart:.1f}" for head in row["heads"]]
        at = zip(places, heights, strict=True)
        points = "L".join(f"{x - 6:.1f},{y}H{x + 6:.1f}" for x, y in at)
        kind, width = "l" if row["value"] >= 0 else "r", 0.6 + 3 * abs(row["value"]) / largest
        parts.append(
            Markup(
                '<path class="{}" style="stroke-width:{:.2f};fill:none;stroke-opacity:.7" '
                'd="M{}"><title>{}: {}</title></path>'
            ).format(kind, width, points, row["path"], numbers(f"{row['value']:.4g}"))
        )
    return _frame(title, parts)

"""Two tokens under rotary positions, layer after layer, and the same tokens without positions."""

from __future__ import annotations

import math
from typing import Any

import torch

from attnverify.book.interactive.depth import FLOOR, log10, over_layers
from attnverify.book.interactive.drawing import SIGNIFICANT, Drawing, Mark, Plot
from attnverify.book.interactive.figure import Figure, Slider, Values
from attnverify.book.interactive.javascript import function
from attnverify.mathematics import position_bounds

LAYERS, LOWEST = 12, -12.0
#: q = sqrt(d_qk) = sqrt(2), so that without positions the factor is tanh(distance^2 / 4).
KEY_WIDTH = 2
PLOT = Plot(
    (0.0, float(LAYERS)),
    (LOWEST, 1.0),
    "layer",
    "log₁₀ of the distance",
    {float(k): str(k) for k in range(0, LAYERS + 1, 3)},
    {0.0: "0", -4.0: "−4", -8.0: "−8", -12.0: "−12"},
)
CAPTION = (
    "<b>Try:</b> turn by 0.02: the first two layers fall nearly as without positions, the later "
    "ones by a fixed factor. Turn by 3.14, half a circle. <b>It shows</b> two tokens at which the "
    "bound of every layer is attained, one head with the value map 1. <b>It does not show</b> a "
    "trained head: its planes turn by many angles, and its tokens are not two."
)


def factor(size: float, middle: float, angle: float) -> float:
    """The factor of a layer at this distance; angle in radians."""
    at, turn = (torch.tensor(x, dtype=torch.float64) for x in (size, angle))
    return float(formula(at, middle, turn))


def formula(size: Any, middle: Any, angle: Any) -> Any:
    """The package's formula for q = sqrt(d_qk), in any arithmetic."""
    return position_bounds.plane_factor(size, middle, angle, math.sqrt(KEY_WIDTH), KEY_WIDTH)


def distances(start: float, middle: float, angle: float) -> list[float]:
    """The distance of the two tokens before the first layer and after each."""
    found = [start]
    for _ in range(LAYERS):
        found.append(found[-1] * factor(found[-1], middle, angle))
    return found


def draw(values: Values) -> Drawing:
    """Both orbits, and the factor that the turned one tends to."""
    angle, middle, start = (values[name] for name in ("angle", "middle", "start"))
    turned, plain = distances(start, middle, angle), distances(start, middle, 0.0)
    orbits = {"turned": turned, "plain": plain}
    lines = {name: over_layers([log10(x) for x in found]) for name, found in orbits.items()}
    texts = {
        "after6": (turned[6], SIGNIFICANT),
        "plain6": (plain[6], SIGNIFICANT) if plain[6] > 10**FLOOR else "below 10⁻³⁰⁰",
        "rate": (factor(0.0, middle, angle), SIGNIFICANT)
        if angle
        else "less and less: the fall is cubic",
    }
    return Drawing(lines, {}, texts)


def rotary_figure(angle: float = 0.17, middle: float = 1.2, start: float = 1.5) -> Figure:
    """Two tokens (middle, ±start/2), by ``attnverify.mathematics.position_bounds.plane_factor``.

    angle: radians by which queries and keys turn from token to token; middle: the part that
    the tokens share; start: their distance. Errors: InputError for a value outside its slider.
    """
    return Figure(
        name="rotary",
        label="two tokens under rotary positions",
        description="Line chart over layers 0 to 12: the logarithm of the distance of two tokens "
        "with rotary positions, which ends as a straight line, and without, which leaves the "
        "chart.",
        caption=CAPTION,
        plots=(PLOT,),
        marks={
            "plain": Mark("line", "reference", "without positions", style="dashed"),
            "turned": Mark("line", "measured", "with the turn"),
        },
        controls=(
            Slider("angle", "turn from a token to the next, radians", 0.0, 3.14, 0.01),
            Slider("middle", "m, the part that both tokens share", 1.0, 2.0, 0.05),
            Slider("start", "distance of the tokens", 0.1, 2.0, 0.05),
        ),
        sentence="After six layers the distance is {after6}, without positions {plain6}. In the "
        "end each layer multiplies it by {rate}.",
        draw=draw,
        formulas=function("factor", formula, dict.fromkeys(("size", "middle", "angle"), 0)),
        script="rotary.js",
        values={"angle": 0.17, "middle": 1.2, "start": 1.5},
    ).at(angle=angle, middle=middle, start=start)

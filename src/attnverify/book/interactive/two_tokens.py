"""The map of two tokens, s -> v s tanh(c s^2), as a cobweb, with its threshold."""

from __future__ import annotations

import math

import torch

from attnverify.book.interactive.drawing import SIGNIFICANT, Drawing, Mark, Number, Plot
from attnverify.book.interactive.figure import Figure, Slider, Values
from attnverify.book.interactive.javascript import function
from attnverify.mathematics import collapse

LAYERS, SEGMENTS, LARGEST = 12, 60, 3.0
#: After how many layers the distance is written.
TOLD = (1, 4, 12)
TICKS = {0.0: "0", 1.0: "1", 2.0: "2", 3.0: "3"}
PLOT = Plot(
    (0.0, LARGEST),
    (0.0, LARGEST),
    "distance δ before the layer",
    "distance after the layer",
    TICKS,
    TICKS,
    bottom=286.0,
)
CAPTION = (
    "<b>Try:</b> drag the start across the dashed line, or move it by arrow keys; lower v to 1 "
    "and the threshold is gone. <b>It shows</b> the worst case at each of these norms: two tokens"
    " along the singular vectors, 12 layers. <b>It does not show</b> what a given network does "
    "above the threshold: there other tokens and weights may collapse."
)


def draw(values: Values) -> Drawing:
    """The package's map, its orbit, and the threshold of one head with these norms."""
    v, c, start = (values[name] for name in ("v", "c", "start"))
    orbit = [start]
    for _ in range(LAYERS):
        now = torch.tensor(orbit[-1], dtype=torch.float64)
        orbit.append(float(collapse.two_token_step(now, c, v)))
    cobweb = [(start, 0.0)]
    for now, then in zip(orbit, orbit[1:], strict=False):
        cobweb += [(now, then), (then, then)]
    star = collapse.threshold(4 * c, v, key_width=1)
    s = torch.arange(SEGMENTS + 1, dtype=torch.float64) * LARGEST / SEGMENTS
    curve = list(zip(s.tolist(), collapse.two_token_step(s, c, v).tolist(), strict=True))
    finite = math.isfinite(star)
    lines = {
        "threshold": [(star, 0.0), (star, LARGEST)] if finite else [],
        "same": [(0.0, 0.0), (LARGEST, LARGEST)],
        "map": curve,
        "orbit": cobweb,
    }
    told: dict[str, Number] = {f"after{n}": (orbit[n], SIGNIFICANT) for n in TOLD}
    words = {"star": (star, 4) if finite else "none, as v ≤ 1", "verdict": verdict(start, star)}
    return Drawing(lines, {"start-dot": (start, 0.0)}, {**words, **told})


def verdict(start: float, star: float) -> str:
    if start < star:
        return "below the threshold: every input this small collapses"
    return "not below the threshold: these two tokens do not collapse"


def map_figure(v: float = 2.0, c: float = 1.0, start: float = 0.7) -> Figure:
    """Cobweb of :func:`attnverify.mathematics.collapse.two_token_step` with its threshold.

    v: norm of the value map; c: ||W_QK||_2/(4 sqrt(d_qk)); start: distance of the two tokens.
    Errors: InputError for a value outside the range of its slider.
    """
    return Figure(
        name="two-tokens",
        label="two tokens under one layer after another",
        description="Cobweb plot: the distance of two tokens after a layer over the distance "
        "before it, the diagonal, the threshold, and the orbit from a start that can "
        "be moved.",
        caption=CAPTION,
        plots=(PLOT,),
        marks={
            "same": Mark("line", "reference", "same distance", style="thin"),
            "threshold": Mark("line", "published", "threshold δ*", style="dashed"),
            "map": Mark("line", "sharp", "v δ tanh(c δ²)"),
            "orbit": Mark("line", "measured", "12 layers", style="thin"),
            "start-dot": Mark(
                "dot", "measured", "start", drag=("start", ""), label="start, on the axis"
            ),
        },
        controls=(
            Slider("start", "start δ", 0.02, LARGEST, 0.01),
            Slider("v", "v, norm of the value map", 0.5, 3.0, 0.01),
            Slider("c", "c, norm of the query-key matrix over 4√d", 0.25, 2.0, 0.01),
        ),
        sentence="Threshold δ* = {star}. The start is {verdict}. After 1, 4 and 12 layers the "
        "distance is {after1}, {after4} and {after12}.",
        draw=draw,
        formulas=function("step", collapse.two_token_step, dict.fromkeys(("s", "c", "v"), 0)),
        script="two_tokens.js",
        values={"start": 0.7, "v": 2.0, "c": 1.0},
    ).at(v=v, c=c, start=start)

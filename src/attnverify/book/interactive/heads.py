"""The phase diagram of two heads: where collapse is certain, and where two tokens move apart.

At a given distance the factor of a layer, the bound by the sums of the norms, and the sum of the
value norms are each homogeneous of degree 1 in (v_1, v_2). So the curve where one of them is 1 has
the radius 1/f in the direction whose value is f: nothing has to be solved.
"""

from __future__ import annotations

import json
import math

import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.book.interactive.drawing import SIGNIFICANT, Drawing, Mark, Plot, Point
from attnverify.book.interactive.figure import Figure, Slider, Values
from attnverify.book.interactive.javascript import function
from attnverify.mathematics import collapse, depth_bounds

SEGMENTS, LARGEST = 24, 2.0
TOLD = (1, 5, 20)
TICKS = {0.0: "0", 0.5: "0.5", 1.0: "1", 1.5: "1.5", 2.0: "2"}
PLOT = Plot(
    (0.0, LARGEST), (0.0, LARGEST), "v₁, value norm of head 1", "v₂", TICKS, TICKS, bottom=286.0
)
CAPTION = (
    "<b>Try:</b> drag the dot into each region; then make the rates equal: the dotted line and "
    "the edge become one. <b>It shows</b> where two heads make every input of this diameter "
    "collapse, and where two tokens at this distance move apart. <b>It does not show</b> which "
    "side a given network is on: above the edge nothing follows from the norms."
)
WORDS = {
    "free": "collapse is certain from every input, as v₁ + v₂ ≤ 1",
    "sums": "collapse is certain at this diameter, and v₁ + v₂ and β₂ alone show it",
    "below": "collapse is certain at this diameter, but not from v₁ + v₂ and β₂ alone",
    "above": "nothing is certain: two tokens at this distance stay apart",
}


def factor(y, v):
    """sum_h v_h tanh(y_h), y_h = c_h delta^2; one value."""
    return collapse.sharp_factor(_one(y), y, v)


def mean(y, v):
    """V tanh(m/V), V = sum v_h, m = sum v_h y_h: the same for the mean of the rates; one value."""
    return depth_bounds.mean_factor(_one(y), y, v)


def _one(y):
    """The distance 1, the unit of the rates y."""
    return ops.full((1,), 1, y)


def apart(size, y, v):
    """The distance of two tokens at ``size`` after one layer."""
    sizes = np.array([size], dtype=object) if isinstance(y, np.ndarray) else size
    return size * collapse.sharp_factor(sizes, y, v)


def edge(f, y: torch.Tensor) -> list[Point]:
    """Where f(y, v) = 1, from the v_1 axis to the v_2 axis."""
    points = []
    for k in range(SEGMENTS + 1):
        angle = k / SEGMENTS * math.pi / 2
        v = (math.cos(angle), math.sin(angle))
        radius = 1 / float(f(y, torch.tensor(v, dtype=torch.float64)))
        points.append((radius * v[0], radius * v[1]))
    return points


def region(total: float, by_sums: float, own: float) -> str:
    if total <= 1:
        return "free"
    return "sums" if by_sums < 1 else "below" if own < 1 else "above"


def draw(values: Values) -> Drawing:
    """The edges by the package's factors, and the orbit of two tokens."""
    y = torch.tensor([values["y1"], values["y2"]], dtype=torch.float64)
    v = torch.tensor([values["v1"], values["v2"]], dtype=torch.float64)
    free = edge(lambda _, v: v.sum(), y)
    below, sums = edge(factor, y), edge(mean, y)
    own, by_sums, total = float(factor(y, v)), float(mean(y, v)), values["v1"] + values["v2"]
    one = torch.tensor(1.0, dtype=torch.float64)
    orbit = {f"after{n}": (float(depth_bounds.recursion(one, y, v, n)), SIGNIFICANT) for n in TOLD}
    lines = {
        "below": [*below, (0.0, 0.0)],
        "free": [*free, (0.0, 0.0)],
        "edge": below,
        "sums": sums,
    }
    place = WORDS[region(total, by_sums, own)]
    texts = {"own": (own, 4), "mean": (by_sums, 4), "place": place, **orbit}
    return Drawing(lines, {"point": (values["v1"], values["v2"])}, texts)


def heads_figure(v1: float = 0.9, v2: float = 0.5, y1: float = 0.4, y2: float = 2.0) -> Figure:
    """Phase diagram of two heads over their value norms v1, v2, at rates times diameter^2 y1, y2.

    Errors: InputError for a value outside the range of its slider.
    """
    return Figure(
        name="heads",
        label="phase diagram of two heads",
        description="The plane of the value norms of two heads: near the origin a triangle where "
        "every input collapses, around it the region where inputs of this diameter "
        "do, with a dotted line inside up to which the sums alone show it, and a dot "
        "that can be moved.",
        caption=CAPTION,
        plots=(PLOT,),
        marks={
            "below": Mark("area", "sharp", "collapse at this diameter"),
            "free": Mark("area", "measured", "collapse from every input"),
            "edge": Mark("line", "sharp", "F(δ) = 1"),
            "sums": Mark("line", "repaired", "V tanh(mδ²/V) = 1", style="dotted"),
            "point": Mark("dot", "published", "these heads", drag=("v1", "v2"), label="v₁ and v₂"),
        },
        controls=(
            Slider("v1", "v₁, value norm of head 1", 0.01, LARGEST, 0.01),
            Slider("v2", "v₂, value norm of head 2", 0.01, LARGEST, 0.01),
            Slider("y1", "c₁δ², rate of head 1 times diameter²", 0.05, 3.0, 0.05),
            Slider("y2", "c₂δ², rate of head 2 times diameter²", 0.05, 3.0, 0.05),
        ),
        sentence="F(δ) = {own}, by the sums at most {mean}: {place}. Two tokens at distance δ are"
        " at {after1} δ, {after5} δ and {after20} δ after 1, 5 and 20 layers.",
        draw=draw,
        formulas=formulas() + f"const words = {json.dumps(WORDS, ensure_ascii=False)};\n",
        script="heads.js",
        values={"v1": 0.9, "v2": 0.5, "y1": 0.4, "y2": 2.0},
    ).at(v1=v1, v2=v2, y1=y1, y2=y2)


def formulas() -> str:
    pair: dict[str, int] = dict.fromkeys(("y", "v"), 2)
    return (
        function("factor", factor, pair)
        + function("mean", mean, pair)
        + function("apart", apart, {"size": 0, **pair})
    )

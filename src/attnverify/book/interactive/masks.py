"""The largest distance of eight tokens over depth: no mask, a causal mask, a sliding window."""

from __future__ import annotations

import math

import torch

from attnverify.book.interactive.depth import log10
from attnverify.book.interactive.drawing import Drawing, Mark, Plot
from attnverify.book.interactive.figure import Figure, Slider, Values
from attnverify.book.interactive.networks import drawn, literal
from attnverify.mathematics import collapse, norms

TOKENS, LAYERS, LOWEST = 8, 20, -8.0
#: Near 1 all but the first, so that a window sees few differences until the first is in sight.
X = 1 + drawn(1, TOKENS, 2) / 8
X[0] = 0
#: Without a mask the tokens end away from 0, and their differences end in rounding. Those below
#: the plot are drawn at this place under it.
UNDER = -16.0
PLOT = Plot(
    (0.0, float(LAYERS)),
    (LOWEST, 1.0),
    "layer",
    "log₁₀ of the largest distance",
    {float(k): str(k) for k in range(0, LAYERS + 1, 5)},
    {0.0: "0", -2.0: "−2", -4.0: "−4", -6.0: "−6", -8.0: "−8"},
)
CAPTION = (
    "<b>Try:</b> widen the window: its line falls earlier, and in the end as steeply. Then make "
    "the first three tokens equal: in the end a layer leaves a quarter of the distance under the "
    "causal mask, and a third in a window of three. Larger scores delay both. <b>It shows</b> "
    "eight tokens in the plane, one head with W<sub>QK</sub> = q I and the value map 1, attention "
    "alone, token 1 at 0. <b>It does not show</b> skip connections, several heads or a trained "
    "network."
)


def distances(alike: int, q: float, causal: bool = True, window: int | None = None) -> list[float]:
    """Largest distance of the tokens, ``alike`` of them equal to token 1, before and after layers.

    q: W_QK = q I with d_qk = 1; causal, window: the mask. LAYERS + 1 numbers.
    """
    Y, W_QK = X.clone(), q * torch.eye(2, dtype=torch.float64)
    Y[:alike] = Y[0]
    found = [float(norms.diameter(Y))]
    for _ in range(LAYERS):
        Y = collapse.masked_layer(Y, W_QK, 1, causal, window)
        found.append(float(norms.diameter(Y)))
    return found


def draw(values: Values) -> Drawing:
    """The three masks, and a line that falls from the start by 1/(m + 1) at each layer."""
    m, w, q = round(values["m"]), round(values["w"]), values["q"]
    sizes = {"causal": distances(m, q), "window": distances(m, q, window=w)}
    logs = {name: [log10(x) for x in found] for name, found in sizes.items()}
    none = [log10(x) for x in distances(m, q, causal=False)]
    logs["none"] = [x if x > LOWEST else UNDER for x in none]
    logs["rate"] = [logs["causal"][0] - k * math.log10(m + 1) for k in range(LAYERS + 1)]
    last = {f"{name}-last": (found[-1] / found[-2], 3) for name, found in sizes.items()}
    end = "the same" if w >= m + 2 else f"1/w = {1 / w:.3f}"
    lines = {name: [(float(k), x) for k, x in enumerate(found)] for name, found in logs.items()}
    return Drawing(lines, {}, {**last, "limit": (1 / (m + 1), 3), "end": end})


def masks_figure(m: float = 1.0, w: float = 3.0, q: float = 0.5) -> Figure:
    """Eight tokens under :func:`attnverify.mathematics.collapse.masked_layer`, by kind of mask.

    m: how many first tokens are equal; w: how many tokens a window sees; q: W_QK = q I with
    d_qk = 1. Errors: InputError for a value outside its slider.
    """
    return Figure(
        name="masks",
        label="eight tokens under three masks",
        description=f"Line chart over layers 0 to {LAYERS}: the logarithm of the largest distance. "
        "Without a mask it drops out of the chart; under a causal mask and in a window it bends "
        "towards a straight line.",
        caption=CAPTION,
        plots=(PLOT,),
        marks={
            "rate": Mark("line", "reference", "1/(m + 1) a layer", style="dashed"),
            "none": Mark("line", "published", "no mask", style="thin"),
            "causal": Mark("line", "measured", "causal mask"),
            "window": Mark("line", "repaired", "window of w", style="dotted"),
        },
        controls=(
            Slider("m", "m, how many first tokens are equal", 1.0, 4.0, 1.0, 0),
            Slider("w", "w, tokens that a window sees", 2.0, float(TOKENS), 1.0, 0),
            Slider("q", "q, size of the scores", 0.0, 2.0, 0.1, 1),
        ),
        sentence="The last layer multiplied the largest distance by {causal-last} under the causal "
        "mask and by {window-last} in the window. In the end the first factor is 1/(m + 1) = "
        "{limit}, the second {end}.",
        draw=draw,
        formulas=literal("X", X),
        script="masks.js",
        values={"m": 1.0, "w": 3.0, "q": 0.5},
    ).at(m=m, w=w, q=q)

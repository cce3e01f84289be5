"""The diameters of a small network over depth, beside the sharp recursion and the closed form."""

from __future__ import annotations

import math

import flint
import torch

from attnverify.arithmetic import ops
from attnverify.book.interactive.drawing import Drawing, Mark, Number, Plot, Point
from attnverify.book.interactive.figure import Figure, Slider, Values
from attnverify.book.interactive.javascript import function
from attnverify.book.interactive.networks import drawn, literal
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.spectral import spectral_norm

DEPTH, HEADS, TOKENS, WIDTH, KEY_WIDTH = 5, 2, 4, 3, 4
#: Bits of the forward pass here: diameters fall far below 10^-308, beside a mean of size 1.
BITS = 4000
LOWEST = -60.0
#: What is smaller is drawn here, below the plot; the script's floats end at 10^-308.
FLOOR = -300.0
W_QK = drawn(1, DEPTH, HEADS, WIDTH, WIDTH)
W = drawn(2, DEPTH, HEADS, WIDTH, WIDTH) / 2
X = drawn(3, TOKENS, WIDTH)
RATES, VALUE_NORMS = collapse.rate(W_QK, KEY_WIDTH), spectral_norm(W)
PLOT = Plot(
    (0.0, float(DEPTH)),
    (LOWEST, 4.0),
    "layer",
    "log₁₀ of the diameter",
    {float(k): str(k) for k in range(DEPTH + 1)},
    {0.0: "0", -20.0: "−20", -40.0: "−40", -60.0: "−60"},
)
CAPTION = (
    "<b>Try:</b> make the tokens larger: first the closed form stops falling, then the recursion,"
    " and last the network itself. <b>It shows</b> one network, computed in the page: the bounds "
    "lie above the measured curve and bend like it. <b>It does not show</b> how far above for "
    "other networks; and a bound that grows says nothing: in between this network still "
    "collapses."
)


def measured(scale: float, value: float) -> list[float]:
    """log10 of the diameter of the tokens and of each layer's output, from balls."""
    with ops.precision(BITS):
        Y, maps = ops.balls(X) * flint.arb(scale), ops.balls(W) * flint.arb(value)
        queries, zero = ops.balls(W_QK), ops.balls(torch.zeros(HEADS, WIDTH))
        sizes = [norms.diameter(Y)]
        for k in range(DEPTH):
            Y = collapse.layer(Y, queries[k], zero, maps[k], KEY_WIDTH)
            sizes.append(norms.diameter(Y))
        return [float(size.log()) / math.log(10) for size in sizes]


def recursion(start: float, value: float) -> list[float]:
    """log10 of a_l, a_(l+1) = a_l sum_h v_h tanh(c_h a_l^2)."""
    size, sizes = torch.tensor(start, dtype=torch.float64), [start]
    for c, v in zip(RATES, VALUE_NORMS, strict=True):
        size = size * collapse.sharp_factor(size, c, value * v)
        sizes.append(float(size))
    return [log10(size) for size in sizes]


def closed_form(start: float, value: float) -> list[float]:
    """log10 of beta^((3^l - 1)/2) start^(3^l), beta the largest sum_h c_h v_h of a layer."""
    beta = value * float((RATES * VALUE_NORMS).sum(-1).max())
    return [(3**k - 1) / 2 * math.log10(beta) + 3**k * math.log10(start) for k in range(DEPTH + 1)]


def log10(size: float) -> float:
    return max(math.log10(size), FLOOR) if size > 0 else FLOOR


def over_layers(values: list[float]) -> list[Point]:
    return [(float(k), max(value, FLOOR)) for k, value in enumerate(values)]


def draw(values: Values) -> Drawing:
    """The measured diameters and both bounds."""
    scale, value = 10 ** values["size"], values["value"]
    seen, start = measured(scale, value), float(norms.diameter(scale * X))
    bounds, cubic = recursion(start, value), closed_form(start, value)
    lines = {"measured": seen, "recursion": bounds, "cubic": cubic}
    told: dict[str, Number] = {f"{k}-2": (points[2], 2) for k, points in lines.items()}
    texts = {"start": (start, 2), **told}
    return Drawing({k: over_layers(points) for k, points in lines.items()}, {}, texts)


def depth_figure(size: float = -0.6, value: float = 1.0) -> Figure:
    """A network of 5 layers beside its bounds; size: log10 of a factor of the tokens.

    value: a factor of the value maps. Errors: InputError for a value outside its slider's range.
    """
    return Figure(
        name="depth",
        label="a small network beside its bounds",
        description="Line chart over layers 0 to 5: the logarithm of the measured diameter, of the "
        "sharp recursion above it, and of the cubic closed form above that.",
        caption=CAPTION,
        plots=(PLOT,),
        marks={
            "cubic": Mark("line", "reference", "cubic closed form", style="dotted"),
            "recursion": Mark("line", "sharp", "sharp recursion", style="dashed"),
            "measured": Mark("line", "measured", "measured"),
        },
        controls=(
            Slider("size", "tokens, log₁₀ of a factor", -1.0, 0.6, 0.05),
            Slider("value", "value maps, a factor", 0.5, 2.0, 0.05),
        ),
        sentence="Diameter of the tokens {start}. log₁₀ of the diameter after two layers: measured "
        "{measured-2}, recursion {recursion-2}, closed form {cubic-2}.",
        draw=draw,
        formulas=formulas(),
        script="depth.js",
        values={"size": -0.6, "value": 1.0},
    ).at(size=size, value=value)


def formulas() -> str:
    """The factor of a layer, the network, and its norms."""
    data = {"X": X, "Q": W_QK, "W": W, "rates": RATES, "norms": VALUE_NORMS}
    factor = function("factor", collapse.sharp_factor, {"a": 1, "c": HEADS, "v": HEADS})
    return factor + "".join(literal(name, values) for name, values in data.items())

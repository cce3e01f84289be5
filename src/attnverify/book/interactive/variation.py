"""Total variation of two softmax rows against tanh(osc/4), with logits that can be dragged."""

from __future__ import annotations

import torch

from attnverify.arithmetic import ops
from attnverify.book.interactive.drawing import Drawing, Mark, Plot, Point
from attnverify.book.interactive.figure import Figure, Slider, Values
from attnverify.book.interactive.javascript import function
from attnverify.mathematics import norms, softmax

TOKENS, LARGEST, SEGMENTS = 4, 4.0, 32
BEFORE, AFTER = (tuple(f"{row}{k + 1}" for k in range(TOKENS)) for row in "uw")
LOGITS = Plot(
    (0.5, TOKENS + 0.5),
    (-LARGEST, LARGEST),
    "token: left before, right after",
    "logit",
    {float(k): str(k) for k in range(1, TOKENS + 1)},
    {-4.0: "−4", -2.0: "−2", 0.0: "0", 2.0: "2", 4.0: "4"},
    bottom=196.0,
)
VARIATION = Plot(
    (0.0, 4 * LARGEST),
    (0.0, 1.0),
    "D, oscillation of the change",
    "total variation",
    {0.0: "0", 4.0: "4", 8.0: "8", 12.0: "12", 16.0: "16"},
    {0.0: "0", 0.5: "0.5", 1.0: "1"},
    top=262.0,
    bottom=412.0,
)
CAPTION = (
    "<b>Try:</b> drag a bar's end, or move it by arrow keys; then press “equality” and move any "
    "one bar. <b>It shows</b> that the dot stays under the curve, and on it only if the change "
    "takes two values and the tokens that gain had the mass 1/(1 + e<sup>D/2</sup>). <b>It does "
    "not show</b> a proof: that is above."
)
START = dict(zip(BEFORE + AFTER, (1.0, -0.5, 0.5, -1.0, -0.5, 1.5, 0.0, 0.5), strict=True))
#: The change is 2 on two tokens and 0 on the others; the odds of the first two are e^-1 before.
EQUALITY = dict(zip(BEFORE + AFTER, (-1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0), strict=True))


def variation(u, w):
    """TV(softmax(u), softmax(w))."""
    return norms.total_variation(ops.softmax(u), ops.softmax(w))


def change(u, w):
    """osc(w - u)."""
    return softmax.oscillation(w - u)


def row(values: Values, names: tuple[str, ...]) -> torch.Tensor:
    return torch.tensor([values[name] for name in names], dtype=torch.float64)


def bars(names: tuple[str, ...], values: Values, offset: float) -> dict[str, Point]:
    """The end of the bar of each logit."""
    return {name: (k + 1 + offset, values[name]) for k, name in enumerate(names)}


def draw(values: Values) -> Drawing:
    """Bars of both rows of logits, and the pair (D, total variation) beside the curve."""
    u, w = row(values, BEFORE), row(values, AFTER)
    D, tv = float(change(u, w)), float(variation(u, w))
    bound = float(softmax.variation_bound(torch.tensor(D, dtype=torch.float64)))
    before, after = bars(BEFORE, values, -0.18), bars(AFTER, values, 0.18)
    grid = torch.arange(SEGMENTS + 1, dtype=torch.float64) * 4 * LARGEST / SEGMENTS
    curve = list(zip(grid.tolist(), softmax.variation_bound(grid).tolist(), strict=True))
    texts = {"D": (D, 2), "tv": (tv, 4), "bound": (bound, 4), "share": share(tv, bound)}
    lines = {"before": list(before.values()), "after": list(after.values()), "curve": curve}
    return Drawing(lines, {**before, **after, "pair": (D, tv)}, texts)


def share(tv: float, bound: float) -> str | tuple[float, int]:
    return (tv / bound, 4) if bound else "0 of 0"


def handle(name: str, what: str) -> Mark:
    look = "measured" if what == "after" else "reference"
    return Mark("dot", look, drag=("", name), label=f"logit {what}, token {name[1]}")


def variation_figure(**logits: float) -> Figure:
    """TV(softmax(u), softmax(w)) beside tanh(osc(w - u)/4), for u1..u4 and w1..w4.

    Errors: InputError for a logit outside -4 to 4.
    """
    rows = [
        (name, what) for names, what in ((BEFORE, "before"), (AFTER, "after")) for name in names
    ]
    return Figure(
        name="variation",
        label="total variation of two softmax rows",
        description="Above, logits of four tokens before and after a change, bars "
        "to move. Below, tanh(D/4) and a dot for the rows.",
        caption=CAPTION,
        plots=(LOGITS, VARIATION),
        marks={
            "before": Mark("bars", "reference", "logits before", style="slim"),
            "after": Mark("bars", "measured", "logits after", style="slim"),
            "curve": Mark("line", "sharp", "tanh(D/4)", plot=1),
            **{name: handle(name, what) for name, what in rows},
            "pair": Mark("dot", "published", "these two rows", plot=1),
        },
        controls=tuple(
            Slider(name, f"{what}, token {name[1]}", -LARGEST, LARGEST, 0.1, 1, folded=True)
            for name, what in rows
        ),
        sentence="D = {D}, total variation {tv}, at most tanh(D/4) = {bound}; share of it {share}.",
        draw=draw,
        formulas=formulas(),
        script="variation.js",
        values=START,
        presets={"equality": EQUALITY, "start again": START},
    ).at(**logits)


def formulas() -> str:
    """Total variation, oscillation and bound, for rows of :data:`TOKENS` logits."""
    rows: dict[str, int] = dict.fromkeys(("u", "w"), TOKENS)
    return (
        function("variation", variation, rows)
        + function("change", change, rows)
        + function("limit", softmax.variation_bound, {"D": 0})
    )

"""How much of a network's output stands in paths of each length, with heads that are switched."""

from __future__ import annotations

import torch

from attnverify.book.interactive.drawing import Drawing, Mark, Plot, Point
from attnverify.book.interactive.figure import Figure, Slider, Switch, Values
from attnverify.book.interactive.networks import drawn, literal
from attnverify.mathematics import paths
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.mathematics.weights import AttentionWeights

DEPTH, HEADS, TOKENS, WIDTH = 4, 3, 4, 3
W_QK = drawn(4, DEPTH, HEADS, WIDTH, WIDTH)
W = drawn(5, DEPTH, HEADS, WIDTH, WIDTH) / 2
X = drawn(6, TOKENS, WIDTH)
SWITCHES = tuple(f"s{layer}{head}" for head in range(HEADS) for layer in range(DEPTH))
PLOT = Plot(
    (-0.6, DEPTH + 0.6),
    (0.0, 1.0),
    "path length",
    "share",
    {float(k): str(k) for k in range(DEPTH + 1)},
    {0.0: "0", 0.5: "0.5", 1.0: "1"},
)
CAPTION = (
    "<b>Try:</b> switch off a whole layer: the longest length is gone. Then make the value maps "
    "smaller: short paths carry nearly all, whatever their number. <b>It shows</b> one random "
    "network with skip connections, computed anew by its own forward pass at each setting. <b>It "
    "does not show</b> what a length contributes to the result, as lengths may cancel, nor a "
    "trained network."
)


def network(values: Values) -> SelfAttentionNetwork:
    """The network at these settings: a head that is off has a value map of zero."""
    on = torch.tensor([[values[f"s{k}{h}"] for h in range(HEADS)] for k in range(DEPTH)]).double()
    same = torch.eye(WIDTH, dtype=torch.float64).expand(DEPTH, HEADS, WIDTH, WIDTH)
    none = torch.zeros(DEPTH, HEADS, WIDTH, dtype=torch.float64)
    maps = W * on[..., None, None] * values["value"]
    weights = AttentionWeights(W_QK, none, same, none, maps, none, same, none[:, 0])
    return SelfAttentionNetwork(weights, skip=True)


def counts(values: Values) -> list[int]:
    """How many paths of each length: the polynomial prod_l (1 + H_l z)."""
    numbers = [1] + [0] * DEPTH
    for layer in range(DEPTH):
        on = sum(int(values[f"s{layer}{head}"]) for head in range(HEADS))
        numbers = [n + on * before for n, before in zip(numbers, [0, *numbers[:-1]], strict=True)]
    return numbers


def draw(values: Values) -> Drawing:
    """Shares of the norms of the sums by length, and of the number of paths."""
    sizes = paths.by_length(network(values), X).flatten(1).norm(dim=1)
    share, number = (sizes / sizes.sum()).tolist(), counts(values)
    bars: list[Point] = [(float(k), value) for k, value in enumerate(share)]
    line = [(float(k), n / sum(number)) for k, n in enumerate(number)]
    texts = {f"share{k}": (value, 3) for k, value in enumerate(share)}
    return Drawing({"bars": bars, "line": line}, {}, {"paths": (float(sum(number)), 0), **texts})


def lengths_figure(value: float = 1.0, **switches: float) -> Figure:
    """Shares of path lengths for a network of 4 layers with 3 heads; value: factor of value maps.

    switches: s00 to s32, 0 for a head that is off (layer, then head, from 0). Errors: InputError
    for a value outside the range of its control.
    """
    listed = ", ".join(f"{{share{k}}}" for k in range(DEPTH + 1))
    return Figure(
        name="lengths",
        label="shares of path lengths under head switches",
        description="Bars over path length 0 to 4: the share of each length in the sum of norms. A "
        "line: its share in the number of paths.",
        caption=CAPTION,
        plots=(PLOT,),
        marks={
            "bars": Mark("bars", "measured", "share of the norms"),
            "line": Mark("line", "reference", "share of the paths", style="dashed"),
        },
        controls=(
            *(
                Switch(name, f"layer {k + 1}, head {h + 1}", f"head {h + 1}")
                for name in SWITCHES
                for k, h in [map(int, name[1:])]
            ),
            Slider("value", "value maps, a factor", 0.1, 4.0, 0.1, 1),
        ),
        sentence=f"{{paths}} paths. Shares of the lengths 0 to {DEPTH}: {listed}.",
        draw=draw,
        formulas="".join(literal(k, v) for k, v in {"X": X, "Q": W_QK, "W": W}.items()),
        script="lengths.js",
        values={"value": 1.0, **dict.fromkeys(SWITCHES, 1.0)},
        presets={"all heads": dict.fromkeys(SWITCHES, 1.0), "none": dict.fromkeys(SWITCHES, 0.0)},
        columns=tuple(f"layer {k + 1}" for k in range(DEPTH)),
    ).at(value=value, **switches)

"""Six tokens in the plane under one attention layer after another, with and without skips."""

from __future__ import annotations

import torch
from torch import Tensor

from attnverify.book.interactive.drawing import (
    SIGNIFICANT,
    Drawing,
    Mark,
    Number,
    Plot,
    significant,
)
from attnverify.book.interactive.figure import Figure, Slider, Switch, Values
from attnverify.book.interactive.networks import literal
from attnverify.mathematics import collapse, norms

X = torch.tensor(
    [[1.05, 0.28], [0.64, 0.84], [-0.08, 0.8], [-0.41, 0.09], [0.0, -0.48], [0.6, -0.32]],
    dtype=torch.float64,
)
LAYERS, LARGEST = 8, 1.4
#: Rounding moves the tokens by some 1e-16; smaller distances than this are not written.
LEAST = 1e-9
TICKS = {-1.0: "−1", 0.0: "0", 1.0: "1"}
PLOT = Plot((-1.5, 1.5), (-1.5, 1.5), "first entry", "second entry", TICKS, TICKS, bottom=328.0)
CAPTION = (
    "<b>Try:</b> move the layer from 0 to 8; then switch the skip connections on and do it again. "
    "Larger scores delay the collapse, and with larger value maps it may not come at all. "
    "<b>It shows</b> one head with W<sub>QK</sub> = q I and W<sub>V</sub> = v I, computed in the "
    "page. <b>It does not show</b> a trained network, whose weights and MLPs do more than average."
)


def states(q: float, v: float, skip: bool, layers: int) -> list[Tensor]:
    """The tokens at the start and after each layer; (6, 2) each."""
    eye, found = torch.eye(2, dtype=torch.float64)[None], [X]
    for _ in range(layers):
        out = collapse.layer(found[-1], q * eye, 0 * X[:1], v * eye, key_width=1)
        found.append(found[-1] + out if skip else out)
    return found


def draw(values: Values) -> Drawing:
    """Tracks of all tokens up to the layer, drawn smaller where they would leave the frame."""
    seen = states(values["q"], values["v"], bool(values["skip"]), round(values["layer"]))
    scale = max(1.0, float(torch.stack(seen).norm(dim=-1).max()) / LARGEST)
    tracks = [[(x, y) for x, y in track] for track in torch.stack(seen, dim=1).div(scale).tolist()]
    distance, length = float(norms.diameter(seen[-1])), float(seen[-1].norm(dim=-1).mean())
    small = distance < LEAST
    told: Number | str = "below 10⁻⁹" if small else (distance, SIGNIFICANT)
    relative: Number | str = "almost 0" if small else (distance / length, SIGNIFICANT)
    start = float(norms.diameter(X)), SIGNIFICANT
    return Drawing(
        {f"track-{k}": track for k, track in enumerate(tracks)},
        {f"token-{k}": track[-1] for k, track in enumerate(tracks)},
        {
            "layers": f"{values['layer']:g}",
            "distance": told,
            "start": start,
            "relative": relative,
            "scale": f"The drawing is scaled down by {significant(scale)}." if scale > 1 else "",
        },
    )


def tokens_figure(layer: float = 3.0, q: float = 2.0, v: float = 1.0, skip: float = 0.0) -> Figure:
    """Six tokens of width 2 that one head of :func:`attnverify.mathematics.collapse.layer` moves.

    layer: how many layers; q, v: W_QK = q I and W_V = v I with d_qk = 1; skip: 1 with skip
    connections, 0 without. Errors: InputError for a value outside the range of its control.
    """
    tracks = {f"track-{k}": Mark("line", "reference", style="thin") for k in range(len(X))}
    tokens = {f"token-{k}": Mark("dot", "measured", "" if k else "tokens") for k in range(len(X))}
    return Figure(
        name="tokens",
        label="six tokens under one layer after another",
        description="Six tokens of width 2 as points in the plane, at the layer that is chosen, "
        "each with its track from the start.",
        caption=CAPTION,
        plots=(PLOT,),
        marks={**tracks, **tokens},
        controls=(
            Switch("skip", "Skip connections", "skip connections"),
            Slider("layer", "layer", 0.0, float(LAYERS), 1.0, decimals=0),
            Slider("q", "q, size of the scores", 0.5, 4.0, 0.05),
            Slider("v", "v, size of the value map", 0.5, 1.5, 0.05),
        ),
        sentence="At layer {layers} the largest distance between two tokens is {distance}; at "
        "the start it was {start}. Divided by their average length it is {relative}. {scale}",
        draw=draw,
        formulas=literal("X", X),
        script="tokens.js",
        values={"layer": 3.0, "q": 2.0, "v": 1.0, "skip": 0.0},
        columns=("",),
    ).at(layer=layer, q=q, v=v, skip=skip)

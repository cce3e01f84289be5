"""The variance of three tokens on a line under a row of attention, below what its entropy allows.

The curve is drawn by the lesser weight q: at the entropy of q and 1 - q it is at q (1 - q).
"""

from __future__ import annotations

import math

import torch

from attnverify.book.interactive.drawing import SIGNIFICANT, Drawing, Mark, Plot
from attnverify.book.interactive.figure import Figure, Slider, Values
from attnverify.book.interactive.javascript import function
from attnverify.mathematics import entropy, gradients

LARGEST, SEGMENTS = 5.0, 30
ROW = Plot(
    (-0.4, LARGEST + 0.4),
    (0.0, 1.0),
    "place of the token",
    "weight",
    {float(k): str(k) for k in range(round(LARGEST) + 1)},
    {0.0: "0", 0.5: "0.5", 1.0: "1"},
    bottom=116.0,
)
SHARE = Plot(
    (0.0, math.log(3)),
    (0.0, 0.27),
    "entropy of the row, nats",
    "variance / diam²",
    {0.0: "0", 0.25: "0.25", 0.5: "0.5", 0.75: "0.75", 1.0: "1"},
    {0.0: "0", 0.1: "0.1", 0.2: "0.2", 0.25: "0.25"},
    top=188.0,
    bottom=368.0,
)
CAPTION = (
    "<b>Try:</b> press “two tokens”, which leaves token 3 almost no weight, and raise the first "
    "logit: the dot slides down the curve. Then shorten the distance: the dot stays, and the "
    "variance falls with diam². <b>It shows</b> that the dot is never above v(H), which two "
    "tokens, or two places of equal weight, attain. <b>It does not show</b> a gradient: that has "
    "the query's length and the loss as factors, too."
)


def covariance(logits, places):
    """Variance of the places (3,) under softmax(logits): the covariance of tokens of width 1."""
    return gradients.covariance(logits, places[:, None])


def draw(values: Values) -> Drawing:
    """Weights over places; the pair of entropy and share beside the curve (h(q), q (1 - q))."""
    gap, third, place, distance = (values[k] for k in ("gap", "third", "place", "distance"))
    logits = torch.tensor([gap, 0.0, third], dtype=torch.float64)
    places = distance * torch.tensor([0.0, 1.0, place], dtype=torch.float64)
    ends = list(zip(places.tolist(), logits.softmax(-1).tolist(), strict=True))
    norm, H = float(covariance(logits, places)), float(entropy.entropy(logits))
    q = (torch.arange(1, SEGMENTS + 1, dtype=torch.float64) / SEGMENTS) ** 2 / 2
    curve = zip(gradients.binary_entropy(q).tolist(), (q * (1 - q)).tolist(), strict=True)
    bound = [(0.0, 0.0), *curve, (SHARE.x[1], 0.25)]
    texts = {
        "H": (H, 3),
        "diam": (distance, 1),
        "norm": (norm, SIGNIFICANT),
        "share": (norm / distance**2, 4),
        "product": (float(gradients.weight_variance(logits)), 4),
        "v": (float(gradients.entropy_variance(entropy.entropy(logits))), 4),
    }
    lines = {"two": ends[:2], "third": ends[2:], "curve": bound}
    return Drawing(lines, {"pair": (H, norm / distance**2)}, texts)


def covariance_figure(
    gap: float = 2.2, third: float = 0.0, place: float = 0.4, distance: float = 5.0
) -> Figure:
    """Tokens of width 1 at 0, ``distance`` and between, with logits ``gap``, 0 and ``third``.

    place: where token 3 is, as a share of the distance. Their variance is
    :func:`attnverify.mathematics.gradients.covariance`. Errors: InputError for a value outside its
    slider.
    """
    return Figure(
        name="covariance",
        label="variance of three tokens under a row of attention",
        description="Above, the weights of three tokens as bars at their places on a line. Below, "
        "the curve v(H), which rises from 0 to one quarter and stays there, and a dot for this "
        "row, below it or on it.",
        caption=CAPTION,
        plots=(ROW, SHARE),
        marks={
            "two": Mark("bars", "measured", "tokens 1 and 2"),
            "third": Mark("bars", "repaired", "token 3", style="slim"),
            "curve": Mark("line", "sharp", "v(H)", plot=1),
            "pair": Mark("dot", "published", "this row", plot=1),
        },
        controls=(
            Slider("gap", "logit of token 1 over that of token 2", 0.0, 6.0, 0.1, 1),
            Slider("third", "logit of token 3 over that of token 2", -8.0, 4.0, 0.1, 1),
            Slider("place", "place of token 3, as a share of the distance", 0.0, 1.0, 0.05),
            Slider("distance", "distance of tokens 1 and 2", 0.1, LARGEST, 0.1, 1),
        ),
        sentence="The tokens' variance under this row is {norm}, which is {share} of diam² = "
        "{diam}². The largest weight allows the share P(1 − P) = {product}, the entropy {H} nats "
        "allows v(H) = {v}.",
        draw=draw,
        formulas=formulas(),
        script="covariance.js",
        values={"gap": 2.2, "third": 0.0, "place": 0.4, "distance": 5.0},
        presets={
            "two tokens": {"third": -8.0},
            "two places": {"gap": 0.7, "third": 0.0, "place": 1.0},
        },
    ).at(gap=gap, third=third, place=place, distance=distance)


def formulas() -> str:
    """Variance, entropy and P (1 - P) of a row of three, and the entropy of two weights."""
    row: dict[str, int] = {"logits": 3}
    return (
        function("covariance", covariance, {**row, "places": 3})
        + function("entropy", entropy.entropy, row)
        + function("product", gradients.weight_variance, row)
        + function("two", gradients.binary_entropy, {"q": 0})
    )

"""Attention patterns for the page of a report: a byte a weight, and a section to look at them.

A weight w is kept as q = round(255 sqrt(w)). With s = q / 255 and e = 1/510 the square root is off
by at most e, so w = (s + t)^2 with |t| <= e, and the weight s^2 that is shown is off by at most
e (2 s + e): by 0.004 where it is 1, by 0.000004 where 0 is shown. Rows add up to 1, so the squares
of q have mean 255^2 / n: at n tokens no distribution of q has more than
log2(255^2 pi e / (2 n)) / 2 + 1 bits (Gaussian entropy, halved to one sign, and the width of a
step), 5.6 at 128. Compressed and in base64 the weights of 12 layers of 12 heads so take 2.2 MB.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from markupsafe import Markup
from torch import Tensor

if TYPE_CHECKING:
    from attnverify.inspection.findings import Findings

MOST = 12 * 12 * 128 * 128  # weights on a page
STEPS = 255
HALF = 0.5 / STEPS  # what a square root is off by at most


def stored(P: Tensor) -> Tensor:
    """Weights in [0, 1] as bytes."""
    return (P.clamp(0, 1).sqrt() * STEPS).round().to(torch.uint8)


def weight(q: Tensor) -> Tensor:
    """The weights that bytes stand for."""
    return (q.double() / STEPS).square()


def error(q: Tensor) -> Tensor:
    """The most that these weights are off by."""
    return HALF * (2 * q.double() / STEPS + HALF)


@dataclass(frozen=True)
class Patterns:
    """Patterns of the first text, and what each key token gives of a head's direct part.

    layers: that have them, of those that were ``measured``; tokens: places, from 1, of those that
    are no padding; weights: layer to bytes (heads, tokens, tokens), rows queries; keys: layer to
    (heads, tokens), none where no number was chosen.
    """

    layers: list[int]
    measured: int
    tokens: list[int]
    weights: dict[int, Tensor] = field(default_factory=dict)
    keys: dict[int, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, layers: Iterable[int], heads: int, valid: Tensor) -> Patterns:
        """For as many of the layers as fit, at equal distances; valid (tokens,)."""
        every, places = sorted(layers), valid.nonzero()[:, 0].tolist()
        room = min(len(every), MOST // (heads * max(1, len(places)) ** 2))
        chosen = [every[(i * len(every)) // room] for i in range(room)]
        return cls(chosen, len(every), [i + 1 for i in places])

    def add(self, layer: int, P: Tensor) -> None:
        """Keep a layer's weights, P (heads, tokens, tokens) with padding, if it is one of them."""
        if layer in self.layers:
            keep = torch.tensor(self.tokens, device=P.device) - 1
            self.weights[layer] = stored(P[:, keep][:, :, keep]).cpu()

    def read(self, keys: Mapping[int, Tensor]) -> None:
        """Keep what each key token gives, (heads, tokens) with padding, of the layers here."""
        keep = torch.tensor(self.tokens) - 1
        self.keys.update((n, each.cpu()[:, keep]) for n, each in keys.items() if n in self.layers)

    def missing(self) -> str:
        """Why layers have none, in a sentence; empty where all have them."""
        left = self.measured - len(self.layers)
        if not left:
            return ""
        which = "The layers have no patterns here" if not self.layers else f"{left} layers are left"
        return (
            f"{which}{' out' if self.layers else ''}: a page holds at most {MOST:,} weights. "
            "--layers chooses layers, and a shorter text leaves room for more."
        )


NONE = "There are no attention patterns: "
BRIEF = f"{NONE}a brief report has none (--brief)."
ELSEWHERE = f"{NONE}the page that --out writes has them."
TELLS = (
    "A row is a token that looks (a query), a column one that is looked at (a key). The stronger "
    "the color, the larger the weight, by its square root. The page keeps 8 bits of this root: a "
    "weight is told with the most that it may be off, at most 0.005 as printed. inspect.json and "
    "the tables have no patterns; av.trace has them in full."
)
CHOOSE = (
    "Choose by the boxes, by a click, or by keys on the matrix: arrows up and down for the token, "
    "left and right for the head, page up and page down for the layer. A click on a cell of a "
    "figure of layers and heads opens its pattern."
)


def section(report: Findings, shown: bool) -> Markup:
    """The section on patterns, or why there is none; shown: the page has room and a script."""
    found, title = report.patterns, Markup("<h2>Attention patterns</h2>")
    if found is None or not shown or not found.layers:
        why = BRIEF if found is None else found.missing() if shown else ELSEWHERE
        return Markup("{}<p>{}</p>").format(title, why)
    more = ["Only the first text is shown."] * (report.inputs["texts"] > 1) + [found.missing()]
    told = " ".join([TELLS, *filter(None, more)])
    data = json.dumps(_data(report, found), ensure_ascii=False).replace("<", "\\u003c")
    box = Markup("<label>{} <select></select></label> ")
    script = (Path(__file__).parent / "patterns.js").read_text(encoding="utf-8")
    return Markup(
        '{}<div id="patterns"><p>{}</p><p>{}</p>'
        '<noscript><p>This section needs JavaScript.</p></noscript><p class="choose">{}</p>'
        '<div class="pattern"><div><canvas tabindex="0" role="application"></canvas><p '
        'class="cell">&nbsp;</p></div><div><div class="query" aria-live="polite"></div><div '
        'class="given"></div></div></div><script type="application/json">{}</script></div>'
        "<script>{}</script>"
    ).format(
        title,
        told,
        CHOOSE,
        Markup().join(map(box.format, ("Layer", "Head", "Query token"))),
        Markup(data),  # in a script only "<" is special
        Markup(script),
    )


def _data(report: Findings, found: Patterns) -> dict[str, object]:
    words, scalar = report.inputs["words"], report.scalar
    bytes_ = torch.stack([found.weights[layer] for layer in found.layers]).numpy().tobytes()
    data: dict[str, object] = {
        "layers": found.layers,
        "heads": report.model["heads"],
        "tokens": [[i, words[i - 1] if words else ""] for i in found.tokens],
        "weights": base64.b64encode(zlib.compress(bytes_, 9)).decode(),
    }
    if scalar is not None and found.keys:
        keys = [found.keys[layer].tolist() for layer in found.layers]
        data["keys"] = [[[float(f"{v:.4g}") for v in row] for row in layer] for layer in keys]
        rows = {(row["layer"], row["head"]): row["direct"] for row in report.scalar_heads}
        every = range(1, report.model["heads"] + 1)
        data["direct"] = [[float(f"{rows[i, h]:.4g}") for h in every] for i in found.layers]
        data["number"] = [scalar["name"], scalar["position"]]
    return data

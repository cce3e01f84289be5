"""Attention patterns for the page of a report: a byte a weight, and a section to look at them.

A weight w is kept as q = round(255 sqrt(w)). With s = q / 255 and e = 1/510 the square root is off
by at most e, so w = (s + t)^2 with |t| <= e, and the weight s^2 that is shown is off by at most
e (2 s + e): by 0.004 where it is 1, by 0.000004 where 0 is shown. Rows add up to 1, so at n tokens
the squares of q have mean m = 255^2 / n, up to rounding. With a uniform number from 0 to 1 added, q
has a density of second moment M <= m + sqrt(m) + 1/3 on the positive line, so it has at most
log2(pi e M / 2) / 2 bits (a halved Gaussian), 5.6 at 128 tokens. Compressed and in base64 the
weights of 12 layers of 12 heads so take 2.2 MB there, and a head takes 0.2 MB at 512 tokens.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from markupsafe import Markup
from torch import Tensor

from attninspect.columns import visible
from attnverify.support.errors import require, shown

if TYPE_CHECKING:
    from attninspect.findings import Findings

STEPS = 255
#: Letters of a page, those that a head and a token take elsewhere on it, and a number's.
PAGE, A_HEAD, A_TOKEN, A_NUMBER = 2_800_000, 1500, 300, 9
NUMBERS = 'layers from 1, or heads of them, as "3,4-6,5.2"'
PLACE = re.compile(r"([1-9][0-9]{0,3})(?:-([1-9][0-9]{0,3})|\.([1-9][0-9]{0,3}))?", re.ASCII)
Head = tuple[int, int]


def stored(P: Tensor) -> Tensor:
    """Weights in [0, 1] as bytes."""
    return (P.clamp(0, 1).sqrt() * STEPS).round().to(torch.uint8)


@dataclass(frozen=True)
class Patterns:
    """Patterns of the first text, and what each key token gives of a head's direct part.

    tokens: places, from 1, of those that are no padding; size: heads of the model; asked: those to
    show, first to last, all that fit or that the findings name if None; weights: head to bytes
    (tokens, tokens), rows queries; keys: head to (tokens,), none where no number was chosen;
    packed: what the page has of them; left: heads that it has not.
    """

    tokens: list[int]
    size: int
    asked: list[Head] | None = None
    weights: dict[Head, Tensor] = field(default_factory=dict)
    keys: dict[Head, Tensor] = field(default_factory=dict)
    packed: dict[Head, str] = field(default_factory=dict)
    left: int = 0

    @classmethod
    def of(
        cls, chosen: Any, layers: Iterable[int], shape: Sequence[int], valid: Tensor
    ) -> Patterns:
        """For heads that :func:`places` gave, if any; layers: those reported; shape: of all heads.

        valid (tokens,). Raises InputError (argument ``patterns``) for heads that are not reported.
        """
        heads, known, asked = range(1, shape[1] + 1), set(layers), None
        if chosen is not None:
            every = ((layer, h) for layer, one in chosen for h in ([one] if one else heads))
            asked = list(dict.fromkeys(every))
            wrong = [f"{n}.{h}" for n, h in asked if n not in known or h not in heads]
            good = f"heads 1 to {len(heads)} of layers that are reported"
            require(not wrong, "patterns", f"head {', '.join(wrong[:1])}", good)
        places = [i + 1 for i in valid.nonzero()[:, 0].tolist()]
        return cls(places, shape[0] * shape[1], asked)

    def add(self, layer: int, P: Tensor) -> None:
        """Keep a layer's weights, P (heads, tokens, tokens) with padding, of heads that count."""
        keep = torch.tensor(self.tokens, device=P.device) - 1
        for head, each in enumerate(P, 1):
            if self.asked is None or (layer, head) in self.asked:
                self.weights[layer, head] = stored(each[keep][:, keep]).cpu()

    def read(self, keys: Mapping[int, Tensor]) -> None:
        """Keep what each key token gives, (heads, tokens) with padding, of the heads here."""
        keep = torch.tensor(self.tokens) - 1
        self.keys.update({(n, h): keys[n][h - 1].cpu()[keep] for n, h in self.weights if n in keys})

    def fitting(self, named: Sequence[Head]) -> Patterns:
        """Those that fit on a page: all, else the first of those asked for, or of ``named``."""
        every = [*self.weights] if self.asked is None else self.asked
        packed = self._packed(every)
        if self.asked is None and len(packed) < len(every):
            packed = self._packed([head for head in named if head in self.weights])
        chosen = sorted(packed)
        return replace(
            self,
            weights={head: self.weights[head] for head in chosen},
            keys={head: self.keys[head] for head in chosen if self.keys},
            packed={head: packed[head] for head in chosen},
            left=len(every) - len(chosen),
        )

    def _packed(self, heads: Sequence[Head]) -> dict[Head, str]:
        n, found = len(self.tokens), {}
        room = PAGE - A_HEAD * self.size - A_TOKEN * n
        for head in heads:
            packed = zlib.compress(self.weights[head].numpy().tobytes(), 9)
            made = base64.b64encode(packed).decode()
            room -= len(made) + A_NUMBER * n * bool(self.keys)
            if room < 0:
                break
            found[head] = made
        return found

    def told(self) -> str:
        """Which heads are here, where some are left out, and how to get others; else empty."""
        if not self.left and self.asked is None:
            return ""
        every, n = self.left + len(self.packed), len(self.tokens)
        if not self.packed:
            return f"No pattern of {n} tokens fits on a page: a shorter text has some."
        why = "those that the findings name" if self.asked is None else "as asked for"
        room = f" All {every} patterns of {n} tokens do not fit on a page." if self.left else ""
        others = "--patterns 3,5.2 shows layer 3 and head 2 of layer 5 in their place"
        return f"Shown are the heads {ranges(self.packed)}, {why}.{room} {others}."


def places(chosen: Any) -> list[tuple[int, int | None]] | None:
    """Layers, each with one of its heads or None for all, of "3,4-6,5.2", [3, 4] or 3.

    Raises InputError (argument ``patterns``).
    """
    if chosen is None:
        return None
    listed = list(chosen) if isinstance(chosen, list | tuple | range | set) else [chosen]
    known = all(type(each) in (int, str) for each in listed)
    found: list[tuple[int, int | None]] = []
    for part in ",".join(map(str, listed)).split(","):
        one = PLACE.fullmatch(part.strip())
        low, high, head = (int(each or 0) for each in (one.groups() if one and known else "000"))
        require(0 < low <= (high or low), "patterns", shown(chosen), NUMBERS)
        found += [(layer, head or None) for layer in range(low, (high or low) + 1)]
    return found


def ranges(heads: Iterable[Head]) -> str:
    """Heads in few words: "1.1 to 1.12, 4.7"."""
    runs: list[list[Head]] = []
    for layer, head in sorted(heads):
        if runs and runs[-1][-1] == (layer, head - 1):
            runs[-1].append((layer, head))
        else:
            runs.append([(layer, head)])
    named = [[f"{layer}.{head}" for layer, head in run] for run in runs]
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else run[0] for run in named)


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


def section(report: Findings, here: bool) -> Markup:
    """The section on patterns, or why there is none; here: the page has room and a script."""
    found, title = report.patterns, Markup("<h2>Attention patterns</h2>")
    if found is None or not here or not found.packed:
        why = BRIEF if found is None else found.told() if here else ELSEWHERE
        return Markup("{}<p>{}</p>").format(title, why)
    more = ["Only the first text is shown."] * (report.inputs["texts"] > 1) + [found.told()]
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
    data: dict[str, object] = {
        "heads": [*found.packed],
        "tokens": [[i, visible(words[i - 1]) if words else ""] for i in found.tokens],
        "weights": [*found.packed.values()],
    }
    if scalar is not None and found.keys:
        rows = {(row["layer"], row["head"]): row["direct"] for row in report.scalar_heads}
        data["keys"] = [[_short(v) for v in found.keys[head].tolist()] for head in found.packed]
        data["direct"] = [_short(rows[head]) for head in found.packed]
        data["number"] = [scalar["name"], scalar["position"]]
    return data


def _short(value: float) -> float:
    return float(f"{value:.4g}")

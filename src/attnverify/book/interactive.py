"""rho(t) under sliders: a self-contained figure for notebooks and built pages.

One block of HTML: a drawing, three sliders, the values in words, and a script that uses no library
and asks no host for anything. Without JavaScript the curve of the starting values stays.

The script's formula is printed by sympy from
:func:`attnverify.formulas.localization.limit_argument`. Its
normal distribution function is the series of Marsaglia (2004),
Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/(3*5) + ...), with :data:`NORMAL_ERROR` as error bound.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

import sympy as sp
import torch

from attnverify.book.figures import COLORS
from attnverify.errors import require
from attnverify.formulas import localization

#: Largest error of the script's Phi, for any x, with u = 2^-53. For |x| <= 8 the term k + 1 of the
#: series is at most 64/129 < 1/2 of term k from k = 64 on; the term there is still more than 1e-7
#: of the sum (more for smaller x), so the sum stops changing after at most 120 terms, and what is
#: left out is below 2 u times the sum. A term has at most 3 roundings for each factor and the sum
#: one for each term: 4 * 120 u relative. The exponent x^2/2 <= 32 is off by 32 u; the exponential,
#: the root, both quotients and the product add less than 8 u. This assumes Math.exp within 3 u,
#: which ECMAScript does not promise. All this multiplies
#: |Phi - 1/2| <= 1/2; the last sum costs u, what is left out u. Beyond 8 the value is 0 or 1, off
#: by Phi(-8) < 6.3e-16 < 6 u.
NORMAL_ERROR = ((4 * 120 + 32 + 8) / 2 + 2) * 2.0**-53
#: Corners of the plot in the units of the drawing, and straight pieces of the curve.
FRAME = {"left": 42, "right": 344, "top": 14, "bottom": 214, "segments": 100}
#: By name (letter, what it is, least, largest, step)
SLIDERS = {
    "xi": ("ξ", "concentration of the spectrum", -8.0, 8.0, 0.1),
    "eta": ("η", "temperature", 0.0, 1.5, 0.01),
    "gamma": ("γ", "symmetry of the matrix", -1.0, 1.0, 0.05),
}
STYLE = """
.attnverify-interactive { max-width: 32rem; color: var(--pst-color-text-base, inherit); }
.attnverify-interactive svg { display: block; width: 100%; height: auto; font-size: 13px; }
.attnverify-interactive text { fill: currentColor; font-family: inherit; }
.attnverify-interactive .attnverify-axis { stroke: currentColor; stroke-width: 1; fill: none; }
.attnverify-interactive .attnverify-grid { stroke: currentColor; opacity: 0.25; }
.attnverify-interactive polyline { stroke: LIMIT; stroke-width: 2.5; fill: none; }
.attnverify-interactive circle { fill: LIMIT; }
.attnverify-interactive.attnverify-general polyline { stroke: GENERAL; }
.attnverify-interactive.attnverify-general circle { fill: GENERAL; }
.attnverify-interactive fieldset { border: 0; margin: 0; padding: 0; min-width: 0; }
.attnverify-interactive label { display: grid; grid-template-columns: 1fr auto; margin: 0.6rem 0; }
.attnverify-interactive input { grid-column: 1 / 3; width: 100%; min-height: 1.75rem; margin: 0;
  accent-color: var(--pst-color-primary, auto); }
.attnverify-interactive output { font-variant-numeric: tabular-nums; }
.attnverify-interactive p { margin: 0.4rem 0; font-variant-numeric: tabular-nums; }
@media print { .attnverify-interactive fieldset { display: none; } }
""".replace("LIMIT", COLORS["published"]).replace("GENERAL", COLORS["repaired"])
DESCRIPTION = (
    "Curve of the signal propagation probability rho of t over the relative position t from 0 to "
    "1, with a dot at the middle token. The values are in the text below."
)
WITHOUT_SCRIPT = (
    "The sliders need JavaScript, which did not run here. The curve and the values are those of "
    "the starting position; the next figure shows others."
)


@dataclass(frozen=True)
class LimitFigure:
    """The figure at its starting values; a notebook shows it by ``_repr_html_``."""

    xi: float
    eta: float
    gamma: float

    def __repr__(self) -> str:
        return f"rho(t) under sliders, from xi = {self.xi}, eta = {self.eta}, gamma = {self.gamma}"

    def _repr_html_(self) -> str:
        kind = "attnverify-interactive" + (" attnverify-general" if self.gamma != 1 else "")
        return (
            f'<div class="{kind}" id="attnverify-limit" role="group" '
            f'aria-label="Interactive figure: signal propagation probability">'
            f"<style>{STYLE}</style>{self._drawing()}{self._controls()}{self._values()}"
            f'<p data-part="fallback">{WITHOUT_SCRIPT}</p></div>'
            f"<script>{script()}</script>"
        )

    def _rho(self, t: torch.Tensor) -> torch.Tensor:
        return localization.limit(t, self.xi, self.eta, self.gamma)

    def _drawing(self) -> str:
        f = FRAME
        t = torch.arange(f["segments"] + 1, dtype=torch.float64) / f["segments"]
        pairs = zip(t.tolist(), self._rho(t).tolist(), strict=True)
        points = " ".join(f"{_across(a):.2f},{_up(b):.2f}" for a, b in pairs)
        middle = float(self._rho(torch.tensor(0.5, dtype=torch.float64)))
        return (
            f'<svg viewBox="0 0 360 258" role="img" aria-label="{DESCRIPTION}">{_axes()}'
            f'<polyline data-part="curve" points="{points}"/>'
            f'<circle data-part="middle" cx="{_across(0.5):.2f}" cy="{_up(middle):.2f}" r="5"/>'
            "</svg>"
        )

    def _controls(self) -> str:
        rows = []
        for name, (letter, what, least, largest, step) in SLIDERS.items():
            value = getattr(self, name)
            rows.append(
                f'<label><span>{letter}, {what}</span><output data-part="{name}">{value:.2f}'
                f'</output><input type="range" name="{name}" min="{least}" max="{largest}" '
                f'step="{step}" value="{value}" aria-label="{letter}, {what}"></label>'
            )
        return f'<fieldset data-part="controls" hidden>{"".join(rows)}</fieldset>'

    def _values(self) -> str:
        values = self._rho(torch.tensor([0, 0.5, 1], dtype=torch.float64)).tolist()
        at = dict(zip(("0", "0.5", "1"), values, strict=True))
        shown = [f'ρ({t}) = <span data-part="rho {t}">{v:.4f}</span>' for t, v in at.items()]
        contrast = f'<span data-part="contrast">{at["1"] - at["0"]:.4f}</span>'
        return f'<p role="status">{", ".join(shown)}, contrast ρ(1) − ρ(0) = {contrast}.</p>'


def limit_figure(xi: float = 1.5, eta: float = 0.25, gamma: float = 1.0) -> LimitFigure:
    """rho(t) of :func:`attnverify.formulas.localization.limit`, its sliders at these values.

    Errors: InputError for a value outside the range of its slider (:data:`SLIDERS`).
    """
    for name, value in {"xi": xi, "eta": eta, "gamma": gamma}.items():
        _, _, least, largest, _ = SLIDERS[name]
        require(least <= value <= largest, name, value, f"a number from {least} to {largest}")
    return LimitFigure(float(xi), float(eta), float(gamma))


def argument() -> str:
    """The argument of Phi as a JavaScript expression in t, xi, eta and gamma."""
    symbols = sp.symbols("t xi eta gamma")
    return str(sp.jscode(localization.limit_argument(*symbols, sqrt=sp.sqrt)))


def script() -> str:
    """The figure's script, wrapped so that none of its names reaches the page."""
    body = resources.files("attnverify.book").joinpath("interactive.js").read_text(encoding="utf-8")
    return (
        f'(() => {{\n"use strict";\nconst frame = {json.dumps(FRAME)};\n'
        'const root = document.getElementById("attnverify-limit");\n'
        f"const argument = (t, xi, eta, gamma) => {argument()};\n{body}}})();"
    )


def _across(t: float) -> float:
    return FRAME["left"] + t * (FRAME["right"] - FRAME["left"])


def _up(value: float) -> float:
    return FRAME["bottom"] - value * (FRAME["bottom"] - FRAME["top"])


def _axes() -> str:
    """Both axes with grid lines and labels at 0, 1/2 and 1."""
    left, right, top, bottom = (FRAME[k] for k in ("left", "right", "top", "bottom"))
    parts = [f'<path class="attnverify-axis" d="M{left},{top}V{bottom}H{right}"/>']
    for value, label in ((0.0, "0"), (0.5, "0.5"), (1.0, "1")):
        x, y = _across(value), _up(value)
        parts.append(
            f'<path class="attnverify-grid" d="M{left},{y}H{right}M{x},{top}V{bottom}"/>'
            f'<text x="{x}" y="{bottom + 17}" text-anchor="middle">{label}</text>'
            f'<text x="{left - 7}" y="{y + 4}" text-anchor="end">{label}</text>'
        )
    parts.append(
        f'<text x="{_across(0.5)}" y="{bottom + 37}" text-anchor="middle">'
        "t, relative position of the token</text>"
    )
    parts.append(f'<text x="{left - 7}" y="{_up(0.75) + 4}" text-anchor="end">ρ(t)</text>')
    return "".join(parts)

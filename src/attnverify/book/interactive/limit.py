"""The limit rho(t), with sliders for its parameters.

The script's argument of Phi is written down from
:func:`attnverify.mathematics.localization.limit_argument`. Its normal distribution function is the
series of Marsaglia (2004), Phi(x) = 1/2 + phi(x) (x + x^3/3 + x^5/(3*5) + ...), with
:data:`NORMAL_ERROR` as error bound.
"""

from __future__ import annotations

import torch

from attnverify.book.interactive.drawing import Drawing, Mark, Plot
from attnverify.book.interactive.figure import Figure, Slider, Values
from attnverify.book.interactive.javascript import function
from attnverify.mathematics import localization

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
SEGMENTS = 50
CONTROLS = (
    Slider("xi", "ξ, concentration of the spectrum", -8.0, 8.0, 0.1),
    Slider("eta", "η, temperature", 0.0, 1.5, 0.01),
    Slider("gamma", "γ, symmetry of the matrix", -1.0, 1.0, 0.05),
)
PLOT = Plot(
    (0.0, 1.0),
    (0.0, 1.0),
    "t, relative position of the token",
    "ρ(t)",
    {0.0: "0", 0.5: "0.5", 1.0: "1"},
    {0.0: "0", 0.5: "0.5", 1.0: "1"},
)
CAPTION = (
    "<b>Try:</b> move ξ from −8 to 8 and watch the dot, then η, then γ away from 1. <b>It "
    "shows</b> the limit of many tokens, at any spectrum, through ξ and γ. <b>It does not "
    "show</b> how many tokens and eigenvalues the limit needs, and no trained network."
)


def draw(values: Values) -> Drawing:
    """The curve of the package's limit, its middle and its ends."""
    t = torch.arange(SEGMENTS + 1, dtype=torch.float64) / SEGMENTS
    rho = localization.limit(t, values["xi"], values["eta"], values["gamma"])
    curve = list(zip(t.tolist(), rho.tolist(), strict=True))
    (_, first), (_, last), (_, middle) = curve[0], curve[-1], curve[SEGMENTS // 2]
    symmetric = values["gamma"] == 1
    lines = {"curve": curve if symmetric else [], "general": [] if symmetric else curve}
    texts = {"first": (first, 4), "half": (middle, 4), "last": (last, 4)}
    return Drawing(lines, {"middle": (0.5, middle)}, {**texts, "contrast": (last - first, 4)})


def limit_figure(xi: float = 1.5, eta: float = 0.25, gamma: float = 1.0) -> Figure:
    """rho(t) of :func:`attnverify.mathematics.localization.limit`, its sliders at these values.

    Errors: InputError for a value outside the range of its slider.
    """
    start = {"xi": 0.0, "eta": 0.0, "gamma": 1.0}
    return Figure(
        name="limit",
        label="signal propagation probability",
        description="Curve of the signal propagation probability rho of t over the relative "
        "position t from 0 to 1, with a dot at the middle token.",
        caption=CAPTION,
        plots=(PLOT,),
        marks={
            "curve": Mark("line", "published", "symmetric, γ = 1"),
            "general": Mark("line", "repaired", "general", style="dashed"),
            "middle": Mark("dot", "measured", "middle token"),
        },
        controls=CONTROLS,
        sentence="ρ(0) = {first}, ρ(0.5) = {half}, ρ(1) = {last}, contrast ρ(1) − ρ(0) = "
        "{contrast}.",
        draw=draw,
        formulas=formulas(),
        script="limit.js",
        values=start,
    ).at(xi=xi, eta=eta, gamma=gamma)


def formulas() -> str:
    """The argument of Phi in t, xi, eta and gamma."""
    names: dict[str, int] = dict.fromkeys(("t", "xi", "eta", "gamma"), 0)
    return function("argument", localization.limit_argument, names)

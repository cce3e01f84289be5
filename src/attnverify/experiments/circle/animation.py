"""Points that move in a page: one SVG picture with CSS animation, no script and no other file.

Lines and letters take the page's text color, so both themes stay legible. A box stops the
animation; readers who ask their system for reduced motion see the paths and the last positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from jaxtyping import Float
from torch import Tensor

from attnverify.support.errors import require
from attnverify.support.vocabulary import COLORS

SIDE = 200  # of a panel, in units of the picture
HEAD = 24  # height of a panel's title
SHAPES = '<circle r="6"/>', '<rect x="-5" y="-5" width="10" height="10"/>'
HOLD = 0.85  # share of the time in which the points move; then they rest


@dataclass(frozen=True)
class Animation:
    """A picture that notebooks and pages show as it is."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def moving_points(
    panels: Mapping[str, Float[Tensor, "states points 2"]],
    description: str,
    *,
    name: str,
    window: float = 1.4,
    seconds: float = 8.0,
) -> Animation:
    """Panels in two columns, each with points that run through their states.

    panels: title to positions; a shorter panel rests on its last state. description: the
    alternative text. name: letters and hyphens, different for every animation of a page. window:
    half the side of what a panel shows; what is outside cannot be seen.
    """
    require(len(panels) >= 1, "panels", "none", "at least one panel")
    require(name.replace("-", "").isalnum(), "name", repr(name), "letters, digits and hyphens")
    longest = max(len(states) for states in panels.values())
    styles, pictures = [], []
    for number, (title, states) in enumerate(panels.items()):
        places = _places(states, window)
        points = [f"{name}-{number}-{point}" for point in range(states.shape[1])]
        styles += [
            _keyframes(point, track, longest) for point, track in zip(points, places, strict=True)
        ]
        pictures.append(_panel(title, number, points, places, window))
    rows = (len(panels) + 1) // 2
    rules = (
        f".{name} label {{ display: block }}\n"
        f".{name} svg {{ width: 100%; max-width: 36rem; height: auto }}\n"
        f".{name} .moves {{ animation-duration: {seconds}s; animation-timing-function: linear; "
        "animation-iteration-count: infinite }\n"
        f".{name}:has(input:checked) .moves {{ animation-play-state: paused }}\n"
        f"@media (prefers-reduced-motion: reduce) {{ .{name} .moves {{ animation: none }} }}"
    )
    box = '<label><input type="checkbox"> Stop the points</label>'
    svg = (
        f'<svg viewBox="0 0 {2 * SIDE} {rows * (SIDE + HEAD)}" role="img" '
        f'aria-label="{escape(description)}" xmlns="http://www.w3.org/2000/svg">'
        + "".join(pictures)
        + "</svg>"
    )
    style = "<style>\n" + "\n".join([rules, *styles]) + "\n</style>"
    return Animation(f'<div class="{name}">{style}{box}{svg}</div>')


def _places(states: Tensor, window: float) -> list[list[tuple[float, float]]]:
    """For each point its positions in the panel, y downwards, rounded to a hundredth."""
    flat = states.detach().double().clamp(-9 * window, 9 * window)
    x, y = ((1 + sign * flat[..., axis] / window) * SIDE / 2 for axis, sign in ((0, 1), (1, -1)))
    return [
        [(round(a, 2), round(b, 2)) for a, b in zip(u, v, strict=True)]
        for u, v in zip(x.mT.tolist(), y.mT.tolist(), strict=True)
    ]


def _keyframes(point: str, track: list[tuple[float, float]], longest: int) -> str:
    """The point's way; all panels take the same time for one state."""
    frames = []
    for step, (x, y) in enumerate(track):
        share = 100 * HOLD * step / max(1, longest - 1)
        frames.append(f"{share:.2f}% {{ transform: translate({x}px, {y}px) }}")
    x, y = track[-1]
    frames.append(f"100% {{ transform: translate({x}px, {y}px) }}")
    return f"@keyframes {point} {{ {' '.join(frames)} }}"


def _panel(title: str, number: int, points: list[str], places, window: float) -> str:
    """One panel: title, frame, unit circle, tracks, and the points at their last positions."""
    left, top = SIDE * (number % 2), (SIDE + HEAD) * (number // 2)
    middle, radius, color = SIDE / 2, SIDE / 2 / window, COLORS["measured"]
    parts = [
        f'<text x="{left + middle}" y="{top + 16}" text-anchor="middle" font-size="13" '
        f'fill="currentColor">{escape(title)}</text>',
        f'<svg x="{left + 4}" y="{top + HEAD}" width="{SIDE - 8}" height="{SIDE - 8}" '
        f'viewBox="0 0 {SIDE} {SIDE}" aria-hidden="true">'
        f'<rect width="{SIDE}" height="{SIDE}" fill="none" stroke="currentColor" '
        'stroke-opacity="0.4"/>'
        f'<circle cx="{middle}" cy="{middle}" r="{radius:.1f}" fill="none" '
        f'stroke="{COLORS["reference"]}" stroke-dasharray="4 4"/>',
    ]
    for track in places:
        line = " ".join(f"{x},{y}" for x, y in track)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
    for number_of, (point, track) in enumerate(zip(points, places, strict=True)):
        x, y = track[-1]
        shape = SHAPES[number_of % 2]
        parts.append(
            f'<g class="moves" style="animation-name: {point}" fill="currentColor" '
            f'transform="translate({x} {y})">{shape}</g>'
        )
    return "".join(parts) + "</svg>"

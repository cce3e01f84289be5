"""The dependency graph: the claims below each other, with an arc for every use."""

from __future__ import annotations

from collections.abc import Callable
from html import escape as html_escape

from attnverify.book.pages.common import Evidence, anchor, badge, by_part, scrolling
from attnverify.support.vocabulary import MARKS, STATUS_COLORS, STATUSES
from attnverify.topics import Claim, Registry, registry

Link = Callable[[str], str]  # claim id -> address of its box

NODE_WIDTH, NODE_HEIGHT, ROW = 290, 26, 34  # in pixels; room for the longest id
MARGIN = 4
ARCS = 450  # width of the column of arcs
SHORTEST = 26  # reach of the arc to the next row

INTRO = """\
# What rests on what

Each box is a claim and links to its statement. An arrow leads from a claim to one that rests on
it; the arrows into a claim stand out when the pointer is on it. A claim counts as verified only if
everything that leads to it is verified.
"""


def rows(claims: Registry = registry) -> dict[str, int]:
    """Top of every box by claim id: the order of the book, with a row for the name of each part."""
    tops, row = {}, 0
    for members in by_part(claims.values()).values():
        tops |= {c.id: MARGIN + ROW * (row + k) for k, c in enumerate(members, start=1)}
        row += 1 + len(members)
    return tops


def svg(evidence: Evidence, link: Link, claims: Registry = registry) -> str:
    """The graph as one SVG element without blank lines; text takes the color of the page."""
    tops = rows(claims)
    width, height = NODE_WIDTH + ARCS + 2 * MARGIN, max(tops.values()) + ROW
    uses = sum(len(claim.uses) for claim in claims.values())
    label = (
        f"Dependency graph of {len(claims)} claims with {uses} arrows; "
        "the list below says the same in words."
    )
    parts = [
        f'<svg class="attnverify-graph" xmlns="http://www.w3.org/2000/svg" role="group" '
        f'aria-label="{label}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        '<defs><marker id="attnverify-arrow" viewBox="0 0 8 8" refX="8" refY="4" '
        'markerWidth="8" markerHeight="8" orient="auto" markerUnits="userSpaceOnUse">'
        '<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>',
    ]
    for claim in claims.values():
        arcs = [_arc(tops[used], tops[claim.id], height) for used in claim.uses]
        node = _node(claim, tops[claim.id], evidence.status(claim.id), link(claim.id))
        parts += ["<g>", *arcs, node, "</g>"]
    for title, members in by_part(claims.values()).items():  # last, so that no arc covers them
        top = tops[members[0].id] - ROW + 20
        parts.append(
            f'<text class="attnverify-part" x="{MARGIN}" y="{top}">{html_escape(title)}</text>'
        )
    return "\n".join([*parts, "</svg>"])


def _arc(start: int, end: int, height: int) -> str:
    """From the right side of one box to that of another, the farther out the longer it is."""
    x, y, to_y = MARGIN + NODE_WIDTH, start + NODE_HEIGHT // 2, end + NODE_HEIGHT // 2
    reach = SHORTEST + round((ARCS - SHORTEST) * abs(end - start) / height)
    out = x + reach * 4 // 3  # a cubic curve reaches three quarters of the way to its controls
    return (
        f'<path d="M{x} {y}C{out} {y} {out} {to_y} {x} {to_y}" fill="none" '
        'stroke="currentColor" marker-end="url(#attnverify-arrow)"/>'
    )


def _node(claim: Claim, top: int, status: str, address: str) -> str:
    color, title = STATUS_COLORS[status], html_escape(claim.title)
    return (
        f'<a href="{address}" aria-label="{claim.id}: {title}, {status}">'
        f"<title>{title} ({status})</title>"
        f'<rect x="{MARGIN}" y="{top}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="5" '
        f'fill="{color}" fill-opacity="0.14" stroke="{color}" stroke-width="2"/>'
        f'<rect x="{MARGIN}" y="{top}" width="9" height="{NODE_HEIGHT}" rx="4" fill="{color}"/>'
        f'<text x="{MARGIN + 17}" y="{top + 17}">{MARKS[status]} {claim.id}</text>'
        "</a>"
    )


def text(evidence: Evidence, link: Link) -> str:
    """The page as MyST: the picture, its legend, and the same in words."""
    shown = [s for s in STATUSES if s in set(map(evidence.status, registry))]
    legend = " ".join(badge(status) for status in (shown or STATUSES))
    lines = [INTRO, f"Colors: {legend}", ""]
    lines += scrolling("Dependency graph", [svg(evidence, link)])
    return "\n".join([*lines, "## The same in words", "", *_in_words(evidence), ""])


def _in_words(evidence: Evidence) -> list[str]:
    lines = []
    for claim in registry.values():
        own = (
            f"- []{{#{anchor(claim.id, 'graph')}}}{{claim}}`{claim.title} <{claim.id}>` "
            f"({evidence.status(claim.id)})"
        )
        used = [f"{{claim}}`{registry[u].title} <{u}>`" for u in claim.uses]
        lines.append(f"{own} rests on {'; '.join(used) or 'no other claim'}.")
    return lines

"""The dependency graph: layered layout and an SVG whose nodes link to the claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape as html_escape

import networkx as nx

from attnverify.claims import Claim, Registry, registry
from attnverify.figures import COLORS
from attnverify.pages.common import (
    MARKS,
    STATUSES,
    UNCHECKED,
    Evidence,
    anchor,
    badge,
    escape,
    scrolling,
)

Link = Callable[[str], str]  # claim id -> address of its box
Point = tuple[int, int]

NODE_WIDTH, NODE_HEIGHT = 276, 44  # room for the longest id
COLUMN, ROW = 290, 80  # pitch of the boxes
MARGIN = 4
SHELF = 3  # columns that fit a page; wider groups stand alone and scroll

INTRO = """\
# What rests on what

Each box is a claim and links to its statement. An arrow leads from a claim to one that rests on
it. A claim counts as verified only if everything above that leads to it is verified.
"""


@dataclass(frozen=True)
class Layout:
    """Top left corners of the boxes by claim id, the bends of each edge, and the size of it all."""

    boxes: dict[str, Point]
    edges: dict[tuple[str, str], list[Point]]
    size: Point


def dependencies(claims: Registry = registry) -> nx.DiGraph:
    """A node for every claim and an edge from each used claim to the claim that rests on it."""
    graph = nx.DiGraph()
    graph.add_nodes_from(claims)
    graph.add_edges_from((used, claim.id) for claim in claims.values() for used in claim.uses)
    return graph


def arrange(graph: nx.DiGraph) -> Layout:
    """Rows by depth; groups of connected claims side by side while they fit, then below."""
    boxes: dict[str, Point] = {}
    edges: dict[tuple[str, str], list[Point]] = {}
    order = {id: k for k, id in enumerate(graph)}
    groups = sorted(nx.weakly_connected_components(graph), key=lambda g: min(map(order.get, g)))
    groups.sort(key=lambda g: len(g) == 1)  # single claims last
    left = top = bottom = width = 0
    for group in groups:
        cells, bends = _layers(_part(graph, sorted(group, key=order.get)))
        columns, rows = (1 + max(axis) for axis in zip(*cells.values(), strict=True))
        if left and left + columns > SHELF:
            left, top = 0, bottom
        place = {node: (MARGIN + (left + x) * COLUMN, MARGIN + (top + y) * ROW)
                 for node, (x, y) in cells.items()}  # fmt: skip
        boxes |= {id: place[id] for id in cells if id in group}
        edges |= {(a, b): [place[k] for k in (a, *way, b)] for (a, b), way in bends.items()}
        left, bottom = left + columns, max(bottom, top + rows)
        width = max(width, left)
    size = (2 * MARGIN + width * COLUMN, 2 * MARGIN + bottom * ROW)
    return Layout(boxes, edges, size)


def _part(graph: nx.DiGraph, members: list[str]) -> nx.DiGraph:
    """The subgraph of the members, its nodes and edges in a fixed order."""
    part = nx.DiGraph()
    part.add_nodes_from(members)
    part.add_edges_from((a, b) for a in members for b in graph.successors(a))
    return part


def _layers(graph: nx.DiGraph) -> tuple[dict, dict]:
    """Cells (column, row) of one group; long edges get bends of their own to pass others by."""
    layers = list(nx.topological_generations(graph))
    row = {id: y for y, layer in enumerate(layers) for id in layer}
    bends: dict[tuple[str, str], list] = {}
    through = nx.DiGraph()
    through.add_nodes_from(graph)
    for a, b in graph.edges:
        bends[a, b] = [(a, b, y) for y in range(row[a] + 1, row[b])]
        row |= {bend: bend[2] for bend in bends[a, b]}
        nx.add_path(through, [a, *bends[a, b], b])
    column: dict = {}
    for y in range(len(layers)):
        members = [node for node in through if row[node] == y]
        above = {n: [column[p] for p in through.predecessors(n)] for n in members}
        center = {n: sum(c) / len(c) if c else k for k, (n, c) in enumerate(above.items())}
        column |= {n: k for k, n in enumerate(sorted(members, key=center.get))}
    return {n: (column[n], row[n]) for n in through}, bends


def svg(evidence: Evidence, link: Link, claims: Registry = registry) -> str:
    """The graph as one SVG element without blank lines; text takes the color of the page."""
    layout = arrange(dependencies(claims))
    width, height = layout.size
    label = (f"Dependency graph of {len(claims)} claims with {len(layout.edges)} arrows; "
             "the list below says the same in words.")  # fmt: skip
    parts = [
        f'<svg class="attnverify-graph" xmlns="http://www.w3.org/2000/svg" role="group" '
        f'aria-label="{label}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        '<defs><marker id="attnverify-arrow" viewBox="0 0 8 8" refX="8" refY="4" '
        'markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>',
        *(_edge(points) for points in layout.edges.values()),
        *(_node(claim, layout.boxes[id], evidence.status(id), link(id))
          for id, claim in claims.items()),
        "</svg>",
    ]
    return "\n".join(parts)


def _edge(points: list[Point]) -> str:
    """A curve from the foot of the first box to the head of the last, straight through bends."""
    centers = [(x + NODE_WIDTH // 2, y) for x, y in points]
    x, y = centers[0][0], centers[0][1] + NODE_HEIGHT
    path = f"M{x} {y}"
    for k, (to_x, to_y) in enumerate(centers[1:], start=1):
        half = (to_y - y) // 2
        path += f"C{x} {y + half} {to_x} {to_y - half} {to_x} {to_y}"
        x, y = to_x, to_y
        if k < len(centers) - 1:
            y += NODE_HEIGHT
            path += f"V{y}"
    return (f'<path d="{path}" fill="none" stroke="currentColor" '
            'marker-end="url(#attnverify-arrow)"/>')  # fmt: skip


def _node(claim: Claim, corner: Point, status: str, address: str) -> str:
    x, y = corner
    color, title = _color(status), html_escape(claim.title)
    return (
        f'<a href="{address}" aria-label="{claim.id}: {title}, {status}">'
        f"<title>{title} ({status})</title>"
        f'<rect x="{x}" y="{y}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="5" '
        f'fill="{color}" fill-opacity="0.14" stroke="{color}" stroke-width="2"/>'
        f'<rect x="{x}" y="{y}" width="9" height="{NODE_HEIGHT}" rx="4" fill="{color}"/>'
        f'<text x="{x + 17}" y="{y + 18}">{claim.id}</text>'
        f'<text class="attnverify-small" x="{x + 17}" y="{y + 35}">{MARKS[status]} {status}</text>'
        "</a>"
    )


def _color(status: str) -> str:
    return COLORS.get(status, COLORS["reference"])


def text(evidence: Evidence, link: Link) -> str:
    """The page as MyST: the picture, its legend, and the same in words."""
    shown = [s for s in (*STATUSES, UNCHECKED) if s in set(map(evidence.status, registry))]
    legend = " ".join(badge(status, _color(status)) for status in (shown or STATUSES))
    lines = [INTRO, f"Colors: {legend}", ""]
    lines += scrolling("Dependency graph", [svg(evidence, link)])
    return "\n".join([*lines, "## The same in words", "", *_in_words(evidence), ""])


def _in_words(evidence: Evidence) -> list[str]:
    lines = []
    for claim in registry.values():
        own = (f"- []{{#{anchor(claim.id, 'graph')}}}{{claim}}`{escape(claim.title)} <{claim.id}>` "
               f"({evidence.status(claim.id)})")  # fmt: skip
        used = [f"{{claim}}`{escape(registry[u].title)} <{u}>`" for u in claim.uses]
        lines.append(f"{own} rests on {'; '.join(used) or 'no other claim'}.")
    return lines

"""The dependency graph: layered layout and an SVG whose nodes link to the claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape as html_escape

import networkx as nx

from attnverify.claims import Registry, registry
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

NODE_WIDTH, NODE_HEIGHT = 218, 44
COLUMN, ROW, GAP = 276, 58, 20  # pitch of columns and rows; space between components
MARGIN = 8

INTRO = """\
# What rests on what

Each box is a claim and links to its statement. An arrow leads from a claim to one that rests on
it. A claim counts as verified only if everything to its left that leads to it is verified.
"""


@dataclass(frozen=True)
class Layout:
    """Top left corners of the boxes by claim id, the bends of each edge, and the size of it all."""

    boxes: dict[str, tuple[float, float]]
    edges: dict[tuple[str, str], list[tuple[float, float]]]
    size: tuple[float, float]


def dependencies(claims: Registry = registry) -> nx.DiGraph:
    """A node for every claim and an edge from each used claim to the claim that rests on it."""
    graph = nx.DiGraph()
    graph.add_nodes_from(claims)
    graph.add_edges_from((used, claim.id) for claim in claims.values() for used in claim.uses)
    return graph


def arrange(graph: nx.DiGraph) -> Layout:
    """Columns by depth; connected claims below each other, single ones in a grid at the end."""
    boxes: dict[str, tuple[float, float]] = {}
    edges: dict[tuple[str, str], list[tuple[float, float]]] = {}
    order = {id: k for k, id in enumerate(graph)}
    parts = sorted(nx.weakly_connected_components(graph), key=lambda part: min(map(order.get, part)))
    top, columns = float(MARGIN), 1
    for part in (p for p in parts if len(p) > 1):
        cells, bends, rows, depth = _layers(graph.subgraph(sorted(part, key=order.get)))
        place = {id: (MARGIN + x * COLUMN, top + y * ROW) for id, (x, y) in cells.items()}
        boxes |= {id: place[id] for id in part}
        for (a, b), between in bends.items():
            edges[a, b] = [place[k] for k in (a, *between, b)]
        top, columns = top + rows * ROW + GAP, max(columns, depth)
    single = [id for id in graph if graph.degree(id) == 0]
    for k, id in enumerate(single):
        boxes[id] = (MARGIN + (k % columns) * COLUMN, top + (k // columns) * ROW)
    top += -(-len(single) // columns) * ROW
    return Layout(boxes, edges, (2 * MARGIN + (columns - 1) * COLUMN + NODE_WIDTH, top))


def _layers(graph: nx.DiGraph) -> tuple[dict, dict, int, int]:
    """Cells (column, row) of one component; long edges get bends of their own to pass others by."""
    layers = list(nx.topological_generations(graph))
    column = {id: x for x, layer in enumerate(layers) for id in layer}
    bends: dict[tuple[str, str], list] = {}
    through = nx.DiGraph()
    through.add_nodes_from(graph)
    for a, b in graph.edges:
        bends[a, b] = [(a, b, x) for x in range(column[a] + 1, column[b])]
        column |= {bend: bend[2] for bend in bends[a, b]}
        nx.add_path(through, [a, *bends[a, b], b])
    rows: dict = {}
    for x in range(len(layers)):
        members = [node for node in through if column[node] == x]
        before = {n: [rows[p] for p in through.predecessors(n)] for n in members}
        center = {n: sum(r) / len(r) if r else k for k, (n, r) in enumerate(before.items())}
        rows |= {n: k for k, n in enumerate(sorted(members, key=center.get))}
    height = 1 + max(rows.values())
    return {n: (column[n], rows[n]) for n in through}, bends, height, len(layers)


def svg(evidence: Evidence, link: Link, claims: Registry = registry) -> str:
    """The graph as one SVG element without blank lines; text takes the color of the page."""
    layout = arrange(dependencies(claims))
    width, height = layout.size
    label = (f"Dependency graph of {len(claims)} claims with {len(layout.edges)} arrows; "
             "the list below says the same in words.")  # fmt: skip
    parts = [
        f'<svg class="attnverify-graph" xmlns="http://www.w3.org/2000/svg" role="group" '
        f'aria-label="{label}" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        '<defs><marker id="attnverify-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>',
        *(_edge(points) for points in layout.edges.values()),
        *(_node(id, layout.boxes[id], evidence.status(id), claims[id].title, link(id)) for id in claims),
        "</svg>",
    ]
    return "\n".join(parts)


def _edge(points: list[tuple[float, float]]) -> str:
    """A curve from the right side of the first box to the left side of the last."""
    middle = NODE_HEIGHT / 2
    x, y = points[0][0] + NODE_WIDTH, points[0][1] + middle
    path = f"M{x:.0f} {y:.0f}"
    for k, (left, top) in enumerate(points[1:], start=1):
        last = k == len(points) - 1
        half = (left - x) / 2
        path += f"C{x + half:.0f} {y:.0f} {left - half:.0f} {top + middle:.0f} {left:.0f} {top + middle:.0f}"
        x, y = left, top + middle
        if not last:
            x = left + NODE_WIDTH
            path += f"H{x:.0f}"
    return f'<path d="{path}" fill="none" stroke="currentColor" marker-end="url(#attnverify-arrow)"/>'


def _node(id: str, corner: tuple[float, float], status: str, title: str, address: str) -> str:
    x, y = corner
    color = _color(status)
    return (
        f'<a href="{address}" aria-label="{id}: {html_escape(title)}, {status}">'
        f"<title>{html_escape(title)} ({status})</title>"
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="5" '
        f'fill="{color}" fill-opacity="0.14" stroke="{color}" stroke-width="2"/>'
        f'<rect x="{x:.0f}" y="{y:.0f}" width="9" height="{NODE_HEIGHT}" rx="4" fill="{color}"/>'
        f'<text x="{x + 17:.0f}" y="{y + 18:.0f}">{id}</text>'
        f'<text class="attnverify-small" x="{x + 17:.0f}" y="{y + 35:.0f}">{MARKS[status]} {status}</text>'
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
        lines.append(f"{own} rests on {'; '.join(used)}." if used else f"{own} rests on no other claim.")
    return lines

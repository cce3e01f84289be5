"""No line begins with the comma after a formula, or ends with the bracket before it.

A browser may break a line on both sides of a formula, as it takes one for a picture. Formulas that
KaTeX lets break are left alone: Chromium would not find their breaks then.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

#: The class of what stays on one line, by attnverify.css.
HELD = "attnverify-held"
#: KaTeX sets a formula in pieces between which a line may break.
PIECE = 'class="base"'
BEFORE = re.compile(r"[(\[“‘]+$")
AFTER = re.compile(r"^(?:[^\s\w(\[“‘]+(?:s\b)?)")


class Held(nodes.inline):
    """A formula and the marks that touch it."""


def hold(app: Sphinx, doctree: nodes.document) -> None:
    """Tie each formula in running text to the marks that touch it."""
    for formula in list(doctree.findall(nodes.math)):
        tie(formula.parent, formula.parent.index(formula))


def tie(parent: nodes.Element, place: int) -> None:
    """Put the formula at a place together with the marks that touch it, if any does."""
    last, first = _next_to(parent, place - 1, BEFORE), _next_to(parent, place + 1, AFTER)
    if not last and not first:
        return
    formula, held = parent[place], Held()
    parent[place] = held
    held += [nodes.Text(last), formula, nodes.Text(first)]
    if first:
        parent[place + 1] = nodes.Text(str(parent[place + 1])[len(first) :])
    if last:
        parent[place - 1] = nodes.Text(str(parent[place - 1])[: -len(last)])


def _next_to(parent: nodes.Element, place: int, marks: re.Pattern) -> str:
    """The marks at the near end of the text at a place; "" for none."""
    text = parent[place] if 0 <= place < len(parent) else None
    found = marks.search(str(text)) if isinstance(text, nodes.Text) else None
    return found.group() if found else ""


def _open(writer: Any, node: Held) -> None:
    node["starts"] = len(writer.body)
    writer.body.append(f'<span class="{HELD}">')


def _close(writer: Any, node: Held) -> None:
    """Only here the formula is set; one in pieces is not held."""
    start = node["starts"]
    if sum(text.count(PIECE) for text in writer.body[start:]) > 1:
        writer.body[start] = "<span>"
    writer.body.append("</span>")


def setup(app: Sphinx) -> dict:
    """Connect the hook."""
    app.add_node(Held, html=(_open, _close))
    app.connect("doctree-read", hold)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

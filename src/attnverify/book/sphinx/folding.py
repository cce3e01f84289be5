"""Code is folded by default: a reader sees results first and opens the computation.

A cell keeps its outputs in view. A switch below the title, which ``folding.js`` works, opens all
computations of the book at once; the code of a figure stays folded, as it only draws. The switch is
part of the page: one that a script adds moves what is already read.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

COMPUTATION = "The computation"
FIGURE = "The code of the figure"
DRAWS = "attnverify-draws"
SWITCH = (
    '<button type="button" class="attnverify-code-switch" aria-pressed="false">'
    "Show all code</button>"
)


def fold(app: Sphinx, doctree: nodes.document) -> None:
    """Mark every cell that a notebook does not hide by itself; myst-nb folds what is marked."""
    computes = False
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") != "cell_code" or cell.get("hide_mode"):
            continue
        draws = next(cell.findall(nodes.image), None) is not None
        cell["hide_mode"] = "input"
        cell["prompt_show"] = cell["prompt_hide"] = FIGURE if draws else COMPUTATION
        if draws:
            cell["classes"].append(DRAWS)
        computes |= not draws
    title = next(doctree.findall(nodes.title), None)
    if computes and title is not None:
        place = title.parent.index(title) + 1
        title.parent.insert(place, nodes.raw("", SWITCH, format="html"))


def setup(app: Sphinx) -> dict:
    """Connect the hook and add the script of the switch."""
    app.connect("doctree-read", fold)
    app.add_js_file("folding.js", loading_method="defer")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

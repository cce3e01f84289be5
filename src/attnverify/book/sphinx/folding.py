"""Code and the steps of derivations are folded: a reader sees results first and opens the rest.

A cell keeps its outputs in view. A switch below the title, which ``folding.js`` works, opens all
computations of the book at once; the code of a figure stays folded, as it only draws. The switch is
part of the page: one that a script adds moves what is already read.

Of the box below a derivation the page has one line, which names its steps. Their formulas are half
of a chapter's elements, so they are in a script beside the page, fetched when a box is opened.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from attnverify.book.sphinx.previews import element
from attnverify.support.vocabulary import counted

COMPUTATION = "The computation"
FIGURE = "The code of the figure"
CHECK = "The check"
NUMBERS, STATED = "The numbers in the text", "av.stated({"
DECLARED = re.compile(
    r"^@av\.\w+\((.*?)\)\ndef (\w+)\(|^\w+ = \w+\.also\(\"([^\"]+)\"", re.M | re.S
)
OWN_NAME = re.compile(r'name="([^"]+)"')
DRAWS = "attnverify-draws"
SWITCH = (
    '<button type="button" class="attnverify-code-switch" aria-pressed="false">'
    "Show all code</button>"
)
FOLDER, CALL = "steps", "attnverifySteps(..."
BOX = re.compile(r'<div class="(ledger ledger-(?:derived|rejected))">')
HEAD = re.compile(r"\s*<p>(<strong>.*?</strong> <code.*?</code>)</p>", re.S)
NAME = re.compile(r"<li><p>((?:(?!<p>).)*?) <small>", re.S)
FOLDED = re.compile(
    r'<details [^>]*data-steps="([^?"]*)[^"]*" data-place="(\d+)">.*?</details>', re.S
)
NAMED = 160  # characters of names in the line of a box; further steps are counted


def fold(app: Sphinx, doctree: nodes.document) -> None:
    """Mark every cell whose output a notebook does not hide; myst-nb folds what is marked.

    A cell that hides its input, with the tag ``hide-input``, draws a figure to move. The code of a
    tutorial, with the tag ``show-code``, stays in view.
    """
    computes = False
    for cell in doctree.findall(nodes.container):
        hidden = cell.get("hide_mode")
        if cell.get("nb_element") != "cell_code" or hidden not in (None, "input"):
            continue
        if "tag_show-code" in cell["classes"]:
            continue
        draws = bool(hidden) or next(cell.findall(nodes.image), None) is not None
        cell["hide_mode"] = "input"
        words = _check(cell) if "tag_check" in cell["classes"] else COMPUTATION
        words = NUMBERS if STATED in cell.astext() else words
        cell["prompt_show"] = cell["prompt_hide"] = FIGURE if draws else words
        if draws:
            cell["classes"].append(DRAWS)
        computes |= not draws
    title = next(doctree.findall(nodes.title), None)
    if computes and title is not None:
        place = title.parent.index(title) + 1
        title.parent.insert(place, nodes.raw("", SWITCH, format="html"))


def _check(cell: nodes.container) -> str:
    """The line of a cell of checks, with their names."""
    source = next(cell.findall(nodes.literal_block)).astext()
    names = []
    for given, function, also in DECLARED.findall(source):
        named = OWN_NAME.search(given)
        names.append(also or (named[1] if named else function.replace("_", " ")))
    return f"{CHECK}: {', '.join(names)}" if names else CHECK


def fold_steps(body: str, file: str) -> tuple[str, str]:
    """The body of a page with its boxes folded, and the script that has them, "" without any.

    file: where the script will be, below the folder of scripts. A box may hold formulas and lists,
    no other box.
    """
    boxes = [element(body, found.start()) for found in BOX.finditer(body)]
    if not boxes:
        return body, ""
    digest = hashlib.sha256("".join(boxes).encode()).hexdigest()[:12]
    for place, box in enumerate(boxes):
        kind = BOX.match(box)[1]  # type: ignore
        data = f'data-steps="{file}?{digest}" data-place="{place}"'
        line = f"<summary>{_line(box)}</summary><p>The steps are loaded by a script.</p>"
        body = body.replace(box, f'<details class="{kind}" {data}>{line}</details>', 1)
    return body, f"{CALL}{json.dumps([digest, boxes], ensure_ascii=False)});\n"


def _line(box: str) -> str:
    """What was decided, of which claim, in how many steps, and their names."""
    head, names = HEAD.search(box), NAME.findall(box)
    shown = [
        name for k, name in enumerate(names) if len("; ".join(names[: k + 1])) <= NAMED or not k
    ]
    rest = [f"and {len(names) - len(shown)} more"] * (len(shown) < len(names))
    count = counted(len(names), "step")
    return f"{head[1] if head else ''}, {count}: {'; '.join([*shown, *rest])}"


def unfolded(body: str, static: Path) -> str:
    """The body of a built page with the whole boxes, which lie below the folder of scripts."""

    def box(found: re.Match) -> str:
        text = (static / found[1]).read_text(encoding="utf-8")
        return json.loads(text.removeprefix(CALL).rstrip()[:-2])[1][int(found[2])]

    return FOLDED.sub(box, body)


def write_steps(app: Sphinx, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Fold the boxes of a page and write its script."""
    if doctree is None or app.builder.name != "html":
        return
    file = f"{FOLDER}/{pagename}.js"
    context["body"], script = fold_steps(context.get("body", ""), file)
    if script:
        path = Path(app.outdir, "_static", file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")


def setup(app: Sphinx) -> dict:
    """Connect the hooks, that of the steps after all others that change the body."""
    app.connect("doctree-read", fold)
    app.connect("html-page-context", write_steps, priority=960)
    app.add_js_file("folding.js", loading_method="defer")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

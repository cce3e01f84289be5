"""Resolved doctrees as CommonMark with TeX between dollars, which every notebook program renders.

A page's notebook is written from what Sphinx resolved, not from the page's source: numbers, titles,
citations and boxes are then the ones of the page, and no syntax of MyST is read a second time. What
is not known here is an error, so that nothing is left out silently.

Each paragraph, and each display formula, is one line: Jupyter takes formulas out before it reads
Markdown, so the marks of a quotation or the indentation of a list must not come to stand in one.
"""

from __future__ import annotations

import html
import re
from functools import singledispatch

from docutils import nodes
from sphinx import addnodes
from sphinx_design.dropdown import dropdown_main, dropdown_title

from attnverify.book.sphinx.inline_markdown import Page, code, inline, line, tex, words

#: Text at the start of a line that would begin a list.
LIST_MARK = re.compile(r"^(\d{1,9})?([-+.)])(?=\s)")
DOT = " · "  # between links


def blocks(parts: list[nodes.Node] | nodes.Element, page: Page) -> str:
    """Blocks one after the other."""
    return "\n\n".join(filter(None, (block(part, page) for part in parts)))


def indented(text: str, first: str, other: str) -> str:
    """The lines of a text with a mark before the first and another before each other."""
    head, *rest = text.split("\n")
    return "\n".join([first + head, *((other + row).rstrip() for row in rest)])


def quoted(text: str) -> str:
    """A text as a quotation."""
    return indented(text, "> ", "> ")


@singledispatch
def block(node: nodes.Node, page: Page) -> str:
    """A block as Markdown; of what is inline, a paragraph."""
    return inline(node, page)


@block.register(nodes.paragraph)
@block.register(nodes.caption)
@block.register(nodes.term)
def _(node, page):
    return LIST_MARK.sub(r"\1\\\2", line(_live(node, page), page))


def _live(node: nodes.Element, page: Page) -> list[nodes.Node]:
    """What a paragraph holds, without links before a dot that lead nowhere from a notebook."""
    live: list[nodes.Node] = []
    for child in node:
        before = live[-1] if live else None
        if child == DOT and isinstance(before, nodes.reference) and not page.link(before):
            live.pop()
        else:
            live.append(child)
    return live


@block.register(nodes.container)
@block.register(nodes.section)
@block.register(nodes.legend)
@block.register(nodes.definition_list_item)
@block.register(nodes.definition)
@block.register(addnodes.desc_content)
def _(node, page):
    return blocks(node, page)


@block.register(nodes.compound)
def _(node, page):
    """Several blocks; a table of contents would lead nowhere."""
    return "" if "toctree-wrapper" in node["classes"] else blocks(node, page)


@block.register(nodes.comment)
@block.register(addnodes.index)
@block.register(addnodes.toctree)
def _(node, page):
    return ""


@block.register(nodes.title)
def _(node, page):
    depth, above = 0, node.parent
    while above is not None:
        depth, above = depth + isinstance(above, nodes.section), above.parent
    return f"{'#' * min(depth, 6)} {page.section(node.parent['ids'])}{line(node, page)}"


@block.register(nodes.rubric)
@block.register(addnodes.desc_signature)
def _(node, page):
    text = node.astext()
    return f"**{line(node, page)}**" if isinstance(node, nodes.rubric) else f"**{code(text)}**"


@block.register(nodes.bullet_list)
@block.register(nodes.definition_list)
def _(node, page):
    return "\n".join(indented(blocks(item, page), "- ", "  ") for item in node)


@block.register(nodes.enumerated_list)
def _(node, page):
    marks = (f"{k}. " for k in range(node.get("start", 1), node.get("start", 1) + len(node)))
    items = zip(marks, node, strict=True)
    return "\n".join(indented(blocks(item, page), m, " " * len(m)) for m, item in items)


@block.register(addnodes.desc)
def _(node, page):
    return indented(blocks(node, page), "- ", "  ")


@block.register(nodes.block_quote)
def _(node, page):
    return quoted(blocks(node, page))


@block.register(nodes.transition)
def _(node, page):
    return "---"


@block.register(nodes.literal_block)
def _(node, page):
    text = node.astext().rstrip("\n")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{node.get('language', '')}\n{text}\n{fence}"


@block.register(nodes.math_block)
def _(node, page):
    number = page.number("displaymath", node["ids"]) or node.get("number")
    tag = rf" \tag{{{number}}}" if number else ""
    return f"$${tex(node)}{tag}$$"


@block.register(nodes.raw)
def _(node, page):
    return words(node.astext()) if "html" in node["format"] else ""


@block.register(nodes.Admonition)
def _(node, page):
    """A note, or a box that sphinx-proof numbers: a quotation under its name."""
    title, *rest = node
    if "realtype" not in node:
        name = line(title, page) if isinstance(title, nodes.title) else node.tagname.capitalize()
        rest = rest if isinstance(title, nodes.title) else list(node)
        return quoted(f"**{name}**\n\n{blocks(rest, page)}")
    number = page.number(node["countertype"], node["ids"])
    name = " ".join(filter(None, [node["realtype"].capitalize(), number, line(title, page)]))
    return quoted(f"**{name}.**\n\n{blocks(rest, page)}")


@block.register(dropdown_main)
def _(node, page):
    title = " ".join(child.astext() for child in node.findall(nodes.inline) if _is_summary(child))
    inside = [child for child in node if not isinstance(child, dropdown_title)]
    summary = f"<summary>{html.escape(title, quote=False)}</summary>"
    return f"<details>\n{summary}\n\n{blocks(inside, page)}\n\n</details>"


def _is_summary(node: nodes.Element) -> bool:
    return "sd-summary-text" in node["classes"]


@block.register(nodes.figure)
def _(node, page):
    number = page.number("figure", node["ids"])
    texts = [block(c, page) for c in node if isinstance(c, nodes.caption | nodes.legend)]
    return "\n\n".join([f"*Fig. {number}.* " * bool(number) + "".join(texts[:1]), *texts[1:]])


@block.register(nodes.citation)
def _(node, page):
    return blocks([child for child in node if not isinstance(child, nodes.label)], page)


@block.register(nodes.table)
def _(node, page):
    """A table of pipes. Its first row is the header, as Markdown has no table without."""
    title = [f"**{line(c, page)}**\n" for c in node if isinstance(c, nodes.TextElement)]
    first, *rest = [[_cell(e, page) for e in row] for row in node.findall(nodes.row)]
    rows = [first, ["---"] * len(first), *rest]
    return "\n".join([*title, *(f"| {' | '.join(row)} |" for row in rows)])


def _cell(entry: nodes.Node, page: Page) -> str:
    return "<br>".join(blocks(entry, page).replace("\n\n", "\n").split("\n"))

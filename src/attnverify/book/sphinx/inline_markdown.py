"""Inline nodes of a resolved doctree as Markdown on one line, and where a page stands."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from functools import singledispatch
from urllib.parse import urljoin

from docutils import nodes
from sphinx.environment import BuildEnvironment

from attnverify.book.pages.common import escape

#: "Theorem 11.2": on a page the title of the claim shows when the pointer is on it.
NUMBERED = re.compile(r"[A-Z][a-z]+ \d+(\.\d+)*")
#: Drawings, programs and buttons have no words; of other HTML the words stay, and what folds them.
WORDLESS = re.compile(r"<(svg|script|style|template|button)\b.*?</\1\s*>", re.S)
TAG = re.compile(r"<!--.*?-->|</?(?!/|details\b|summary\b)[^<>]*>", re.S)


@dataclass(frozen=True)
class Page:
    """Where a node stands: the environment, the page's name and the address of the built book."""

    env: BuildEnvironment
    docname: str
    address: str = ""

    def number(self, kind: str, ids: list[str]) -> str:
        """The number of a figure, formula or box, or ""."""
        numbers = self.env.toc_fignumbers.get(self.docname, {}).get(kind, {})
        return ".".join(map(str, next((numbers[id] for id in ids if id in numbers), ())))

    def section(self, ids: list[str]) -> str:
        """The number of a section with a full stop and a space, or ""."""
        numbers = self.env.toc_secnumbers.get(self.docname, {})
        found = next((n for id in ids if (n := numbers.get(f"#{id}", numbers.get("")))), ())
        return f"{'.'.join(map(str, found))}. " if found else ""

    @property
    def url(self) -> str:
        """The page in the published book."""
        return urljoin(f"{self.address.rstrip('/')}/", f"{self.docname}.html")

    def link(self, reference: nodes.Element) -> str:
        """Where a reference leads from outside the book; "" if it cannot be reached from there."""
        target = reference.get("refuri", "")
        if re.match(r"[a-z]+:", target):
            return target
        return urljoin(self.url, target) if self.address and target else ""


def line(parts: list[nodes.Node] | nodes.Element, page: Page) -> str:
    """Inline nodes as one line."""
    return " ".join("".join(inline(part, page) for part in parts).split())


def code(text: str, in_cell: bool = False) -> str:
    """A literal, between more backticks than it holds."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    text = " ".join(text.split())
    return ticks + space + (text.replace("|", r"\|") if in_cell else text) + space + ticks


def tex(node: nodes.Node) -> str:
    """A formula on one line. In a table a bar would end the cell, so it is written as a command."""
    text = " ".join(node.astext().split())
    if not in_table(node):
        return text
    return text.replace(r"\|", r"\Vert ").replace("|", r"\vert ")


def in_table(node: nodes.Node) -> bool:
    """True inside a cell of a table."""
    while (node := node.parent) is not None:
        if isinstance(node, nodes.entry):
            return True
    return False


def words(text: str) -> str:
    """HTML without drawings, programs, buttons and tags, but with what folds."""
    return TAG.sub("", WORDLESS.sub("", text)).strip()


@singledispatch
def inline(node: nodes.Node, page: Page) -> str:
    """An inline node as Markdown."""
    raise NotImplementedError(f"no Markdown for inline {type(node).__name__}: {node.astext()!r}")


@inline.register(nodes.Text)
def _(node, page):
    return escape(node.astext().replace("\n", " "))


@inline.register(nodes.inline)
@inline.register(nodes.target)
def _(node, page):
    return "".join(inline(child, page) for child in node)


@inline.register(nodes.emphasis)
@inline.register(nodes.title_reference)
@inline.register(nodes.strong)
def _(node, page):
    """Markdown knows no mark before or after a space."""
    mark = "**" if isinstance(node, nodes.strong) else "*"
    text = "".join(inline(child, page) for child in node)
    inner = " ".join(text.split())
    return f"{' ' * text[:1].isspace()}{mark}{inner}{mark}{' ' * text[-1:].isspace()}"


@inline.register(nodes.literal)
def _(node, page):
    return code(node.astext(), in_table(node))


@inline.register(nodes.math)
def _(node, page):
    return f"${tex(node)}$"


@inline.register(nodes.reference)
def _(node, page):
    text, address = line(node, page), page.link(node)
    if NUMBERED.fullmatch(text) and "reftitle" in node:
        text += f" ({escape(node['reftitle'])})"
    return f"[{text}](<{address}>)" if address and text else text


@inline.register(nodes.raw)
def _(node, page):
    return escape(html.unescape(words(node.astext()))) if "html" in node["format"] else ""


@inline.register(nodes.image)
def _(node, page):
    return f"*({escape(node.get('alt', 'figure'))})*"

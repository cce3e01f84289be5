"""The notebook of every page: its words as Markdown by pandoc, its code cells unchanged.

Pandoc converts the page as Sphinx resolved it, so numbers, titles, citations and boxes are those of
the page. Formulas stay TeX between dollars. The code cells come from the source, in its order, so
that they run as they are and have no outputs; the caption of a figure follows its cell.
"""

from __future__ import annotations

import html
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import jupytext
import pypandoc
from docutils import nodes
from nbformat.v4 import new_markdown_cell
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

import attnverify
from attnverify.book.sphinx.private_interfaces import cited

#: Where downloads live below the built book.
DOWNLOADS = "_sources"
CELL = "cell_code"  # what myst-nb calls the node of a code cell
#: Paragraphs that stand for a code cell, and for the start and the end of what is folded.
PLACE, OPEN, CLOSE = "CELLxPLACE", "FOLDxOPEN", "FOLDxCLOSE"
#: What has no words: drawings, programs, buttons, figures to move, links to the heading that they
#: stand beside.
WORDLESS = re.compile(
    r'<(svg|script|style|template|button)\b.*?</\1\s*>|<figure class="attnverify-.*?</figure>'
    r'|<a class="headerlink".*?</a>|<!--.*?-->',
    re.S,
)
TAG = re.compile(r"<[^>]*>")
FOLDED = re.compile(r"<details\b[^>]*>\s*<summary\b[^>]*>(.*?)</summary>", re.S)
TITLE = re.compile(r'<p class="admonition-title">(.*?)</p>', re.S)
TABLE = re.compile(r"<table\b[^>]*>(?:\s*<caption\b[^>]*>(.*?)</caption>)?", re.S)
SIGNATURE = re.compile(r'<dt class="sig\b.*?</dt>', re.S)
EMPHASIS = re.compile(r"</?em\b[^>]*>")  # beside a letter no mark of Markdown stands for it
LINK = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"[^>]*>(.*?)</a>', re.S)
#: Characters that may mark something up in Markdown. In words each travels through pandoc as a
#: character of private use, and comes out with a backslash before it.
MARKS = "\\`*_{}[]<>$|#"
HIDDEN = {ord(mark): chr(0xE000 + k) for k, mark in enumerate(MARKS)}
ESCAPED = {ord(hidden): f"\\{chr(mark)}" for mark, hidden in HIDDEN.items()}
PLAIN = {ord(hidden): html.escape(chr(mark)) for mark, hidden in HIDDEN.items()}
FROM = "html-native_divs-native_spans-auto_identifiers+tex_math_dollars"
TO = "commonmark+pipe_tables+tex_math_dollars-raw_html"


def offer_notebook(app, pagename, templatename, context, doctree) -> None:
    """Put the page's .ipynb into the download menu (the theme does so for notebooks only)."""
    if has_notebook(context, doctree):
        context["ipynb_source"] = f"{pagename}.ipynb"


def write_notebook(app, pagename, templatename, context, doctree) -> None:
    """Write what the menu offers."""
    if has_notebook(context, doctree):
        write(app, pagename, doctree)


def has_notebook(context: dict, doctree: nodes.document | None) -> bool:
    """Whether a page comes from a source of the book."""
    return doctree is not None and context.get("page_source_suffix") == ".md"


def write(app: Sphinx, docname: str, doctree: nodes.document) -> None:
    """Write the .ipynb of a page beside its source."""
    base = app.config.html_baseurl
    address = urljoin(f"{base.rstrip('/')}/", f"{docname}.html") if base else ""
    notebook = jupytext.read(app.env.doc2path(docname), fmt="md:myst")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    words = markdown(html_of(app, docname, doctree), address)
    title, *texts = re.split(rf"^{PLACE}$", words, flags=re.M)
    if entries := cited(app.env, docname):
        end = "\n".join(["\n\n## References\n", *(f"- {entry}" for entry in entries)])
        title, *texts = [title, *texts][:-1] + [[title, *texts][-1] + end]
    if len(texts) != len(code):
        raise ExtensionError(f"{docname}: got {len(texts)} places of {len(code)} code cells")
    if code:
        title = re.sub(r"\n|$", f"\n\n{origin(app, address)}\n", title, count=1)
    notebook.cells = list(_words(title))
    for cell, text in zip(code, texts, strict=True):
        notebook.cells += [cell, *_words(text)]
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # the same in every build
    notebook.metadata.get("jupytext", {}).pop("text_representation", None)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    target = Path(app.outdir, DOWNLOADS, f"{docname}.ipynb")
    target.parent.mkdir(parents=True, exist_ok=True)
    jupytext.write(notebook, target, fmt="ipynb")


def _words(text: str) -> Iterator[Any]:
    """A cell for the text up to each heading; none where there are no words."""
    parts, code = [""], False
    for line in text.splitlines(keepends=True):
        code ^= line.startswith("```")  # a comment in code is no heading
        if not code and re.match("##? ", line):
            parts.append("")
        parts[-1] += line
    yield from (new_markdown_cell(part.strip()) for part in parts if part.strip())


def origin(app: Sphinx, address: str) -> str:
    """Where a notebook comes from and what its cells need."""
    book, repository = app.config.project, app.config.html_theme_options.get("repository_url")
    book = f"[{book}](<{address}>)" if address else book
    both = f"git+{repository} git+{repository}#subdirectory=src/attninspect"
    need = f"packages: `%pip install {both}`" if repository else "package `attnverify`"
    version = attnverify.__version__
    return f"*A chapter of {book}, version {version}. Its cells need the {need}.*"


def html_of(app: Sphinx, docname: str, doctree: nodes.document) -> str:
    """The page as HTML with TeX between dollars and a mark in the place of each code cell."""
    translator: Any = app.builder.create_translator(doctree, app.builder)
    numbers = app.env.toc_fignumbers.get(docname, {}).get("displaymath", {})

    def math(node: nodes.Element) -> None:
        translator.body.append(html.escape(f"${_tex(node)}$"))
        raise nodes.SkipNode

    def math_block(node: nodes.Element) -> None:
        found = next((numbers[id] for id in node["ids"] if id in numbers), None)
        tag = rf" \tag{{{'.'.join(map(str, found))}}}" if found else ""
        translator.body.append(f"<p>{html.escape(f'$${_tex(node)}{tag}$$')}</p>")
        raise nodes.SkipNode

    def image(node: nodes.Element) -> None:
        translator.body.append(f"<em>({html.escape(node.get('alt', 'figure'))})</em>")
        raise nodes.SkipNode

    visit, visit_text = translator.visit_container, translator.visit_Text

    def words(node: nodes.Text) -> None:
        """Words of code are left as they are, but for bars, which would end the cell of a table."""
        table = any(isinstance(each, nodes.entry) for each in _above(node))
        code = any(
            isinstance(each, nodes.literal | nodes.literal_block | nodes.doctest_block)
            for each in _above(node)
        )
        hidden = HIDDEN if not code else {ord("|"): HIDDEN[ord("|")]} if table else {}
        visit_text(nodes.Text(node.translate(hidden)))

    def container(node: nodes.Element) -> None:
        if node.get("nb_element") != CELL:
            return visit(node)
        translator.body.append(f"<p>{PLACE}</p>")
        for figure in node.findall(nodes.figure):
            figure.walkabout(translator)
        raise nodes.SkipNode

    translator.visit_math, translator.visit_math_block = math, math_block
    translator.visit_image, translator.visit_container = image, container
    translator.visit_Text = words
    doctree.walkabout(translator)
    return "".join(translator.body)


def _above(node: nodes.Node) -> Iterator[nodes.Node]:
    """The nodes that hold a node, from the innermost on."""
    while (node := node.parent) is not None:
        yield node


def _tex(node: nodes.Element) -> str:
    """A formula on one line; in a table a bar would end the cell, so it is written as a command."""
    text = " ".join(node.astext().split())
    if any(isinstance(parent, nodes.entry) for parent in _above(node)):
        return text.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
    return text


def markdown(page: str, address: str) -> str:
    """The page as Markdown; a link that leads nowhere from a notebook becomes words."""

    def link(match: re.Match[str]) -> str:
        target = html.unescape(match[1])
        if not re.match(r"[a-z]+:", target):
            target = urljoin(address, target) if address else ""
        return f'<a href="{html.escape(target)}">{match[2]}</a>' if target else match[2]

    page = LINK.sub(link, WORDLESS.sub("", page))
    page = SIGNATURE.sub(lambda found: EMPHASIS.sub("", found[0]), page)
    page = FOLDED.sub(lambda found: f"<p>{OPEN} {TAG.sub('', found[1]).strip()}</p>", page)
    page = TITLE.sub(r"<p><strong>\1</strong></p>", page)
    page = TABLE.sub(lambda found: f"<p>{_strong(found[1])}</p><table>", page)
    page = page.replace("</details>", f"<p>{CLOSE}</p>")
    page = page.replace("<pre>", '<pre class="text">')  # or pandoc indents code, without a fence
    command = [pypandoc.get_pandoc_path(), f"--from={FROM}", f"--to={TO}", "--wrap=none"]
    done = subprocess.run(command, input=page, capture_output=True, text=True, check=True)

    def opened(match: re.Match[str]) -> str:
        return f"<details>\n<summary>{match[1].translate(PLAIN)}</summary>"

    text = re.sub(rf"{OPEN} (.*)", opened, f"{done.stdout}\n")
    return text.replace(CLOSE, "</details>").translate(ESCAPED)


def _strong(text: str | None) -> str:
    return f"<strong>{text}</strong>" if text else ""


def setup(app: Sphinx) -> dict:
    """Connect the hooks."""
    # Before the theme's own header buttons (501), which read what this sets.
    app.connect("html-page-context", offer_notebook, priority=400)
    # After its launch buttons (501), for which it puts the notebook with its outputs there.
    app.connect("html-page-context", write_notebook, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

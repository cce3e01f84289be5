"""The notebook of every page: what the page says as plain Markdown, and its code cells unchanged.

The words come from the page as Sphinx resolved it (:mod:`to_markdown`); the code cells from the
source, in its order, so that they run as they are and stay without outputs. A figure's caption
follows its cell, and what the page cites stands at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jupytext
from docutils import nodes
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinxcontrib.bibtex.transforms import BibliographyTransform, node_text_transform

import attnverify
from attnverify.book.sphinx.to_markdown import Page, block, blocks

#: Where downloads live below the built book.
DOWNLOADS = "_sources"
CELL = "cell_code"  # what myst-nb calls the node of a code cell


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
    page = Page(app.env, docname, app.config.html_baseurl or "")
    notebook = jupytext.read(app.env.doc2path(docname), fmt="md:myst")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    notebook.cells = list(cells(app, doctree, code, page))
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # the same in every build
    notebook.metadata.get("jupytext", {}).pop("text_representation", None)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    target = Path(app.outdir, DOWNLOADS, f"{docname}.ipynb")
    target.parent.mkdir(parents=True, exist_ok=True)
    jupytext.write(notebook, target, fmt="ipynb")


def cells(app, doctree, code: list[NotebookNode], page: Page) -> Iterator[NotebookNode]:
    """The cells of a page: one of Markdown for each stretch between code cells and headings."""
    title, *rest = parts(doctree, page)
    pieces = [title, origin(app, page) if code else "", *rest, references(page)]
    if sum(piece is None for piece in pieces) != len(code):
        raise ExtensionError(f"{page.docname}: a code cell that is not on the page")
    remaining, texts = iter(code), []
    for piece in pieces:
        if piece is None or piece.startswith("#"):
            yield from markdown(texts)
            texts = []
        if piece is None:
            yield next(remaining)
        else:
            texts.append(piece)
    yield from markdown(texts)


def markdown(texts: list[str]) -> Iterator[NotebookNode]:
    """One cell of these blocks, unless there is nothing in it."""
    if text := "\n\n".join(filter(None, texts)):
        yield new_markdown_cell(text)


def parts(node: nodes.Element, page: Page) -> Iterator[str | None]:
    """The blocks of a page and of its sections in order; None stands for a code cell."""
    for child in node:
        if isinstance(child, nodes.section):
            yield from parts(child, page)
        elif isinstance(child, nodes.Element) and child.get("nb_element") == CELL:
            yield None
            yield blocks(list(child.findall(nodes.figure)), page)
        else:
            yield block(child, page)


def origin(app: Sphinx, page: Page) -> str:
    """Where a notebook comes from and what its cells need."""
    book, repository = app.config.project, app.config.html_theme_options.get("repository_url")
    book = f"[{book}](<{page.url}>)" if page.address else book
    need = f": `%pip install git+{repository}`" if repository else " `attnverify`"
    version = attnverify.__version__
    return f"*A chapter of {book}, version {version}. Its cells need the package{need}.*"


def references(page: Page) -> str:
    """The entries of all works that a page cites, as in the bibliography; "" if there are none."""
    domain = page.env.get_domain("cite")
    cited = {
        target.key
        for reference in domain.citation_refs
        if reference.docname == page.docname
        for target in reference.targets
    }
    entries = [c.formatted_entry for c in domain.citations if c.key in cited]
    if not entries:
        return ""
    return "\n".join(["## References\n", *(f"- {entry(e, page)}" for e in entries)])


def entry(formatted, page: Page) -> str:
    """One entry of the bibliography."""
    paragraph = BibliographyTransform.backend.paragraph(formatted)
    node_text_transform(paragraph)
    return block(paragraph, page)


def setup(app: Sphinx) -> dict:
    """Connect the hooks."""
    # Before the theme's own header buttons (501), which read what this sets.
    app.connect("html-page-context", offer_notebook, priority=400)
    # After its launch buttons (501), for which it puts the notebook with its outputs there.
    app.connect("html-page-context", write_notebook, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

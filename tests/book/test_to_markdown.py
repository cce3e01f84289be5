"""Nodes of Sphinx as plain Markdown, and the notebook of a page that holds every construct."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest
from docutils import nodes

from attnverify.book.sphinx.to_markdown import Page, block
from notebookreading import notebook, raw
from places import ROOT


@pytest.mark.parametrize(
    "text",
    [
        "```{claim} paths.count\n```",
        "{claim}`paths.count`",
        "$$ x $$ (eq-one)\n\n$y",
        "(label)=\n# Title",
        ":::{note}\na\n:::",
        "$$ x\n> y $$",
        r"$\label{a} x$",
        "**bold",
        "a\n| b | c |\n| --- |",
        "[a](b.md)",
        "<span>a</span>",
        "<div>a</div>",
    ],
)
def test_what_is_left_raw_is_seen(text):
    assert raw(text)


def test_what_is_rendered_is_not():
    text = "# a\n\n> **b** *c* `{d}` $e|f$ \\* \\[g\\] [h](<https://host.invalid/(i)>)\n\n$$j$$\n\n"
    text += "| k | l |\n| --- | --- |\n| m<br>n | $\\vert o$ |\n\n<details>\n<summary>p</summary>\n"
    assert raw(text) == []


def paragraph(*children: nodes.Node | str) -> nodes.paragraph:
    """A paragraph of nodes and texts."""
    found = nodes.paragraph()
    found += [nodes.Text(child) if isinstance(child, str) else child for child in children]
    return found


def link(text: str, target: str, **attributes: str) -> nodes.reference:
    return nodes.reference("", text, refuri=target, **attributes)


BARE = Page(SimpleNamespace(toc_fignumbers={}, toc_secnumbers={}), "notebooks/one")  # pyright: ignore
FOLDED = '<details class="a"><summary>b</summary><p>c <a href="d.html">e</a></p>'


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (paragraph("2. is no list"), r"2\. is no list"),
        (paragraph("- nor is this"), r"\- nor is this"),
        (paragraph(nodes.strong("", "Limits. "), nodes.emphasis("", "f")), "**Limits.** *f*"),
        (paragraph(link("a", "b.html"), " · ", link("c", "d.html"), " · e"), "c · e"),
        (paragraph(link("a", "b.html"), " · ", link("c", "d.html"), " · ", "e"), "e"),
        (paragraph("See ", link("a", "b.html"), "."), "See a."),
        (paragraph(link("a", "https://host.invalid/(b)")), "[a](<https://host.invalid/(b)>)"),
        (paragraph(link("Theorem 1.2", "b.html", reftitle="T_1")), r"Theorem 1.2 (T\_1)"),
        (paragraph(link("this one", "b.html", reftitle="T_1")), "this one"),
        (paragraph(nodes.raw("", "<b>✓</b>&nbsp;*", format="html")), "✓ \\*"),
        (nodes.raw("", FOLDED, format="html"), '<details class="a"><summary>b</summary>c e'),
        (nodes.raw("", "<svg><title>a</title></svg>", format="html"), ""),
        (nodes.raw("", r"\bfseries", format="latex"), ""),
        (nodes.literal_block("", "```\n\n"), "````\n```\n````"),
        (nodes.math_block("", "a\n\\\\ b"), r"$$a \\ b$$"),
    ],
)
def test_nodes_become_markdown(node, expected):
    assert block(node, BARE) == expected


def test_an_unknown_node_is_an_error():
    """Nothing is left out silently."""
    with pytest.raises(NotImplementedError, match="no Markdown for inline footnote"):
        block(nodes.footnote("", nodes.paragraph("", "a")), BARE)


CONF = """
project = "Small"
extensions = ["myst_nb", "sphinx_design", "attnverify.book.sphinx.extension"]
extensions += ["attnverify.book.sphinx.downloads"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_inline"]
myst_dmath_double_inline = True
bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
nb_execution_mode = "off"
numfig = math_numfig = True
numfig_secnum_depth = 1
math_eqref_format = "({{number}})"
html_theme = "basic"
html_baseurl = {address!r}
html_theme_options = {{}}
"""
INDEX = "# Small\n\n```{toctree}\n:numbered:\n\none\nworks\n```\n"
WORKS = "# Works\n\n```{bibliography}\n```\n"
PAGE = r"""---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# One

Text with 5 * 3 = $x_1$, [a_b], `{role}`, `` a`b ``.
{cite}`dong2021`, {claim}`paths.count`, {claim}`this <paths.count>`, {doc}`works`, {eq}`eq-sum`.

1\. is no list.

## Two

$$
a
  = b
$$ (eq-sum)

- one

  $$
  c \\
  d
  $$
- two

  2. three

| Bar | Code |
| --- | --- |
| $\|y\|$ | `a\|b` |

Term
: Meaning

> Quoted $z$,
> twice.

:::{note}
Noted.
:::

```{code-cell} ipython3
:tags: [derivation]

1 + 1
```

```python
"$x$"
```

```{dropdown} Solution of $x$
Solved.

- so
```

```{claim} paths.count
```

```{code-cell} ipython3
2
```
"""
EXPECTED = r"""# 1. One

*A chapter of Small, version VERSION. Its cells need the package `attnverify`.*

Text with 5 \* 3 = $x_1$, \[a\_b\], `{role}`, ``a`b``. \[Dong *et al.*, 2021\], BOX, this,
Works, (1.1).

1\. is no list.

====

## 1.1. Two

$$a = b \tag{1.1}$$

- one

  $$c \\ d$$
- two

  2. three

| Bar | Code |
| --- | --- |
| $\vert y\vert $ | `a\|b` |

- Term

  Meaning

> Quoted $z$, twice.

> **Note**
>
> Noted.

====

1 + 1

====

```python
"$x$"
```

<details>
<summary>Solution of x</summary>

Solved.

- so

</details>

> **BOX.**
>
"""
BOX = "Proposition 1.1 (How many paths of each length)"


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> dict[str, nbformat.NotebookNode]:
    """A page of many constructs, from a book without an address, twice, and from one with it."""
    folders = {}
    for name, address in (("none", ""), ("again", ""), ("site", "https://host.invalid/book/")):
        folders[name] = folder = tmp_path_factory.mktemp(name)
        conf = CONF.format(address=address)
        (folder / "conf.py").write_text(conf)
        (folder / "references.bib").write_bytes((ROOT / "book" / "references.bib").read_bytes())
        for page, text in (("index", INDEX), ("one", PAGE), ("works", WORKS)):
            (folder / f"{page}.md").write_text(text, encoding="utf-8")
    code = (
        "import sys\nfrom sphinx.cmd.build import main\n"
        "codes = [main(['-q', f, f + '/_build/html']) for f in sys.argv[1:]]\nsys.exit(max(codes))"
    )
    command = [sys.executable, "-c", code, *map(str, folders.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = {name: folder / "_build" / "html" for name, folder in folders.items()}
    return {name: notebook(html, "one") for name, html in built.items()}


def sources(book: nbformat.NotebookNode) -> str:
    return "\n\n====\n\n".join(cell.source for cell in book.cells)


def test_every_construct_becomes_plain_markdown(small):
    version = re.search(r"version ([\d.]+)\. ", sources(small["none"])).group(1)
    expected = EXPECTED.replace("VERSION", version).replace("BOX", BOX).replace(",\n", ", ")
    assert sources(small["none"])[: len(expected)] == expected
    assert not any(raw(c.source) for c in small["none"].cells if c.cell_type == "markdown")


def test_notebooks_are_the_same_in_every_build(small):
    assert small["none"] == small["again"]


def test_links_lead_to_the_published_book(small):
    """By its address, if the build has one; else there are none but those to other hosts."""
    page = "https://host.invalid/book/one.html"
    assert f"*A chapter of [Small](<{page}>), " in sources(small["site"])
    assert "[Works](<https://host.invalid/book/works.html>)" in sources(small["site"])
    assert "host.invalid" not in sources(small["none"])

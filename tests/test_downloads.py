"""The notebooks that pages offer: complete, plain Markdown, and the code of their sources."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import nbformat
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pybtex.database import parse_file
from pybtex.richtext import Text

import evidence_files
from attnverify.claims import Claim, registry
from attnverify.evidence.myst import code_cells
from downloads import DOWNLOADS
from test_pages import docnames

ROOT = Path(__file__).parents[1]
ROLE = re.compile(r"\{[a-z:-]+\}`[^`]*`")
LABEL = re.compile(r"\\tag\{[\d.]+\}|\$\$ ?\(eq-[\w-]+\)")
CITED = re.compile(r"\{cite\}`([^`]*)`")
CHAPTERS = [name for name in docnames() if name.startswith("notebooks/")]

#: Reads what every notebook program reads: CommonMark, tables and formulas. What was escaped stays
#: a token of its own, so that a mark in plain text is one that was left over.
MARKDOWN = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, double_inline=True)
MARKDOWN.disable("text_join")
LEFT_OVER = re.compile(r"[$`*_\[\]{}<>\\]|\| ?---|^(:::|\(.*\)=)")
FOLDS = re.compile(r"</?(details|summary)\b[^>]*>")


def tokens(text: str) -> Iterator[Token]:
    """All tokens of a Markdown text, the inner ones in place of the line that holds them."""
    for token in MARKDOWN.parse(text):
        yield from token.children or [token]


def raw(text: str) -> list[str]:
    """What a notebook program would show as it is written, of a Markdown text."""
    found = []
    for token in tokens(text):
        kind, content = token.type, token.content
        if kind == "text" and LEFT_OVER.search(content):
            found.append(content)
        if kind == "fence" and token.info.startswith("{"):
            found.append(token.info)
        if kind == "html_inline" and content != "<br>":
            found.append(content)
        if kind == "html_block" and LEFT_OVER.search(FOLDS.sub("", content)):
            found.append(content)
        if "math" in kind and ("\\label" in content or "\n" in content):
            found.append(content)
        if kind == "link_open" and not str(token.attrs["href"]).startswith("https://"):
            found.append(str(token.attrs["href"]))
    return found


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


@cache
def notebook(html: Path, name: str) -> nbformat.NotebookNode:
    """A downloaded notebook, which is valid."""
    found = nbformat.read(html / DOWNLOADS / f"{name}.ipynb", as_version=4)
    nbformat.validate(found)
    return found


def markdown(html: Path, name: str) -> str:
    """The words of a downloaded notebook."""
    cells = notebook(html, name).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def squashed(text: str) -> str:
    """Letters and digits alone: what is left of a text whatever marks it up."""
    return re.sub(r"[\W_]", "", LABEL.sub("", text)).lower()


def claims_of(name: str) -> list[Claim]:
    return [claim for claim in registry.values() if f"notebooks/{claim.notebook}" == name]


@pytest.mark.parametrize("name", docnames())
def test_nothing_is_left_raw(built_book, name):
    """Each cell of words by itself: no directive, role, label or broken mark is shown."""
    for cell in notebook(built_book, name).cells:
        if cell.cell_type == "markdown":
            assert raw(cell.source) == [], cell.source


@pytest.mark.parametrize("name", docnames())
def test_code_is_that_of_the_source(built_book, name):
    """Same cells, same order, same tags, no outputs: the notebook runs as the chapter does."""
    source = code_cells((ROOT / f"{name}.md").read_text(encoding="utf-8"))
    code = [cell for cell in notebook(built_book, name).cells if cell.cell_type == "code"]
    assert [(cell.source, tuple(cell.metadata.get("tags", ()))) for cell in code] == [
        (cell.source, cell.tags) for cell in source
    ]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


@pytest.mark.parametrize("name", CHAPTERS)
def test_claims_are_written_out(built_book, name):
    """Number, title, statement, id and status of each claim; its checks and its twins."""
    text = markdown(built_book, name)
    plain = squashed(text)
    for claim in claims_of(name):
        title = re.escape(claim.title)
        assert re.search(rf"\*\*{claim.kind.capitalize()} \d+\.\d+ \({title}\)\.\*\*", _plain(text))
        assert f"`{claim.id}`" in text
        for part in ROLE.split(claim.statement):
            assert squashed(part) in plain, part


def _plain(text: str) -> str:
    """Markdown text without the backslashes that keep punctuation as it is."""
    return re.sub(r"\\([^\w\s])", r"\1", text)


@pytest.mark.parametrize("name", CHAPTERS)
def test_evidence_is_written_out(built_book, name):
    """The name of every check that was made of a claim, and of every twin."""
    plain = squashed(markdown(built_book, name))
    report = evidence_files.report()
    for claim in claims_of(name):
        names = [record.check for record in report.records[claim.id]]
        names += [twin.twin for twin in report.twins[claim.id]]
        assert [text for text in names if squashed(text) not in plain] == [], claim.id


@pytest.mark.parametrize("name", CHAPTERS)
def test_solutions_are_written_out(built_book, name):
    """Every dropdown is there, folded, with text in it."""
    source = (ROOT / f"{name}.md").read_text(encoding="utf-8")
    solutions = re.findall(
        r"<summary>Solution</summary>\n\n(.+?)\n\n</details>", markdown(built_book, name), re.S
    )
    assert len(solutions) == source.count("```{dropdown} Solution")


@cache
def titles() -> dict[str, str]:
    """The titles of the bibliography by key."""
    entries = parse_file(str(ROOT / "book" / "references.bib"), bib_format="bibtex").entries
    return {key: str(Text.from_latex(entry.fields["title"])) for key, entry in entries.items()}


@pytest.mark.parametrize("name", docnames())
def test_references_stand_at_the_end(built_book, name):
    """The entry of each work that the page or a box on it cites, and no other."""
    path = ROOT / f"{name}.md"
    keys = {k.strip() for keys in CITED.findall(path.read_text("utf-8")) for k in keys.split(",")}
    keys |= {source.key for claim in claims_of(name) for source in claim.sources}
    _, _, listed = markdown(built_book, name).partition("\n\n## References\n\n")
    shown = {key for key, title in titles().items() if squashed(title) in squashed(listed)}
    assert shown == keys
    assert listed.count("\n- ") == max(0, len(keys) - 1)


CONF = """
import sys
sys.path.insert(0, {extensions!r})
project = "Small"
extensions = ["myst_nb", "sphinx_design", "attnverify.book.extension", "downloads"]
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
        conf = CONF.format(extensions=str(ROOT / "book" / "_ext"), address=address)
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

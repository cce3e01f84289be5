"""The notebooks that pages offer: complete, plain Markdown, and the code of their sources."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from unicodedata import normalize

import pytest
from pybtex.database import parse_file
from pybtex.richtext import Text

import evidence_files
from attnverify.book.pages.common import told
from attnverify.chapters import Claim, registry
from attnverify.derivation.myst import code_cells
from notebookreading import formulas, notebook, raw, tokens
from pagechecks import docnames
from places import ROOT

ROLE = re.compile(r"\{[a-z:-]+\}`[^`]*`")
LABEL = re.compile(r"\\tag\{[\d.]+\}|\$\$ ?\(eq-[\w-]+\)")
CITED = re.compile(r"\{cite\}`([^`]*)`")
CHAPTERS = [name for name in docnames() if name.startswith("notebooks/")]


def markdown(html: Path, name: str) -> str:
    """The words of a downloaded notebook."""
    cells = notebook(html, name).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def squashed(text: str) -> str:
    """Letters and digits alone: what is left of a text whatever marks it up."""
    return re.sub(r"[\W_]", "", normalize("NFKC", LABEL.sub("", text))).lower()


def claims_of(name: str) -> list[Claim]:
    return [claim for claim in registry.values() if f"notebooks/{claim.notebook}" == name]


@pytest.mark.parametrize("name", docnames())
def test_nothing_is_left_raw(built_book, name):
    """Each cell of words by itself: no directive, role, label or broken mark is shown."""
    for cell in notebook(built_book, name).cells:
        if cell.cell_type == "markdown":
            # a raised or lowered part of a docstring has no mark that all notebook programs know
            assert raw(re.sub(r"[_^]\(", "(", cell.source)) == [], cell.source


@pytest.mark.parametrize("name", docnames())
def test_formulas_are_those_that_jupyter_finds(built_book, name):
    """It looks for them in another order; both must find the same, each on a line of its own."""
    for cell in notebook(built_book, name).cells:
        if cell.cell_type == "markdown":
            read = [token.content for token in tokens(cell.source) if "math" in token.type]
            assert formulas(cell.source) == read, cell.source


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
        assert re.search(rf"\*\*{claim.label} \d+\.\d+ \({title}\)\*\*", _plain(text))
        assert f"`{claim.id}`" in text
        for part in ROLE.split(claim.statement):
            assert squashed(part) in plain, part


def _plain(text: str) -> str:
    """Markdown text without the backslashes that keep punctuation as it is."""
    return re.sub(r"\\([^\w\s])", r"\1", text)


@pytest.mark.parametrize("name", CHAPTERS)
def test_evidence_is_written_out(built_book, name):
    """The name of every check that was made of a claim, and of every twin, as pages tell it."""
    plain = squashed(markdown(built_book, name))
    report = evidence_files.report()
    for claim in claims_of(name):
        names = [record.check for record in report.records[claim.id]]
        twins = [told(twin.twin, str) for twin in report.twins[claim.id]]
        names += [re.sub("</?su[bp]>", "", twin) for twin in twins]
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

"""Descriptions of pages, and the feed of changes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docutils import nodes
from docutils.utils import new_document

from attnverify.book.sphinx import changes, plain_formulas, published
from places import ROOT


def page(*paragraphs: nodes.paragraph) -> nodes.document:
    """A page of one section."""
    document, section = new_document("page"), nodes.section()
    section += [nodes.title("", "Title"), *paragraphs]
    document += section
    return document


def paragraph(*parts: str | nodes.Node) -> nodes.paragraph:
    found = nodes.paragraph()
    found += [nodes.Text(part) if isinstance(part, str) else part for part in parts]
    return found


def test_a_description_is_made_of_sentences_without_formulas():
    """A formula has no place in a line of plain text, nor has the bold word before it."""
    lead = nodes.strong("", "What is claimed.")
    text = paragraph(lead, " The vector ", nodes.math("", "e^2"), " moves. It is bounded. No tail")
    box = nodes.note("", paragraph("A box comes first."))
    assert published.description("Rows", page(box, text)).startswith("Rows: It is bounded. An exe")
    cited = paragraph("It is as Name and others [Name et al., 2021] say, for all lengths of a row.")
    said = "It is as Name and others say, for all lengths of a row."
    assert published.description("Rows", page(text, cited)) == f"It is bounded. {said}"


def test_a_chapter_is_described_by_its_result():
    """Not by the number of its figure, nor by what is left of a sentence without its formulas."""
    lead = nodes.strong("", "The result.")
    shown = [
        " One part is ",
        nodes.math("", r"\sqrt2"),
        " (",
        nodes.reference("", "Fig. 2.1"),
        ").",
    ]
    figure = paragraph(nodes.reference("", "Fig. 2.1"), " shows that it is so for every number.")
    other = paragraph("The formulas of [Name et al., 2021] are for a symmetric matrix. It is so.")
    chapter = page(paragraph(lead, *shown), figure, other)
    assert published.description("Rows", chapter).startswith("Rows: One part is √2. An exe")
    assert list(published.sentences(chapter)) == [figure.astext(), "It is so."]


#: The opening sentence of every chapter.
RESULTS = {
    path.stem: re.search(r"^\*\*The result\.\*\* (.*)$", path.read_text(encoding="utf-8"), re.M)
    for path in sorted((ROOT / "notebooks").glob("*.md"))
}


@pytest.mark.parametrize("chapter", RESULTS)
def test_formulas_of_a_result_have_a_plain_text(chapter):
    found = RESULTS[chapter]
    assert found is not None
    for tex in re.findall(r"\$([^$]+)\$", found[1]):
        text = plain_formulas.plain(tex)
        assert text and not re.search(r"[\\{}$\x00]|  ", text), (tex, text)


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"1/\sqrt2", "1/√2"),
        (r"4\beta\rho^3/\sqrt{d_{qk}}", "4βρ³/√(d_qk)"),
        (r"\lVert W_V \rVert_2 \le 0.62", "‖W_V‖₂ ≤ 0.62"),
        (r"-\frac{T-1}2", "−(T−1)/2"),
        (r"\delta \tanh(\delta^2/4)", "δ tanh(δ²/4)"),
        (r"12\,\%", "12%"),
    ],
)
def test_formulas_in_plain_text(tex, text):
    assert plain_formulas.plain(tex) == text


def test_what_has_no_plain_text_is_told():
    for tex in (r"\unknown x", r"\frac1"):
        with pytest.raises(plain_formulas.Unknown):
            plain_formulas.plain(tex)
    lead = nodes.strong("", "The result.")
    chapter = page(
        paragraph(lead, " It is ", nodes.math("", r"\unknown"), "."), paragraph("So it is.")
    )
    assert published.result(chapter) == ""


def test_descriptions_are_neither_short_nor_long():
    short = published.description("Index", None)
    long = published.description("Rows", page(*[paragraph("It is so, " * 30 + "here.")] * 3))
    assert published.SHORTEST <= len(short) and published.SUMMARY in short
    assert len(long) <= published.LONGEST and long.endswith("…")


def test_titles_and_texts_are_escaped_and_addresses_need_one():
    tags = published.tags('a "b" <c>', "text & more", "Book", "", "")
    assert '"a &quot;b&quot; &lt;c&gt;"' in tags and "text &amp; more" in tags
    assert "og:url" not in tags and "og:image" not in tags and "feed.xml" not in tags
    tags = published.tags("a", "b", "Book", "https://x.invalid/p.html", "https://x.invalid/")
    assert '"og:url" content="https://x.invalid/p.html"' in tags


def git(folder: Path, *arguments: str, time: int = 0) -> None:
    """Run git as nobody, at a given second."""
    who = ["-c", "user.name=a", "-c", "user.email=a@host.invalid"]
    day = {name: f"@{time} +0000" for name in ("GIT_COMMITTER_DATE", "GIT_AUTHOR_DATE")}
    command = ["git", "-C", str(folder), *who, *arguments]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **day})


@pytest.fixture
def changelog(tmp_path) -> Path:
    """A changelog of two commits."""
    path = tmp_path / "CHANGELOG.md"
    git(tmp_path, "init", "--quiet")
    for time, text in (
        (86400, "# Changes\n\n- One `<a>` & that,\n  told in two lines.\n- Two.\n"),
        (172800, "- Three.\n\nNo item.\n  Nor this.\n"),
    ):
        path.write_text((path.read_text() if path.exists() else "") + text)
        git(tmp_path, "add", path.name)
        git(tmp_path, "commit", "--quiet", "-m", "a", time=time)
    return path


def test_the_feed_has_every_line_with_its_day(changelog):
    """The newest first; an id stays the same while the text does."""
    base = "https://x.invalid/"
    text = changes.feed(changes.entries(changelog), "Book & more", base)
    feed = ElementTree.fromstring(text)
    entries = feed.findall("{*}entry")
    titles = [entry.findtext("{*}title") for entry in entries]
    assert titles == ["Three.", "Two.", "One <a> & that, told in two lines."]
    times = [entry.findtext("{*}updated") for entry in entries]
    assert times == ["1970-01-03T00:00:00Z", *["1970-01-02T00:00:00Z"] * 2]
    assert feed.findtext("{*}updated") == times[0]
    ids = [entry.findtext("{*}id") for entry in entries]
    assert len(set(ids)) == 3 and all(id.startswith(base) for id in ids)
    assert changes.feed(changes.entries(changelog), "Book & more", base) == text


def test_without_the_history_no_day_is_invented(changelog, tmp_path):
    """In a shallow clone every line would seem to be of the last commit."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", changelog.parent.as_uri(), str(clone))
    assert changes.entries(clone / changelog.name) == []
    bare = tmp_path / "bare"
    bare.mkdir()
    assert changes.entries(bare / "CHANGELOG.md") == []


def test_every_line_of_the_changelog_is_in_the_feed(root):
    """The project's own file is read in full, where its history is there."""
    path = root / "CHANGELOG.md"
    lines = path.read_text(encoding="utf-8").splitlines()
    if changes._git(root, "rev-parse", "--is-shallow-repository") == "false\n":
        assert len(changes.entries(path)) == sum(line.startswith("- ") for line in lines)
    assert changes.feed([], "Book", "https://x.invalid/").count("<entry>") == 0

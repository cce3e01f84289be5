"""Descriptions of pages."""

from __future__ import annotations

from docutils import nodes
from docutils.utils import new_document

from attnverify.book.sphinx import published


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
    linked = paragraph("It is as ", nodes.reference("", "Name [2021]"), " says. Rows are short.")
    other = paragraph("A longer sentence says what holds for all lengths of a row.")
    found = published.description("Rows", page(text, linked, other))
    assert found == f"It is bounded. Rows are short. {other.astext()}"


def test_descriptions_are_neither_short_nor_long():
    short = published.description("Index", None)
    long = published.description("Rows", page(*[paragraph("It is so, " * 30 + "here.")] * 3))
    assert published.SHORTEST <= len(short) and published.SUMMARY in short
    assert len(long) <= published.LONGEST and long.endswith("…")


def test_titles_and_texts_are_escaped_and_addresses_need_one():
    tags = published.tags('a "b" <c>', "text & more", "Book", "")
    assert '"a &quot;b&quot; &lt;c&gt;"' in tags and "text &amp; more" in tags
    assert "og:url" not in tags
    tags = published.tags("a", "b", "Book", "https://x.invalid/p.html")
    assert '"og:url" content="https://x.invalid/p.html"' in tags

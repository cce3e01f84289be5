"""The one page that `make pdf` prints: complete, with links that lead somewhere, and printed."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from attnverify.book.build import browser as browsers
from attnverify.book.build import one_page, print_pdf

PAGE = """<title>2. Two — The Book</title><link rel="stylesheet" href="../_static/a.css">
<article class="bd-article"><h1>2. Two<a class="headerlink" href="#two">#</a></h1><p id="two">
<a href="one.html#two">there</a> <a href="#two">here</a> <a href="../book/api.html#x">code</a>
<a href="https://example.org/x.html#y">away</a> <img src="../_images/p.png"></p>
<details class="admonition hide above-input"><summary>s</summary><pre>code</pre></details>
<p>What is it?</p><details class="sd-sphinx-override sd-dropdown">
<summary class="x">
<span class="sd-summary-text">Solution</span><svg></svg></summary>
<div>It is <b id="it">this</b>.</div>
</details></article>"""


@pytest.fixture
def two_pages(tmp_path):
    """A book of two pages that are alike."""
    (tmp_path / "notebooks").mkdir()
    for name in ("one", "two"):
        (tmp_path / f"notebooks/{name}.html").write_text(PAGE, encoding="utf-8")
    return one_page.Book(tmp_path, ["notebooks/one", "notebooks/two"])


def test_links_lead_to_places_of_the_one_page(two_pages):
    """A link to another page, within a page, to what is left out, and away."""
    text = two_pages.joined()
    second = text[text.index('<section id="notebooks-two">') :]
    assert '<a href="#notebooks-one--two">there</a>' in second
    assert '<a href="#notebooks-two--two">here</a>' in second
    assert "<a>code</a>" in second and 'href="https://example.org/x.html#y"' in second
    assert 'src="_images/p.png"' in second and 'href="_static/a.css"' in text


def test_solutions_move_to_the_appendix(two_pages):
    """Each exercise leads to its solution and back; solutions stand below their chapter's name."""
    text = two_pages.joined()
    body, appendix = text.split('<section id="solutions">')
    assert "It is" not in body and "Solution</span>" not in text and "<pre>code" not in text
    assert re.findall(r'href="#solution-(\d+)"', body) == ["1", "2"]
    assert re.findall(r'href="#exercise-(\d+)"', appendix) == ["1", "2"]
    assert appendix.count("<h2>2. Two</h2>") == 2 and 'id="notebooks-two--it"' in appendix


def test_the_book_is_whole_on_one_page(built_book, root):
    """Every name is one place's, every link leads to one, and every solution is there."""
    order = one_page.reading_order(root)
    text = one_page.Book(built_book, order).joined()
    names = Counter(re.findall(r'\bid="([^"]*)"', text))
    assert [name for name, count in names.items() if count > 1] == []
    assert set(re.findall(r'href="#([^"]*)"', text)) <= set(names)
    pages = [(built_book / f"{page}.html").read_text("utf-8") for page in order]
    solutions = sum(page.count('<span class="sd-summary-text">Solution') for page in pages)
    assert solutions > 100 and text.count('id="solution-') == solutions
    assert text.count("<h1") == len(order) + 1


def test_a_chapter_is_printed_with_an_outline(built_book, root, tmp_path):
    """Chromium prints a joined page; a printed file is complete or not there."""
    page = built_book / "test.print.html"
    try:
        page.write_text(one_page.Book(built_book, ["notebooks/norms"]).joined(), "utf-8")
        path = browsers.find()
        assert path
        print_pdf.print_page(page, tmp_path / "norms.pdf", path)
    finally:
        page.unlink(missing_ok=True)
    printed = (tmp_path / "norms.pdf").read_bytes()
    assert printed.startswith(b"%PDF") and b"/Outlines" in printed
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type/Page\n") > 5
    assert [p.name for p in tmp_path.iterdir()] == ["norms.pdf"]


@pytest.mark.browser
def test_a_wide_formula_is_set_smaller_alone(tmp_path):
    """The text around it keeps its size, so that it takes as many pages as beside a narrow one."""
    path = browsers.find()
    assert path

    def pages(width: int) -> int:
        part = f'<span class="base" style="display: inline-block; width: {width}em">x</span>'
        formula = f'<p class="katex-display"><b class="katex"><b class="katex-html">{part}</b></b>'
        style = f"<style>{one_page.STYLE} b {{ display: block }}</style>"
        page, printed = tmp_path / "page.html", tmp_path / "page.pdf"
        page.write_text(f"<!doctype html>{style}{formula}{'<p>text' * 400}", "utf-8")
        print_pdf.print_page(page, printed, path)
        return len(re.findall(rb"/Type ?/Page\n", printed.read_bytes()))

    assert pages(80) == pages(8) > 5

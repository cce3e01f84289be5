"""The file that `make epub` writes: well formed, with every link and picture at its place."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pypandoc
import pytest

from attnverify.book.build import make_epub, one_page

XHTML = "{http://www.w3.org/1999/xhtml}"
CHAPTERS = ["notebooks/norms", "notebooks/path-theorem"]


def test_formulas_are_kept_once_and_places_by_name():
    """No layout of KaTeX; names of elements that pandoc does not name; one name for a place."""
    page = make_epub.for_readers(
        '<main><section id="one--a"><h1>A<a class="headerlink" href="#x">#</a></h1>'
        '<section id="two"><p id="p">x <span class="katex"><span class="katex-mathml"><math/>'
        '</span><span class="katex-html"><b>y</b></span></span></p></section></section>'
        '<figure id="fig"><img src="a.svg"></figure>'
        '<details open id="d"><summary>More</summary>words</details></main>'
    )
    assert "<h1" in page and 'id="one--a">A</h1>' in page and "<b>" not in page
    assert '<p><span id="p"></span>x ' in page and '<div id="fig"><figure>' in page
    assert "<p><strong>More</strong></p>words" in page and 'id="d"' in page
    assert not re.search("<(main|section|details|summary)", page)


def test_a_drawing_in_the_page_becomes_a_file(tmp_path):
    drawing = '<svg role="img" aria-label="A line" viewBox="0 0 1 1"><path d="M0 0"/></svg>'
    page = make_epub.drawings_apart(f"<p>{drawing}</p>", tmp_path)
    (file,) = tmp_path.iterdir()
    assert page == f'<p><img src="{file}" alt="A line"></p>' and file.read_text() == drawing


@pytest.fixture(scope="module")
def unpacked(built_book, tmp_path_factory) -> Path:
    """Two chapters of the book and the solutions, as an e-reader finds them."""
    folder = tmp_path_factory.mktemp("epub")
    page = one_page.Book(built_book, CHAPTERS).joined()
    target = folder / "book.epub"
    make_epub.write_epub(page, built_book, target, pypandoc.get_pandoc_path())
    assert [path.name for path in folder.iterdir()] == ["book.epub"]
    with zipfile.ZipFile(target) as packed:
        assert packed.namelist()[0] == "mimetype" and packed.testzip() is None
        packed.extractall(folder / "unpacked")
    return folder / "unpacked" / "EPUB"


def test_every_part_is_well_formed_and_every_link_leads_somewhere(unpacked):
    parts = {path: ElementTree.parse(path) for path in (unpacked / "text").glob("*.xhtml")}
    names = {
        path: [e.get("id") for e in tree.iter() if e.get("id")] for path, tree in parts.items()
    }
    assert len(parts) == len(CHAPTERS) + 2  # solutions and title
    for path, tree in parts.items():
        assert [name for name, count in Counter(names[path]).items() if count > 1] == []
        for picture in tree.iter(f"{XHTML}img"):
            assert (path.parent / picture.get("src", "")).is_file()
        for link in tree.iter(f"{XHTML}a"):
            file, _, name = (link.get("href") or "").partition("#")
            if re.match("[a-z]+:", file) or not link.get("href"):
                continue
            target = (path.parent / file).resolve() if file else path
            assert target in names and (not name or name in names[target]), link.get("href")


def test_chapters_and_formulas_are_all_there(unpacked, built_book):
    """As many formulas as the pages show, and the title of each chapter in the table."""
    text = "".join(path.read_text("utf-8") for path in (unpacked / "text").glob("*.xhtml"))
    page = one_page.Book(built_book, CHAPTERS).joined()
    assert text.count("<math") == page.count("<math") > 300
    assert "katex-html" not in text
    contents = (unpacked / "nav.xhtml").read_text("utf-8")
    assert "Sizes of matrices" in contents and "Solutions" in contents


def test_a_failed_conversion_leaves_the_former_file(tmp_path):
    target = tmp_path / "book.epub"
    target.write_text("former")
    with pytest.raises(make_epub.ConversionError, match="exit code"):
        make_epub.write_epub(
            '<p><img src="missing.png"></p>', tmp_path, target, pypandoc.get_pandoc_path()
        )
    assert target.read_text() == "former" and list(tmp_path.iterdir()) == [target]

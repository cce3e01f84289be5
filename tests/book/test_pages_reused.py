"""A build that reuses pages of the last one ends with the pages that a fresh one makes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import build_book
import evidence_files
from places import ROOT

FIRST = """# First

```{prf:theorem} Old
:label: old

$x^2$
```

```{claim} norms.submultiplicative
```

```{evidence} norms.submultiplicative
```
"""
SECOND = """# Second

By {prf:ref}`new` and {prf:ref}`old`; {claim}`norms.submultiplicative`, {cite}`dong2021`.

$$ y = x $$ (eq-y)

```{bibliography}
```
"""
DIGEST = re.compile(rb"\?v=[0-9a-f]{8}")
NEW = "```{prf:theorem} New\n:label: new\n\n$x^3$\n```\n\n"


@pytest.fixture
def two_pages(tmp_path, monkeypatch) -> Path:
    """A book of two pages, one with theorems and evidence, one that refers to them."""
    for name in ("_config.yml", "book/_static", "book/references.bib"):
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(exist_ok=True)
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, target)
    toc = "format: jb-book\nroot: pages/first\noptions: {numbered: true}\nchapters:\n"
    toc += "- file: pages/second\n"
    (tmp_path / "_toc.yml").write_text(toc)
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "second.md").write_text(SECOND)
    (tmp_path / "_build").mkdir()
    evidence_files.write(tmp_path / "_build" / "evidence.json")
    monkeypatch.setattr(build_book, "ROOT", tmp_path)
    return tmp_path


def pages_of(root: Path, first: str, fresh: bool) -> dict[str, bytes]:
    """The pages of the built book by name; not strict, as the rest of the book is missing.

    Without the digests of styles and scripts in a page's head: a file that is copied after pages
    are written has one only if an earlier build left it.
    """
    page = root / "pages" / "first.md"
    if not page.is_file() or page.read_text() != first:
        page.write_text(first)  # a page with a new time is read again
    folder = root / "_build" / "pages"
    with build_book.parsed_pages(folder, fresh):
        html = build_book.build_html(folder, folder / "executed", strict=False)
        files = {p.relative_to(html).as_posix(): p for p in html.glob("pages/*.html")}
        return {name: DIGEST.sub(b"", path.read_bytes()) for name, path in files.items()}


@pytest.mark.full
@pytest.mark.slow
def test_a_build_after_an_edit_equals_a_fresh_one(two_pages, monkeypatch, capfd):
    """Byte for byte: also the numbers on the page that was not edited, and new evidence."""
    monkeypatch.setenv(build_book.STORE, str(two_pages / "store"))
    pages_of(two_pages, FIRST, fresh=True)
    capfd.readouterr()
    after = pages_of(two_pages, FIRST.replace("# First\n", f"# First\n\n{NEW}"), fresh=False)
    log = capfd.readouterr().out
    assert "1 changed" in log, log
    evidence_files.write(
        two_pages / "_build" / "evidence.json", {"norms.submultiplicative": "fail"}
    )
    failed = pages_of(two_pages, (two_pages / "pages" / "first.md").read_text(), fresh=False)
    assert b"failed" in failed["pages/first.html"] and b"failed" not in after["pages/first.html"]
    monkeypatch.setenv(build_book.STORE, "none")
    again = pages_of(two_pages, (two_pages / "pages" / "first.md").read_text(), fresh=True)
    assert failed == again
    assert (
        b"Theorem 1.2" in again["pages/second.html"] or b"Theorem 2" in again["pages/second.html"]
    )


WORDS = FIRST.replace("# First\n", "# First\n\nMore words.\n")
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'


@pytest.mark.full
@pytest.mark.slow
def test_only_what_can_have_changed_is_written_again(two_pages, monkeypatch):
    """One page after an edit of its words; all after one of its title."""
    monkeypatch.setenv(build_book.STORE, str(two_pages / "store"))
    (two_pages / "pages" / "dot.svg").write_text(PICTURE)
    second = two_pages / "_build/pages/_build/html/pages/second.html"
    pages_of(two_pages, FIRST + "\n![A dot](dot.svg)\n", fresh=True)
    before = second.stat().st_mtime_ns
    edited = pages_of(two_pages, WORDS, fresh=False)
    assert second.stat().st_mtime_ns == before and b"More words" in edited["pages/first.html"]
    pages_of(two_pages, WORDS.replace("# First", "# One"), fresh=False)
    assert second.stat().st_mtime_ns > before and ">One<" in "".join(second.read_text().split())
    before = second.stat().st_mtime_ns
    (two_pages / "book/_static/book.css").write_text("p {color: red}")
    pages_of(two_pages, WORDS, fresh=False)
    assert second.stat().st_mtime_ns > before  # the digest of the style is in its head
    shutil.copy(ROOT / "book/_static/book.css", two_pages / "book/_static/book.css")
    back = pages_of(two_pages, WORDS, fresh=False)
    monkeypatch.setenv(build_book.STORE, "none")
    again = pages_of(two_pages, WORDS, fresh=True)
    assert edited == back == again


TAKES_IN = "# First\n\n```{include} ../part.inc\n```\n\n```{literalinclude} ../code.py\n```\n"


@pytest.mark.full
@pytest.mark.slow
def test_a_page_is_read_again_if_what_it_takes_in_changed(two_pages, monkeypatch):
    """Also if it is the status of a claim that only this names."""
    monkeypatch.setenv(build_book.STORE, str(two_pages / "store"))
    (two_pages / "part.inc").write_text("It is {status}`norms.diameter`.\n")
    (two_pages / "code.py").write_text("old = 1\n")
    first = pages_of(two_pages, TAKES_IN, fresh=True)["pages/first.html"]
    assert b"old" in first and b"verified" in first
    (two_pages / "code.py").write_text("new = 1\n")
    assert b"new" in pages_of(two_pages, TAKES_IN, fresh=False)["pages/first.html"]
    evidence_files.write(two_pages / "_build" / "evidence.json", {"norms.diameter": "fail"})
    assert b"failed" in pages_of(two_pages, TAKES_IN, fresh=False)["pages/first.html"]


@pytest.mark.full
@pytest.mark.slow
def test_what_moves_to_an_earlier_page_is_not_there_twice(two_pages, monkeypatch, capfd):
    monkeypatch.setenv(build_book.STORE, str(two_pages / "store"))
    second = two_pages / "pages" / "second.md"
    second.write_text(SECOND + "\n" + NEW)
    pages_of(two_pages, FIRST, fresh=True)
    second.write_text(SECOND)
    capfd.readouterr()
    moved = pages_of(two_pages, FIRST + "\n" + NEW, fresh=False)
    said = "".join(capfd.readouterr())
    assert "2 changed" in said and "uplicate" not in said
    assert (
        b'id="new"' in moved["pages/first.html"] and b'id="new"' not in moved["pages/second.html"]
    )

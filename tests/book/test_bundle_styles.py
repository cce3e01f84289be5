"""One style sheet a page, with every rule and every file that it had; no script waited for."""

import re
from pathlib import Path

import pytest

from attnverify.book.html import bundle_styles

HEAD = """<html><head><link href="{up}_static/styles/theme.css?digest=1" rel="stylesheet" />
<link rel="icon" href="{up}_static/favicon.svg"/>
    <link rel="stylesheet" type="text/css" href="{up}_static/own.css" />
<script src="{up}_static/documentation_options.js?v=1"></script>
<script src="{up}_static/a.js"></script>
<script defer="defer" src="{up}_static/b.js"></script>
<script>DOCUMENTATION_OPTIONS.pagename = 'x';</script></head></html>
"""
FILES = {
    "_static/styles/theme.css": '@charset "UTF-8";@import "../basic.css";\n.theme{color:red}',
    "_static/basic.css": ".basic{background:url(file.png)}",
    "_static/own.css": ".own{src:url('fonts/a.woff');mask:url(\"data:image/svg+xml,%3Csvg\")}",
    "_static/documentation_options.js": "const DOCUMENTATION_OPTIONS = {};",
    "index.html": HEAD.format(up=""),
    "notebooks/one.html": HEAD.format(up="../"),
    "search.html": HEAD.format(up=""),
    "moved.html": "<html><head><title>moved</title></head></html>",
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    bundle_styles.bundle(tmp_path)
    return tmp_path


def test_the_rules_are_in_one_sheet_in_their_order(site):
    (sheet,) = (site / "_static").rglob("styles-*.css")
    text = sheet.read_text(encoding="utf-8")
    assert text.startswith('@charset "UTF-8";') and text.count("@") == 1
    places = [text.index(rule) for rule in (".basic{", ".theme{", ".own{")]
    assert places == sorted(places)
    for page, up in (("index.html", ""), ("notebooks/one.html", "../")):
        links = bundle_styles.sheets((site / page).read_text(encoding="utf-8"))
        assert links == [f"{up}_static/{sheet.name}"]
    assert 'rel="icon"' in (site / "index.html").read_text(encoding="utf-8")


def test_what_a_sheet_names_is_found_from_the_new_one(site):
    (sheet,) = (site / "_static").rglob("styles-*.css")
    text = sheet.read_text(encoding="utf-8")
    assert 'url("file.png")' in text and 'url("fonts/a.woff")' in text
    assert 'url("data:image/svg+xml,%3Csvg")' in text
    assert not (site / "_static" / "own.css").exists()


def test_an_article_with_formulas_waits_for_their_letters_behind_the_sheet():
    page = '<link rel="stylesheet" href="a.css">\n<span class="katex">'
    text = bundle_styles.with_one_sheet(page, "b.css")
    assert text.index("b.css") < text.index("KaTeX_Main") < text.index("<span")
    assert "KaTeX" not in bundle_styles.with_one_sheet(page.replace("katex", "words"), "b.css")


def test_no_script_is_waited_for_but_those_of_the_search(site):
    page = (site / "notebooks" / "one.html").read_text(encoding="utf-8")
    assert not bundle_styles.WAITED_FOR.search(page)
    scripts = re.findall(r"<script[^>]*>([^<]*)", page)
    assert scripts[:2] == ["const DOCUMENTATION_OPTIONS = {};", ""]  # before it is asked for
    assert page.count("defer") == 3
    assert '<script src="_static/a.js">' in (site / "search.html").read_text(encoding="utf-8")
    assert (site / "moved.html").read_text(encoding="utf-8") == FILES["moved.html"]


def test_an_import_that_is_not_understood_is_an_error(tmp_path):
    (tmp_path / "a.css").write_text("@import url(b.css);")
    with pytest.raises(ValueError, match="@import"):
        bundle_styles.sheet(tmp_path, "a.css")


def test_every_file_that_the_books_sheet_names_is_there(built_book):
    named = 0
    for sheet in (built_book / "_static").glob("styles-*.css"):
        for address in bundle_styles.URL.findall(sheet.read_text(encoding="utf-8")):
            if ":" not in address and not address.startswith(("#", "/")):
                assert (sheet.parent / address.split("?")[0].split("#")[0]).is_file(), address
                named += 1
    assert named > 20  # KaTeX's fonts at least


def test_every_page_of_the_book_has_one_sheet(built_book):
    pages = {page: bundle_styles.sheets(page.read_text("utf-8")) for page in own_pages(built_book)}
    assert {len(sheets) for sheets in pages.values()} <= {0, 1}
    assert len({sheet.rsplit("/", 1)[-1] for found in pages.values() for sheet in found}) == 1


def own_pages(root: Path) -> list[Path]:
    """Pages but the theme's templates."""
    return [page for page in root.rglob("*.html") if not page.is_relative_to(root / "_static")]


def test_the_theme_is_known_before_anything_is_drawn(built_book):
    """Without one, borders have no color and no width, until the theme's script has run."""
    head = (built_book / "book" / "inspect.html").read_text("utf-8").split("</head>")[0]
    assert "matchMedia(dark)" in head

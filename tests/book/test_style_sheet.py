"""One style sheet for all pages: every rule that may apply stays, in its order."""

from attnverify.book.html import style_sheet
from attnverify.book.html.finish_pages import NO_ICON, finished

BASE = '@charset "UTF-8";\n.imported { color: red }'
FIRST = """@charset "UTF-8";
/* a comment */
@import "../base.css";
.used { background: url(picture.svg) }
.unused { color: blue }
.unused, p.used > a { color: green }
p:not(.unused) { margin: 0 }
.unused:hover { margin: 1px }
#place { padding: 0 }
#nowhere { padding: 1px }
@media print { .unused { color: black } }
@media (min-width: 10px) { .unused { color: black } .byscript { color: white } }
@font-face { font-family: F; src: url("data:font/woff2;base64,AA") }
"""
SECOND = ".used { color: last }"
PAGE = """<html><head>
<link rel="stylesheet" type="text/css" href="../_static/styles/first.css?digest=1" />
<link href="../_static/second.css" rel="stylesheet" />
<link rel="icon" href="../_static/icon.svg" />
</head><body><p class="used imported" id="place">text</p><script>x.className = "byscript"</script>
</body></html>"""


def built(tmp_path):
    """The page with one style sheet, and that sheet."""
    home = tmp_path / "_static"
    (home / "styles").mkdir(parents=True)
    (tmp_path / "book").mkdir()
    files = {"base.css": BASE, "styles/first.css": FIRST, "second.css": SECOND}
    for name, text in files.items():
        (home / name).write_text(text)
    used = style_sheet.used_names([PAGE], [])
    page = style_sheet.with_one_sheet(PAGE, tmp_path / "book", home, used)
    (sheet,) = home.glob("book-*.css")
    return page, sheet


def test_a_page_links_one_sheet_and_keeps_its_other_links(tmp_path):
    page, sheet = built(tmp_path)
    assert page.count('rel="stylesheet"') == 1 and 'rel="icon"' in page
    assert f'href="../_static/{sheet.name}"' in page.partition("</head>")[0]
    assert page.partition("</head>")[2] == PAGE.partition("</head>")[2]


def test_what_may_apply_stays_and_nothing_else(tmp_path):
    text = built(tmp_path)[1].read_text()
    assert text.startswith('@charset "UTF-8";') and text.count("@charset") == 1
    for kept in (".imported", "p.used > a", "p:not(.unused)", "#place", ".byscript", "@font-face"):
        assert kept in text, kept
    for gone in ("comment", "blue", "#nowhere", "1px", "print", "black", "@import"):
        assert gone not in text, gone
    assert text.index(".imported") < text.index("p:not") < text.index("last")


def test_files_are_named_from_where_the_sheet_lies(tmp_path):
    text = built(tmp_path)[1].read_text()
    assert "url(styles/picture.svg)" in text and "data:font/woff2" in text


def test_equal_contents_have_one_name(tmp_path):
    names = {built(tmp_path / name)[1].name for name in ("a", "b")}
    assert len(names) == 1


def test_no_page_makes_a_browser_ask_for_an_icon(tmp_path):
    """A redirect, which has no head, and a page without an icon get an empty one."""
    texts = {"redirect": "<meta>\n", "none": "<head></head><p>", "own": PAGE}
    for name, text in texts.items():
        (tmp_path / f"{name}.html").write_text(text)
    redirect, none, own = (finished(tmp_path / f"{name}.html") for name in texts)
    assert redirect == NO_ICON + texts["redirect"] and NO_ICON not in own
    assert NO_ICON in none.partition("</head>")[0]

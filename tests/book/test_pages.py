"""The built book as a reader gets it: offline, described, legible, light."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup

import build_book
from attnverify.book.sphinx.build_hooks import COLAB_BRANCH
from attnverify.chapters import registry
from pagechecks import (
    TEMPLATES,
    bad_alt,
    broken_links,
    docnames,
    math_errors,
    remote_css,
    remote_resources,
    soup,
    undescribed_images,
)
from places import ROOT
from tiers import in_tiers
from visits import (
    DESK,
    FAINT,
    MOST_MOVED,
    MOVED,
    OPEN_ALL,
    PHONE,
    SMALLEST_CONTRAST,
    STICKING_OUT,
    serve,
    visiting,
)

# The first of these tests may have to build the book.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(3000)]

LANDING_LIMIT = 600_000


#: Display formulas whose left end cannot be seen or scrolled to.
CUT_OFF = """() => [...document.querySelectorAll("article .katex-display .katex-html")]
  .filter((box) => [...box.querySelectorAll(".base")].some((base) =>
    base.getBoundingClientRect().left + box.scrollLeft < box.getBoundingClientRect().left - 2))
  .map((box) => box.textContent.slice(0, 60))"""

#: Tables of at most four columns of which a part is beyond the edge of their box.
HIDING = """() => [...document.querySelectorAll("article table")].filter((table) => {
    const box = table.closest(".attnverify-scroll, .pst-scrollable-table-container") || table;
    const small = [...table.rows].every((row) => row.cells.length < 5);
    return small && box.scrollWidth > box.clientWidth;
  }).map((table) => table.textContent.trim().slice(0, 60))"""

LOADED_FONTS = "[...document.fonts].filter(f => f.status == 'loaded').map(f => f.family)"


@pytest.mark.parametrize("name", in_tiers(docnames(), TEMPLATES))
def test_page_on_a_phone(browser, site, name):
    """No foreign request, no script error, no sideways scroll, legible, in either theme."""
    with visiting(browser, site, PHONE) as visit:
        page = visit.open(f"{name}.html").page
        page.evaluate(OPEN_ALL)  # what is folded is read, too
        assert page.evaluate(HIDING) == []
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.wait_for_function(f"document.documentElement.dataset.theme === {theme!r}")
            assert page.evaluate(STICKING_OUT) == []
            assert page.evaluate(CUT_OFF) == []
            assert page.evaluate(FAINT, SMALLEST_CONTRAST) == []
        assert visit.foreign == []
        assert visit.errors == []


#: Three chapters, one with the most formulas; tables longer than the screen; code at the top.
MOVING = [
    *(f"notebooks/{name}" for name in ("norms", "localization", "collapse-width")),
    *("book/formal", "book/generated/status", "book/inspect"),
]


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("name", MOVING)
def test_nothing_moves(browser, site, name, size):
    """What is read keeps its place when borders, letters and what is beside or below it come."""
    with visiting(browser, site, size) as visit:
        assert visit.open(f"{name}.html").page.evaluate(MOVED) <= MOST_MOVED


def test_what_moves_is_seen(browser, site):
    with visiting(browser, site) as visit:
        page = visit.open("book/index.html").page
        page.evaluate("scrollTo(0, 0)")
        page.evaluate("document.querySelector('main').prepend(document.createElement('hr'))")
        page.evaluate("document.querySelector('main hr').style.height = '300px'")
        page.wait_for_timeout(100)
        assert page.evaluate(MOVED) > MOST_MOVED


def test_landing_page_is_light(browser, site, built_book):
    """Everything that the first page loads, and the redirect to it, fits the limit, compressed."""
    with visiting(browser, site) as visit:
        visit.page.goto(f"{site}/index.html")
        visit.page.wait_for_url(f"{site}/book/index.html")
    with visiting(browser, site) as visit:
        sizes = visit.open("book/index.html").compressed()
    sizes["/index.html"] = (built_book / "index.html").stat().st_size
    print(f"landing page: {sum(sizes.values())} bytes in {len(sizes)} files")
    assert sum(sizes.values()) < LANDING_LIMIT, sorted(sizes.items(), key=lambda s: -s[1])[:8]


def test_icons_and_search_work(browser, site):
    """The finished book still shows its icons and still finds a word."""
    with visiting(browser, site) as visit:
        page = visit.open("book/index.html").page
        loaded = page.evaluate(LOADED_FONTS)
        assert any("Font Awesome" in family for family in loaded), loaded
        visit.open("search.html?q=attention")
        page.wait_for_selector("#search-results li a", timeout=20_000)
        assert visit.foreign == [] and visit.errors == []


def offences(root: Path, check) -> dict[str, list[str]]:
    """What the check finds, page by page; pages without an offence are left out."""
    found = {str(p.relative_to(root)): check(soup(p)) for p in sorted(root.rglob("*.html"))}
    return {name: bad for name, bad in found.items() if bad}


@pytest.mark.full
def test_every_figure_is_described(built_book):
    """Every picture has alt text that says what it shows."""
    assert offences(built_book, undescribed_images) == {}


def test_math_is_rendered(built_book):
    """No formula is in error and none is left to a script."""
    assert offences(built_book, math_errors) == {}


def test_no_file_of_another_host(built_book):
    """No page and no style sheet names a resource of another host."""
    found = offences(built_book, remote_resources)
    for sheet in built_book.rglob("*.css"):
        if bad := remote_css(sheet.read_text(encoding="utf-8")):
            found[sheet.name] = bad
    assert found == {}


def test_links_inside_the_book_exist(built_book):
    """Every link between pages reaches a page and an anchor that exist."""
    assert broken_links(built_book) == []


#: One of what the book counts, in the plural; "n - 1 tokens" are as many as n says.
ONE_OF_MANY = re.compile(
    r"(?<![\w.,·−^/-])(?<![-−+] )(?<!of )1 (?:layer|token|head|step|claim|text|network|seed|case|"
    r"instance|pair|row|column|check|twin|paper|word|line|path|run|model|input)s\b"
)


def test_one_of_a_kind_is_in_the_singular(built_book):
    assert offences(built_book, lambda page: ONE_OF_MANY.findall(page.get_text(" "))) == {}
    assert ONE_OF_MANY.findall("after 1 layers, 11 layers, n - 1 tokens, 1 token") == ["1 layers"]


@pytest.mark.parametrize("name", docnames())
def test_every_page_has_its_notebook(built_book, name):
    """Each page links its .ipynb, which is a valid notebook without outputs."""
    page = soup(built_book / f"{name}.html")
    links = [a["href"] for a in page.find_all("a", href=True) if a["href"].endswith(".ipynb")]
    downloads = [built_book / f"{name}.html" / ".." / link for link in links]
    assert downloads, f"{name} has no .ipynb link"
    notebook = nbformat.read(downloads[0].resolve(), as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)


def launch_paths(html: Path, address: str) -> dict[str, list[str]]:
    """The path that each Colab link opens on its branch, and each Binder link in the tree."""
    owner = address.removeprefix("https://github.com/")
    patterns = {
        "colab": rf"https://colab\.[^\s\"]*/github/{owner}/blob/{COLAB_BRANCH}/([^\"]+)",
        "binder": rf"https://mybinder\.[^\s\"]*/v2/gh/{owner}/main\?urlpath=lab/tree/([^\"]+)",
    }
    texts = [page.read_text(encoding="utf-8") for page in sorted(html.rglob("*.html"))]
    return {
        name: [path for text in texts for path in re.findall(pattern, text)]
        for name, pattern in patterns.items()
    }


ADDRESS = "https://github.com/example/example"
PUBLISHED = "https://example.invalid/book"


@pytest.fixture(scope="module")
def published(built_book, tmp_path_factory) -> Path:
    """Pages of a small book that knows its repository and where it will be published."""
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build_book.URL_VARIABLE, ADDRESS)
        patch.setenv(build_book.ADDRESS_VARIABLE, PUBLISHED)
        patch.delenv(build_book.REF_VARIABLE, raising=False)
        written = build_book.build_config(folder, folder / "executed")
    config = yaml.safe_load(written.read_text(encoding="utf-8"))
    config["execute"]["execute_notebooks"] = "off"  # the pages themselves are built elsewhere
    quick, toc = folder / "quick.yml", folder / "toc.yml"
    quick.write_text(yaml.safe_dump(config), encoding="utf-8")
    contents = {"format": "jb-book", "root": "book/index"}
    contents["chapters"] = [{"file": name} for name in (*FEW, "book/status")]
    toc.write_text(yaml.safe_dump(contents), encoding="utf-8")
    code = "from jupyter_book.cli.main import main; main()"
    options = ["--path-output", folder, "--config", quick, "--toc", toc]
    done = subprocess.run(
        [sys.executable, "-c", code, "build", ROOT, *options],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return folder / "_build" / "html"


def test_a_published_book_links_to_itself_as_one_file(published, built_book):
    """Where the workflow puts it; a book built at home says how to make it."""
    file = f"{build_book.ONE_FILE}.pdf"
    page = soup(published / "book" / "index.html")
    links = {link.get("href") for link in page.find_all("a")}
    assert f"{PUBLISHED}/{file}" in links
    workflow = (ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8")
    assert f"cp _build/{file} _build/html/" in workflow
    at_home = soup(built_book / "book" / "index.html").get_text()
    assert "make pdf prints" in " ".join(at_home.split())


FEW = sorted({f"notebooks/{claim.notebook}" for claim in registry.values()})[:2]


def test_launch_links_open_files_that_exist(published):
    """With the address set, each notebook page gets two buttons.

    Binder's opens a file of the tree; Colab's one of those that are pushed to its branch.
    """
    paths = launch_paths(published, ADDRESS)
    assert sorted(paths["colab"]) == sorted(f"{name}.ipynb" for name in FEW)
    assert sorted(paths["binder"]) == sorted(f"{name}.md" for name in FEW)
    assert [path for path in paths["binder"] if not (ROOT / path).is_file()] == []
    for path in paths["colab"]:
        notebook = nbformat.read(published / "_sources" / path, as_version=4)
        assert [cell["id"] for cell in notebook.cells][:2] == ["cell-0", "cell-1"]
        assert "*A chapter of" in notebook.cells[0].source


def head_of(path: Path) -> dict[str, str]:
    """What the head of a page says, by name: descriptions, addresses."""
    head = path.read_text(encoding="utf-8").partition("</head>")[0]
    page = BeautifulSoup(head, "html.parser")
    tags = {m.get("name") or m.get("property"): m.get("content") for m in page.find_all("meta")}
    return tags | {" ".join(link["rel"]): link["href"] for link in page.head.find_all("link")}


def test_pages_name_their_address_where_the_book_knows_it(published):
    """Canonical links, Open Graph, permanent addresses of claims."""
    for name in FEW:
        head = head_of(published / f"{name}.html")
        assert head["canonical"] == head["og:url"] == f"{PUBLISHED}/{name}.html"
    claim = next(c for c in registry.values() if f"notebooks/{c.notebook}" == FEW[0])
    head = head_of(published / "claims" / f"{claim.id}.html")
    assert head["canonical"] == f"{PUBLISHED}/{FEW[0]}.html"
    text = (published / f"{FEW[0]}.html").read_text(encoding="utf-8")
    assert f"{PUBLISHED}/claims/{claim.id}.html" in text


def test_descriptions_without_an_address(built_book):
    """Each page says what it is about; a book that knows no address names none."""
    if os.environ.get(build_book.ADDRESS_VARIABLE):
        pytest.fail(f"unset {build_book.ADDRESS_VARIABLE} to test the local build")
    heads = {name: head_of(built_book / f"{name}.html") for name in docnames()}
    for name, head in heads.items():
        assert 50 <= len(head["description"]) <= 160, name
        assert head["og:description"] == head["description"] and head["og:title"], name
        assert not {"canonical", "og:url"} & set(head), name
    assert len({head["description"] for head in heads.values()}) == len(heads)


def test_no_launch_buttons_without_an_address(built_book):
    """A local build offers downloads only, and names no repository."""
    if os.environ.get(build_book.URL_VARIABLE):
        pytest.fail(f"unset {build_book.URL_VARIABLE} to test the local build")
    text = (built_book / "notebooks" / "attention.html").read_text(encoding="utf-8")
    assert "colab" not in text and "mybinder" not in text


BAD_PAGE = """<!doctype html><html data-theme="light"><head>
<link rel="stylesheet" href="https://host.invalid/a.css">
<style>@import "//host.invalid/b.css";</style></head>
<body><article><img src="x.png" alt="x.png"><svg><path/></svg><span class="math">\\(a\\)</span>
<ul><li>\\phi$</li></ul>
<p style="color: #ccc; background: #fff">faint</p><a href="gone.html">gone</a>
<div class="attnverify-scroll" style="overflow-x: auto"><table style="width: 900px"><tr><td>1</td>
</tr></table></div><div class="katex-display" dir="rtl"><div class="katex-html"
style="overflow-x: auto"><span class="base" style="display: block; width: 2000px">x</span>
</div></div>
<a href="#nowhere">nowhere</a><div style="width: 900px">wide</div>
<script src="//host.invalid/a.js"></script><script>missing()</script></article></body></html>"""


def test_the_checks_can_fail(browser, tmp_path):
    """Each check of this file reports a page that breaks its rule."""
    (tmp_path / "bad.html").write_text(BAD_PAGE)
    page = soup(tmp_path / "bad.html")
    assert len(remote_resources(page)) == 3
    assert len(undescribed_images(page)) == 2
    assert len(math_errors(page)) == 3
    assert len(broken_links(tmp_path)) == 2
    assert remote_css("a{b:url('https://host.invalid/f.woff2')}")
    with serve(tmp_path) as address, visiting(browser, address, PHONE) as visit:
        opened = visit.open("bad.html").page
        assert len(visit.foreign) == 3
        assert any("missing" in error for error in visit.errors)
        assert len(opened.evaluate(STICKING_OUT)) == 2
        assert len(opened.evaluate(CUT_OFF)) == len(opened.evaluate(HIDING)) == 1
        assert len(opened.evaluate(FAINT, SMALLEST_CONTRAST)) == 1


POOR = [None, "", "figure", "_images/0a1b2c.png", "/a/path/with/no/spaces"]


@pytest.mark.parametrize("alt", POOR)
def test_poor_alt_texts(alt):
    """A missing, short or path-like text does not pass for a description."""
    assert bad_alt(alt)
    assert not bad_alt("Ratio of both sides against depth; it falls from 1 to 0.2.")

"""What a reader does with the built book: rests on a link, searches, cites."""

from __future__ import annotations

import pytest

from attnverify.book.pages.common import anchor
from attnverify.book.sphinx.extension import STATIC
from attnverify.book.sphinx.finding import TOPICS
from attnverify.topics import registry
from pagechecks import soup
from visits import FAINT, PHONE, SMALLEST_CONTRAST, visiting

pytestmark = [pytest.mark.browser, pytest.mark.timeout(3000)]
PREVIEW = ".attnverify-preview"


LINKS = {
    "claim": ("notebooks/softmax", "attention.html#claim-attention-shift-invariance", "constant"),
    "citation": ("notebooks/softmax", "../book/bibliography.html#id", "rank doubly expon"),
    "equation": ("notebooks/softmax", "#equation-eq-softmax-ratio", ""),
    "entry": (
        "book/generated/code",
        "../api/collapse.html#attnverify.mathematics",
        "attnverify.mathematics",
    ),
}


@pytest.mark.parametrize("kind", LINKS)
def test_a_link_shows_what_it_leads_to(browser, site, kind):
    """On hover, from files of the book alone; Escape closes it and the link keeps its title."""
    name, href, words = LINKS[kind]
    with visiting(browser, site) as visit:
        page = visit.open(f"{name}.html").page
        link = page.locator(f'article a[href^="{href}"]').locator("visible=true").first
        link.scroll_into_view_if_needed()
        before = link.get_attribute("title")
        link.hover()
        page.wait_for_selector(PREVIEW)
        box = page.locator(PREVIEW)
        assert words in box.inner_text()
        assert box.locator("[id], a, [tabindex], .katex-mathml").count() == 0
        inside = box.bounding_box()
        assert inside["x"] >= 0 and inside["x"] + inside["width"] <= 1280
        page.keyboard.press("Escape")
        assert page.locator(PREVIEW).count() == 0 and link.get_attribute("title") == before
        assert visit.foreign == [] and visit.errors == []


def test_a_preview_works_from_a_file_and_by_keyboard(browser, built_book):
    """A page opened without a server, a link reached with the tabulator key."""
    with visiting(browser, built_book.as_uri()) as visit:
        page = visit.page
        page.goto((built_book / "notebooks" / "softmax.html").as_uri())
        links = page.locator('article p a[href^="attention.html#claim-"]')
        link = links.locator("visible=true").first
        link.evaluate("(a) => a.focus({focusVisible: true})")
        page.wait_for_selector(PREVIEW)
        assert "logits" in page.locator(PREVIEW).inner_text()
        page.keyboard.press("Tab")
        page.wait_for_selector(PREVIEW, state="detached")


def test_no_preview_where_there_is_no_pointer(browser, site):
    """A tap follows the link; a preview would be in the way."""
    with visiting(browser, site, PHONE) as visit:
        page = visit.open("notebooks/softmax.html").page
        link = page.locator('article p a[href^="attention.html#claim-"]').first
        link.dispatch_event("pointerover", {"pointerType": "touch", "bubbles": True})
        page.wait_for_timeout(500)
        assert page.locator(PREVIEW).count() == 0


def test_what_scrolls_can_be_reached_with_the_keyboard(browser, site):
    """A wide table is a stop where it scrolls, on a narrow screen, and none where it fits."""
    with visiting(browser, site, (200, 800)) as visit:
        page = visit.open("book/notation.html").page
        page.wait_for_function("document.querySelector('article table').tabIndex === 0")
        page.set_viewport_size({"width": 1600, "height": 900})
        page.wait_for_function("!document.querySelector('article table[tabindex]')")


#: Boxes of code that scroll, and how many of them are no stop.
NO_STOPS = """() => {
  const wide = [...document.querySelectorAll("article pre")]
    .filter((e) => e.scrollWidth > e.clientWidth + 1);
  return [wide.length, wide.filter((e) => e.tabIndex !== 0 && !e.querySelector("a")).length];
}"""


def test_every_box_that_scrolls_is_a_stop_for_whoever_presses_a_key(browser, site):
    """Those far below are not measured while a chapter loads; a key does not wait for them."""
    with visiting(browser, site, PHONE) as visit:
        page = visit.page
        page.goto(f"{site}/notebooks/collapse-width.html", wait_until="load")
        page.keyboard.press("Tab")
        page.wait_for_function("document.documentElement.dataset.scrollers === 'seen'")
        wide, missed = page.evaluate(NO_STOPS)
        assert wide > 10 and missed == 0


def found(page, site: str, query: str) -> list[tuple[str, str]]:
    """(address, excerpt) of the results of a search, in their order."""
    page.goto(f"{site}/search.html")
    page.goto(f"{site}/search.html?q={query.replace(' ', '+')}")
    page.wait_for_function("document.querySelector('.search-summary')?.innerText.includes('found')")
    page.wait_for_load_state("networkidle")
    items = page.locator("#search-results ul.search > li").all()
    return [(i.locator("a").get_attribute("href"), i.inner_text()) for i in items]


def place(id: str) -> str:
    return f"notebooks/{registry[id].notebook}.html#{anchor(id)}"


@pytest.mark.parametrize(
    ("query", "id"),
    [
        ("softmax.total-variation", "softmax.total-variation"),
        ("total-variation", "softmax.total-variation"),
        ("sharp bound in total variation", "softmax.total-variation"),
        ("one head without gamma", "collapse.single-head-without-gamma"),
        ("tanh osc", "softmax.total-variation"),
    ],
)
def test_search_finds_a_claim_first(browser, site, query, id):
    """By id, by a part of it, by title, by words of its formula."""
    with visiting(browser, site) as visit:
        results = found(visit.page, site, query)
        assert results[0][0] == place(id), [address for address, _ in results[:3]]
        assert visit.foreign == [] and visit.errors == []


@pytest.mark.parametrize("query", ["rank collapse", "oversmoothing", "attention sink", "RoPE"])
def test_search_finds_the_chapter_on_a_subject_first(browser, site, query):
    """Its excerpt is prose; of pages further down none is loaded; found words are legible."""
    with visiting(browser, site, theme="dark") as visit:
        (address, excerpt), *_ = found(visit.page, site, query)
        chapter = TOPICS[query.lower()][0]
        assert address == f"notebooks/{chapter}.html"
        assert ".ipynb" not in excerpt and "The computation" not in excerpt
        faint = FAINT.replace("article *", "#search-results *")
        assert visit.page.evaluate(faint, SMALLEST_CONTRAST) == []
        pages = [r for r in visit.responses if "/notebooks/" in r.url or "/book/" in r.url]
        assert len(pages) <= 6 and visit.errors == []


def test_search_finds_a_claim_by_its_number(browser, site, built_book):
    title = soup(built_book / "notebooks" / "softmax.html").select_one(
        ".attnverify-claim .caption-number"
    )
    with visiting(browser, site) as visit:
        results = found(visit.page, site, title.get_text().strip())
        assert results[0][0] == place("softmax.perturbation")


def test_a_word_of_prose_still_finds_pages_first(browser, site):
    """ "notation" stands in no formula and no title of a claim: its page is first."""
    with visiting(browser, site) as visit:
        assert found(visit.page, site, "notation")[0][0].startswith("book/notation.html")


def test_excerpts_show_a_formula_once(browser, site):
    """Neither its TeX nor its layout again after its text; fractions and powers can be told."""
    with visiting(browser, site) as visit:
        results = found(visit.page, site, "softmax.total-variation")
        excerpt = results[0][1]
        assert "\\operatorname" not in excerpt and "\\" not in excerpt
        page = visit.page
        text = page.evaluate(
            "fetch('notebooks/softmax.html').then((r) => r.text()).then((t) =>"
            " Search.htmlToText(t, '#claim-softmax-total-variation'))"
        )
        assert text.count("tanh") == registry["softmax.total-variation"].statement.count("tanh")
        assert "Cite this" not in text and "@incollection" not in text


#: MathML as KaTeX writes it, and what an excerpt of the search shows of it.
MATH = {
    "<msqrt><mi>d</mi></msqrt>": "√d",
    "<mfrac><mn>1</mn><msqrt><mrow><mn>2</mn><mi>R</mi></mrow></msqrt></mfrac>": "1/√(2R)",
    "<mfrac><mi>x</mi><mrow><msqrt><mi>d</mi></msqrt><mo>+</mo><mn>1</mn></mrow></mfrac>": (
        "x/(√d+1)"
    ),
    "<mroot><mi>n</mi><mn>4</mn></mroot>": "[4]√n",
    "<msup><mi>d</mi><mrow><mn>1</mn><mi>/</mi><mn>4</mn></mrow></msup>": "d^(1/4)",
    "<msub><mi>W</mi><mrow><mi>Q</mi><mi>K</mi></mrow></msub>": "W_QK",
    "<msubsup><mi>x</mi><mi>i</mi><mo>⊤</mo></msubsup>": "x_i^⊤",
    "<munderover><mo>∑</mo><mrow><mi>h</mi><mo>=</mo><mn>1</mn></mrow><mi>H</mi></munderover>": (
        "∑_(h=1)^H"
    ),
}


#: What Sphinx finds of a word, the best last: an entry of the reference, a page of it, a chapter.
THEIRS = """var attnverifyClaims = [], Scorer = {};
var attnverifyTopics = {"attention sink": [["notebooks/b", "B"], ["notebooks/a", "A"]]};
var Search = {_performSearch: () => [
    ["notebooks/a", "A", "", null, 15, ""], ["notebooks/c", "C", "", null, 5, ""],
    ["book/api/d", "D", "", null, 15, ""], ["book/api/d", "d.e", "#d.e", "function", 11, ""],
  ].map((item) => [...item.slice(0, 4), Scorer.score(item), ""]).sort((x, y) => x[4] - y[4])};"""


def script_alone(browser):
    """The script without a book, as it is loaded on the search page."""
    page = browser.new_page()
    page.add_script_tag(content=THEIRS)
    page.add_script_tag(content=(STATIC / "search.js").read_text(encoding="utf-8"))
    return page


@pytest.mark.parametrize(
    ("query", "order"),
    [("Attention sink ", "B A C D d.e"), ("tokens", "A C D d.e"), ("d.e", "D A d.e C")],
)
def test_chapters_on_a_subject_come_first_and_the_package_last(browser, query, order):
    """By the name that the literature has for it; who types a dot asks for the package."""
    page = script_alone(browser)
    found = page.evaluate("(query) => Search._performSearch(query).reverse()", query)
    assert [title for _, title, *_ in found] == order.split()
    page.close()


def test_excerpts_begin_with_prose(browser):
    """Neither with the page's buttons and contents nor with what a cell printed."""
    page = script_alone(browser)
    text = "<main>.ipynb Contents<article><h1>Title</h1><p>The result.</p>"
    text += "<div class='cell_output'><pre>sink 0.2</pre></div></article></main>"
    assert page.evaluate("(html) => Search.htmlToText(html, '')", text) == "The result."
    page.close()


def test_excerpts_keep_roots_powers_and_indices(browser):
    page = script_alone(browser)
    for math, text in MATH.items():
        shown = f"<main><span class='katex'><math>{math}</math><b>again</b></span></main>"
        assert page.evaluate("(html) => Search.htmlToText(html, '')", shown) == text
    page.close()


def test_every_claim_has_a_permanent_address(browser, site, built_book):
    """The page leads to the claim's box, which says so and how to cite it."""
    pages = {path.stem for path in (built_book / "claims").glob("*.html")}
    assert pages == set(registry)
    with visiting(browser, site) as visit:
        page = visit.page
        page.goto(f"{site}/claims/paths.count.html")
        page.wait_for_url(f"{site}/{place('paths.count')}")
        box = page.locator(f"#{anchor('paths.count')}")
        entry = box.locator(".attnverify-cite pre")
        assert not entry.is_visible()
        box.get_by_text("Cite this").click()
        assert "@incollection{attnverify:paths.count," in entry.inner_text()
        assert (
            box.locator(".attnverify-cite a").get_attribute("href") == "../claims/paths.count.html"
        )
        assert visit.foreign == [] and visit.errors == []

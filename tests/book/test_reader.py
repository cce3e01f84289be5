"""What a reader does with the built book: rests on a link, searches, cites."""

from __future__ import annotations

import json

import pytest

from attnverify.book.pages.common import anchor
from attnverify.book.sphinx.search_page import SUBJECTS
from attnverify.chapters import registry
from pagechecks import soup
from visits import FAINT, PHONE, SMALLEST_CONTRAST, visiting

pytestmark = [pytest.mark.browser, pytest.mark.timeout(3000)]
PREVIEW = ".attnverify-preview"


LINKS = {
    "claim": ("notebooks/softmax", "attention.html#claim-attention-shift-invariance", "constant"),
    "citation": ("notebooks/softmax", "../book/bibliography.html#id", "rank doubly expon"),
    "equation": ("notebooks/softmax", "#equation-eq-softmax-ratio", ""),
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


def test_a_table_that_scrolls_can_be_reached_with_the_keyboard(browser, site):
    """A wide table is a stop where it scrolls, on a narrow screen, and none where it fits."""
    with visiting(browser, site, (200, 800)) as visit:
        page = visit.open("book/notation.html").page
        box = "document.querySelector('article .pst-scrollable-table-container')"
        page.evaluate(f"{box}.scrollIntoView()")  # it is measured when it is seen
        page.wait_for_function(f"{box}.tabIndex === 0")
        page.set_viewport_size({"width": 1600, "height": 900})
        page.evaluate(f"{box}.scrollIntoView()")
        page.wait_for_function(f"{box}.tabIndex === -1")


def found(page, site: str, query: str) -> list[str]:
    """Addresses of the claims and chapters that stand above the results of a search."""
    page.goto(f"{site}/search.html")
    page.goto(f"{site}/search.html?q={query.replace(' ', '+')}")
    summary = "document.querySelector('.search-summary')?.innerText"
    page.wait_for_function(f"/found|did not match/.test({summary} ?? '')")
    page.wait_for_load_state("networkidle")
    links = page.locator(".attnverify-found a").all()
    return [link.get_attribute("href") for link in links]


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
        assert results[0] == place(id), results[:3]
        assert visit.foreign == [] and visit.errors == []


@pytest.mark.parametrize("query", ["rank collapse", "oversmoothing", "attention sink", "RoPE"])
def test_search_finds_the_chapter_on_a_subject_first(browser, site, query):
    """Found words are legible, and nothing comes from another host."""
    with visiting(browser, site, theme="dark") as visit:
        addresses = found(visit.page, site, query)
        assert addresses[0] == f"notebooks/{SUBJECTS[query.lower()][0]}.html"
        faint = FAINT.replace("article *", "#search-results *, .attnverify-found *")
        assert visit.page.evaluate(faint, SMALLEST_CONTRAST) == []
        assert visit.foreign == [] and visit.errors == []


def test_search_finds_a_claim_by_its_number(browser, site, built_book):
    title = soup(built_book / "notebooks" / "softmax.html").select_one(
        ".attnverify-claim .caption-number"
    )
    with visiting(browser, site) as visit:
        results = found(visit.page, site, title.get_text().strip())
        assert results[0] == place("softmax.perturbation")


def test_a_word_of_prose_finds_pages_alone(browser, site):
    """ "notation" stands in no formula and no title of a claim."""
    with visiting(browser, site) as visit:
        assert found(visit.page, site, "notation") == []
        first = visit.page.locator("#search-results ul.search > li a").first
        assert first.get_attribute("href").startswith("book/notation.html")


def test_results_have_first_sentences_and_chapters_come_first(browser, site):
    """No page is loaded for them; a word of both is found in chapters before the reference."""
    with visiting(browser, site) as visit:
        asked: list[str] = []
        visit.page.on("request", lambda request: asked.append(request.url))
        found(visit.page, site, "diameter")
        visit.page.get_by_text("finished").wait_for()
        results = visit.page.locator("#search-results ul.search > li")
        pages = results.locator("a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
        assert pages[0].startswith("notebooks/") and any("book/api" in page for page in pages)
        assert max(k for k, page in enumerate(pages) if "notebooks/" in page) < min(
            k for k, page in enumerate(pages) if "book/api" in page
        )
        assert "\\" not in (text := results.first.locator("p.context").inner_text())
        assert 60 < len(text) < 300
        assert [url for url in asked if "/notebooks/" in url or "/book/" in url] == []


def test_the_index_has_no_name_twice(built_book):
    """The general index, a quarter of it, repeats the objects of the API."""
    text = (built_book / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.strip().removeprefix("Search.setIndex(").removesuffix(")"))
    assert index["indexentries"] == {} and "attnverify" in index["objects"] and index["terms"]


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

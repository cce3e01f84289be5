"""Derivations in the built pages: each runs in headless Chromium with the network cut.

A chapter is a page of its own, but Python starts once for all of them: the pages are windows that
the first one opens, and they hand their cells to its worker. What a cell shows is compared with the
boxes that the build has put into the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page

import accessibility
from attnverify.derivation import notebook_sources
from falsified import falsified
from places import ROOT
from tiers import in_tiers
from visits import DESK, FAINT, OPEN_ALL, PHONE, SMALLEST_CONTRAST, STICKING_OUT, visiting

# The first of these tests may have to build the book.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(3000)]

CELLS = {
    p.stem: notebook_sources.load(p.stem).cells for p in sorted((ROOT / "notebooks").glob("*.md"))
}
CHAPTERS = [name for name, cells in CELLS.items() if cells]
#: What others rest on; also short, as sympy runs several times slower in a browser.
FIRST = ("attention", "norms", "walk")
PATIENCE = 300_000  # milliseconds for one cell, on a busy machine
LARGEST = 24_000_000  # bytes that a page may load after the click, as they lie on the disk

#: A window that was opened by another uses its worker.
ONE_WORKER = """
const Started = window.Worker;
window.Worker = function (...address) {
  if (!opener) return (window.python = new Started(...address));
  return opener.python;
};
"""
#: What the boxes of a place say: formulas, how each step was decided, code.
SAID = """(place) => place ? [...place.querySelectorAll(
  "annotation, .ledger small, .ledger code")].map(
  (e) => e.textContent.replace(/\\s+/g, " ").trim()) : []"""


def outcome(panel: Locator) -> str:
    """Wait for the check that was started, and say how it ended."""
    panel.page.wait_for_function(
        "(p) => p.getAttribute('aria-busy') === 'false'",
        arg=panel.element_handle(),
        timeout=PATIENCE,
        polling=100,  # milliseconds; the default, every frame, keeps a core busy
    )
    return panel.evaluate("(p) => p.dataset.outcome") or panel.locator("[role=status]").inner_text()


def edit(cell: Locator, source: str) -> str:
    """Check an edited cell, and say how it ended."""
    cell.locator("textarea").fill(source)
    cell.get_by_role("button", name="Check again").click()
    return outcome(cell.locator(".inpage-panel"))


class Windows:
    """The chapters' windows of one reader, and all that went wrong in any of them."""

    def __init__(self, context: BrowserContext, site: str) -> None:
        self.site, self.wrong = site, []
        context.set_default_timeout(PATIENCE)
        context.add_init_script(ONE_WORKER)
        context.on("request", self._request)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.wrong.append(str(error.error)))
        self.first = context.new_page()
        self.first.goto(f"{site}/notebooks/norms.html")
        self.first.locator(".inpage-open").first.click()
        assert outcome(self.first.locator(".inpage-panel").first) == "holds"

    def _request(self, request) -> None:
        if not request.url.startswith((self.site, "data:", "blob:")):
            self.wrong.append(request.url)

    def _console(self, message) -> None:
        if message.type == "error":
            self.wrong.append(message.text)

    def open(self, name: str) -> Page:
        """A chapter."""
        with self.first.expect_popup() as opened:
            self.first.evaluate("(address) => { window.open(address); }", f"{name}.html")
        opened.value.wait_for_load_state()
        return opened.value


@pytest.fixture(scope="module")
def windows(browser: Browser, site: str) -> Iterator[Windows]:
    context = browser.new_context(service_workers="block")
    yield Windows(context, site)
    context.close()


@pytest.mark.parametrize("name", in_tiers(CHAPTERS, FIRST))
def test_every_derivation_runs_and_shows_the_boxes_of_the_book(windows, name):
    page = windows.open(name)
    cells = page.locator("article div.cell.tag_derivation")
    assert cells.count() == len(CELLS[name])
    seconds = []
    for k, source in enumerate(CELLS[name]):
        cell = cells.nth(k)
        cell.evaluate(OPEN_ALL)
        printed = cell.evaluate("(c) => (" + SAID + ")(c.querySelector('.cell_output'))")
        cell.locator(".inpage-open").click()
        panel = cell.locator(".inpage-panel")
        assert cell.locator("textarea").input_value().strip() == source.strip()
        assert outcome(panel) == "holds", panel.inner_text()
        assert panel.locator(".inpage-result").evaluate(SAID) == printed
        seconds.append(float(panel.get_attribute("data-seconds") or "nan"))
    _falsify(cells, CELLS[name])
    page.close()
    assert windows.wrong == []
    print(f"{name}: {len(seconds)} cells, {sum(seconds):.1f} s, longest {max(seconds):.1f} s")


def _falsify(cells: Locator, sources: tuple[str, ...]) -> None:
    """Edit the cells of a chapter, one after the other, until one is false, which it must say."""
    for k, source in enumerate(sources):
        edited = falsified(source)
        if edited is None:
            continue
        ended, panel = edit(cells.nth(k), edited), cells.nth(k).locator(".inpage-panel")
        assert ended in ("false", "refused"), panel.inner_text()  # or nobody can decide it
        if ended == "false":
            assert ": false, expected true" in panel.locator(".inpage-refusal").inner_text()
            assert "✗ false" in panel.locator(".ledger-refused").first.inner_text()
            return
    pytest.fail("no cell was called false")


def test_pages_with_derivations_have_the_script_and_no_others(built_book):
    pages = {path.stem: path.read_text("utf-8") for path in built_book.rglob("*.html")}
    assert {name for name, text in pages.items() if "inpage.js" in text} == set(CHAPTERS)


def test_nothing_is_loaded_before_the_click_and_a_limit_after_it(browser, site, built_book):
    listing = json.loads((built_book / "_static" / "python" / "files.json").read_text())
    with visiting(browser, site) as visit:
        page = visit.open("notebooks/norms.html").page
        assert not [r.url for r in visit.responses if "/_static/python/" in r.url]
        first = page.locator("article div.cell.tag_derivation").first
        first.locator(".inpage-open").click()
        assert outcome(first.locator(".inpage-panel")) == "holds"
    size = sum(file["bytes"] for file in listing.values())
    print(f"after the click: {size} bytes")
    assert size < LARGEST
    licenses = (built_book / "_static" / "python" / "LICENSES.txt").read_text()
    for part in ("pyodide", "cpython", "sympy", "mpmath", "katex", "attnverify"):
        assert f"LICENSE-{part}.txt" in licenses
        assert (built_book / "_static" / "python" / f"LICENSE-{part}.txt").stat().st_size > 1000


def test_cells_wait_for_one_another_and_stop_ends_all(browser, site):
    with visiting(browser, site) as visit:
        page = visit.open("notebooks/norms.html").page
        cells = page.locator("article div.cell.tag_derivation")
        panels = cells.locator(".inpage-panel")
        for k in range(2):
            cells.nth(k).locator(".inpage-open").click()
        assert [outcome(panels.nth(k)) for k in range(2)] == ["holds"] * 2
        cells.nth(0).locator("textarea").fill("while True: pass")
        for k in range(2):
            panels.nth(k).get_by_role("button", name="Check again").click()
        panels.nth(1).get_by_role("button", name="Stop").click()
        assert [outcome(panels.nth(k)) for k in range(2)] == ["Stopped."] * 2


def test_stop_errors_and_the_keyboard(browser, site):
    with visiting(browser, site) as visit:
        page = visit.open("notebooks/norms.html").page
        cell = page.locator("article div.cell.tag_derivation").first
        opener, code = cell.locator(".inpage-open"), cell.locator(".cell_input")
        assert not code.is_visible() and opener.get_attribute("aria-expanded") == "false"
        opener.press("Enter")
        assert opener.get_attribute("aria-expanded") == "true"
        panel, editor = cell.locator(".inpage-panel"), cell.locator("textarea")
        assert editor.is_visible() and not code.is_visible()
        panel.get_by_role("button", name="Stop").press("Enter")
        assert outcome(panel) == "Stopped."
        assert edit(cell, "print('so far')\n1 / 0") == "error"
        text = panel.locator(".inpage-result").inner_text()
        assert "so far" in text and "ZeroDivisionError: division by zero" in text
        editor.fill("while True: pass")
        editor.press("Shift+Enter")
        page.wait_for_timeout(1000)
        panel.get_by_role("button", name="Stop").click()
        panel.get_by_role("button", name="As printed").click()
        editor.press("Shift+Enter")
        assert outcome(panel) == "holds"
        assert not cell.locator(".cell_output").is_visible()
        editor.press("Tab")  # leaves the editor
        assert page.evaluate("document.activeElement.tagName") == "BUTTON"
        opener.press("Enter")
        assert not panel.is_visible() and not editor.is_visible() and code.is_visible()


@pytest.mark.full
def test_an_open_session_is_legible_fits_and_breaks_no_rule(browser, site):
    """Both themes, desktop and phone, with a cell that holds and one that does not."""
    axe = accessibility.script()
    with visiting(browser, site) as visit:
        page = visit.open("notebooks/norms.html").page
        cells = page.locator("article div.cell.tag_derivation")
        for k, source in ((1, CELLS["norms"][1]), (2, falsified(CELLS["norms"][2]))):
            cells.nth(k).locator(".inpage-open").click()
            outcome(cells.nth(k).locator(".inpage-panel"))
            edit(cells.nth(k), source or "")
        assert page.locator(".inpage-result .ledger-refused").count() == 2
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            for width, height in (DESK, PHONE):
                page.set_viewport_size({"width": width, "height": height})
                page.wait_for_timeout(accessibility.SETTLED)
                assert page.evaluate(STICKING_OUT) == []
                assert page.evaluate(FAINT, SMALLEST_CONTRAST) == []
        assert accessibility.violations(page, axe) == []


def test_a_page_opened_from_a_file_says_what_to_do(browser, built_book):
    with visiting(browser, "file://") as visit:
        page = visit.page
        page.goto((built_book / "notebooks" / "norms.html").as_uri())
        first = page.locator("article div.cell.tag_derivation").first
        first.locator(".inpage-open").click()
        assert "make serve" in first.locator("[role=status]").inner_text()


def test_the_button_moves_nothing(browser, site):
    """It stands on the line of the summary; the page below keeps its place."""
    places = "(b) => [...document.querySelectorAll('article p')].map(p => p.offsetTop)"
    with visiting(browser, site, PHONE) as visit:
        page = visit.open("notebooks/norms.html").page
        before = page.locator("article").evaluate(places)
        assert page.locator(".inpage-open").count() == len(CELLS["norms"])
        page.add_style_tag(content=".inpage-open { display: none !important }")
        assert page.locator("article").evaluate(places) == before

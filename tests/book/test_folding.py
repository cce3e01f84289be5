"""Code folded in the built book, its results in view, and the switch that opens it."""

from __future__ import annotations

from pathlib import Path

import myst_nb
import pytest

from attnverify.book.sphinx.extension import STATIC
from pagechecks import soup
from places import ROOT
from visits import visiting

pytestmark = [pytest.mark.browser, pytest.mark.timeout(3000)]

CHAPTER = "notebooks/softmax.html"


@pytest.mark.parametrize(
    "pages", [CHAPTER, pytest.param("notebooks/*.html", marks=pytest.mark.full)]
)
def test_every_cell_is_folded_and_its_outputs_are_not(built_book, pages):
    """A minute and more for all chapters: it buys that none shows code before its results."""
    for path in sorted(built_book.glob(pages)):
        cells = soup(path).select("div.cell")
        for cell in cells:
            folded = cell.select(":scope > details.above-input")
            assert len(folded) == 1 and "open" not in folded[0].attrs, path
            assert folded[0].select_one("pre") and not folded[0].select_one(".cell_output"), path
        draws = [cell for cell in cells if cell.select_one(".cell_output img")]
        assert all("attnverify-draws" in cell["class"] for cell in draws), path


def test_boxes_of_the_ledger_have_formulas(built_book):
    """Every call of a cell has its box; a step is a formula or, where sides look alike, source."""
    page = soup(built_book / CHAPTER)
    boxes = page.select("div.ledger")
    source = (ROOT / "notebooks" / "softmax.md").read_text()
    assert len(boxes) == source.count("ledger.derived(") + source.count("ledger.rejected(")
    for box in boxes:
        for step in box.select(":scope > ul:not(.ledger-given) > li"):
            assert step.select_one(".katex-display") or step.select_one("code"), step
            assert step.select_one("small").text[0] in "✓✗"


def is_open(page) -> list[bool]:
    """Whether each computation of the page is open; code of figures apart."""
    return page.eval_on_selector_all(
        ".cell:not(.attnverify-draws) > details.above-input", "all => all.map(d => d.open)"
    )


def test_the_switch_opens_all_and_is_remembered(browser, site):
    with visiting(browser, site) as visit:
        page = visit.open(CHAPTER).page
        switch = page.get_by_role("button", name="Show all code")
        assert not any(is_open(page)) and switch.get_attribute("aria-pressed") == "false"
        switch.focus()
        page.keyboard.press("Enter")
        assert all(is_open(page)) and switch.get_attribute("aria-pressed") == "true"
        page.goto(page.url.replace("softmax", "norms"))
        assert all(is_open(page)) and is_open(page)
        page.get_by_role("button", name="Show all code").click()
        page.goto(page.url.replace("norms", "softmax"))
        assert not any(is_open(page))


def test_what_is_folded_is_printed(browser, site):
    with visiting(browser, site) as visit:
        page = visit.open(CHAPTER).page
        opened = "[...document.querySelectorAll('details')].every(d => d.open)"
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(opened)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert not any(is_open(page))


LONG = "forall x, " * 60
PRINTED = f"""<!doctype html><article class="bd-article"><div class="cell">
<details class="hide above-input"><summary>Code</summary><pre>{LONG}</pre></details></div>
<div class="attnverify-scroll"><pre>{LONG}</pre></div>
<div class="katex-display"><span class="katex" style="display: block"><span class="katex-html"
  style="display: block"><span class="base" style="display: inline-block; width: 120em">x</span>
</span></span></div></article>"""
#: What a sheet of A4 would cut off, show as a bar, or show only later.
LOST_ON_PAPER = """() => [...document.querySelectorAll("pre, .base, .attnverify-scroll")]
  .filter((e) => e.getBoundingClientRect().right > innerWidth || e.scrollWidth > e.clientWidth + 1
  || getComputedStyle(e).backgroundImage !== "none" || getComputedStyle(e).opacity !== "1")
  .map((e) => e.className || e.tagName)"""


def test_paper_loses_nothing(browser):
    """The scripts and styles alone, at the width of A4: code, formulas and statements are whole."""
    page = browser.new_page(viewport={"width": 700, "height": 900})
    page.set_content(PRINTED)
    styles = [STATIC / "attnverify.css", Path(myst_nb.__file__).parent / "static" / "mystnb.css"]
    for style in styles:
        page.add_style_tag(content=style.read_text(encoding="utf-8"))
    page.add_script_tag(content=(STATIC / "folding.js").read_text(encoding="utf-8"))
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(LOST_ON_PAPER) == []
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.eval_on_selector(".base", "(e) => e.getBoundingClientRect().right > innerWidth")
    page.close()

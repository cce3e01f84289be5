"""Code folded in the built book, its results in view, and the switch that opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagechecks import soup
from visits import visiting

pytestmark = [pytest.mark.browser, pytest.mark.timeout(3000)]

CHAPTER = "notebooks/softmax.html"


def test_every_cell_is_folded_and_its_outputs_are_not(built_book):
    for path in sorted((built_book / "notebooks").glob("*.html")):
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
    source = (Path(__file__).resolve().parents[1] / "notebooks" / "softmax.md").read_text()
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

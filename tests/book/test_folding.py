"""Code folded in the built book, its results in view, and the switch that opens it."""

from __future__ import annotations

from pathlib import Path

import myst_nb
import pytest
from bs4 import BeautifulSoup

from attnverify.book.sphinx.extension import STATIC
from attnverify.book.sphinx.folding import fold_steps, unfolded
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
            if "tag_show-code" in cell["class"]:  # a tutorial, whose code is what it is about
                continue
            folded = cell.select(":scope > details.above-input")
            assert len(folded) == 1 and "open" not in folded[0].attrs, path
            assert folded[0].select_one("pre") and not folded[0].select_one(".cell_output"), path
        draws = [cell for cell in cells if cell.select_one(".cell_output img")]
        assert all("attnverify-draws" in cell["class"] for cell in draws), path


def test_boxes_of_the_ledger_have_formulas(built_book):
    """Every call of a cell has its box; a step is a formula or, where sides look alike, source."""
    folded = (built_book / CHAPTER).read_text(encoding="utf-8")
    boxes = BeautifulSoup(unfolded(folded, built_book / "_static"), "html.parser").select(".ledger")
    source = (ROOT / "notebooks" / "softmax.md").read_text()
    assert len(boxes) == source.count("ledger.derived(") + source.count("ledger.rejected(")
    for box in boxes:
        for step in box.select(":scope > ul:not(.ledger-given) > li"):
            assert step.select_one(".katex-display") or step.select_one("code"), step
            assert step.select_one("small").text[0] in "✓✗"


def box(*names: str) -> str:
    steps = "".join(
        f"<li><p>{n} <small>✓ identity</small></p>\n<div><div>x</div></div></li>" for n in names
    )
    head = '<div class="ledger ledger-derived">\n<p><strong>Derived</strong> <code>a.b</code></p>'
    return f"{head}\n<ul>{steps}</ul>\n</div>"


def test_a_box_becomes_a_line_and_comes_back(tmp_path):
    """Also two boxes that are alike; a line is not longer than one reads."""
    boxes = [box("first", "second"), box("alone"), box("alone"), box(*["a long name " * 5] * 9)]
    body = f"<p>before</p>{'<hr>'.join(boxes)}<p>after</p>"
    folded, script = fold_steps(body, "steps/page.js")
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps/page.js").write_text(script, encoding="utf-8")
    lines = [line.get_text() for line in BeautifulSoup(folded, "html.parser").select("summary")]
    assert lines[:2] == ["Derived a.b, 2 steps: first; second", "Derived a.b, 1 step: alone"]
    assert lines[3].startswith("Derived a.b, 9 steps: a long") and lines[3].endswith("and 7 more")
    assert "<div>x</div>" not in folded and unfolded(folded, tmp_path) == body
    assert fold_steps("<p>no box</p>", "steps/page.js") == ("<p>no box</p>", "")


def test_steps_are_fetched_when_a_box_is_opened(browser, site):
    """All of a page's in one request, typeset; a script of another state of the page is refused."""
    with visiting(browser, site) as visit:
        asked: list[str] = []
        visit.page.on("request", lambda request: asked.append(request.url))
        page = visit.open(CHAPTER).page
        assert page.locator(".ledger .katex").count() == 0
        for place in (0, 1):
            page.locator(".ledger > summary").nth(place).click()
            page.locator(".ledger").nth(place).locator(".katex-display").first.wait_for()
        assert page.locator(".ledger[data-steps]").count() == page.locator(".ledger").count() - 2
        assert len([url for url in asked if "/steps/" in url]) == 1
        page.reload()
        page.evaluate("document.querySelector('.ledger').dataset.steps += '0'")
        page.locator(".ledger > summary").first.click()
        page.get_by_text("The steps could not be loaded.").wait_for()


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


def test_derivations_are_printed_and_code_is_not(browser, site):
    with visiting(browser, site) as visit:
        page = visit.open(CHAPTER).page
        opened = "all => all.filter(d => d.open).length"
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator(".ledger .katex").count() > page.locator(".ledger").count() > 0
        assert page.eval_on_selector_all(".ledger", opened) == page.locator(".ledger").count()
        assert page.eval_on_selector_all("details.above-input", opened) == 0
        page.emulate_media(media="print")
        assert page.locator(".above-input:visible, button:visible").count() == 0
        assert page.locator("h1:visible .section-number").count() == 1
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.eval_on_selector_all("details", opened) == 0


LONG = "forall x, " * 60
PRINTED = f"""<!doctype html><article class="bd-article"><div class="cell">
<details open class="hide above-input"><summary>Code</summary><pre>{LONG}</pre></details></div>
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

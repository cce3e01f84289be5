"""Claim boxes and their evidence in the built book, as a reader sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from playwright.sync_api import Browser

from attnverify.book.pages.common import anchor
from attnverify.chapters import registry
from pagechecks import soup
from visits import DESK, PHONE, serve, visiting

pytestmark = [pytest.mark.browser, pytest.mark.timeout(3000)]

CHAPTERS = sorted({claim.notebook for claim in registry.values()})

#: What is wider than its place in a claim box: (id, text, whether edges show that it scrolls).
WIDER = """() => [...document.querySelectorAll("div.attnverify-claim")].flatMap((box) =>
  [...box.querySelectorAll(".katex-display .katex-html, section p, section li")]
    .filter((part) => part.scrollWidth > part.clientWidth + 1)
    .map((part) => { const style = getComputedStyle(part);
      const cue = style.backgroundImage.includes("gradient")
        && style.backgroundAttachment.includes("local")
        && ["auto", "scroll"].includes(style.overflowX);
      return [box.id, part.textContent.slice(0, 60), cue]; }))"""


#: The chapters with the longest formulas always, all of them in the full tier.
SOME_OR_ALL = pytest.mark.parametrize(
    "chapters",
    [
        pytest.param(("collapse-width", "heads-depth", "localization"), id="some"),
        pytest.param(CHAPTERS, id="all", marks=pytest.mark.full),
    ],
)


def wider(
    browser: Browser, site: str, chapters: Sequence[str], size: tuple[int, int], theme: str
) -> list:
    """What is wider than its place in the claim boxes of the chapters."""
    found = []
    with visiting(browser, site, size, theme) as visit:
        for name in chapters:
            found += visit.open(f"notebooks/{name}.html").page.evaluate(WIDER)
    return found


@SOME_OR_ALL
def test_no_formula_of_a_claim_is_clipped_on_a_desk(browser, site, chapters):
    assert wider(browser, site, chapters, DESK, "light") == []


@SOME_OR_ALL
def test_what_scrolls_in_a_claim_on_a_phone_shows_it(browser, site, chapters):
    """Few formulas cannot break; each has edges that show that there is more."""
    found = wider(browser, site, chapters, PHONE, "dark")
    assert [part for part in found if not part[2]] == []
    assert len({id for id, _, _ in found}) <= 3, found


WIDE = r"""<!doctype html><link rel="stylesheet" href="SHEET">
<article class="bd-article"><div class="attnverify-claim" id="wide"><section>
<p class="katex-display"><span class="katex" style="display: block"><span class="katex-html"
style="display: block; overflow-x: auto"><span class="base" style="display: inline-block;
width: 2000px">x</span></span></span></p></section></div></article>"""


@pytest.mark.parametrize("cue", [True, False])
def test_the_check_can_fail(browser, tmp_path, root, cue):
    """A formula that is too wide is seen, and so is whether its edges show it."""
    sheet = root / "src" / "attnverify" / "book" / "sphinx" / "static" / "attnverify.css"
    (tmp_path / "a.css").write_text(sheet.read_text("utf-8") if cue else "")
    (tmp_path / "a.html").write_text(WIDE.replace("SHEET", "a.css"))
    with serve(tmp_path) as address, visiting(browser, address, PHONE) as visit:
        found = visit.open("a.html").page.evaluate(WIDER)
        assert [(id, shown) for id, _, shown in found if id == "wide"][-1] == ("wide", cue)


OPEN = "[...document.querySelectorAll('details.attnverify-details[open] > div')].map((d) => d.id)"


def test_a_link_opens_the_details_it_leads_into(browser, site):
    """One to a table opens its fold; one to the line opens none; paper opens no more."""
    tables, twins = "softmax.total-variation", anchor("softmax.total-variation", "twins")
    records, line = anchor(tables, "records"), anchor(tables, "evidence")
    with visiting(browser, site) as visit:
        page = visit.open(f"notebooks/softmax.html#{line}").page
        assert page.evaluate(OPEN) == []
        page.evaluate(f"location.hash = {twins!r}")
        page.wait_for_function(f"{OPEN}.length === 2")
        assert page.evaluate(OPEN) == [records, twins]
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(OPEN) == [records, twins]  # what paper has no room for stays closed
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate(OPEN) == [records, twins]
        assert visit.errors == []
    with visiting(browser, site) as visit:
        page = visit.open(f"notebooks/softmax.html#{twins}").page
        assert page.evaluate(OPEN) == [records, twins]


def test_every_evidence_link_of_a_box_leads_to_its_line(built_book):
    """Each claim's chapter prints its line, with the badge of the box and closed details."""
    for name in CHAPTERS:
        page = soup(built_book / "notebooks" / f"{name}.html")
        for id in (id for id, claim in registry.items() if claim.notebook == name):
            _require_line(page, id)


def _require_line(page, id: str) -> None:
    box, line = page.find(id=anchor(id)), page.find(id=anchor(id, "evidence"))
    links = {a.get_text(): a["href"] for a in box.select(".attnverify-footer a")}
    assert links["evidence"] == f"#{anchor(id, 'evidence')}", id
    badges = [part.select_one(".attnverify-badge").get_text() for part in (box, line)]
    assert badges[0] == badges[1], id
    assert re.search(r"twins? rejected", line.get_text()), id
    fold = line.find_next_sibling()
    assert fold.name == "details" and not fold.has_attr("open"), id
    captions = [caption.get_text() for caption in fold.select("table > caption")]
    assert len(captions) == 2 and len(set(captions)) == 2, id

"""Derivations in the built pages: each runs in headless Chromium with the network cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator

from attnverify.evidence import notebooks
from falsified import falsified
from visits import DESK, FAINT, PHONE, SMALLEST_CONTRAST, STICKING_OUT, chromium, serve, visiting

# The first of these tests may have to build the book.
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(3000)]

ROOT = Path(__file__).resolve().parents[1]
CELLS = {p.stem: notebooks.load(p.stem).cells for p in sorted((ROOT / "notebooks").glob("*.md"))}
PATIENCE = 300_000  # milliseconds for one cell, on a busy machine
LARGEST = 24_000_000  # bytes that a page may load after the click, as they lie on the disk


@pytest.fixture(scope="module")
def site(built_book: Path) -> Iterator[str]:
    """Address of the built book on this machine."""
    with serve(built_book) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium for all tests of this file."""
    with chromium() as started:
        yield started


def outcome(panel: Locator) -> str:
    """Wait for the check that was started, and say how it ended."""
    panel.page.wait_for_function(
        "(p) => p.getAttribute('aria-busy') === 'false'",
        arg=panel.element_handle(),
        timeout=PATIENCE,
    )
    return panel.evaluate("(p) => p.dataset.outcome") or panel.locator("[role=status]").inner_text()


@pytest.mark.parametrize("name", [name for name, cells in CELLS.items() if cells])
def test_every_derivation_of_a_chapter_runs_and_edited_to_be_false_says_so(browser, site, name):
    with visiting(browser, site) as visit:
        page = visit.open(f"notebooks/{name}.html").page
        boxes = page.locator("article div.cell.tag_derivation")
        assert boxes.count() == len(CELLS[name])
        times, falsities = [], 0
        for k, cell in enumerate(CELLS[name]):
            boxes.nth(k).locator(".inpage-open").click()
            panel = boxes.nth(k).locator(".inpage-panel")
            assert panel.locator("textarea").input_value().strip() == cell.strip()
            assert outcome(panel) == "holds", panel.inner_text()
            times.append(float(panel.get_attribute("data-seconds") or "nan"))
            edited = falsified(cell)
            if edited is not None:
                panel.locator("textarea").fill(edited)
                panel.get_by_role("button", name="Check again").click()
                assert outcome(panel) == "false", panel.inner_text()
                assert ", expected true" in panel.locator(".inpage-refusal").inner_text()
                falsities += 1
        assert falsities
        assert visit.foreign == [] and visit.errors == []
        print(f"{name}: {len(times)} cells, {sum(times):.1f} s, longest {max(times):.1f} s")


def test_nothing_is_loaded_before_the_click_and_a_limit_after_it(browser, site):
    with visiting(browser, site) as visit:
        page = visit.open("notebooks/norms.html").page
        assert not [r.url for r in visit.responses if "/_static/python/" in r.url]
        first = page.locator("article div.cell.tag_derivation").first
        first.locator(".inpage-open").click()
        assert outcome(first.locator(".inpage-panel")) == "holds"
        status = first.locator("[role=status]").inner_text()
        listing = json.loads(
            page.evaluate("fetch('../_static/python/files.json').then(a => a.text())")
        )
    size = sum(file["bytes"] for file in listing.values())
    print(f"after the click: {size} bytes; {status}")
    assert size < LARGEST


def test_stop_ends_the_check_and_the_next_click_starts_again(browser, site):
    with visiting(browser, site) as visit:
        page = visit.open("notebooks/norms.html").page
        first = page.locator("article div.cell.tag_derivation").first
        first.locator(".inpage-open").press("Enter")  # by keyboard
        panel = first.locator(".inpage-panel")
        panel.get_by_role("button", name="Stop").press("Enter")
        assert outcome(panel) == "Stopped."
        panel.locator("textarea").fill("while True: pass")
        panel.get_by_role("button", name="Check again").click()
        page.wait_for_timeout(1000)
        panel.get_by_role("button", name="Stop").click()
        panel.get_by_role("button", name="As printed").click()
        panel.get_by_role("button", name="Check again").click()
        assert outcome(panel) == "holds"
        panel.locator("textarea").press("Tab")  # leaves the editor
        assert page.evaluate("document.activeElement.tagName") == "BUTTON"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_a_result_is_legible_and_fits(browser, site, size, theme):
    with visiting(browser, site, size, theme) as visit:
        page = visit.open("notebooks/norms.html").page
        cell = page.locator("article div.cell.tag_derivation").nth(1)
        cell.locator(".inpage-open").click()
        panel = cell.locator(".inpage-panel")
        assert outcome(panel) == "holds" and panel.locator(".ledger").count()
        panel.locator("textarea").fill(falsified(CELLS["norms"][1]) or "")
        panel.get_by_role("button", name="Check again").click()
        assert outcome(panel) == "false"
        assert page.evaluate(STICKING_OUT) == []
        assert page.evaluate(FAINT, SMALLEST_CONTRAST) == []


def test_a_page_opened_from_a_file_says_what_to_do(browser, built_book):
    with visiting(browser, "file://") as visit:
        page = visit.page
        page.goto((built_book / "notebooks" / "norms.html").as_uri())
        first = page.locator("article div.cell.tag_derivation").first
        first.locator(".inpage-open").click()
        assert "make serve" in first.locator("[role=status]").inner_text()

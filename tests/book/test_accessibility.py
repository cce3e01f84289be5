"""axe-core finds nothing on any page: both themes, desktop and phone, whatever the impact.

It takes about two seconds a page on a quiet core. A mistake here shuts readers out and shows on no
screenshot: on its first run it found a button whose name hid its text, content in no landmark, a
list without items and columns without a name, on every page or on some.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

import accessibility
from attnverify.book.build import npm
from pagechecks import TEMPLATES, docnames
from tiers import in_tiers
from visits import PATIENCE, chromium

pytestmark = [pytest.mark.browser, pytest.mark.timeout(3000)]
OTHERS = ["genindex", "search"]


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core, fetched once."""
    return accessibility.script()


@pytest.fixture(scope="module")
def page(axe: str) -> Iterator[Page]:
    """One page of one browser for all tests of this file."""
    with chromium() as started:
        opened = started.new_page()
        opened.set_default_timeout(PATIENCE)
        yield opened


@pytest.mark.parametrize("name", in_tiers([*docnames(), *OTHERS], TEMPLATES))
def test_no_violation(page, site, axe, name):
    """No rule is broken on a page."""
    page.goto(f"{site}/{name}.html", wait_until="load")
    assert accessibility.violations(page, axe) == []


def test_no_violation_where_a_claim_is_addressed(page, axe, built_book):
    """The pages that lead on to a claim, looked at before they do."""
    paths = sorted((built_book / "claims").glob("*.html"))
    text = paths[0].read_text(encoding="utf-8")
    assert '<meta http-equiv="refresh"' in text
    page.goto("about:blank")
    page.set_content(text.replace("http-equiv", "data-off"))
    assert accessibility.violations(page, axe) == []


BAD = """<!doctype html><html lang="en" data-theme="THEME"><head><title>Bad</title><style>
@media (prefers-color-scheme: dark) { .night { color: #444; background: #222 } }
@media (max-width: 500px) { .small { overflow: auto; height: 3em } }</style></head>
<body><main><h1>Bad</h1><p style="color: #ccc; background: #fff">faint</p>
<p class="night">dark on dark</p><img src="data:,"><div class="small"><p>a<p>b<p>c<p>d<p>e</div>
</main><p>outside</p></body></html>"""


def test_the_rules_can_fail(page, axe):
    """A page that breaks rules, one in the dark and one on a phone only, is told for each."""
    page.goto("about:blank")
    page.set_content(BAD)
    found = accessibility.violations(page, axe)
    for rule in ("color-contrast", "image-alt", "region"):
        assert any(rule in text for text in found), (rule, found)
    assert any("dark: color-contrast (serious) 2" in text for text in found), found
    assert any("light: color-contrast (serious) 1" in text for text in found), found
    scrolling = [text for text in found if "scrollable-region-focusable" in text]
    assert [text.split(":")[0] for text in scrolling] == ["phone"], found


def test_a_package_with_another_digest_is_refused(tmp_path, monkeypatch):
    """What npm delivers is used only if it is what was pinned."""

    def other(package: str, folder: Path) -> Path:
        (folder / "a.tgz").write_bytes(b"other")
        return folder / "a.tgz"

    monkeypatch.setattr(npm, "FOLDER", tmp_path)
    monkeypatch.setattr(npm, "download", other)
    with pytest.raises(RuntimeError, match="expected sha512-"):
        npm.fetch(accessibility.AXE)
    assert list(tmp_path.iterdir()) == []

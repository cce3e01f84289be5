"""Print the built book to _build/attention-verified.pdf with Chromium. `make pdf` calls this.

One file: an outline, numbered pages, links between chapters, solutions as an appendix.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from attnverify.book.build import browser as browsers
from attnverify.book.build.one_page import ONE_FILE, Book, reading_order

ROOT = Path(__file__).resolve().parents[4]
FOOTER = """<div style="font: 8px sans-serif; width: 100%; text-align: center">
<span class="pageNumber"></span></div>"""
WIDTH = 665  # CSS pixels of a line: A4 less the margins of the one page
#: A formula wider than its line is set smaller; Chromium would set the whole book smaller.
SHRINK = """() => {
  for (const formula of document.querySelectorAll(".katex-display > .katex > .katex-html")) {
    const parts = [...formula.querySelectorAll(".base")].map((part) => part.offsetWidth);
    const times = Math.max(...parts) / formula.clientWidth;
    if (times > 1) formula.style.fontSize = `${1 / times}em`;
  }
}"""
LONGEST = 600_000  # milliseconds, for a browser that lays out some hundred pages on a slow machine


def print_page(page: Path, target: Path, browser_path: str) -> None:
    """Print an HTML file with its outline, written beside the target first and then renamed."""
    partial = target.with_suffix(".partial.pdf")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": 900}, java_script_enabled=False)
        tab.emulate_media(media="print")
        tab.set_default_timeout(LONGEST)
        tab.goto(page.resolve().as_uri())
        tab.evaluate(SHRINK)
        tab.pdf(
            path=partial,
            prefer_css_page_size=True,
            print_background=True,
            outline=True,
            tagged=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
        )
        browser.close()
    partial.replace(target)


def main() -> int:
    """Join the pages, print them, and say how long it took."""
    browser_path = browsers.find()
    if browser_path is None:
        print(f"make pdf needs one of: {', '.join(browsers.NAMES)}", file=sys.stderr)
        return 1
    start = time.perf_counter()
    folder, target = ROOT / "_build" / "html", ROOT / "_build" / f"{ONE_FILE}.pdf"
    book = folder / "book.print.html"  # beside the pages, whose pictures and styles it uses
    print("Printing the book takes several minutes.", flush=True)
    try:
        book.write_text(Book(folder, reading_order(ROOT)).joined(), encoding="utf-8")
        print_page(book, target, browser_path)
    finally:
        book.unlink(missing_ok=True)
    size = target.stat().st_size / 1e6
    print(f"wrote {target.relative_to(ROOT)}: {size:.1f} MB, {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

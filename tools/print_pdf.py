"""Print every page of the built book to _build/pdf with Chromium. `make pdf` calls this."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent))
import browser as browsers

ROOT = Path(__file__).resolve().parents[1]


def pages(root: Path) -> list[str]:
    """The pages in reading order."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    return [toc["root"], *(c["file"] for part in toc["parts"] for c in part["chapters"])]


def main() -> int:
    """Write one PDF a page, numbered in reading order."""
    browser_path = browsers.find()
    if browser_path is None:
        print(f"make pdf needs one of: {', '.join(browsers.NAMES)}", file=sys.stderr)
        return 1
    target = ROOT / "_build" / "pdf"
    target.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        for number, name in enumerate(pages(ROOT)):
            page.goto((ROOT / "_build" / "html" / f"{name}.html").as_uri())
            file = target / f"{number:02d}-{Path(name).name}.pdf"
            page.pdf(path=file, format="A4", print_background=True)
            print(f"wrote {file.relative_to(ROOT)}", flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

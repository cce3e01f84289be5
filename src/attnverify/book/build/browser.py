"""Find the Chromium that the page tests and `make pdf` use; install one if there is none.

python -m attnverify.book.build.browser        print its path, installing it first if need be
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Path of a browser: one of the system's, else the one that playwright installed."""
    for path in filter(None, map(shutil.which, NAMES)):
        return path
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).is_file() else None


def install() -> None:
    """Install Chromium with apt where that needs no password, else with playwright."""
    if shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        subprocess.run(
            ["apt-get", "install", "-y", "--no-install-recommends", "chromium"], check=False
        )
    else:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)


def main() -> int:
    """Command line: exit code 1, with advice, if no browser could be had."""
    if find() is None:
        print("==> installing Chromium, which opens the built pages in the tests", flush=True)
        install()
    path = find()
    if path is None:
        print(f"No browser: install one of {', '.join(NAMES)} and try again.", file=sys.stderr)
        return 1
    print(f"Browser: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

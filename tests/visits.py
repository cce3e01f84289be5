"""A reader's browser: headless Chromium with the network cut, and what its pages ask for."""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from attnverify.book.build import browser as browsers

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--headless=new",
    # The network is cut: every name and address but this machine's own leads nowhere.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]
PHONE, DESK = (390, 844), (1280, 900)
#: Milliseconds after which a page is given up: a slow machine is no fault of a page.
PATIENCE = 300_000
SMALLEST_CONTRAST = 4.5
#: Opens all that is folded, and waits for the steps of derivations, which are fetched.
OPEN_ALL = """async (place) => {
  const within = place ?? document;
  for (const fold of within.querySelectorAll("details")) fold.open = true;
  while (within.querySelector("details[data-steps]")) await new Promise((f) => setTimeout(f, 20));
}"""


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Headless Chromium; a machine without one fails, it does not skip."""
    path = browsers.find()
    assert path, f"no browser found: install one of {', '.join(browsers.NAMES)}"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log line for each."""

    def log_message(self, format: str, *arguments) -> None:
        """Say nothing."""


class QuietServer(http.server.ThreadingHTTPServer):
    """Says nothing of a reader who left before a file was whole."""

    def handle_error(self, request, client_address) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on the loopback address; gives the address."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with QuietServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Visit:
    """A browser page that records every request, error and byte."""

    def __init__(self, context: BrowserContext, site: str) -> None:
        self.site, self.foreign, self.errors, self.responses = site, [], [], []
        context.set_default_timeout(PATIENCE)
        self.page = context.new_page()
        self.page.on("request", self._request)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("response", lambda response: self.responses.append(response))

    def _request(self, request) -> None:
        if not request.url.startswith((self.site, "data:", "blob:")):
            self.foreign.append(request.url)

    def _console(self, message) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def open(self, path: str) -> Visit:
        """Open a page, scroll through it, and wait for what that loads."""
        self.page.goto(f"{self.site}/{path}", wait_until="load")
        self.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        self.page.wait_for_function("document.fonts.status === 'loaded'")
        self.page.wait_for_function("[...document.images].every((image) => image.complete)")
        return self

    def transferred(self) -> dict[str, int]:
        """Bytes of every file that was loaded."""
        return {r.url.removeprefix(self.site): len(r.body()) for r in self.responses if r.ok}

    def compressed(self) -> dict[str, int]:
        """Bytes of every file that was loaded, as hosts of pages send them: compressed by gzip."""
        loaded = (r for r in self.responses if r.ok)
        return {r.url.removeprefix(self.site): len(gzip.compress(r.body())) for r in loaded}


@contextlib.contextmanager
def visiting(browser: Browser, site: str, size=DESK, theme: str = "light") -> Iterator[Visit]:
    """A fresh reader, with nothing cached, who prefers the theme."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, service_workers="block"
    )
    try:
        yield Visit(context, site)
    finally:
        context.close()


#: How much of what is shown has moved since the page came (Cumulative Layout Shift, web.dev/cls;
#: shifts that a browser has seen are handed on within a frame).
MOVED = """() => new Promise((done) => {
  const sum = (list) => list.getEntries().reduce((all, e) => all + e.value, 0);
  const observer = new PerformanceObserver((list) => done(sum(list)));
  observer.observe({type: "layout-shift", buffered: true});
  setTimeout(() => done(0), 300);
})"""
MOST_MOVED = 0.05

#: Elements that stick out of the window, unless something around them scrolls or hides them.
STICKING_OUT = """() => {
  const width = document.documentElement.clientWidth, found = [];
  if (document.documentElement.scrollWidth > width) {
    for (const e of document.querySelectorAll("body *")) {
      if (e.getBoundingClientRect().right <= width + 1) continue;
      let p = e.parentElement, contained = false;
      for (; p && p !== document.body; p = p.parentElement)
        if (getComputedStyle(p).overflowX !== "visible") contained = true;
      if (!contained) found.push(e.tagName + "." + e.className + ": " + e.textContent.slice(0, 60));
    }
    found.push("scroll width " + document.documentElement.scrollWidth + " > " + width);
  }
  return found;
}"""

#: Text of the article whose contrast with what is behind it is too small.
FAINT = """(smallest) => {
  const canvas = document.createElement("canvas"); canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d", {willReadFrequently: true});
  const known = new Map();
  const rgba = (color) => {
    if (!known.has(color)) {
      context.clearRect(0, 0, 1, 1); context.fillStyle = color; context.fillRect(0, 0, 1, 1);
      known.set(color, [...context.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(color); };
  const light = (c) => { const f = c.slice(0, 3).map((v) => v / 255)
      .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const behind = (e) => { for (; e; e = e.parentElement) {
      const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 200) return c; }
    return [255, 255, 255, 255]; };
  const hidden = ".katex-mathml, .headerlink, svg, .visually-hidden, .sd-sr-only, button";
  const found = new Set();
  for (const e of document.querySelectorAll("article *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (e.closest(hidden)) continue;
    const a = light(rgba(getComputedStyle(e).color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < smallest) found.add(e.tagName + "." + e.className + " " + ratio.toFixed(2)
        + ": " + e.textContent.trim().slice(0, 40));
  }
  return [...found];
}"""

"""One style sheet, and no script that a page waits for, in a built book.

A page of the theme names sixteen style sheets, one of them imports another, and most scripts stop
the reading of the page until they have come: each is a journey to the server before anything is
seen. Here

- the style sheets of a page become one, with all rules in the order they had;
- an article with formulas shows itself when their letters are there: later ones move the text;
- scripts run when the page is read, in the order they had;
- the options that other scripts of the page ask for at once are written into it.
"""

from __future__ import annotations

import hashlib
import re
from itertools import chain, repeat
from pathlib import Path
from posixpath import dirname, normpath, relpath

from attnverify.support.files import write_text

STATIC = "_static"
SHEET = re.compile(r'[ \t]*<link\b[^>]*\brel="stylesheet"[^>]*>\n?')
HREF = re.compile(r'\bhref="([^"?]*)')
CHARSET = re.compile(r'@charset\s+"[^"]*";')
URL = re.compile(r"""url\(\s*["']?([^"')]+)["']?\s*\)""")
IMPORT = re.compile(r"""@import\s+["']([^"']+)["'];?""")
OPTIONS = re.compile(r'<script src="([^"?]*documentation_options\.js)[^"]*"></script>')
WAITED_FOR = re.compile(r"<script\b(?![^>]*\bdefer\b)([^>]*\bsrc=)")
#: Behind the sheet, which names the fonts. No letters within a second are no reason to wait longer.
LETTERS = """<script>{ const { dataset } = document.documentElement, { fonts } = document;
  dataset.letters = "coming";
  const come = () => delete dataset.letters;
  const names = ["1em KaTeX_Main", "italic 1em KaTeX_Math"];
  Promise.all(names.map((name) => fonts.load(name))).then(come, come);
  setTimeout(come, 1000); }</script>
"""
SEARCH = "search.html"  # its index and what reads it depend on the moment at which they run


def bundle(root: Path) -> None:
    """Rewrite the pages below ``root``; pages that name the same sheets share one file."""
    bundles: dict[tuple[str, ...], str] = {}
    for page in sorted(root.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        folder = page.parent.relative_to(root).as_posix()
        names = tuple(normpath(f"{folder}/{name}") for name in sheets(text))
        if not names or page.is_relative_to(root / STATIC):
            continue  # a page that only sends elsewhere; a template of the theme
        if names not in bundles:
            bundles[names] = _write(root, "\n".join(sheet(root, name) for name in names))
        text = with_one_sheet(text, relpath(bundles[names], folder))
        if page.name != SEARCH:
            text = without_waiting(text, page.parent)
        page.write_text(text, encoding="utf-8")
    for name in set(chain.from_iterable(bundles)):
        (root / name).unlink()


def sheets(page: str) -> list[str]:
    """The addresses of a page's style sheets, in their order."""
    return [found[1] for link in SHEET.findall(page) if (found := HREF.search(link))]


def with_one_sheet(page: str, address: str) -> str:
    """The page with one style sheet where its first one was, and without the others."""
    letters = LETTERS if 'class="katex"' in page else ""
    links = chain([f'<link rel="stylesheet" href="{address}" />\n{letters}'], repeat(""))
    return SHEET.sub(lambda _: next(links), page)


def sheet(root: Path, name: str) -> str:
    """A style sheet below ``root`` with what it imports, its addresses as seen from STATIC."""
    folder = dirname(name)

    def moved(found: re.Match[str]) -> str:
        if ":" in found[1] or found[1].startswith(("#", "/")):
            return found[0]  # data, a part of the page, an address of its own
        return f'url("{relpath(normpath(f"{folder}/{found[1]}"), STATIC)}")'

    text = URL.sub(moved, CHARSET.sub("", (root / name).read_text(encoding="utf-8")))
    text = IMPORT.sub(lambda found: sheet(root, normpath(f"{folder}/{found[1]}")), text)
    if "@import" in text:
        raise ValueError(f"{name}: got an @import that is no quoted file, expected one")
    return text


def _write(root: Path, text: str) -> str:
    """Write a sheet under a name that changes with it; the name as seen from ``root``."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    name = f"{STATIC}/styles-{digest}.css"
    write_text(root / name, f'@charset "UTF-8";\n{text}')
    return name


def without_waiting(page: str, folder: Path) -> str:
    """The page (of ``folder``) with its options written out and its scripts run afterwards."""

    def written(found: re.Match[str]) -> str:
        return f"<script>{(folder / found[1]).read_text(encoding='utf-8')}</script>"

    return WAITED_FOR.sub(r"<script defer\1", OPTIONS.sub(written, page))

"""Finish the pages of a built book: drop scripts they do not need, mend the theme's markup.

- Icons come from the theme's icon fonts, so its script of 1.5 MB with all icons is left out.
- Only the search page loads the search index, which leaves out what it would have twice.
- Names, operators and brackets of code are in the color of its text, without an element each.
- Pictures say how large they are, so the text does not jump when they arrive.
- Sections say about how high they are, so that a phone lays out those in view alone.
- A page waits for no script that can wait; these run in their order when the page has been read.
- Markup that axe-core objects to is mended (:mod:`attnverify.book.sphinx.private_interfaces`).

    python -m attnverify.book.html.finish_pages HTML_FOLDER
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path

from attnverify.book.sphinx.private_interfaces import MENDS, SCRIPT_MENDS
from attnverify.support.files import write_text

ICON_SCRIPT = re.compile(r'[ \t]*<script defer[^>]*src="[^"]*fontawesome\.js[^"]*"></script>\n?')
SEARCH_SCRIPTS = re.compile(
    r'[ \t]*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>\n?'
)
#: Pages without the search scripts: the theme asks whether there is a global of this name.
NO_SEARCH = "<script>var Search = null;</script></head>"
#: Where a page names no icon, as the redirect to the first page, a browser asks the host for one.
NO_ICON = '<link rel="icon" href="data:,">'
#: Parts of code by the theme's short names: name, module, operator, punctuation, white space.
PLAIN = re.compile(r'<span class="(?:n|nn|o|p|w)">([^<]*)</span>')
IMAGE = re.compile(r'<img\b(?![^>]*\b(?:width|height)=)[^>]*\bsrc="([^":?]+)[^>]*>')
SVG_SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)pt"[^>]*?\bheight="([\d.]+)pt"')
#: Inline scripts of a page set what this one declares, so it is not put off.
DECLARES = "documentation_options.js"
SCRIPT = re.compile(rf'<script (?!defer)(?=[^>]*\bsrc=")(?![^>]*{DECLARES})')
SECTION = re.compile(r"<section\b|</section>")
HIDDEN = re.compile(
    r'<span class="katex-mathml">.*?</math></span>|<details.*?</details>|<(script|style).*?</\1>',
    re.S,
)
TAG = re.compile(r"<[^>]*>")
#: Pixels of what a section shows, on a phone 360 wide, beside one a letter. On 291 sections the
#: true height was 0.5 to 0.95 of the estimate.
HEIGHTS = {
    r"<details": 40,
    r'class="katex-display': 60,
    r"<tr\b": 40,
    r"<(?:img|figure|iframe)\b": 300,
    r"<(?:p|li|dt|dd|h\d)\b": 30,
}
PIXELS_PER_POINT = 4 / 3  # CSS: 96 pixels and 72 points to the inch


def finish(root: Path) -> None:
    """Apply every step to the built book below ``root``."""
    static = root / "_static"  # with templates of the theme among its files
    for file in (page for page in root.rglob("*.html") if static not in page.parents):
        write_text(file, finished(file))
    if (index := root / "searchindex.js").is_file():
        write_text(index, without_entries(index.read_text(encoding="utf-8")))
    for name, (wrong, right) in SCRIPT_MENDS.items():
        for script in root.rglob(name):
            write_text(script, script.read_text(encoding="utf-8").replace(wrong, right))
    for path in [*root.rglob("*.map"), *root.rglob("fontawesome.js*")]:
        path.unlink(missing_ok=True)


def finished(file: Path) -> str:
    """The page without what it does not need, its markup mended, with the sizes of its pictures."""
    text = PLAIN.sub(r"\1", ICON_SCRIPT.sub("", file.read_text(encoding="utf-8")))
    for wrong, right in MENDS:
        text = re.sub(wrong, right, text)
    if file.name != "search.html":
        text = SEARCH_SCRIPTS.sub("", text).replace("</head>", NO_SEARCH, 1)
        text = SCRIPT.sub("<script defer ", text)
    if 'rel="icon"' not in text:
        head, end, body = text.rpartition("</head>")  # a redirect has no head: all before its body
        text = f"{head}{NO_ICON}{end}{body}"
    return with_heights(with_sizes(text, file.parent))


def without_entries(index: str) -> str:
    """The search index without the general index: a quarter of it, names that `objects` has."""
    start, end = "Search.setIndex(", ")"
    data = json.loads(index.strip().removeprefix(start).removesuffix(end))
    return f"{start}{json.dumps(data | {'indexentries': {}}, separators=(',', ':'))}{end}\n"


def with_heights(page: str) -> str:
    """The page with a custom property ``--height`` on each section below its title.

    A section that is taller than it says lies over the next one until it is in view, so the number
    should rather be too large.
    """
    parts, depth, end = [], 0, 0
    for found in SECTION.finditer(page):
        opens = found[0] != "</section>"
        depth += 1 if opens else -1
        if (opens and depth == 2) or (not opens and depth == 1):
            parts.append(page[end : found.start()])
            end = found.start()
    parts.append(page[end:])
    for k in range(1, len(parts) - 1, 2):
        height = f'<section style="--height: {_height(parts[k])}px"'
        parts[k] = parts[k].replace("<section", height, 1)
    return "".join(parts)


def _height(section: str) -> int:
    """The pixels that a section takes on a phone, with its details closed."""
    shown = HIDDEN.sub(lambda found: found[0][:8] if found[0].startswith("<d") else "", section)
    kinds = sum(pixels * len(re.findall(what, shown)) for what, pixels in HEIGHTS.items())
    return round(1.1 * (len(" ".join(TAG.sub("", shown).split())) + kinds))


def with_sizes(page: str, folder: Path) -> str:
    """The page, whose file lies in ``folder``, with the sizes of its drawings."""

    def sized(match: re.Match[str]) -> str:
        if found := drawing_size((folder / match[1]).resolve()):
            return match[0].replace("<img", f'<img width="{found[0]}" height="{found[1]}"', 1)
        return match[0]

    return IMAGE.sub(sized, page)


@cache
def drawing_size(file: Path) -> tuple[int, int] | None:
    """Width and height, in CSS pixels, of a drawing by matplotlib; None for any other picture."""
    if file.suffix != ".svg" or not file.is_file():
        return None
    found = SVG_SIZE.search(file.read_text(encoding="utf-8")[:4096])
    if found is None:
        return None
    width, height = (round(float(side) * PIXELS_PER_POINT) for side in found.groups())
    return width, height


if __name__ == "__main__":
    finish(Path(sys.argv[1]))

"""Make a built book light and self-contained, without changing what a reader sees.

The theme ships every Font Awesome icon as a 1.5 MB script and as fonts, all of
Bootstrap's style rules, source maps, and loads the search index on every page. Here

- icons come from a font with only the glyphs that the pages use;
- style rules whose classes occur in no page and no script are dropped;
- the search index is loaded by the search page only;
- figures have a second drawing for phones;
- style sheets are one, and no script is waited for;
- source maps and unused fonts are removed.

    python src/attnverify/book/html/slim_html.py HTML_FOLDER
"""

from __future__ import annotations

import re
import sys
from itertools import chain
from pathlib import Path

import tinycss2
from fontTools import subset
from fontTools.ttLib import TTFont

from attnverify.book.html.bundle_styles import bundle
from attnverify.book.html.mend_html import mend
from attnverify.book.html.narrow_figures import split, with_narrow
from attnverify.book.html.size_images import with_sizes

STYLES = Path("_static")
PICTURES = Path("_images")
#: Sheets of which a page uses a small part; KaTeX's has classes that its script puts together.
PURGED = ("styles/pydata-sphinx-theme.css", "sphinx-design.min.css", "mystnb.*.css")
FONTS = Path("_static/vendor/fontawesome/webfonts")
#: Scripts that only the search page needs; `Search` is what the theme asks for.
SEARCH_SCRIPTS = re.compile(
    r'[ \t]*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>\n?'
)
ICON_SCRIPT = re.compile(r'[ \t]*<script defer[^>]*src="[^"]*fontawesome\.js[^"]*"></script>\n?')
THEME_SCRIPT = Path("_static/scripts/pydata-sphinx-theme.js")
#: The boxes that the theme measures while a page loads; scrollers.js does that when there is time.
MEASURED = (
    'document.querySelectorAll(["pre",".nboutput > .output_area",".cell_output > .output",'
    '".jp-RenderedHTMLCommon",".pst-scrollable-table-container"].join(", "))'
)
WORD = re.compile(r"[A-Za-z0-9_-]+")
CLASS = re.compile(r"\.((?:\\.|[\w-])+)")
NEGATION = re.compile(r":not\([^()]*\)")


def trim_pages(root: Path) -> None:
    """Drop scripts that only icons or the search page need; mend; say how large pictures are."""
    for page in sorted(root.rglob("*.html")):
        text = mend(ICON_SCRIPT.sub("", page.read_text(encoding="utf-8")))
        text = with_narrow(with_sizes(text, page.parent), page.parent)
        if page.name != "search.html":
            # The theme reads a global Search to offer results while typing.
            text = SEARCH_SCRIPTS.sub("", text)
            text = text.replace("</head>", "<script>var Search = null;</script></head>", 1)
        page.write_text(text, encoding="utf-8")


def measure_nothing(root: Path) -> None:
    """Keep the theme from measuring boxes; ValueError if its script is another one."""
    script = root / THEME_SCRIPT
    text = script.read_text(encoding="utf-8")
    if text.count(MEASURED) != 1:
        raise ValueError(
            f"{THEME_SCRIPT}: got {text.count(MEASURED)} places that measure, expected 1"
        )
    script.write_text(text.replace(MEASURED, "[]"), encoding="utf-8")


def used_words(root: Path) -> set[str]:
    """Every word in a page or a script: a class name that is used is one of them."""
    words: set[str] = set()
    ignored = {"fontawesome.js", "searchindex.js"}
    for path in sorted(root.rglob("*")):
        if path.suffix in {".html", ".js"} and path.name not in ignored:
            words.update(WORD.findall(path.read_text(encoding="utf-8", errors="replace")))
    return words


def keeps(selector: str, words: set[str]) -> bool:
    """True if every class that the selector asks for may occur in a page."""
    classes = CLASS.findall(NEGATION.sub("", selector))
    return all(name.replace("\\", "") in words for name in classes)


def split_selectors(tokens: list) -> list[str]:
    """The comma-separated selectors of a rule; commas inside brackets do not split."""
    parts: list[list] = [[]]
    for token in tokens:
        if token.type == "literal" and token.value == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return [tinycss2.serialize(part).strip() for part in parts]


def purge(css: str, words: set[str]) -> str:
    """The style sheet without the rules whose classes are in no page and no script."""
    rules = tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True)
    return "\n".join(filter(None, (_purge_rule(rule, words) for rule in rules)))


def _purge_rule(rule, words: set[str]) -> str:
    if rule.type == "error":
        raise ValueError(f"style sheet: line {rule.source_line}: {rule.message}")
    if rule.type == "qualified-rule":
        kept = [s for s in split_selectors(rule.prelude) if keeps(s, words)]
        return f"{','.join(kept)}{{{tinycss2.serialize(rule.content)}}}" if kept else ""
    if rule.at_keyword in {"media", "supports"} and rule.content is not None:
        inner = purge(tinycss2.serialize(rule.content), words)
        return f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{inner}}}" if inner else ""
    return rule.serialize()


def glyphs(css: str) -> set[int]:
    """Private-use code points that the style sheet still shows (Font Awesome's icons)."""
    escaped = {int(code, 16) for code in re.findall(r"\\([0-9a-f]{4,5})", css)}
    literal = {ord(char) for char in css}
    return {code for code in escaped | literal if 0xE000 <= code <= 0xF8FF}


def subset_font(source: Path, wanted: set[int]) -> None:
    """Write SOURCE.woff with the wanted glyphs only (woff, as woff2 needs a compressor)."""
    font = TTFont(source, recalcTimestamp=False)  # equal pages give equal files
    options = subset.Options(flavor="woff", layout_features=[], notdef_outline=True)
    tool = subset.Subsetter(options)
    tool.populate(unicodes=wanted & set(font.getBestCmap() or {}))
    tool.subset(font)
    subset.save_font(font, source.with_suffix(".woff"), options)


def slim_icons(root: Path) -> None:
    """Icon fonts with the glyphs that the theme's style sheet still shows, as woff."""
    sheet = root / STYLES / PURGED[0]
    css = sheet.read_text(encoding="utf-8")
    for font in sorted((root / FONTS).glob("*.ttf")):
        subset_font(font, glyphs(css))
    css = re.sub(
        r'(url\([^)]*)\.woff2\) format\("woff2"\),url\([^)]*\.ttf\) format\("truetype"\)',
        r'\1.woff) format("woff")',
        css,
    )
    sheet.write_text(css, encoding="utf-8")


def slim(root: Path) -> None:
    """Apply every step to the built book below root."""
    split(root / PICTURES)
    trim_pages(root)
    measure_nothing(root)
    words = used_words(root)
    for sheet in sorted(chain.from_iterable((root / STYLES).glob(name) for name in PURGED)):
        css = purge(sheet.read_text(encoding="utf-8"), words)
        sheet.write_text(css, encoding="utf-8")
    slim_icons(root)
    bundle(root)
    fonts = root / FONTS
    unwanted = {
        *root.rglob("*.map"),
        *root.rglob("fontawesome.js*"),
        *fonts.glob("*.ttf"),
        *fonts.glob("*.woff2"),
    }
    for path in unwanted:
        path.unlink()


if __name__ == "__main__":
    slim(Path(sys.argv[1]))

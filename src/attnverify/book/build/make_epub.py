"""Write the built book to _build/attention-verified.epub with pandoc. `make epub` calls this.

One file for e-readers: a chapter a section, formulas as MathML, links between chapters, solutions
as an appendix.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pypandoc
import yaml
from bs4 import BeautifulSoup, Tag

from attnverify.book.build.one_page import ONE_FILE, Book, reading_order

ROOT = Path(__file__).resolve().parents[4]
STYLE = """
.proof, .admonition, .ledger { border-left: 3px solid #888; padding-left: 0.8em; margin: 1em 0; }
figcaption, .caption { font-size: 0.9em; }
table { border-collapse: collapse; font-size: 0.85em; }
td, th { border: 1px solid #aaa; padding: 0.2em 0.4em; text-align: left; vertical-align: top; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.85em; }
img { max-width: 100%; height: auto; }
"""
#: What is on a page for its reader's hand or for a style sheet, and has no place in an e-reader.
LEFT_OUT = (
    ".katex-html, .headerlink, .copybtn, .attnverify-cite, button, fieldset, script, style, link"
)
DRAWING = re.compile(r'<svg role="img".*?</svg>', re.S)
#: Elements that keep their name in pandoc's model of a document.
NAMED = ("a", "code", "div", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "span", "table")
#: Elements around the book or a chapter: pandoc makes sections of its own, by headings.
AROUND = ("main", "article", "section")


class ConversionError(RuntimeError):
    """pandoc refused the page; the message says what it said."""


def drawings_apart(page: str, folder: Path) -> str:
    """The page with each drawing that stands in it written to a file, and shown from there.

    The parser of the page writes names in small letters, and ``viewBox`` is none of them.
    """
    found = itertools.count()

    def apart(match: re.Match) -> str:
        file = folder / f"drawing{next(found)}.svg"
        file.write_text(match.group(), encoding="utf-8")
        words = re.search(r'aria-label="([^"]*)"', match.group())
        return f'<img src="{file}" alt="{words.group(1) if words else ""}">'

    return DRAWING.sub(apart, page)


def for_readers(page: str) -> str:
    """The one page with each formula as MathML alone, and without what only a browser can use."""
    soup = BeautifulSoup(page, "html.parser")
    for element in soup.select(LEFT_OUT):
        element.decompose()
    for title in soup.select(".proof-title, .admonition-title, summary"):
        strong = Tag(name="strong")
        strong.extend(list(title.contents))
        title.append(strong)
    for folded in soup.find_all(["details", "summary"]):
        folded.name = "div" if folded.name == "details" else "p"
    for element in soup.find_all(id=True):
        if element.name in AROUND and (heading := element.find(["h1", "h2", "h3", "h4", "h5"])):
            _name(heading, str(element["id"]))
        elif element.name == "figure":
            element.wrap(Tag(name="div", attrs={"id": element["id"]}))
            del element["id"]
        elif element.name not in NAMED:
            _mark(element, str(element["id"]))
            del element["id"]
    for element in soup.find_all(AROUND):
        element.unwrap()
    return str(soup)


def _name(heading: Tag, name: str) -> None:
    """Give a heading its section's name; a second name is a place in it."""
    if heading.get("id"):
        _mark(heading, name)
    else:
        heading["id"] = name


def _mark(element: Tag, name: str) -> None:
    """Put a place that links lead to at the start of an element."""
    cell = element.find(["td", "th"]) if element.name in ("tr", "tbody", "thead") else element
    place = Tag(name="span", attrs={"id": name})
    (cell or element).insert(0, place)


def metadata() -> dict[str, object]:
    """What a library lists of the book, from the file on how to cite it."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    names = [author.get("name") or author["family-names"] for author in cited["authors"]]
    return {
        "title": cited["title"],
        "author": names,
        "lang": "en",
        "description": cited["abstract"],
    }


def write_epub(page: str, folder: Path, target: Path, pandoc: str) -> None:
    """Convert the one page; pictures are found below ``folder``. Written, then renamed.

    Raises ConversionError with what pandoc said if it fails or warns.
    """
    partial = target.with_suffix(".partial.epub")
    with tempfile.TemporaryDirectory() as name:
        source, style, about = (Path(name, n) for n in ("book.html", "book.css", "about.yaml"))
        text = for_readers(drawings_apart(page, Path(name)))
        source.write_text(text, encoding="utf-8")
        style.write_text(STYLE, encoding="utf-8")
        about.write_text(yaml.safe_dump(metadata()), encoding="utf-8")
        done = subprocess.run(
            [
                *(pandoc, source, "--from=html", "--to=epub3", f"--output={partial}"),
                *("--mathml", "--split-level=1", "--toc", "--toc-depth=2", "--wrap=none"),
                *(f"--css={style}", f"--metadata-file={about}", f"--resource-path={folder}"),
                "--fail-if-warnings",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        partial.unlink(missing_ok=True)
        raise ConversionError(f"pandoc: exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
    partial.replace(target)


def main() -> int:
    """Join the pages, convert them, and say how long it took."""
    start = time.perf_counter()
    folder, target = ROOT / "_build" / "html", ROOT / "_build" / f"{ONE_FILE}.epub"
    page = Book(folder, reading_order(ROOT)).joined()
    write_epub(page, folder, target, pypandoc.get_pandoc_path())
    size = target.stat().st_size / 1e6
    print(f"wrote {target.relative_to(ROOT)}: {size:.1f} MB, {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

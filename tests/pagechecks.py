"""What a built page must not have, as functions that return the offences they find."""

from __future__ import annotations

import gc
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import yaml
from bs4 import BeautifulSoup, Tag

from places import ROOT

#: Elements that make a browser fetch something, with the attributes that name it.
FETCHING = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "object": ("data",),
    "embed": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
#: Elements whose text is no prose; an annotation is a formula's source, for those who copy it.
NOT_PROSE = ["pre", "code", "script", "style", "annotation", "textarea"]
#: <link rel=...> that a browser follows by itself; rel="license" and the like it does not.
FOLLOWED = {
    "stylesheet",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "icon",
    "modulepreload",
    "manifest",
    "shortcut",
}
REMOTE = re.compile(r"(?:https?:)?//", re.I)
REMOTE_CSS = re.compile(r"""(?:url\(\s*|@import\s+)['"]?(?:https?:)?//[^);]*""", re.I)
PATH_LIKE = re.compile(r"[\w./-]+\.(?:png|svg|jpe?g|gif|webp)$|^[\w-]*[/\\][^ ]*$", re.I)
SHORTEST_ALT = 20


def docnames() -> list[str]:
    """Every page of the table of contents."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [c["file"] for part in toc["parts"] for c in part["chapters"]]
    return [toc["root"], *chapters]


#: A page of every template: text, a chapter with formulas, pictures and code, generated pages.
TEMPLATES = (
    "book/index",
    "book/formal",
    "book/generated/status",
    "book/generated/map",
    "book/api/eigenspectrum",
    "notebooks/norms",
)


@cache
def soup(path: Path) -> BeautifulSoup:
    """The parsed page, which many tests look at and none changes.

    It stays for the whole run, so the collector of garbage leaves it out: going through all pages
    again and again took it half of the time of parsing them.
    """
    gc.disable()
    try:
        return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    finally:
        gc.freeze()
        gc.enable()


def remote_resources(page: BeautifulSoup) -> list[str]:
    """Everything that opening the page would fetch from another host."""
    found = []
    for tag, names in FETCHING.items():
        for element in page.find_all(tag):
            if tag == "link" and not FOLLOWED.intersection(element.get("rel") or []):
                continue
            found += [
                f"<{tag} {name}={value}>"
                for name in names
                if REMOTE.search(value := element.get(name) or "")
            ]
    styles = [element.get_text() for element in page.find_all("style")]
    styles += [element["style"] for element in page.find_all(style=True)]
    return found + [hit for style in styles for hit in remote_css(style)]


def remote_css(css: str) -> list[str]:
    """Every address of another host that a style sheet loads."""
    return REMOTE_CSS.findall(css)


def bad_alt(alt: str | None) -> bool:
    """True if the text does not describe a figure: missing, short, or a path."""
    text = (alt or "").strip()
    return len(text) < SHORTEST_ALT or bool(PATH_LIKE.search(text))


def undescribed_images(page: BeautifulSoup) -> list[str]:
    """Images of the article without a description; theme icons need an alt attribute only."""
    article = page.find("article") or page
    found = [str(i)[:200] for i in page.find_all("img") if i.get("alt") is None]
    found += [str(i)[:200] for i in article.find_all("img") if bad_alt(i.get("alt"))]
    for svg in article.find_all("svg"):
        decorative = svg.get("aria-hidden") == "true" or svg.find_parent(class_="katex")
        # A copy button's icon: the button around it has a name of its own.
        if decorative or svg.find_parent(["button", "summary"]):
            continue
        title = svg.find("title")
        if bad_alt(svg.get("aria-label") or (title.get_text() if title else None)):
            found.append(str(svg)[:200])
    return found


def math_errors(page: BeautifulSoup) -> list[str]:
    """Formulas that the renderer could not read, that nothing rendered, and TeX in running text.

    The last is what is left of a formula that Markdown took for something else: a line of it that
    begins with "+ " is an item of a list.
    """
    tags = [(e, e.get("class") or ()) for e in page.find_all(True)]  # selectors take ten times that
    errors = [e for e, names in tags if "katex-error" in names or e.name == "merror"]
    found = [e.get("title", "") or e.get_text() for e in errors]
    formulas = [e for e, names in tags if "math" in names and e.name in ("span", "div")]
    unrendered = [e for e in formulas if not e.select_one(".katex, .katex-error")]
    found += [e.get_text()[:200] for e in unrendered]
    return found + raw_tex(page.find("article"))


def raw_tex(article: Tag | None) -> list[str]:
    """Texts with a dollar sign or a backslash where neither code nor a formula is shown."""
    texts = article.find_all(string=re.compile(r"[$\\]")) if article else []
    return [str(text)[:200] for text in texts if not text.find_parent(NOT_PROSE)]


def anchors(page: BeautifulSoup) -> set[str]:
    """Every place in the page that a link can name."""
    named = page.find_all("a", attrs={"name": True})
    return {e["id"] for e in page.find_all(id=True)} | {e["name"] for e in named}


def broken_links(root: Path) -> list[str]:
    """Links inside the book whose page or anchor does not exist."""
    pages = {path.resolve(): soup(path) for path in sorted(root.rglob("*.html"))}
    places = {path: anchors(page) for path, page in pages.items()}
    found = []
    for path, page in pages.items():
        for element in page.find_all("a", href=True):
            url, fragment = urldefrag(element["href"])
            if urlsplit(url).scheme or url.startswith("//"):
                continue
            target = (path.parent / unquote(urlsplit(url).path)).resolve() if url else path
            known = places.get(target, {unquote(fragment)})
            if not target.exists() or (fragment and unquote(fragment) not in known):
                found.append(f"{path.relative_to(root.resolve())}: {element['href']}")
    return found

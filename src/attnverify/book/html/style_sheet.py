"""One style sheet for all pages: what the theme and its extensions bring, less what no page uses.

Sphinx links fifteen style sheets, 590 kB, and a page shows nothing before it has them all. Rules
stay if one of their selectors names only classes and ids that some page or script has. Which ones a
selector excludes (`:not(.x)`) or asks for inside `:is()` does not count.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tinycss2

from attnverify.support.files import write_text

LINKS = re.compile(r'[ \t]*<link\b(?=[^>]*\brel="stylesheet")[^>]*\bhref="([^":?]+)[^>]*>\n?')
#: Where a page or a script names classes and ids.
ATTRIBUTE = re.compile(r'\b(?:class|id)="([^"]*)"|<script>(.*?)</script>', re.S)
WORD = re.compile(r"[\w-]+")
IMPORT = re.compile(r'@import "([^"]+)";')
CHARSET = '@charset "UTF-8";'
#: A file that a style sheet names, relative to its own folder.
NAMED = re.compile(r"url\(([^\"':)]+)\)")


def used_names(pages: Iterable[str], scripts: Iterable[str]) -> frozenset[str]:
    """Every word that may be a class or an id of an element."""
    found = {word for text in scripts for word in WORD.findall(text)}
    for page in pages:
        for parts in ATTRIBUTE.findall(page):
            found.update(word for part in parts for word in WORD.findall(part))
    return frozenset(found)


def with_one_sheet(page: str, folder: Path, home: Path, used: frozenset[str]) -> str:
    """The page, whose file lies in ``folder``, with one sheet in ``home`` for all that it links."""
    head, end, rest = page.partition("</head>")
    files = tuple((folder / name).resolve() for name in LINKS.findall(head))
    if not files:
        return page
    name = os.path.relpath(sheet(files, home.resolve(), used), folder.resolve())
    link = f'<link rel="stylesheet" href="{Path(name).as_posix()}" />\n'
    return LINKS.sub("", head) + link + end + rest


@cache
def sheet(files: tuple[Path, ...], home: Path, used: frozenset[str]) -> Path:
    """The file that holds the style sheets one after the other, named by its contents."""
    text = "".join(source(file, home) for file in files)
    rules = tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True)
    text = CHARSET + tinycss2.serialize(list(needed(rules, used)))
    path = home / f"book-{hashlib.sha256(text.encode()).hexdigest()[:12]}.css"
    write_text(path, text)
    return path


def source(file: Path, home: Path) -> str:
    """A style sheet with what it imports; the files that it names are named from ``home``."""

    def moved(match: re.Match[str]) -> str:
        return f"url({Path(os.path.relpath(file.parent / match[1], home)).as_posix()})"

    text = NAMED.sub(moved, file.read_text(encoding="utf-8").replace(CHARSET, ""))
    return IMPORT.sub(lambda match: source((file.parent / match[1]).resolve(), home), text)


def needed(rules: Iterable[Any], used: frozenset[str]) -> Iterator[Any]:
    """The rules that may apply to an element; a group without such rules goes."""
    for rule in rules:
        if rule.type == "qualified-rule" and not _may_apply(rule.prelude, used):
            continue
        if rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports"):
            inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
            rule.content = list(needed(inner, used))
            if not rule.content:
                continue
        yield rule


def _may_apply(prelude: list[Any], used: frozenset[str]) -> bool:
    """Whether one of the selectors, which commas part, names only what is used."""
    known, after_dot = True, False
    for token in prelude:
        if token.type == "literal" and token.value == ",":
            if known:
                return True
            known = True
        elif (token.type == "ident" and after_dot) or token.type == "hash":
            known = known and token.value in used
        after_dot = token.type == "literal" and token.value == "."
    return known

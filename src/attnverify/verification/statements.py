"""Claims as chapters state them, in fences of MyST. Nothing is executed.

A fence ``{claim} ID`` has a line ``:title: ...`` and the like for each field of a claim, an empty
line, and the statement; ``{reading} ID``, behind it, has a common reading that this claim refutes.
A field may go on in an indented line. ``:source:`` and ``:related:`` may come several times.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, get_args

from attnverify.derivation.myst import code_cells, fences
from attnverify.support.errors import nearest, require
from attnverify.verification.claim import Assertion, Claim, Kind, Reading, Source

FIELD = re.compile(r":([\w-]+):[ \t]*(.*)")
MANY = ("source", "related")
CHECK = "check"  # the tag of check cells
#: The fields of a fence, and the attribute that each is, where it has another name.
CLAIM = ("title", "kind", *MANY, "here", "uses", "asserts", "because", "corrected-by", "sharpens")
CLAIM += ("reads",)
READING = ("near", "instance", "check", "twin", "holds")


class Fence(NamedTuple):
    """A fence: "claim" or "reading", an id, its fields, its text, and where it is in words."""

    what: str
    id: str
    fields: dict[str, list[str]]
    text: str
    where: str

    def get(self, name: str, default: str = "") -> str:
        """A field that comes once."""
        found = self.fields.get(name, [default])
        require(len(found) == 1, self.where, f":{name}: {len(found)} times", f"one :{name}:")
        return found[0]


def read(text: str, chapter: str) -> list[Claim]:
    """The claims that a chapter states; raises InputError that names the line of what is wrong.

    text: of the notebook, as MyST; chapter: its stem, or the name of a file.

    >>> from attnverify.verification.statements import read
    >>> lines = ["```{claim} mine.squares", ":title: Squares", ":kind: lemma", "", "$x^2 > -1$."]
    >>> [claim.title for claim in read("\\n".join([*lines, "```"]), "mine")]
    ['Squares']
    """
    found = list(_fences(text, chapter))
    stated = {fence.id for fence in found if fence.what == "claim"}
    for fence in (f for f in found if f.id not in stated):
        words = f"the id of a claim of this chapter{nearest(fence.id, stated)}"
        require(False, fence.where, repr(fence.id), words)
    readings = [fence for fence in found if fence.what == "reading"]
    checks = [cell.source for cell in code_cells(text) if CHECK in cell.tags]
    return [
        replace(
            _claim(fence, chapter, tuple(_reading(r) for r in readings if r.id == fence.id)),
            checked=_checked(fence.id, checks, stated),
        )
        for fence in found
        if fence.what == "claim"
    ]


def _checked(id: str, cells: list[str], stated: set[str]) -> str:
    """A digest of the cells that name a claim, and of those that name none and so help all."""
    named = {cell: {each for each in stated if f'"{each}"' in cell} for cell in cells}
    if not any(id in ids for ids in named.values()):
        return ""
    own = [cell for cell, ids in named.items() if id in ids or not ids]
    lines = [line.rstrip() for cell in own for line in cell.splitlines() if line.strip()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def only(text: str) -> str:
    """Of a chapter the fences that :func:`read` reads, as MyST."""
    lines, found = text.splitlines(), []
    for info, line, inside in fences(text):
        if info.startswith(("{claim} ", "{reading} ")):
            found += lines[line - 1 : line + len(inside) + 1]
    return "\n".join([*found, ""])


def _fences(text: str, chapter: str) -> Iterator[Fence]:
    for info, line, lines in fences(text):
        what, _, id = info.partition(" ")
        if what in ("{claim}", "{reading}"):
            what, id = what.strip("{}"), id.strip()
            name = chapter if "." in chapter else f"{chapter}.md"
            where = f"{name}, line {line}: {what} {id}"
            fields, text = _split(lines, CLAIM if what == "claim" else READING, where)
            yield Fence(what, id, fields, text, where)


def _split(
    lines: list[str], allowed: tuple[str, ...], where: str
) -> tuple[dict[str, list[str]], str]:
    """The fields at the top of a fence, and the text behind them."""
    fields: dict[str, list[str]] = {}
    last = ""
    for number, line in enumerate(lines):
        if field := FIELD.match(line):
            last = field[1]
            if last not in allowed:
                words = f"one of {', '.join(allowed)}{nearest(last, allowed)}"
                require(False, where, f":{last}:", words)
            fields.setdefault(last, []).append(field[2].strip())
        elif last and line[:1].isspace() and line.strip():
            fields[last][-1] += f" {line.strip()}"
        else:
            return fields, "\n".join(lines[number:]).strip("\n")
    return fields, ""


def _claim(fence: Fence, chapter: str, refutes: tuple[Reading, ...]) -> Claim:
    _require(fence, "title", "kind")
    for name, known in (("kind", get_args(Kind)), ("asserts", get_args(Assertion))):
        value = fence.get(name, "holds")
        require(value in known, f"{fence.where}: {name}", repr(value), f"one of {', '.join(known)}")
    sources = [s for name in MANY for s in _sources(fence, name)]
    return Claim(
        fence.id,
        fence.get("title"),
        fence.get("kind"),  # type: ignore[arg-type]
        fence.text,
        notebook=chapter,
        sources=tuple(sources),
        here=fence.get("here"),
        uses=tuple(id.strip() for id in fence.get("uses").split(",") if id.strip()),
        asserts=fence.get("asserts", "holds"),  # type: ignore[arg-type]
        fails_because=fence.get("because"),
        corrected_by=fence.get("corrected-by") or None,
        sharpens=fence.get("sharpens") or None,
        reads=fence.get("reads") or None,
        refutes=refutes,
    )


def _reading(fence: Fence) -> Reading:
    _require(fence, "near", "check", "holds")
    words = (fence.get(name) for name in ("near", "instance", "check", "holds"))
    return Reading(" ".join(fence.text.split()), *words, twin=fence.get("twin") or None)


def _require(fence: Fence, *names: str) -> None:
    for name in names:
        require(bool(fence.get(name)), fence.where, f"no :{name}:", f"a line :{name}: ...")
    require(bool(fence.text.strip()), fence.where, "no text", "the statement behind the fields")


def _sources(fence: Fence, name: str) -> Iterator[Source]:
    for words in fence.fields.get(name, []):
        key, comma, place = words.partition(",")
        require(bool(comma), f"{fence.where}: {name}", repr(words), "as 'dong2021, Theorem 2.2'")
        yield Source(key.strip(), place.strip(), related=name == "related")

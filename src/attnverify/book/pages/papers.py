"""What the map takes from files: chapters by part, the works they cite, what a work claims."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import yaml

CITED = re.compile(r"\{cite[^}]*\}`([^`]+)`")
#: What tells two works of one year apart, at the end of a key.
SUFFIX = re.compile(r"\d{4}([a-z]+)$")


class Chapter(NamedTuple):
    """A chapter of a numbered part: its short title, the part, the keys of what it cites."""

    title: str
    part: str
    cites: tuple[str, ...]


class Paper(NamedTuple):
    """A work: its name in the book, and what it claims."""

    label: str
    claims: str


def chapters(root: Path) -> dict[str, Chapter]:
    """The chapters of Parts I to VIII by their notebook, in the order of the book."""
    found = {}
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    for part in (part for part in toc["parts"] if part.get("numbered")):
        for chapter in part["chapters"]:
            text = (root / f"{chapter['file']}.md").read_text(encoding="utf-8")
            keys = (key.strip() for keys in CITED.findall(text) for key in keys.split(","))
            stem = Path(chapter["file"]).name
            found[stem] = Chapter(chapter["title"], part["caption"], tuple(dict.fromkeys(keys)))
    return found


def papers(root: Path) -> dict[str, Paper]:
    """The works of the bibliography by key; "–" where nobody has written what one claims."""
    from pybtex.database import parse_file

    claims = tomllib.loads((root / "book" / "papers.toml").read_text(encoding="utf-8"))
    entries = parse_file(root / "book" / "references.bib").entries
    labels = {key: _label(entry) for key, entry in entries.items()}
    count = Counter(labels.values())
    for key, label in labels.items():
        if count[label] > 1 and (suffix := SUFFIX.search(key)):
            labels[key] = f"{label} ({suffix[1]})"
    return {key: Paper(label, claims.get(key, "–")) for key, label in labels.items()}


def _label(entry) -> str:
    """As citations show it: "Dong et al., 2021"."""
    from pybtex.richtext import Text

    persons = entry.persons.get("author") or entry.persons["editor"]
    names = [str(Text.from_latex(" ".join(p.prelast_names + p.last_names))) for p in persons]
    shown = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
    return f"{shown}, {entry.fields['year']}"

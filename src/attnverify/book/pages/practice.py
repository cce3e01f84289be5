"""The page "In practice": ``book/practice.inc``, and below it the advice of each chapter."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ADVICE = re.compile(r"^\*\*For practice\.\*\* (.+)$", re.M)
TITLE = re.compile(r"^# (.+)$", re.M)
#: A target of {doc} that is relative to the folder of notebooks.
RELATIVE = re.compile(r"(\{doc\}`(?:[^`<]*<)?)(?=[^/`<>]+>?`)")


def text(root: Path) -> str:
    """The page as MyST; root: the folder with ``_toc.yml``, ``notebooks`` and ``book``."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    lines = [(root / "book" / "practice.inc").read_text(encoding="utf-8")]
    for part in toc["parts"]:
        files = [chapter["file"] for chapter in part["chapters"]]
        advice = [_line(root, file) for file in files if file.startswith("notebooks/")]
        lines += [f":::{{dropdown}} {part['caption']}", *advice, ":::", ""] if advice else []
    return "\n".join(lines)


def _line(root: Path, file: str) -> str:
    """The advice of one chapter, which links to it."""
    chapter = (root / f"{file}.md").read_text(encoding="utf-8")
    (advice,) = ADVICE.findall(chapter)
    link = f"{{doc}}`{TITLE.findall(chapter)[0]} </{file}>`"
    return f"- **{link}.** " + RELATIVE.sub(r"\g<1>/notebooks/", advice)

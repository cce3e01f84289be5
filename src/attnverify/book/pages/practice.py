"""The page "In practice": what someone who trains models does differently, chapter by chapter."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

INTRO = """\
# In practice

What someone who trains or analyzes models can do differently after each chapter. Five to begin
with:

1. **Log the relative residual by layer**: the norm of the tokens minus their mean, over the norm
   of the tokens. Near 0 means that tokens are alike ({doc}`/notebooks/collapse-relative`).
2. **Log the entropy of single attention rows**, not only its average, which hides rows of low
   entropy ({doc}`/notebooks/both-collapses`). Where it fell to near 0 in one experiment, on text
   with MLPs, a lower learning rate helped more than any penalty ({doc}`/notebooks/locater`).
3. **Prune no path because its share of the output is small**: a share is measured with attention
   held fixed ({doc}`/notebooks/trained-models`).
4. **Do not read sources off attention rollout**: it mostly names the wrong token
   ({doc}`/notebooks/trained-models`).
5. **Expect no theorem here to promise collapse of a whole trained model.** Each covers part of a
   layer, and its chapter says which ({doc}`/book/limits`).

{doc}`/book/inspect` measures most of these quantities on a model of yours. Each item below uses the
words of its chapter, which has the theorems, hypotheses and limits behind it.
"""
ADVICE = re.compile(r"^\*\*For practice\.\*\* (.+)$", re.M)
TITLE = re.compile(r"^# (.+)$", re.M)
#: A target of {doc} that is relative to the folder of notebooks.
RELATIVE = re.compile(r"(\{doc\}`(?:[^`<]*<)?)(?=[^/`<>]+>?`)")


def text(root: Path) -> str:
    """The page as MyST; root: the folder with ``_toc.yml`` and ``notebooks``."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    lines = [INTRO]
    for part in toc["parts"]:
        files = [chapter["file"] for chapter in part["chapters"]]
        advice = [_line(root, file) for file in files if file.startswith("notebooks/")]
        lines += [f"## {part['caption']}", "", *advice, ""] if advice else []
    return "\n".join(lines)


def _line(root: Path, file: str) -> str:
    """The advice of one chapter, which links to it."""
    chapter = (root / f"{file}.md").read_text(encoding="utf-8")
    (advice,) = ADVICE.findall(chapter)
    link = f"{{doc}}`{TITLE.findall(chapter)[0]} </{file}>`"
    return f"- **{link}.** " + RELATIVE.sub(r"\g<1>/notebooks/", advice)

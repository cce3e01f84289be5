"""The page "In practice": what someone who trains models does differently, chapter by chapter."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

INTRO = """\
# In practice

What someone who trains or analyzes models can do differently after each chapter. A *path* takes,
in each layer, one head or the skip connection. The *share* of some paths is the projection of their
sum onto the output, the mean token removed, over the output's squared norm. It is a net quantity:
it has a sign, and parts can cancel. Five to begin with:

1. **Log the relative residual by layer**: the norm of the tokens minus their mean, over the norm
   of the tokens. Near 0 means that tokens are alike ({doc}`/notebooks/collapse-relative`). Log it
   also without the first token: one very long token can hide that all others are equal.
2. **Log the entropy of single attention rows**, not only its average, which hides rows of low
   entropy ({doc}`/notebooks/both-collapses`). In one experiment, on text with MLPs, it fell to near
   0 at three times the learning rate that was best in a pilot. There the lower rate helped more
   than any penalty at the high rate ({doc}`/notebooks/locater`).
3. **Prune no path because its share of the output is small**: a share is measured with attention
   held fixed ({doc}`/notebooks/trained-models`).
4. **Do not read sources off attention rollout**: in the encoder and the ALBERT measured, it names
   another token than the one with the largest part, in most rows. In the small decoder the two
   agree in 22 to 56 percent of the rows. Parts are this book's measure, with attention held fixed
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

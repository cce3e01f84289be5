"""The page "In practice": what someone who trains models does differently, chapter by chapter."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

INTRO = """\
# In practice

What someone who trains or analyzes models can do differently: first by question, then chapter by
chapter. {doc}`/book/inspect` measures most of these quantities on a model of yours.

## By question

**Do my tokens become alike?** Log the *relative residual* by layer: the norm of the tokens minus
their mean, over the norm of the tokens. Log it also without the first token, because one very long
token can hide that all others are equal. Near 0 means that tokens are alike. In the trained encoder
measured here it is 0.75 to 0.92 after six layers, in the composite value as the norm. With its skip
connections, MLPs and norms taken out, it is below $10^{-160}$ ({doc}`/notebooks/architectures`). If
yours falls, look at the skip connections and at the deviation of the initial weights.

**Training became unstable. Is it the attention?** Log the entropy of single attention rows, over
the logarithm of the number of keys. The average hides rows of low entropy
({doc}`/notebooks/both-collapses`). In one experiment on text with MLPs (two layers, five seeds) its
average fell to 0.02 at the learning rate 0.03, three times the best of a pilot, and the perplexity
was 19.7. The rate 0.01 gave 10.5, the best penalty at the high rate 13.8. So try a lower learning
rate first. At the rate 0.01 a penalty that only shrinks $W_{QK}$ gave 10.0
({doc}`/notebooks/locater`).

**I choose masks, windows or positions.** If a token sees itself and the $w - 1$ tokens before it,
the last of $n$ tokens has not seen the first before layer $(n-1)/(w-1)$
({doc}`/notebooks/decoder-masks`). Mask padding with $-\\infty$. With rotary angles, count the
planes with $m\\theta_p \\le \\pi/3$ at the distances $m$ that you need
({doc}`/notebooks/decoder-positions`).

**Which layers did an output come through?** Compute shares by path length. A *path* takes, in each
layer, one head or the skip connection. The *share* of some paths is the inner product of their sum
with the output, the mean token removed from both, over the output's squared norm. It has a sign,
and parts can cancel. So prune no path because its share is small. Do not read sources off attention
rollout: in the encoder and the ALBERT measured here it mostly names another token than the one with
the largest part; in the small decoder the two agree in 22 to 56 percent of the rows
({doc}`/notebooks/trained-models`).

**Does a theorem promise that my model collapses, or that it does not?** No theorem on collapse here
covers a whole trained model. Each leaves parts out or assumes sizes that trained weights need not
have, and its chapter says which ({doc}`/book/limits`).

The items below use the words of their chapters, which have the theorems, hypotheses and limits.
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

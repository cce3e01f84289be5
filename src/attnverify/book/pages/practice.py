"""The page "In practice": what someone who trains models does differently, by question."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

INTRO = """\
# In practice

What someone who trains or analyzes models can do differently, by question; below, the advice of
each chapter. {doc}`/book/inspect` measures most of these quantities on a model of yours.

## Do my tokens become alike?

Log the *relative residual* by layer: the norm of the tokens minus their mean, over the norm of the
tokens. Near 0 means that tokens are alike. Log it also without the first token, because one very
long token can hide that all others are equal. With `model` and `inputs` as in `transformers`:

```python
rows = []

def log(layer, args, output):
    tokens = (output[0] if isinstance(output, tuple) else output)[0].detach().double()
    values = [(h - h.mean(0)).norm() / h.norm() for h in (tokens, tokens[1:])]
    rows.append([float(value) for value in values])

hooks = [layer.register_forward_hook(log) for layer in model.encoder.layer]  # as BERT names them
model(**inputs)
for hook in hooks:
    hook.remove()
```

Leave padding out of the inputs. Row $k$ is the input of layer $k + 1$. {doc}`/book/inspect` reports
both columns. *To compare with* the first one: where a layer begins, it is 0.80 to 0.97 in every
layer of the three small trained models measured here ({doc}`/notebooks/trained-models`), and 0.10
after 12 random layers of attention with skip connections ({doc}`/notebooks/start`). No value is a
proved alarm, and falling alone is no symptom. *If yours goes toward 0:* check that the skip
connections are added, compare with a model of its kind that trains well, and read the next
question.

## How much is left at initialization, before I train?

With skip connections, independent layers of width $d$ and weights of standard deviation $\\sigma$,
estimate $r_L \\approx (1 + (r_0^{-2} - 1)(1 + \\sigma^4 d^2)^L)^{-1/2}$. It is an estimate, not a
bound, and $r$ is the residual in the composite value, not in the norm of the code above
({doc}`/notebooks/architectures`). For twelve layers of BERT's width and $r_0 = 0.57$ it gives 0.37
with $\\sigma = 0.02$ and 0.003 with 0.04; attention with skip connections ended at 0.38 to 0.41 and
0.005 to 0.006. The full layer ended at 0.39 to 0.40 with 0.02, and below 0.005 with 0.04. One layer
shared by all depths, as in ALBERT, loses more. So lower $\\sigma$, or scale the updates down,
before you add depth.

## Training became unstable. Is it the attention?

Log the entropy of single attention rows, over the logarithm of the number of keys. The average
hides rows of low entropy ({doc}`/notebooks/both-collapses`). *One experiment, very small:* two
layers of width 32 with MLPs, text in pieces of 32 symbols, 600 steps, five seeds. The average fell
to 0.02 at the learning rate 0.03, three times the best of a pilot, and the perplexity was 19.7. The
rate 0.01 gave 10.5, the best penalty at the high rate 13.8. There a lower learning rate helped
most. At the rate 0.01 a penalty that only shrinks $W_{QK}$ gave 10.0 ({doc}`/notebooks/locater`).

*A guarantee:* if the logits of a row of $T$ keys differ by at most $D$, its entropy is at least
$\\log T - D^2/8$ ({claim}`entropy.spread`). With normalized queries and keys (QK-norm) of lengths
at most $a$ and $b$, $D \\le 2ab/\\sqrt{d_{qk}}$.

## Does a head still learn where to look?

Log the *gauge* of each head: $P (1 - P) \\operatorname{diam}(X)^2$, with the largest weight $P$ of
a row (at least ½) and the diameter of the tokens that the row sees, as they enter attention. The
gradient of $W_{QK}$ is at most a sum of gauges, times lengths that neither collapse changes
({claim}`training.loss-gradient`). `Watch` measures them on one text of a batch, in one more forward
pass every so many steps, and leaves the training as it is to the last bit:

```python
import attnverify as av

watch = av.Watch(model, log="watch.jsonl", every=100)
for step, batch in enumerate(batches):
    ...  # your training step
    watch.step(step, batch)
print(watch.fallen(0.01))  # layer, head, gauge over its first value
```

*If a gauge falls,* look at its factors. A share $P (1 - P)$ near 0 means that rows have one large
weight; a small diameter means that the tokens have become alike. Neither is proved to harm: a head
that has learned its task, or that rests on the first token, has a small share, too.

## Which masks, windows or positions?

If a token sees itself and the $w - 1$ tokens before it, the last of $n$ tokens has not seen the
first before layer $(n-1)/(w-1)$ ({doc}`/notebooks/decoder-masks`). Mask padding with $-\\infty$,
but not all keys of a row: its softmax is NaN. With rotary angles $\\theta_p$, count the planes
with $m\\theta_p \\le \\pi/3$ at the distances $m$ that you need
({doc}`/notebooks/decoder-positions`).

## Which layers did an output come through?

Compute shares by path length. A *path* takes, in each layer, one head or the skip connection. The
*share* of some paths is the inner product of their sum with the output, the mean token removed from
both, over the output's squared norm. It has a sign, and parts can cancel. So prune no path because
its share is small. Attention rollout is no substitute: in the encoder and the ALBERT measured here
it mostly names another token than the one with the largest part; in the small decoder the two agree
in 22 to 56 percent of the rows ({doc}`/notebooks/trained-models`).

## Does a theorem promise that my model collapses, or that it does not?

No theorem on collapse here covers a whole trained model. Each leaves parts out or assumes sizes
that trained weights need not have, and its chapter says which ({doc}`/book/limits`).

## The advice of each chapter

In the words of the chapters, which have the theorems, hypotheses and limits.
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
        lines += [f":::{{dropdown}} {part['caption']}", *advice, ":::", ""] if advice else []
    return "\n".join(lines)


def _line(root: Path, file: str) -> str:
    """The advice of one chapter, which links to it."""
    chapter = (root / f"{file}.md").read_text(encoding="utf-8")
    (advice,) = ADVICE.findall(chapter)
    link = f"{{doc}}`{TITLE.findall(chapter)[0]} </{file}>`"
    return f"- **{link}.** " + RELATIVE.sub(r"\g<1>/notebooks/", advice)

"""The second singular value of attention with independent normal logits, at finite lengths.

Beside it: the norm of the centered matrix, the largest weight less the mean of the others of its
key (gap.second), and the edge 2 sqrt(e^(sigma^2) - 1), all but the edge times sqrt(n).
"""

from __future__ import annotations

import math
from functools import partial
from statistics import fmean

import torch

from attnverify.experiments.engine.agreement import significant
from attnverify.experiments.engine.model import (
    Answer,
    Experiment,
    Rerun,
    Row,
    Settings,
    all_of,
    at_least,
    at_most,
)
from attnverify.mathematics import spectral_gap as gap
from attnverify.support.verdict import Verdict

SIGMAS = (0.5, 1.0, 1.5)
QUICK = {"lengths": (40, 80), "draws": 3}
FULL = {"lengths": (125, 250, 500), "draws": 20}
DIGITS = 8
FIGURES = ("second", "centered", "weight", "product")


def measured(sigma: float, n: int, seed: int) -> dict[str, float]:
    """Figures of one matrix; the same seed gives the same normal numbers for every sigma."""
    draw = torch.Generator().manual_seed(seed)
    A = torch.softmax(sigma * torch.randn(n, n, generator=draw, dtype=torch.float64), -1)
    first, second = torch.linalg.svdvals(A)[:2]
    values = (second, gap.centered_norm(A), gap.excess(A), first * second)
    return {k: math.sqrt(n) * float(v) for k, v in zip(FIGURES, values, strict=True)}


def run(settings: Settings) -> list[Row]:
    """One row a standard deviation and length; lists have an entry a draw."""
    plan, rows = QUICK if settings.quick else FULL, []
    for n in plan["lengths"]:
        for sigma in SIGMAS:
            settings.progress(f"{n} tokens, sigma {sigma:g}", len(rows) / 9)
            seeds = [settings.seed + 1000 * n + k for k in range(plan["draws"])]
            found = [measured(sigma, n, seed) for seed in seeds]
            lists = {k: [significant(f[k], DIGITS) for f in found] for k in FIGURES}
            rows.append({"sigma": sigma, "tokens": n, **lists})
    return rows


def edge(sigma: float) -> float:
    """Edge 2 v."""
    return 2 * math.sqrt(math.expm1(sigma * sigma))


def _ordered(row: Row) -> Answer:
    """The theorems: weight and s_2 at most the norm of C A, which is at most s_1 s_2."""
    room = 1 + 4 * 10.0 ** (1 - DIGITS)  # the table's rounding
    draws = zip(*(row[k] for k in FIGURES), strict=True)
    return all_of(
        all_of(at_most(a, b * room) for a, b in ((s, c), (w, c), (c, p))) for s, c, w, p in draws
    )


def judge(
    rows: list[Row],
    near: float = 0.05,
    beyond: tuple[float, ...] = (1.0, 1.5),
    share: float = 0.5,
    tokens: int = 500,
) -> Verdict:
    """At 500 tokens: near the edge for sigma = 1/2, beyond it for 1 and 3/2; a weight beyond it."""
    chosen = {row["sigma"]: row for row in rows if row["tokens"] == tokens}
    if set(chosen) != set(SIGMAS):
        return Verdict(None, f"not all standard deviations at {tokens} tokens", cases=len(rows))
    figures = [v for row in rows for k in FIGURES for v in row[k]]
    if any(v is None or not math.isfinite(v) for v in figures):
        return Verdict(None, "a figure is no number", cases=len(figures))
    ratio = {s: fmean(row["second"]) / edge(s) for s, row in chosen.items()}
    large = [w >= edge(1.5) for w in chosen[1.5]["weight"]]
    answers = [at_most(abs(ratio[0.5] - 1), near)]
    answers += [at_least(ratio[s], 1 + near) for s in beyond]
    answers += [at_least(sum(large) / len(large), share), *map(_ordered, rows)]
    means = ", ".join(f"{r:.3f} (σ = {s:g})" for s, r in ratio.items())
    words = f"√n s2 over the edge, means: {means}; a weight beyond it in {sum(large)} draws"
    return Verdict(all_of(answers), words, cases=len(large) * len(rows))


def sample(rows: list[Row]) -> list[Rerun]:
    """The first draw of each row up to 250 tokens again.

    The table has eight digits, which is a share of at most 5e-8. A weight is off by a share of
    (2 max|s| + n) u < 1e-13, singular values by a modest multiple of n u s_1 < 1e-12, which is a
    share below 1e-9 of each figure.
    """
    reruns = []
    for row in (r for r in rows if r["tokens"] <= 250):
        again = measured(row["sigma"], row["tokens"], 1000 * row["tokens"])
        for k in FIGURES:
            what, old = f"sigma {row['sigma']:g}, {row['tokens']} tokens, {k}", row[k][0]
            reruns.append(Rerun(what, old, again[k], tolerance=6e-8 * abs(old)))
    return reruns


EXPERIMENT = Experiment(
    name="random-gap",
    run=run,
    judge=judge,
    sample=sample,
    twins=(
        ("beyond the edge for σ = 1/2, too", partial(judge, beyond=SIGMAS)),
        ("within 0.01 % of the edge", partial(judge, near=1e-4)),
    ),
    quick_decides=False,
    limits="at most 500 tokens, 20 draws, independent normal logits; no limit for long inputs",
)

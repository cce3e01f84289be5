"""How long the paths of well-known architectures are, counted exactly."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from attnverify.experiments.engine.model import Experiment, Rerun, Row, Settings
from attnverify.mathematics import paths
from attnverify.support.verdict import Verdict

#: Name, bibliography key, attention layers of the stack, heads a layer. Of the first Transformer
#: the encoder. The GPT-2 report gives layers and widths; its heads have width 64.
ARCHITECTURES = (
    ("Transformer base", "vaswani2017", 6, 8),
    ("Transformer big", "vaswani2017", 6, 16),
    ("BERT base", "devlin2019", 12, 12),
    ("BERT large", "devlin2019", 24, 16),
    ("ALBERT base", "lan2020", 12, 12),
    ("ALBERT xxlarge", "lan2020", 12, 64),
    ("XLNet large", "yang2019", 24, 16),
    ("GPT-2 small", "radford2019", 12, 12),
    ("GPT-2 medium", "radford2019", 24, 16),
    ("GPT-2 large", "radford2019", 36, 20),
    ("GPT-2 XL", "radford2019", 48, 25),
    ("GPT-3 13B", "brown2020", 40, 40),
    ("GPT-3 175B", "brown2020", 96, 96),
    ("ViT base", "dosovitskiy2021", 12, 12),
    ("ViT huge", "dosovitskiy2021", 32, 16),
)


def run(settings: Settings) -> list[Row]:
    """One row an architecture; both settings count everything."""
    return [row(*architecture) for architecture in ARCHITECTURES]


def row(name: str, source: str, depth: int, heads: int) -> Row:
    """Exact counts of every length 0..depth; the shares are rounded from exact ratios."""
    counts = [paths.count(depth, heads, length) for length in range(depth + 1)]
    head: Row = {"architecture": name, "source": source, "depth": depth, "heads": heads}
    return head | {
        "mean": float(mean(counts)),
        "short": float(short(counts)),
        "longest": counts[-1] / sum(counts),
        "counts": counts,
    }


def mean(counts: list[int]) -> Fraction:
    """Mean length over all paths."""
    return Fraction(sum(length * number for length, number in enumerate(counts)), sum(counts))


def short(counts: list[int]) -> Fraction:
    """Share of the paths that are shorter than half the depth."""
    depth = len(counts) - 1
    number = sum(each for length, each in enumerate(counts) if 2 * length < depth)
    return Fraction(number, sum(counts))


def judge(rows: list[Row], one_in: int = 100, past: int = 1) -> Verdict:
    """Exactly: the mean length is L H / (1 + H), and fewer than one path in ``one_in`` is short.

    past: the number of ways past the heads of a layer, 1 with skip connections.
    """
    if not rows:
        return Verdict(None, "no architectures", cases=0)
    expected = [Fraction(r["depth"] * r["heads"], past + r["heads"]) for r in rows]
    means = [mean(r["counts"]) for r in rows] == expected
    largest = max(rows, key=lambda r: short(r["counts"]))
    least = min(rows, key=lambda r: mean(r["counts"]) / r["depth"])
    argument = (
        f"mean length L H/(1 + H) {'in all' if means else 'not in all'} of {len(rows)} "
        f"architectures, at least {float(mean(least['counts']) / least['depth']):.3f} of the "
        f"depth; at most {float(short(largest['counts'])):.2e} of the paths are shorter than half "
        f"the depth ({largest['architecture']})"
    )
    holds = means and short(largest["counts"]) < Fraction(1, one_in)
    return Verdict(holds, argument, cases=len(rows))


def half_are_longest(rows: list[Row]) -> Verdict:
    """False neighbor: most paths pass a head in every layer."""
    if not rows:
        return Verdict(None, "no architectures", cases=0)
    least = min(Fraction(r["counts"][-1], sum(r["counts"])) for r in rows)
    return Verdict(least > Fraction(1, 2), f"longest paths: at least {float(least):.3f} of all")


def sample(rows: list[Row]) -> list[Rerun]:
    """Everything again. Both sides are correctly rounded quotients of integers, so equal."""
    return [
        Rerun(f"{stored['architecture']}, {key}", stored[key], again[key], 0.0)
        for stored, again in zip(rows, run(Settings()), strict=True)
        for key in ("mean", "short", "longest")
    ]


EXPERIMENT = Experiment(
    name="path-counts",
    run=run,
    judge=judge,
    limits="how much the paths of a length carry; architectures that are not in the list",
    sample=sample,
    twins=(
        ("at most one path in 600 is short", partial(judge, one_in=600)),
        ("the mean length is L H / (2 + H)", partial(judge, past=2)),
        ("most paths have the full length", half_are_longest),
    ),
)

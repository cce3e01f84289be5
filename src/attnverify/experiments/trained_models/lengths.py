"""Path lengths of a trained encoder against the binomial law that rollout gives them."""

from __future__ import annotations

from functools import partial

import torch

from attnverify.experiments.engine.agreement import significant
from attnverify.experiments.engine.model import (
    Experiment,
    Rerun,
    Row,
    Settings,
    all_of,
    at_least,
    at_most,
)
from attnverify.experiments.trained_models import looked
from attnverify.mathematics import norms, rollout
from attnverify.support.verdict import Verdict

TEXTS = {True: 1, False: 5}  # quick, full
FIRST = 10  # the criterion was written after a look at passages 5 to 9
DIGITS = 6
KEYS = ("shares", "norms", "rollout_shares", "rollout_norms")


def measured(index: int) -> Row:
    """Net shares of the lengths and norms of their sums at a passage, and both of rollout itself.

    Attention alone makes tokens alike, so rollout's shares are not its law; both are kept.
    """
    report = looked.report(looked.SUBJECTS[0], index)
    paths = [row for row in report.lengths if row["paths"] is not None]
    found = [[row["share"] for row in paths], [row["norm"] for row in paths], *of_rollout(index)]
    lists = {
        key: [significant(v, DIGITS) for v in values]
        for key, values in zip(KEYS, found, strict=True)
    }
    return {"passage": index, "tokens": report.inputs["tokens"], **lists}


def of_rollout(index: int) -> tuple[list[float], list[float]]:
    """Net shares and norms of rollout's sums by length, times the tokens that enter layer 1."""
    from attninspect.forward import trace
    from attninspect.load import Folder

    subject = looked.SUBJECTS[0]
    folder = Folder.of(subject.folder())
    traced = trace(
        folder.model(torch.float64), torch.tensor([folder.encode(subject.text(index))[0]])
    )
    A = torch.stack([layer.heads.P[0].mean(0) for layer in traced.layers])
    sums = rollout.by_length(A, torch.full((len(A),), 0.5).to(A)) @ traced.input[0]
    output = norms.mean_centered(sums.sum(0))
    shares = (sums * output).sum((1, 2)) / output.square().sum()
    return shares.tolist(), sums.flatten(1).norm(dim=1).tolist()


def run(settings: Settings) -> list[Row]:
    """One row a passage."""
    rows, count = [], TEXTS[settings.quick]
    for number in range(count):
        settings.progress(f"passage {number + 1}", number / count)
        rows.append(measured(settings.seed + FIRST + number))
    return rows


def apart(row: Row) -> float:
    """Distance (total variation) of the norms by length, over their sum, from rollout's law."""
    sizes = torch.tensor(row["norms"], dtype=torch.float64)
    law = rollout.law(torch.full((len(sizes) - 1,), 0.5, dtype=torch.float64))
    return float(norms.total_variation(sizes / sizes.sum(), law))


def mean_length(row: Row) -> float:
    """Mean length, with the norms as weights."""
    return sum(k * size for k, size in enumerate(row["norms"])) / sum(row["norms"])


def judge(
    rows: list[Row], short: float = 0.8, longest: float = 1.25, least: float = 0.5
) -> Verdict:
    """In every passage lengths 0 and 1 have a net share of at least ``short``, the mean length by
    norm is at most ``longest``, and the distance from rollout's law is at least ``least``.
    """
    if not rows:
        return Verdict(None, "no passage", cases=0)
    both = [sum(row["shares"][:2]) for row in rows]
    means, distances = [mean_length(row) for row in rows], [apart(row) for row in rows]
    answers = [
        *(at_least(value, short) for value in both),
        *(at_most(value, longest) for value in means),
        *(at_least(value, least) for value in distances),
    ]
    argument = (
        f"lengths 0 and 1 have at least {min(both):.2f}; mean length at most {max(means):.2f}; "
        f"at least {min(distances):.2f} from rollout's law"
    )
    return Verdict(all_of(answers), argument, cases=len(rows))


def sample(rows: list[Row]) -> list[Rerun]:
    """The last passage again.

    The table has six digits, so 5e-6 relative. Shares and norms are good to 1e-9, as for
    three-models (:func:`.looked.sample`).
    """
    old, reruns = rows[-1], []
    new = measured(old["passage"])
    for key in KEYS:
        for length, pair in enumerate(zip(old[key], new[key], strict=True)):
            what = f"length {length}, {key}"
            reruns.append(Rerun(what, *pair, tolerance=1e-5 * abs(pair[0]) + 1e-9))
    return reruns


EXPERIMENT = Experiment(
    name="rollout-lengths",
    run=run,
    judge=judge,
    twins=(
        ("lengths 0 and 1 have a net share of 0.97", partial(judge, short=0.97)),
        ("a mean length of at most a half, by norm", partial(judge, longest=0.5)),
        ("a distance of 0.9 from rollout's law", partial(judge, least=0.9)),
    ),
    sample=sample,
    limits=(
        "One encoder of six layers, five passages of one text, with attention, gates and norms "
        "held. Net shares cancel, and norms of sums by length count what cancels between lengths. "
        "Rollout's own net shares and norms were added later and are not part of the criterion."
    ),
)

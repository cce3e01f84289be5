"""LocAteR: small language models trained with and without the regularizer of the eigenspectrum.

The criterion is judged where the unregularized attention loses its entropy, at the higher of two
learning rates. Differences are taken between replicas of one seed. "Lower" means that the mean
difference is below 0 by more than the one-sided quantile of Student's distribution allows, at
level 5 percent divided by the number of points tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from scipy.stats import t as student

from attnverify.experiments.engine import agreement
from attnverify.experiments.engine.model import Experiment, Rerun, Row, Settings
from attnverify.experiments.engine.train import Plan, train
from attnverify.experiments.locater import sources
from attnverify.experiments.locater.language import Case, Point, Replicas
from attnverify.experiments.locater.sources import HiddenMarkov, MarkovSource, Source, TextSource
from attnverify.support.verdict import Verdict

MARKOV = HiddenMarkov.sticky(4, stay=0.9, right=0.8)
WIDTH = {"hidden Markov": 16, "text": 32}
RATES = {"moderate": 0.01, "high": 0.03}
SEEDS = 5
ANEW = 10  # networks trained anew to compare with the table
LEVEL = 0.05

NONE, CONTROL = Point(0.0, 0.0), Point(1e-3, 0.0)
REGULARIZED = tuple(Point(s, target) for target in (1.0, 0.25) for s in (1e-4, 1e-3, 1e-2))
GRID = (NONE, *REGULARIZED, CONTROL)
QUICK_GRID = (NONE, Point(1e-3, 0.25), CONTROL)


def cases(quick: bool) -> Iterator[Case]:
    """Sources, architectures and learning rates; the quick setting leaves half of them out."""
    every = (30, 90) if quick else (60, 600)
    for source, width in WIDTH.items():
        for mlp in (False, True):
            if quick and mlp is not (source == "text"):
                continue
            for rate in RATES.values():
                plan = Plan(every[1], rate, warmup=50, measure_every=every[0], checkpoint_every=60)
                yield Case(source, mlp, plan, width, held_out=32 if quick else 128)


@cache
def source_of(name: str, text: Path | None = None) -> Source:
    """The hidden Markov source, or the text: a local file, or the standard library's docstrings."""
    if name == "hidden Markov":
        return MarkovSource(MARKOV)
    return TextSource.of(sources.documentation() if text is None else sources.paragraphs(text))


def run(settings: Settings) -> list[Row]:
    """Train every case; a row for each point of the grid, with the spread over seeds."""
    chosen, rows = list(cases(settings.quick)), []
    points, count = (QUICK_GRID, 2) if settings.quick else (GRID, SEEDS)
    seeds = tuple(1000 * settings.seed + k for k in range(count))
    for case in chosen:  # a text that is missing or too short is told before any is trained
        source, length = source_of(case.source, settings.text), case.context + 1
        source.held_out(1, length)
        source.batch(1, length, torch.Generator())
    for number, case in enumerate(chosen):

        def progress(what: str, done: float, number: int = number) -> None:
            settings.progress(what, (number + done) / len(chosen))

        source = source_of(case.source, settings.text)
        replicas = Replicas(case, points, seeds, source, settings.device)
        place = f"{'quick' if settings.quick else 'full'}-{settings.seed}/{case.name}"
        folder = settings.folder and settings.folder / place.replace(", ", "-").replace(" ", "-")
        measured = train(
            replicas.start(),
            replicas.loss,
            replicas.measure,
            case.plan,
            configuration=_configuration(replicas),
            folder=folder,
            progress=progress,
            what=case.name,
        )
        rows += [_row(replicas, k, measured) for k in range(len(points))]
    return rows


def _configuration(replicas: Replicas) -> dict[str, object]:
    """The part of a checkpoint's digest beside the plan and the shapes."""
    points = [[p.strength, p.target] for p in replicas.points]
    words = replicas.unseen[0].sum(0).tolist()  # tells one text from another
    return {"points": points, "seeds": list(replicas.seeds), "words": words}


def _row(replicas: Replicas, k: int, measured: list[Row]) -> Row:
    """The row of one point: last values of every seed, mean and standard error over training."""
    case, point, count = replicas.case, replicas.points[k], len(replicas.seeds)
    own = slice(k * count, (k + 1) * count)
    floor = None if replicas.floor is None else float(f"{replicas.floor.mean():.6g}")
    row = {
        "source": case.source,
        "architecture": case.architecture,
        "rate": case.plan.learning_rate,
        "strength": point.strength,
        "target": point.target,
        "floor": floor,
    }
    last = {name: mean_and_error(measured[-1][name][own]) for name in ("loss", "entropy", "xi")}
    row["perplexity"], row["perplexity_error"] = perplexity(*last["loss"])
    for name in ("entropy", "xi"):
        row[f"final_{name}"], row[f"final_{name}_error"] = last[name]
    row["steps"] = [m["step"] for m in measured]
    for name in ("loss", "entropy", "xi", "trace", "squared_norm", "asymmetry"):
        row[name] = measured[-1][name][own]
    for name in ("loss", "entropy", "xi"):
        spread = [mean_and_error(m[name][own]) for m in measured]
        row[f"{name}_mean"], row[f"{name}_error"] = map(list, zip(*spread, strict=True))
    half = measured[len(measured) // 2]
    row["eigenvalues"] = [m["eigenvalues"][k] for m in (measured[0], half, measured[-1])]
    return row


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean and its standard error (sample variance over n), to 6 and 3 digits."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return float(f"{np.mean(values):.6g}"), float(f"{error:.3g}")


def perplexity(loss: float, error: float) -> tuple[float, float]:
    """exp(loss) and its standard error to first order, exp(loss) times that of the loss."""
    value = math.exp(loss)
    return float(f"{value:.6g}"), float(f"{value * error:.3g}")


# ------------------------------------------------------------------------------ the criterion


def select(rows: list[Row], **wanted: object) -> list[Row]:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def bound(row: Row, other: Row, name: str, tried: int) -> tuple[float, float]:
    """Mean of row - other over seeds, and an upper bound of it at level 5 percent / tried."""
    mean, error = mean_and_error([a - b for a, b in zip(row[name], other[name], strict=True)])
    return mean, mean + float(student.ppf(1 - LEVEL / tried, len(row[name]) - 1)) * error


def lowers_loss(row: Row, other: Row, tried: int) -> bool:
    """Whether the loss is lower and the entropy of attention is higher."""
    return bound(row, other, "loss", tried)[1] < 0 and bound(other, row, "entropy", tried)[1] < 0


Better = Callable[[Row, Row, int], bool]


def _judge(
    rows: list[Row], rate: float, other: Point, better: Better, among: Callable = all
) -> Verdict:
    """The criterion: in each source and architecture some regularized point beats ``other``.

    among: what must be said of the four answers, all or any of them, or their opposite.
    """
    if not rows or any(len(row["loss"]) < SEEDS for row in rows):
        return Verdict(None, f"needs {SEEDS} seeds: only the full setting is judged", len(rows))
    words, holds = [], []
    for source in WIDTH:
        for architecture in ("attention only", "with MLPs"):
            here = select(rows, source=source, architecture=architecture, rate=rate)
            (base,) = select(here, strength=other.strength, target=other.target)
            tried = [r for r in here if Point(r["strength"], r["target"]) in REGULARIZED]
            met = [row for row in tried if better(row, base, len(tried))]
            best = min(tried, key=lambda row: np.mean(row["loss"]))
            mean, high = bound(best, base, "loss", len(tried))
            worse = sum(bound(base, row, "loss", len(tried))[1] < 0 for row in tried)
            counted = f"of {len(tried)} points {len(met)} better and {worse} of higher loss"
            words.append(
                f"{source}, {architecture}: {counted}, at best {mean:+.4f} (below {high:+.4f}) nats"
            )
            holds.append(bool(met))
    argument = f"at learning rate {rate:g}: {'; '.join(words)}"
    return Verdict(among(holds), argument, cases=sum(len(r["loss"]) for r in rows))


judge = partial(_judge, rate=RATES["high"], other=NONE, better=lowers_loss)


def _none(answers: list[bool]) -> bool:
    return not any(answers)


def _lower_only(row: Row, other: Row, tried: int) -> bool:
    """Whether the loss is lower, whatever the entropy."""
    return bound(row, other, "loss", tried)[1] < 0


# -------------------------------------------------------------------- a part of it, once more


def sample(rows: list[Row]) -> list[Rerun]:
    """The first 120 steps of every case, with other seeds; of one case also with the regularizer.

    The table has means and standard errors over SEEDS networks, and they agree up to chance with
    those of ANEW others: see :mod:`attnverify.experiments.engine.agreement`.
    """
    out, steps = [], 120
    for case in cases(quick=False):
        rate = case.plan.learning_rate
        most = (case.source, case.mlp, rate) == ("hidden Markov", True, RATES["high"])
        points = (NONE, Point(1e-3, 1.0)) if most else (NONE,)
        replicas = Replicas(case, points, tuple(range(500, 500 + ANEW)), source_of(case.source))
        plan = Plan(steps, rate, warmup=case.plan.warmup, measure_every=steps)
        last = train(replicas.start(), replicas.loss, replicas.measure, plan)[-1]
        here = select(rows, source=case.source, architecture=case.architecture, rate=rate)
        for k, point in enumerate(points):
            (row,) = select(here, strength=point.strength, target=point.target)
            place = row["steps"].index(steps)
            for name in ("loss", "entropy", "xi") if most else ("loss",):
                deviation = row[f"{name}_error"][place] * math.sqrt(SEEDS)
                stored = agreement.Group(row[f"{name}_mean"][place], deviation, SEEDS)
                again = agreement.Group.of(last[name][k * ANEW : (k + 1) * ANEW])
                out.append(agreement.compared(f"{case.name}, {name}, {point}", stored, again))
    return out


EXPERIMENT = Experiment(
    name="locater",
    run=run,
    judge=judge,
    limits="models of two layers and widths 16 and 32, 600 steps, one text, one hidden Markov "
    "source, two learning rates, Adam",
    sample=sample,
    by_chance=13,
    twins=(
        (
            "the same at the moderate learning rate, where attention keeps more of its entropy",
            partial(_judge, rate=RATES["moderate"], other=NONE, better=lowers_loss),
        ),
        (
            "the trace term is what helps: better than the same penalty with target 0",
            partial(_judge, rate=RATES["high"], other=CONTROL, better=_lower_only),
        ),
        ("in none of the four cases is there a better point", partial(judge, among=_none)),
    ),
    takes_text=True,
    quick_decides=False,
)

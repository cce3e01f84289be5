"""Relative residual by layer: attention alone, with MLPs, with skip connections, and in full.

Measured as in Dong, Cordonnier and Loukas (2021, section 4.1): the composite value of the residual
over that of the tokens. Randomly initialized BERT-, ALBERT- and XLNet-shaped stacks, and a trained
encoder, with all eight choices of skip connections, MLP and layer norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product, takewhile

import torch
from torch import Tensor

from attnverify.experiments.engine import results
from attnverify.experiments.engine.agreement import significant
from attnverify.experiments.engine.model import (
    Answer,
    Experiment,
    Judge,
    Rerun,
    Row,
    Settings,
    above,
    all_of,
    at_least,
    at_most,
    below,
)
from attnverify.experiments.texts import passage
from attnverify.experiments.trained_encoder import layer_bounds
from attnverify.experiments.trained_encoder.layer_bounds import SMALLEST
from attnverify.experiments.trained_encoder.soundness import encoder_of
from attnverify.mathematics import norms, stacks
from attnverify.mathematics.centerbounds import optimal_residual_bounds
from attnverify.mathematics.deviations import Layer, Parts, Tokens, Unresolved, apply
from attnverify.mathematics.encoder import Encoder
from attnverify.support.verdict import Verdict

FALL = 1e3  # pure attention falls by this factor or more, with skip connections by less
WITH_SKIP = ("attention + skip", "attention + skip + mlp + norm")


def falls(rows: list[Row], name: str, least: float = FALL) -> dict[str, list[float]]:
    """The fall of every model, for each seed: relative residual of the input over the last one.

    The unfavorable ends of the bounds on the optimal center are taken: the low one at the input,
    the high one after the last layer. A value below SMALLEST may have underflowed. Then the fall
    down to the last layer above it counts if it is ``least`` or more; otherwise it is unknown, NaN,
    as it is where a value is missing.
    """
    found: dict[str, list[float]] = {}
    for model in dict.fromkeys(row["model"] for row in rows if row["judged"]):
        own = [r for r in rows if r["model"] == model and r["variant"] == name]
        layers = zip(*(row["high"] for row in own), strict=True)  # of every seed
        found[model] = [_fall(a, b, least) for a, b in zip(own[0]["low"], layers, strict=True)]
    return found


def _fall(first: float | None, layers: Sequence[float | None], least: float) -> float:
    last = layers[-1]
    if last is None or last >= SMALLEST:
        return _quotient(first, last)
    resolved = list(takewhile(lambda value: value is not None and value >= SMALLEST, layers))
    seen = _quotient(first, resolved[-1] if resolved else None)
    return seen if seen >= least else math.nan


def largest_falls(rows: list[Row], name: str) -> dict[str, list[float]]:
    """The fall down to the lowest of all layers, with the other ends of the bounds.

    A value below SMALLEST counts as SMALLEST: the fall is at least that large.
    """
    found: dict[str, list[float]] = {}
    for model in dict.fromkeys(row["model"] for row in rows if row["judged"]):
        own = [r for r in rows if r["model"] == model and r["variant"] == name]
        layers = zip(*(row["low"] for row in own), strict=True)  # of every seed
        least = [None if None in values else min(values) for values in layers]
        found[model] = [_quotient(a, b) for a, b in zip(own[0]["high"], least, strict=True)]
    return found


def _quotient(a: float | None, b: float | None) -> float:
    if a is None or b is None:
        return math.nan  # every comparison with it is False
    return a / max(b, SMALLEST)


def _all(found: dict[str, list[float]], holds: Callable[[float], Answer]) -> Answer:
    return all_of(holds(v) for values in found.values() for v in values)


def judge(rows: list[Row], least_fall: float = FALL, most_fall: float = FALL) -> Verdict:
    """The criterion: pure attention falls by 1,000 or more in all models, with skips by less."""
    pure = falls(rows, "attention", least_fall)
    skip = {name: largest_falls(rows, name) for name in WITH_SKIP}
    lasting = [_all(found, lambda v: below(v, most_fall)) for found in skip.values()]
    holds = all_of([_all(pure, lambda v: at_least(v, least_fall)), *lasting])
    if holds is None:
        why = (
            "not all residuals are known: they are undefined, or underflow before they have fallen"
        )
        return Verdict(None, why, cases=sum(map(len, pure.values())))
    least = min(min(values) for values in pure.values())
    most = max(max(values) for found in skip.values() for values in found.values())
    return Verdict(
        holds,
        f"pure attention falls by {least:.1e} or more, with skip connections by {most:.3g} at most",
        cases=sum(len(v) for v in pure.values()),
        ratio=most / FALL,
    )


def _no_fall_without_skip(rows: list[Row]) -> Verdict:
    found = largest_falls(rows, "attention")
    return Verdict(_all(found, lambda v: below(v, FALL)), "pure attention falls by less than 1,000")


def _fall_with_skip(rows: list[Row]) -> Verdict:
    found = falls(rows, "attention + skip")
    return Verdict(
        _all(found, lambda v: at_least(v, FALL)), "attention with skip falls by 1,000 or more"
    )


def _large_with_skip(rows: list[Row]) -> Verdict:
    """The draft of the criterion, before a trial run."""
    found = [v for row in rows for v in row["low"] if row["judged"] and row["variant"] in WITH_SKIP]
    holds = all_of(above(v, 0.1) for v in found)
    return Verdict(holds, "with skip connections every residual stays above 0.1")


def _doubly_exponential_everywhere(rows: list[Row]) -> Verdict:
    """The false neighbor that every fall is cubic: 0.1 after one layer, 0.1^(3^5) after six."""
    found = [
        v
        for row in rows
        for v in row["high"]
        if row["judged"] and row["variant"] == "attention" and row["layer"] == 6
    ]
    holds = all_of(None if v is None else at_most(v, 1e-100) for v in found)
    return Verdict(holds, "every pure attention stack is below 1e-100 after 6 layers")


TWINS: tuple[tuple[str, Judge], ...] = (
    ("pure attention does not fall by 1,000", _no_fall_without_skip),
    ("pure attention falls by 1e35 everywhere", partial(judge, least_fall=1e35)),
    ("with skip connections it falls by 1,000 as well", _fall_with_skip),
    ("with skip connections it falls by less than 8", partial(judge, most_fall=8.0)),
    ("with skip connections the residual stays above 0.1", _large_with_skip),
    ("doubly exponential in every stack", _doubly_exponential_everywhere),
)


QUICK = {"seeds": 1, "words": 24}
FULL = {"seeds": 5, "words": 96}
BEGIN = 2  # layers of a random stack that the sample measures again
OTHER_DEVIATIONS = (0.04, 0.1)  # initializations beside the usual 0.02, outside the criterion


def variant(parts: Parts) -> str:
    """The name of a choice of parts, such as "attention + skip + norm"."""
    on = [name for name in ("skip", "mlp", "norm") if getattr(parts, name)]
    return " + ".join(["attention", *on])


ALL_PARTS = {variant(p): p for p in (Parts(*on) for on in product((False, True), repeat=3))}
MAIN = ("attention", "attention + mlp", *WITH_SKIP)


@dataclass(frozen=True)
class Model:
    """A stack to measure: its layers and its first input, for a seed and a passage of text."""

    name: str
    layers: Callable[[int], Iterator[Layer]]
    input: Callable[[int, str], Tensor]
    judged: bool = True
    fixed: bool = False  # the weights do not depend on the seed


def models(settings: Settings) -> list[Model]:
    """The three random stacks and the trained encoder; with ``settings.model`` that one alone."""
    encoder = encoder_of(settings)
    name = str(settings.model.name) if settings.model else "MiniLM, trained"
    trained = Model(
        name,
        lambda seed: stacks.trained_layers(encoder),
        lambda seed, text: encoder.embed(text),
        fixed=True,
    )
    if settings.model:
        return [trained]
    random = [_random(encoder, shape) for shape in stacks.SHAPES]
    if not settings.quick:
        trained = [trained, *(_random(encoder, stacks.BERT, s) for s in OTHER_DEVIATIONS)]
        return [*random, *trained]
    return [*random, trained]


def _random(encoder: Encoder, shape: stacks.Shape, deviation: float = stacks.INITIAL) -> Model:
    usual = deviation == stacks.INITIAL
    return Model(
        shape.name if usual else f"{shape.name}, deviation {deviation}",
        lambda seed: stacks.random_layers(shape, seed, deviation),
        lambda seed, text: stacks.random_embedding(
            shape, encoder.tokenizer.encode(text).ids, seed, deviation
        ),
        judged=usual,
    )


# ---------------------------------------------------------------- measuring


MEASURED = ("mean", "low", "high", "root_free")
BOUNDS = ("from_input", "sharp", "printed", "corrected")


def sizes(X: Tokens | None) -> dict[str, float | None]:
    """Relative residuals: mean center, bounds on the optimal one, and the root-free variant.

    0 where the deviations are below the smallest float; None for tokens that are unknown, and for
    tokens that are zero, whose residual is relative to nothing.
    """
    whole = 0.0 if X is None else float(norms.composite(X.values))
    if X is None or whole == 0:
        return dict.fromkeys(MEASURED)
    largest = X.deviations.abs().max()
    if largest == 0:
        return dict.fromkeys(MEASURED, 0.0)
    R = X.deviations / largest  # products of two tiny sums would underflow
    unit = float(largest) / whole
    low, high = optimal_residual_bounds(R)
    return {
        "mean": float(norms.composite(R)) * unit,
        "low": low * unit,
        "high": high * unit,
        "root_free": float(norms.composite_squared(R)) * unit * unit,
    }


@torch.no_grad()
def trace(model: Model, seed: int, text: str, device: str, names: tuple[str, ...]) -> list[Row]:
    """One row for every variant and layer 0..depth, one seed."""
    start = Tokens.of(model.input(seed, text).to(device))
    states: dict[str, Tokens | None] = dict.fromkeys(names, start)
    chain = layer_bounds.diameter(start)
    rows = [_row(model, name, 0, start) for name in names]
    for index, layer in enumerate(model.layers(seed), 1):
        layer = layer.to(device)
        before = states["attention"]
        states = {name: _advance(layer, X, ALL_PARTS[name]) for name, X in states.items()}
        rows += [_row(model, name, index, X) for name, X in states.items()]
        after = states["attention"]
        if layer.relative is None and before is not None and after is not None:
            rates = layer_bounds.rates(layer)
            chain = layer_bounds.sharp_step(rates, chain)
            row = next(r for r in rows[-len(names) :] if r["variant"] == "attention")
            row |= _bounds(layer, rates, before, after, chain)
    return rows


def _advance(layer: Layer, X: Tokens | None, parts: Parts) -> Tokens | None:
    """The layer's output, None from where its logits are too large for float64 to tell apart."""
    try:
        return None if X is None else apply(layer, X, parts)
    except Unresolved:
        return None


def _row(model: Model, name: str, layer: int, X: Tokens | None) -> Row:
    return {
        "model": model.name,
        "judged": model.judged,
        "variant": name,
        "layer": layer,
        **sizes(X),
    }


def _bounds(
    layer: Layer, rates: layer_bounds.Rates, before: Tokens, after: Tokens, chain: float
) -> dict[str, float | None]:
    """Bounds on the relative residual after an attention layer, None where one says nothing.

    from_input: the sharp theorem, from the diameter of the first input on; sharp, printed,
    corrected: one layer, from what entered it.
    """
    whole, K = (
        float(norms.composite(after.values)),
        layer_bounds.residual_of_diameter(*before.deviations.shape),
    )
    size = layer_bounds.diameter(before)
    if whole == 0:
        return dict.fromkeys(BOUNDS)
    if size == 0:
        return {"from_input": K * chain / whole}
    steps = layer_bounds.composite_steps(layer, before)
    sharp = layer_bounds.sharp_step(rates, size)
    return {
        "from_input": K * chain / whole,
        "sharp": K * sharp / whole if sharp > layer_bounds.SMALLEST else None,
        **{name: None if b is None else b / whole for name, b in steps.items()},
    }


def run(settings: Settings) -> list[Row]:
    """Rows by model, variant and layer; every measured value is a list, one entry a seed."""
    plan = QUICK if settings.quick else FULL
    names = MAIN if settings.quick else tuple(ALL_PARTS)
    chosen, rows = models(settings), []
    for number, model in enumerate(chosen):
        traces = []
        for seed in range(settings.seed, settings.seed + plan["seeds"]):
            done = (number + (seed - settings.seed) / plan["seeds"]) / len(chosen)
            settings.progress(f"{model.name}, seed {seed}", done)
            text = passage(seed, plan["words"])
            traces.append(trace(model, seed, text, settings.device, names))
        rows += [_joined(same) for same in zip(*traces, strict=True)]
    return rows


def _joined(same: tuple[Row, ...]) -> Row:
    """Rows of one place and several seeds as one row of lists, rounded to 6 digits."""
    values = {}
    for key in (*MEASURED, *BOUNDS):
        column = [significant(row.get(key), 6) for row in same]
        if key in MEASURED or any(v is not None for v in column):
            values[key] = column
    first = same[0]
    return {key: first[key] for key in ("model", "judged", "variant", "layer")} | values


def sample(rows: list[Row]) -> list[Rerun]:
    """Every model in every variant at the first passage; of random stacks the first BEGIN layers.

    Stored to 6 digits, so up to 5e-6 relative. Between machines sums are added in another order,
    1e-9 relative at most where deviations keep their digits; a fall with the cube triples that
    with every layer, 3^6 = 729 times in six. The bounds low and high are left out: a tie between
    two medians may fall the other way.
    """
    seed = results.seed(EXPERIMENT.name)
    stored = {(r["model"], r["variant"], r["layer"]): r for r in rows}
    reruns = []
    for model in models(Settings(quick=False)):
        begun = replace(model, layers=lambda seed, own=model.layers: islice(own(seed), BEGIN))
        chosen = model if model.fixed else begun
        for row in trace(chosen, seed, passage(seed, FULL["words"]), "cpu", tuple(ALL_PARTS)):
            place = row["model"], row["variant"], row["layer"]
            for key in ("mean", "root_free"):
                old, what = stored[place][key][0], f"{place}, {key}"
                reruns.append(Rerun(what, old, row[key], tolerance=old * (5e-6 + 729e-9)))
    return reruns


EXPERIMENT = Experiment(
    name="architectures",
    run=run,
    judge=judge,
    twins=TWINS,
    sample=sample,
    takes_model=True,
    limits=(
        "Three shapes at one initialization and one trained encoder of 6 layers, five passages of "
        "English text of up to 186 tokens. The residual with the optimal center is enclosed, "
        "not computed; the verdict takes the unfavorable end. Of random stacks the tests measure "
        "the first two layers again, since the rest takes half an hour."
    ),
)


def rows_of(rows: list[Row], model: str, variant: str) -> list[Row]:
    """The rows of one model and variant, input first."""
    return [row for row in rows if row["model"] == model and row["variant"] == variant]


def models_in(rows: list[Row]) -> list[str]:
    """The models in the order of the table."""
    return list(dict.fromkeys(row["model"] for row in rows))


def curve(
    rows: list[Row], model: str, variant: str, key: str = "mean"
) -> tuple[list[int], list[float], list[float]]:
    """(layers, smallest, largest value over the seeds), layers where a value is missing left out.

    So are values of 0, below the smallest float, which a logarithmic axis cannot show.
    """
    found = [(row["layer"], row[key]) for row in rows_of(rows, model, variant) if key in row]
    kept = [(layer, values) for layer, values in found if all(values)]
    return [k[0] for k in kept], [min(k[1]) for k in kept], [max(k[1]) for k in kept]


TINY = 1e-308  # below it floats lose digits, and then vanish


def spread(values: list[float | None]) -> str:
    """Smallest and largest of the seeds' values, such as "0.38 to 0.42"."""
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return "unresolved"
    low, high = min(known), max(known)
    return _number(low) if low == high else f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    if value < TINY:
        return f"< {TINY}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.0e}"


def last_layers(rows: list[Row]) -> list[list[str]]:
    """Relative residuals after the last layer of every model: a header, then a row a variant."""
    names = models_in(rows)
    lines = [["variant", *(name.replace(", deviation", " σ =") for name in names)]]
    for variant in ALL_PARTS:
        found = [rows_of(rows, name, variant) for name in names]
        if any(found):
            lines.append([variant, *(spread(f[-1]["mean"]) if f else "" for f in found)])
    return lines

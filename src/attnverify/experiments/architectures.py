"""Relative residual by layer: attention alone, with MLPs, with skip connections, and in full.

Measured as in Dong, Cordonnier and Loukas (2021, section 4.1): the composite value of the residual
over that of the tokens. Randomly initialized BERT-, ALBERT- and XLNet-shaped stacks, and a trained
encoder, with all eight choices of skip connections, MLP and layer norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from attnverify import norms, stacks
from attnverify.centerbounds import optimal_residual_bounds
from attnverify.deviations import Layer, Parts, Tokens, apply, largest_logit
from attnverify.encoder import Encoder
from attnverify.evidence.checks import Verdict
from attnverify.experiments import layer_bounds
from attnverify.experiments.model import Experiment, Rerun, Row, Settings
from attnverify.experiments.passages import passage, require_same_text
from attnverify.experiments.real_spectra import encoder_of

FALL = 1e3  # the criterion: pure attention falls by this factor, with skip connections it does not
QUICK = {"seeds": 1, "words": 24}
FULL = {"seeds": 5, "words": 96}
RESOLVED = 1e12  # logits beyond carry rounding errors over 1e-4: what they attend to is chance
OTHER_DEVIATIONS = (0.04, 0.1)  # initializations beside the usual 0.02, outside the criterion


def variant(parts: Parts) -> str:
    """A name such as "attention + skip + norm"."""
    on = [name for name in ("skip", "mlp", "norm") if getattr(parts, name)]
    return " + ".join(["attention", *on])


ALL_PARTS = {variant(p): p for p in (Parts(*on) for on in product((False, True), repeat=3))}
MAIN = ("attention", "attention + mlp", "attention + skip", "attention + skip + mlp + norm")


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
    trained = Model(name, lambda seed: stacks.trained_layers(encoder),
                    lambda seed, text: encoder.embed(text), fixed=True)  # fmt: skip
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
            shape, encoder.tokenizer.encode(text).ids, seed, deviation),
        judged=usual,
    )  # fmt: skip


# ---------------------------------------------------------------- measuring


MEASURED = ("mean", "low", "high", "root_free")
BOUNDS = ("from_input", "sharp", "printed", "corrected")


def sizes(X: Tokens | None) -> dict[str, float | None]:
    """Relative residuals: mean center, bounds on the optimal one, and the root-free variant.

    0 where the deviations are below the smallest float; None for tokens that are unknown.
    """
    if X is None:
        return dict.fromkeys(MEASURED)
    whole, largest = float(norms.composite(X.values)), X.deviations.abs().max()
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
        if layer.relative is None and states["attention"] is not None:
            chain = layer_bounds.sharp_step(layer, chain)
            row = next(r for r in rows[-len(names) :] if r["variant"] == "attention")
            row |= _bounds(layer, before, states["attention"], chain)
    return rows


def _advance(layer: Layer, X: Tokens | None, parts: Parts) -> Tokens | None:
    """The layer's output, None once its logits are too large for float64 to tell apart."""
    if X is None or not largest_logit(layer, X) <= RESOLVED:
        return None
    return apply(layer, X, parts)


def _row(model: Model, name: str, layer: int, X: Tokens | None) -> Row:
    return {
        "model": model.name,
        "judged": model.judged,
        "variant": name,
        "layer": layer,
        **sizes(X),
    }


def _bounds(layer: Layer, before: Tokens, after: Tokens, chain: float) -> dict[str, float | None]:
    """Bounds on the relative residual after an attention layer, None where one says nothing.

    from_input: the sharp theorem, from the diameter of the first input on; sharp, printed,
    corrected: one layer, from what entered it.
    """
    whole, K = float(norms.composite(after.values)), layer_bounds.residual_of_diameter(
        *before.deviations.shape)  # fmt: skip
    size = layer_bounds.diameter(before)
    if size == 0:
        return {"from_input": K * chain / whole}
    steps = layer_bounds.composite_steps(layer, before)
    sharp = layer_bounds.sharp_step(layer, size)
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
        column = [_rounded(row.get(key)) for row in same]
        if key in MEASURED or any(v is not None for v in column):
            values[key] = column
    first = same[0]
    return {key: first[key] for key in ("model", "judged", "variant", "layer")} | values


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


# ---------------------------------------------------------------- the criterion


def falls(rows: list[Row], name: str) -> dict[str, list[float]]:
    """Model -> for each seed, relative residual of the input over that after the last layer.

    Bounds on the optimal center are used against the fall: its low end at the input, its high end
    after the last layer. Infinite where the last value is below the smallest float.
    """
    found: dict[str, list[float]] = {}
    for model in dict.fromkeys(row["model"] for row in rows if row["judged"]):
        own = [r for r in rows if r["model"] == model and r["variant"] == name]
        first, last = own[0]["low"], own[-1]["high"]
        found[model] = [_quotient(a, b) for a, b in zip(first, last, strict=True)]
    return found


def largest_falls(rows: list[Row], name: str) -> dict[str, list[float]]:
    """As :func:`falls`, with the ends of the bounds the other way: the largest possible fall."""
    swapped = [{**row, "low": row["high"], "high": row["low"]} for row in rows]
    return falls(swapped, name)


def _quotient(a: float | None, b: float | None) -> float:
    if a is None or b is None:
        return math.nan  # every comparison with it is False
    return a / b if b > 0 else math.inf


def _all(found: dict[str, list[float]], holds: Callable[[float], bool]) -> bool:
    return bool(found) and all(holds(v) for values in found.values() for v in values)


def judge(rows: list[Row]) -> Verdict:
    """Pure attention falls by 1,000 or more in every model and seed, with skips by less."""
    pure = falls(rows, "attention")
    skip = {name: largest_falls(rows, name) for name in (MAIN[2], MAIN[3])}
    holds = _all(pure, lambda v: v >= FALL) and all(
        _all(found, lambda v: v < FALL) for found in skip.values())  # fmt: skip
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
    return Verdict(_all(found, lambda v: v < FALL), "pure attention falls by less than 1,000")


def _fall_with_skip(rows: list[Row]) -> Verdict:
    found = falls(rows, "attention + skip")
    return Verdict(_all(found, lambda v: v >= FALL), "attention with skip falls by 1,000 or more")


def _doubly_exponential_everywhere(rows: list[Row]) -> Verdict:
    """A cubic fall that is at 0.1 after one layer is at 0.1^(3^5) = 1e-243 after six."""
    found = [v for row in rows for v in row["high"]
             if row["judged"] and row["variant"] == "attention" and row["layer"] == 6]  # fmt: skip
    holds = all(v is not None and v <= 1e-100 for v in found)
    return Verdict(holds, "every pure attention stack is below 1e-100 after 6 layers")


def sample(rows: list[Row]) -> list[Rerun]:
    """The trained encoder's attention and full variants at the first passage, measured again.

    Stored to 6 digits, so up to 5e-6 relative. Between machines sums are added in another order,
    1e-9 relative at most where deviations keep their digits; a fall with the cube triples that
    with every layer, 3^6 = 729 times in six. The bounds low and high are left out: a tie between
    two medians may fall the other way.
    """
    require_same_text()
    model = next(m for m in models(Settings()) if m.fixed)
    again = trace(model, 0, passage(0, FULL["words"]), "cpu", (MAIN[0], MAIN[3]))
    stored = {(r["variant"], r["layer"]): r for r in rows if r["model"] == model.name}
    reruns = []
    for row in again:
        for key in ("mean", "root_free"):
            old = stored[row["variant"], row["layer"]][key][0]
            what = f"{row['variant']}, layer {row['layer']}, {key}"
            reruns.append(Rerun(what, old, row[key], tolerance=old * (5e-6 + 729e-9)))
    return reruns


EXPERIMENT = Experiment(
    name="architectures",
    run=run,
    judge=judge,
    twins=(
        ("pure attention does not fall by 1,000", _no_fall_without_skip),
        ("with skip connections it falls by 1,000 as well", _fall_with_skip),
        ("doubly exponential in every stack", _doubly_exponential_everywhere),
    ),
    sample=sample,
    takes_model=True,
    limits=(
        "Three shapes at one initialization and one trained encoder of 6 layers, five passages of "
        "one English text of about 125 tokens. The residual with the optimal center is enclosed, "
        "not computed; the verdict takes the unfavorable end."
    ),
)

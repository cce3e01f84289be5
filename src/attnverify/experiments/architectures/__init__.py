"""Relative residual by layer: attention alone, with MLPs, with skip connections, and in full.

Measured as in Dong, Cordonnier and Loukas (2021, section 4.1): the composite value of the residual
over that of the tokens. Randomly initialized BERT-, ALBERT- and XLNet-shaped stacks, and a trained
encoder, with all eight choices of skip connections, MLP and layer norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from attnverify.experiments.architectures import criterion as criterion
from attnverify.experiments.engine import results
from attnverify.experiments.engine.model import Experiment, Rerun, Row, Settings
from attnverify.experiments.engine.rounding import significant
from attnverify.experiments.trained_encoder import layer_bounds
from attnverify.experiments.trained_encoder.passages import passage
from attnverify.experiments.trained_encoder.spectra import encoder_of
from attnverify.mathematics import norms, stacks
from attnverify.mathematics.centerbounds import optimal_residual_bounds
from attnverify.mathematics.deviations import Layer, Parts, Tokens, Unresolved, apply
from attnverify.mathematics.encoder import Encoder

QUICK = {"seeds": 1, "words": 24}
FULL = {"seeds": 5, "words": 96}
OTHER_DEVIATIONS = (0.04, 0.1)  # initializations beside the usual 0.02, outside the criterion


def variant(parts: Parts) -> str:
    """A name such as "attention + skip + norm"."""
    on = [name for name in ("skip", "mlp", "norm") if getattr(parts, name)]
    return " + ".join(["attention", *on])


ALL_PARTS = {variant(p): p for p in (Parts(*on) for on in product((False, True), repeat=3))}
MAIN = ("attention", "attention + mlp", *criterion.WITH_SKIP)


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
    """The trained encoder's attention and full variants at the first passage, measured again.

    Stored to 6 digits, so up to 5e-6 relative. Between machines sums are added in another order,
    1e-9 relative at most where deviations keep their digits; a fall with the cube triples that
    with every layer, 3^6 = 729 times in six. The bounds low and high are left out: a tie between
    two medians may fall the other way.
    """
    model = next(m for m in models(Settings()) if m.fixed)
    seed = results.seed(EXPERIMENT.name)
    again = trace(model, seed, passage(seed, FULL["words"]), "cpu", (MAIN[0], MAIN[3]))
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
    judge=criterion.judge,
    twins=criterion.TWINS,
    sample=sample,
    takes_model=True,
    limits=(
        "Three shapes at one initialization and one trained encoder of 6 layers, five passages of "
        "English text of up to 186 tokens. The residual with the optimal center is enclosed, "
        "not computed; the verdict takes the unfavorable end."
    ),
)

"""Cosines of tokens in GPT-2, Llama and BERT at their default initialization, beside a formula.

Models are built from configurations of ``transformers``, which draws their weights; the text is a
sequence of different random tokens. The formula is
:func:`attnverify.mathematics.initialization.expected_cosines`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from attnverify.experiments.engine import results
from attnverify.experiments.engine.agreement import Group, compared, significant
from attnverify.experiments.engine.model import (
    Experiment,
    Rerun,
    Row,
    Settings,
    all_of,
    at_most,
)
from attnverify.mathematics.initialization import Stack, expected_cosines, mean_cosine
from attnverify.support.seeds import seed_for
from attnverify.support.verdict import Verdict

WORDS, HEAD = 1024, 64  # words of the vocabulary, width of a head
DEVIATION = 0.02  # the default of all three families
LIMITS = {12: 0.10, 48: 0.15}  # by the number of layers: largest relative error of any layer
CHANCE = 2.0  # standard errors of the mean over seeds that are allowed on top
NAME = "default-initialization"
#: Family, width, layers, tokens.
Cell = tuple[str, int, int, int]
SMALL: tuple[Cell, ...] = tuple(product(("GPT-2", "Llama", "BERT"), (256,), LIMITS, (16, 256)))
WIDE: tuple[Cell, ...] = (
    ("GPT-2", 768, 12, 256),
    ("BERT", 768, 12, 256),
    ("Llama", 768, 12, 256),
    ("Llama", 1024, 12, 256),
)
CELLS = SMALL + WIDE
SEEDS = 10
QUICK_CELLS, QUICK_SEEDS = tuple(c for c in SMALL if c[2:] == (12, 16)), 3
AGAIN = [cell for cell in CELLS if cell[1:] == CELLS[0][1:]]  # what is measured again


@dataclass(frozen=True)
class Family:
    """How a family is built and where its layers are, and its stack for the formula."""

    build: Callable[[int, int], nn.Module]  # from width and layers
    layers: Callable[[Any], nn.ModuleList]
    stack: Callable[[int, int], Stack]


def _gpt2(width: int, layers: int) -> nn.Module:
    from transformers import GPT2Config, GPT2Model

    sizes: dict[str, Any] = {"n_layer": layers, "n_embd": width, "n_head": width // HEAD}
    words: dict[str, Any] = {"vocab_size": WORDS, "bos_token_id": None, "eos_token_id": None}
    return GPT2Model(GPT2Config(**sizes, **words))


def _llama(width: int, layers: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaModel

    return LlamaModel(LlamaConfig(**_sizes(width, layers)))


def _bert(width: int, layers: int) -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**_sizes(width, layers)), add_pooling_layer=False)


def _sizes(width: int, layers: int) -> dict[str, Any]:
    stream = {"hidden_size": width, "intermediate_size": 4 * width, "vocab_size": WORDS}
    return {**stream, "num_hidden_layers": layers, "num_attention_heads": width // HEAD}


def _stack(width: int, layers: int, **form: Any) -> Stack:
    """What the three families have in common; ``form`` is the rest, and goes first."""
    common = {"hidden": 4 * width, "deviation": DEVIATION, "output_deviation": DEVIATION}
    return Stack(layers=layers, width=width, **{**common, **form})


def _gpt2_stack(width: int, layers: int) -> Stack:
    """The words and the places are drawn; GPT-2 divides what writes by the root of 2 layers."""
    return _stack(
        width,
        layers,
        output_deviation=DEVIATION / math.sqrt(2 * layers),
        token_variance=2 * DEVIATION**2,
        shared_variance=0.0,
        activation=partial(nn.functional.gelu, approximate="tanh"),
        gated=False,
        causal=True,
        norm_first=True,
    )


def _llama_stack(width: int, layers: int) -> Stack:
    return _stack(
        width,
        layers,
        token_variance=DEVIATION**2,
        shared_variance=0.0,
        activation=nn.functional.silu,
        gated=True,
        causal=True,
        norm_first=True,
    )


def _bert_stack(width: int, layers: int) -> Stack:
    """Word, place and a type that all tokens share; a norm follows."""
    return _stack(
        width,
        layers,
        token_variance=2 / 3,
        shared_variance=1 / 3,
        activation=nn.functional.gelu,
        gated=False,
        causal=False,
        norm_first=False,
    )


FAMILIES = {
    "GPT-2": Family(_gpt2, lambda model: model.h, _gpt2_stack),
    "Llama": Family(_llama, lambda model: model.layers, _llama_stack),
    "BERT": Family(_bert, lambda model: model.encoder.layer, _bert_stack),
}


def measured(cell: Cell, seed: int) -> list[float]:
    """Mean cosine of two different tokens before each layer and after the last, of one model."""
    family, width, layers, tokens = cell
    found: list[Tensor] = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = FAMILIES[family].build(width, layers).double().eval()
        ids = torch.randperm(WORDS)[None, :tokens]

        def before(module, args, named):
            found.append((args[0] if args else named["hidden_states"])[0])

        def after(module, args, output):
            found.append((output[0] if isinstance(output, tuple) else output).reshape(tokens, -1))

        stack = FAMILIES[family].layers(model)
        stack[0].register_forward_pre_hook(before, with_kwargs=True)
        for layer in stack:
            layer.register_forward_hook(after)
        model(input_ids=ids)
    return [float(mean_cosine(X @ X.mT)) for X in found]


def formulas(cell: Cell) -> dict[str, list[float]]:
    """By name: the formula after each layer, and what neighbors of it would say."""
    family, width, layers, tokens = cell
    stack = FAMILIES[family].stack(width, layers)
    return {
        "formula": expected_cosines(stack, tokens),
        "uniform": expected_cosines(stack, tokens, scores=False),
        "without_mlp": expected_cosines(stack, tokens, mlp=False),
        "linear": expected_cosines(replace(stack, activation=lambda x: x), tokens),
        "other_mask": expected_cosines(replace(stack, causal=not stack.causal), tokens),
    }


def rows_of(cell: Cell, seeds: list[int]) -> Iterator[Row]:
    """A row a layer: formulas, and mean and deviation over the models that the seeds draw."""
    found = torch.tensor([measured(cell, seed) for seed in seeds], dtype=torch.float64)
    columns = formulas(cell)
    columns |= {"mean": found.mean(0).tolist(), "deviation": found.std(0).tolist()}
    head = dict(zip(("family", "width", "layers", "tokens"), cell, strict=True))
    for layer, figures in enumerate(zip(*columns.values(), strict=True)):
        values = {n: significant(v, 6) for n, v in zip(columns, figures, strict=True)}
        yield {**head, "layer": layer, **values, "seeds": len(seeds)}


def run(settings: Settings) -> list[Row]:
    """All cells; quick: twelve layers, width 256, 16 tokens, three seeds."""
    cells, count = (QUICK_CELLS, QUICK_SEEDS) if settings.quick else (CELLS, SEEDS)
    found: list[Row] = []
    for k, cell in enumerate(cells):
        settings.progress(" ".join(map(str, cell)), k / len(cells))
        found += rows_of(cell, _seeds(settings.seed, cell, count))
    return found


def _seeds(seed: int, cell: Cell, count: int) -> list[int]:
    return [seed_for(seed, NAME, *map(str, cell), str(k)) for k in range(count)]


def cell_of(row: Row) -> Cell:
    """What the row is of."""
    return row["family"], row["width"], row["layers"], row["tokens"]


def errors(rows: list[Row], formula: str = "formula") -> dict[Cell, float]:
    """By cell: the largest relative error of the formula after any layer.

    Of each difference CHANCE standard errors of the mean are left out.
    """
    found: dict[Cell, float] = {}
    for row in rows:
        if row["layer"]:
            chance = CHANCE * row["deviation"] / math.sqrt(row["seeds"])
            error = max(0.0, abs(row["mean"] - row[formula]) - chance) / abs(row["mean"])
            found[cell_of(row)] = max(found.get(cell_of(row), 0.0), error)
    return found


def judge(rows: list[Row], formula: str = "formula") -> Verdict:
    """Every error at most that of LIMITS, in all cells of the full setting."""
    found = errors(rows, formula)
    if not set(CELLS) <= set(found):
        return Verdict(None, "not all families, sizes and lengths", cases=len(found))
    holds = all_of(at_most(error, LIMITS[cell[2]]) for cell, error in found.items())
    largest = [max(e for cell, e in found.items() if cell[2] == layers) for layers in LIMITS]
    argument = "largest relative error of the mean cosine beyond two standard errors " + ", ".join(
        f"{error:.3f} at {layers} layers" for layers, error in zip(LIMITS, largest, strict=True)
    )
    return Verdict(holds, argument, cases=len(found))


def sample(rows: list[Row]) -> list[Rerun]:
    """The last layer of a cell of each family in as many new models: means agree up to chance."""
    found = []
    for cell in AGAIN:
        own = [row for row in rows if cell_of(row) == cell][-1]
        seeds = _seeds(results.seed(NAME) + 1, cell, SEEDS)
        again = [measured(cell, seed)[-1] for seed in seeds]
        stored = Group(own["mean"], own["deviation"], own["seeds"])
        found.append(compared(" ".join(map(str, cell)), stored, Group.of(again)))
    return found


EXPERIMENT = Experiment(
    name=NAME,
    run=run,
    judge=judge,
    limits="other sizes; repeated tokens; dropout; what training makes of it",
    sample=sample,
    twins=(
        ("uniform attention, whatever the scores", partial(judge, formula="uniform")),
        ("no MLP", partial(judge, formula="without_mlp")),
        ("an MLP with a linear activation", partial(judge, formula="linear")),
        ("a causal mask in BERT and none elsewhere", partial(judge, formula="other_mask")),
    ),
    by_chance=3,
    quick_decides=False,
)

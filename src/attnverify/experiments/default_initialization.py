"""Cosines of tokens in GPT-2, Llama and BERT at their default initialization, beside a formula.

Models are built from configurations of ``transformers``, which draws their weights; the text is a
sequence of different random tokens. The formula is
:func:`attnverify.mathematics.initialization.expected_cosines`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from attnverify.mathematics.initialization import Stack, expected_cosines
from attnverify.support.seeds import seed_for
from attnverify.support.verdict import Verdict

WIDTH, HEADS, WORDS = 256, 4, 1024
DEVIATION = 0.02  # the default of all three families
LIMITS = {12: 0.10, 48: 0.15}  # by the number of layers: largest relative error of any layer
CHANCE = 2.0  # standard errors of the mean over seeds that are allowed on top
NAME = "default-initialization"
CELLS = tuple(product(("GPT-2", "Llama", "BERT"), LIMITS, (16, 256)))
SEEDS = 10
QUICK_CELLS, QUICK_SEEDS = tuple(c for c in CELLS if c[1:] == (12, 16)), 3
AGAIN = CELLS[0]  # what is measured again


@dataclass(frozen=True)
class Family:
    """How a family is built and where its layers are, and its stack for the formula."""

    build: Callable[[int], nn.Module]
    layers: Callable[[Any], nn.ModuleList]
    stack: Callable[[int], Stack]


def _gpt2(layers: int) -> nn.Module:
    from transformers import GPT2Config, GPT2Model

    sizes: dict[str, Any] = {"n_layer": layers, "n_embd": WIDTH, "n_head": HEADS}
    words: dict[str, Any] = {"vocab_size": WORDS, "bos_token_id": None, "eos_token_id": None}
    return GPT2Model(GPT2Config(**sizes, **words))


def _llama(layers: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaModel

    return LlamaModel(LlamaConfig(**_sizes(layers)))


def _bert(layers: int) -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**_sizes(layers)), add_pooling_layer=False)


def _sizes(layers: int) -> dict[str, Any]:
    stream = {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "vocab_size": WORDS}
    return {**stream, "num_hidden_layers": layers, "num_attention_heads": HEADS}


def _gpt2_stack(layers: int) -> Stack:
    """The words and the places are drawn; GPT-2 divides what writes by the root of 2 layers."""
    written = DEVIATION / math.sqrt(2 * layers)
    gelu = partial(nn.functional.gelu, approximate="tanh")
    start = (2 * DEVIATION**2, 0.0)
    return Stack(layers, WIDTH, 4 * WIDTH, DEVIATION, written, *start, gelu, False, True, True)


def _llama_stack(layers: int) -> Stack:
    start, silu = (DEVIATION**2, 0.0), nn.functional.silu
    return Stack(layers, WIDTH, 4 * WIDTH, DEVIATION, DEVIATION, *start, silu, True, True, True)


def _bert_stack(layers: int) -> Stack:
    """Word, place and a type that all tokens share; a norm follows."""
    start, gelu = (2 / 3, 1 / 3), nn.functional.gelu
    return Stack(layers, WIDTH, 4 * WIDTH, DEVIATION, DEVIATION, *start, gelu, False, False, False)


FAMILIES = {
    "GPT-2": Family(_gpt2, lambda model: model.h, _gpt2_stack),
    "Llama": Family(_llama, lambda model: model.layers, _llama_stack),
    "BERT": Family(_bert, lambda model: model.encoder.layer, _bert_stack),
}


def measured(family: str, layers: int, tokens: int, seed: int) -> list[float]:
    """Mean cosine of two different tokens before each layer and after the last, of one model."""
    found: list[Tensor] = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = FAMILIES[family].build(layers).double().eval()
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
    return [mean_cosine(X) for X in found]


def mean_cosine(X: Tensor) -> float:
    """Mean over pairs of different rows; X (tokens, width)."""
    unit = X / X.norm(dim=-1, keepdim=True)
    tokens = len(X)
    return float((unit.sum(0).square().sum() - tokens) / (tokens * (tokens - 1)))


def rows_of(cell: tuple[str, int, int], seeds: list[int]) -> Iterator[Row]:
    """A row a layer: the formula with and without the MLP, mean and deviation over the seeds."""
    family, layers, tokens = cell
    stack = FAMILIES[family].stack(layers)
    formula, without = (expected_cosines(stack, tokens, mlp) for mlp in (True, False))
    found = torch.tensor([measured(*cell, seed) for seed in seeds], dtype=torch.float64)
    figures = zip(formula, without, found.mean(0).tolist(), found.std(0).tolist(), strict=True)
    for layer, figure in enumerate(figures):
        names = ("formula", "without_mlp", "mean", "deviation")
        values = {n: significant(v, 6) for n, v in zip(names, figure, strict=True)}
        head = {"family": family, "layers": layers, "tokens": tokens, "layer": layer}
        yield {**head, **values, "seeds": len(seeds)}


def run(settings: Settings) -> list[Row]:
    """All families, depths and lengths; quick: twelve layers, 16 tokens, three seeds."""
    cells, count = (QUICK_CELLS, QUICK_SEEDS) if settings.quick else (CELLS, SEEDS)
    found: list[Row] = []
    for k, cell in enumerate(cells):
        settings.progress(" ".join(map(str, cell)), k / len(cells))
        found += rows_of(cell, _seeds(settings.seed, cell, count))
    return found


def _seeds(seed: int, cell: tuple[str, int, int], count: int) -> list[int]:
    return [seed_for(seed, NAME, *map(str, cell), str(k)) for k in range(count)]


def errors(rows: list[Row], formula: str = "formula") -> dict[tuple[str, int, int], float]:
    """By family, depth and length: the largest relative error of the formula after any layer.

    Of each difference CHANCE standard errors of the mean are left out.
    """
    found: dict[tuple[str, int, int], float] = {}
    for row in rows:
        if row["layer"]:
            cell = row["family"], row["layers"], row["tokens"]
            chance = CHANCE * row["deviation"] / math.sqrt(row["seeds"])
            error = max(0.0, abs(row["mean"] - row[formula]) - chance) / abs(row["mean"])
            found[cell] = max(found.get(cell, 0.0), error)
    return found


def judge(rows: list[Row], scale: float = 1.0, formula: str = "formula") -> Verdict:
    """Every error at most LIMITS times ``scale``, in all cells of the full setting."""
    found = errors(rows, formula)
    if not set(CELLS) <= set(found):
        return Verdict(None, "not all families, depths and lengths", cases=len(found))
    holds = all_of(
        at_most(error, scale * LIMITS[layers]) for (_, layers, _), error in found.items()
    )
    largest = [max(e for (_, n, _), e in found.items() if n == layers) for layers in LIMITS]
    argument = "largest relative error of the mean cosine beyond chance " + ", ".join(
        f"{error:.3f} at {layers} layers" for layers, error in zip(LIMITS, largest, strict=True)
    )
    return Verdict(holds, argument, cases=len(found))


def sample(rows: list[Row]) -> list[Rerun]:
    """The last layer of one cell in as many new models, so the means agree up to chance."""
    family, layers, tokens = AGAIN
    own = [r for r in rows if (r["family"], r["layers"], r["tokens"]) == AGAIN]
    again = [measured(*AGAIN, seed)[-1] for seed in _seeds(results.seed(NAME) + 1, AGAIN, SEEDS)]
    stored = Group(own[-1]["mean"], own[-1]["deviation"], own[-1]["seeds"])
    return [compared(f"{family}, {layers} layers, {tokens} tokens", stored, Group.of(again))]


EXPERIMENT = Experiment(
    name=NAME,
    run=run,
    judge=judge,
    limits="other widths and vocabularies; repeated tokens; what training makes of it",
    sample=sample,
    twins=(
        ("errors of at most a fifth of that", partial(judge, scale=0.2)),
        ("the formula without the MLP", partial(judge, formula="without_mlp")),
    ),
    by_chance=1,
    quick_decides=False,
)

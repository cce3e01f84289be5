"""Entropy of attention to contexts that a trained decoder encodes serially, or in parallel.

Four contexts of one length stand before a question. Read serially every byte sees all before it.
Read in parallel a byte of a context sees its own context alone, and the question sees all. All
bytes keep their positions, so the two readings differ by the mask and by nothing else. Rows of the
question are taken over the keys of the contexts, where entropy.blocks applies with B = 4.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from attnverify.experiments.engine import weights
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
from attnverify.experiments.trained_models.decoder import CONFIG, NAME, corpus
from attnverify.mathematics import blocks, entropy
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.mathematics.decoder import Decoder, GatedMLP, RMSNorm
from attnverify.mathematics.positions import Positions
from attnverify.mathematics.softmax import oscillation
from attnverify.mathematics.weights import AttentionWeights
from attnverify.support.verdict import Verdict

TEXTS = {True: 1, False: 5}  # quick, full
FIRST = 5  # the criterion was written after a look at texts 0 to 4
BLOCKS, LENGTH = 4, 24  # contexts and their bytes; the question is as long as one of them
APART, STEP = 1000, 4096  # bytes from one context to the next, and from one text to the next
READINGS = ("serial", "parallel")
KEYS = ("entropy", "choice", "inside", "weight")
DIGITS = 6


def words(number: int) -> Tensor:
    """Four held-out contexts far apart, and what follows the last one; (bytes,) int64."""
    text, start = corpus().held_out, number * STEP
    parts = [text[start + b * APART :][:LENGTH] for b in range(BLOCKS - 1)]
    return torch.cat([*parts, text[start + (BLOCKS - 1) * APART :][: 2 * LENGTH]])


def mask(reading: str) -> Tensor:
    """Which keys a byte may see, (tokens, tokens)."""
    block = torch.arange((BLOCKS + 1) * LENGTH) // LENGTH
    causal = torch.ones(len(block), len(block)).tril().bool()
    own = (block[:, None] == block) | (block[:, None] == BLOCKS)
    return causal & own if reading == "parallel" else causal


def network(given: dict[str, Tensor], keep: Tensor) -> Decoder:
    """The decoder of the committed weights, in float64; its last norm is not needed here."""
    L, H, G, width = (
        CONFIG[key]
        for key in (
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "hidden_size",
        )
    )

    def stack(part: str) -> Tensor:
        return torch.stack([given[f"model.layers.{i}.{part}.weight"] for i in range(L)])

    def heads(name: str, groups: int) -> Tensor:
        maps = stack(f"self_attn.{name}_proj").reshape(L, groups, -1, width).mT
        return maps.repeat_interleave(H // groups, 1)

    out = stack("self_attn.o_proj").mT.reshape(L, H, -1, width)
    maps = AttentionWeights(W_Q=heads("q", H), W_K=heads("k", G), W_V=heads("v", G), W_O=out)
    places = Positions.rotary(L, H, width // H, CONFIG["rope_theta"])
    mlp = GatedMLP(*(stack(f"mlp.{name}_proj").mT for name in ("gate", "up", "down")))
    scales = torch.stack([stack("input_layernorm"), stack("post_attention_layernorm")], 1)
    attention = SelfAttentionNetwork(maps, mask=keep, positions=places)
    return Decoder(attention, mlp, RMSNorm(scales, CONFIG["rms_norm_eps"]))


def rounding(Z: Tensor) -> Tensor:
    """Bound on the computed H - H(W) - sum_b W_b H_b of logits Z (..., blocks, keys); (...).

    Let u be the unit roundoff, N the number of keys, R the oscillation of Z, f the largest |F_b|,
    e = (R + N + f + 4) u. To first order a weight e^(z - top) has the relative error (R + 2) u,
    their sum (R + N + 2) u, and its logarithm, or F_b, the error e. An entropy is log(total) plus
    a mean of top - z, which is at most log N, with the relative error 2 e: at most
    (1 + 2 log N) e in all, which holds for H, each H_b and H(W) alike. An error e of F changes
    weights W by the share 2 e, so H(W) and the mean inside by 2 e log N each. Together
    (3 + 10 log N) e; 11 covers products of errors, as e < 2^-40.
    """
    row = Z.reshape(*Z.shape[:-2], -1)
    keys, unit = row.shape[-1], torch.finfo(Z.dtype).eps / 2
    e = unit * (oscillation(row) + keys + blocks.sizes(Z).abs().amax(-1) + 4)
    return e * (3 + 11 * math.log(keys))


@torch.no_grad()
def measured(number: int, reading: str) -> list[dict[str, float]]:
    """Means over heads and rows of the question, by layer; ``off``: of the identity, over bound.

    weight: that of all contexts in the whole row, where the question has the rest.
    """
    given = {name: value.double() for name, value in weights.committed(NAME).items()}
    decoder, X = network(given, mask(reading)), given["model.embed_tokens.weight"][words(number)]
    end, found = BLOCKS * LENGTH, []
    for layer, state in enumerate(decoder.hidden(X)[:-1]):
        first = decoder.norm.at(layer, 0)(state)
        P = decoder.attention.layer_attention(layer, first)[:, end:, :end]
        Z = P.log().reshape(*P.shape[:2], BLOCKS, LENGTH)
        H, choice, inside = blocks.together(Z), entropy.entropy(blocks.sizes(Z)), blocks.inside(Z)
        values = zip(KEYS, (H, choice, inside, P.sum(-1)), strict=True)
        off = ((H - choice - inside).abs() / rounding(Z)).max()
        found.append({**{key: float(value.mean()) for key, value in values}, "off": float(off)})
    return found


def run(settings: Settings) -> list[Row]:
    """Two rows a layer, one for each reading; lists have an entry a text."""
    rows, count = [], TEXTS[settings.quick]
    for step, reading in enumerate(READINGS):
        texts = []
        for number in range(count):
            settings.progress(f"{reading}, text {number + 1}", (step + number / count) / 2)
            texts.append(measured(settings.seed + FIRST + number, reading))
        for layer, each in enumerate(zip(*texts, strict=True), 1):
            lists = {key: [significant(text[key], DIGITS) for text in each] for key in KEYS}
            off = significant(max(text["off"] for text in each), DIGITS)
            rows.append({"layer": layer, "reading": reading, **lists, "off": off})
    return rows


# ---------------------------------------------------------------- the criterion


def changes(rows: list[Row]) -> dict[int, list[float]]:
    """Entropy of the parallel reading less that of the serial one, by layer and text."""
    found: dict[int, dict[str, list[float]]] = {}
    for row in rows:
        found.setdefault(row["layer"], {})[row["reading"]] = row["entropy"]
    return {
        layer: [after - before for before, after in zip(*map(both.get, READINGS), strict=True)]
        for layer, both in found.items()
    }


def judge(rows: list[Row], most: float = 0.25, least: float = 0.5) -> Verdict:
    """In every text: no change in layer 1, later at most ``most``; choices of at least ``least``.

    Layer 1 up to two roundings of the table, and the identity within its bound everywhere.
    """
    figures = [x for row in rows for x in (row["off"], *row["entropy"], *row["choice"])]
    if len(rows) < len(READINGS) * CONFIG["num_hidden_layers"] or None in figures:
        return Verdict(None, "not all layers, or a figure is missing", cases=0)
    found = changes(rows)
    first, later = found[1], [x for layer in found if layer > 1 for x in found[layer]]
    choices = [value for row in rows for value in row["choice"]]
    off = max(row["off"] for row in rows)
    answers = [
        *(at_most(abs(x), 10.0 ** (1 - DIGITS)) for x in first),
        *(at_most(abs(x), most) for x in later),
        *(at_least(x, least) for x in choices),
        at_most(off, 1.0),
    ]
    argument = (
        f"beyond layer 1 entropies change by {min(later):+.3f} to {max(later):+.3f}; choices have "
        f"{min(choices):.3f} to {max(choices):.3f}; identity within {off:.2g} of its bound"
    )
    return Verdict(all_of(answers), argument, cases=len(rows[0]["entropy"]), ratio=off)


def sample(rows: list[Row]) -> list[Rerun]:
    """The first text again.

    The table has six digits, so 5e-6 relative. In float64 a forward pass is good to 1e-12 (as for
    three-models), which 1e-9 covers for means of entropies of at most log 96.
    """
    reruns = []
    for reading in READINGS:
        old = [row for row in rows if row["reading"] == reading]
        for row, new in zip(old, measured(FIRST, reading), strict=True):
            for key in KEYS:
                what = f"layer {row['layer']}, {reading}, {key}"
                tolerance = 5.1e-6 * abs(row[key][0]) + 1e-9
                reruns.append(Rerun(what, row[key][0], new[key], tolerance=tolerance))
    return reruns


EXPERIMENT = Experiment(
    name="parallel-contexts",
    run=run,
    judge=judge,
    twins=(
        ("changes of at most 0.01 nats", partial(judge, most=0.01)),
        ("choices of at least 1.2 nats", partial(judge, least=1.2)),
    ),
    sample=sample,
    limits=(
        "A decoder of four layers on bytes, never trained to read contexts that have nothing to do "
        "with its question, with four contexts of 24 bytes at their own positions: too small to "
        "say what large models do at long contexts."
    ),
)

"""The sharp collapse theorem at the layers of a trained encoder: are its inputs in range?

The theorem bounds diam(SA(X)) / diam(X) by the factor sum_h v_h tanh(c_h diam(X)^2). It promises
collapse for diameters below the one where the factor is 1, the threshold of the layer.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from attnverify.experiments.engine.agreement import significant
from attnverify.experiments.engine.model import (
    Experiment,
    Rerun,
    Row,
    Settings,
    above,
    all_of,
    any_of,
    below,
)
from attnverify.experiments.texts import passage
from attnverify.experiments.trained_encoder.layer_bounds import rates
from attnverify.experiments.trained_encoder.soundness import encoder_of
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.depth_bounds import layer_threshold
from attnverify.mathematics.deviations import Layer
from attnverify.mathematics.encoder import Encoder
from attnverify.mathematics.spectral import spectral_norm, thin_product
from attnverify.support.verdict import Verdict

QUICK = {"passages": 2, "words": 24}
FULL = {"passages": 5, "words": 96}
DIGITS = 8  # of the figures of the table


@torch.no_grad()
def run(settings: Settings) -> list[Row]:
    """One row a layer; measured values are lists, one entry a passage."""
    encoder, plan = encoder_of(settings), QUICK if settings.quick else FULL
    texts = [passage(settings.seed + i, plan["words"]) for i in range(plan["passages"])]
    states = []
    for number, text in enumerate(texts):
        settings.progress(f"passage {number + 1}", number / len(texts))
        states.append(encoder.network.hidden(encoder.embed(text).to(settings.device)))
    return [_row(encoder, i, [each[i] for each in states]) for i in range(encoder.network.depth)]


def _row(encoder: Encoder, index: int, inputs: list[Tensor]) -> Row:
    """Thresholds of the layer and of its single heads, and where its inputs are."""
    layer, net = Layer.of(encoder.network, index), encoder.network
    c, v = rates(layer)
    limit = layer_threshold(c, v)
    qk = spectral_norm(thin_product(layer.W_Q, layer.W_K))
    heads = sorted(
        collapse.threshold(float(a), float(b), net.key_width) for a, b in zip(qk, v, strict=True)
    )
    sizes = [float(norms.diameter(X)) for X in inputs]
    attention = encoder.attention_stack(skip=False)  # alone, without layer norm
    after = [float(norms.diameter(attention.layer(index, X))) for X in inputs]
    factors = [float(collapse.sharp_factor(c.new_tensor(s), c, v)) for s in sizes]
    return {
        "layer": index + 1,
        "threshold": significant(limit, DIGITS),
        "head_thresholds": [
            significant(heads[0], DIGITS),
            significant(heads[len(heads) // 2], DIGITS),
        ],
        "diameter": [significant(s, DIGITS) for s in sizes],
        "over_threshold": [significant(s / limit, DIGITS) for s in sizes],
        "factor": [significant(f, DIGITS) for f in factors],
        "measured_factor": [significant(a / s, DIGITS) for a, s in zip(after, sizes, strict=True)],
    }


# ---------------------------------------------------------------- the criterion


def judge(rows: list[Row], factor: float = 1.0) -> Verdict:
    """Every input of every layer is wider than ``factor`` times the layer's threshold."""
    over = [v for row in rows for v in row["over_threshold"]]
    known = [v for v in over if v is not None]
    holds = all_of(above(v, factor) for v in over)
    text = f"diameter over threshold from {min(known):.3g} to {max(known):.3g}" if known else ""
    ratio = 1 / min(known) if known and min(known) > 0 else None
    return Verdict(holds, text, cases=len(over), ratio=ratio)


def _below_once(rows: list[Row]) -> Verdict:
    holds = any_of(below(v, 1) for row in rows for v in row["over_threshold"])
    return Verdict(holds, "some layer's input is below its threshold")


def sample(rows: list[Row]) -> list[Rerun]:
    """Thresholds, diameter and factor of every layer at the first passage again.

    Both rounded to 8 digits, so up to 1e-7 relative apart; a forward pass in float64 is good to
    2e-12 (its derivation stands with the tests of the frozen encoder), singular values and the
    threshold to the same.
    """
    encoder = Encoder.bundled()
    states = encoder.network.hidden(encoder.embed(passage(0, FULL["words"])))
    reruns = []
    for row, X in zip(rows, states[:-1], strict=True):
        again = _row(encoder, row["layer"] - 1, [X])
        pairs = [("threshold", row["threshold"], again["threshold"])]
        pairs += [
            ("threshold of one head", *both)
            for both in zip(row["head_thresholds"], again["head_thresholds"], strict=True)
        ]
        names = ("diameter", "over_threshold", "factor", "measured_factor")
        pairs += [(name, row[name][0], again[name][0]) for name in names]
        reruns += [
            Rerun(f"layer {row['layer']}, {name}", old, new, tolerance=1.1e-7 * old)
            for name, old, new in pairs
        ]
    return reruns


EXPERIMENT = Experiment(
    name="real-margins",
    run=run,
    judge=judge,
    twins=(
        ("some layer is below its threshold", _below_once),
        ("35 times wider everywhere", partial(judge, factor=35.0)),
    ),
    sample=sample,
    takes_model=True,
    limits=(
        "One encoder, five passages of one text. The theorem speaks of attention alone; the "
        "encoder also has skip connections, MLPs and layer norms. An input above the threshold "
        "may still collapse: the theorem then promises nothing."
    ),
)

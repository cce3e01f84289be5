"""The training of the small decoder: has it learned more than the byte before tells?

The baseline is an interpolated model of the next byte given the last few, by counting, with Witten
and Bell's weights: after a context that came N times, with T different next bytes,

    p(b | context) = (count(b) + T p(b | shorter context)) / (N + T),

down to the uniform law over 256 bytes. A context never seen is passed over.
"""

from __future__ import annotations

import copy
import math
from collections import Counter, defaultdict
from functools import partial

from attnverify.experiments.engine import agreement, weights
from attnverify.experiments.engine.agreement import significant
from attnverify.experiments.engine.model import Experiment, Rerun, Row, Settings
from attnverify.experiments.engine.train import Parameters, Plan, train
from attnverify.experiments.trained_models.decoder import (
    CONFIG,
    CONTEXT,
    NAME,
    Goals,
    corpus,
    scored,
)
from attnverify.support.verdict import Verdict

Counts = list[dict[bytes, Counter[int]]]


def counted(train: bytes, order: int) -> Counts:
    """What followed every context of 0, 1, .., order - 1 bytes."""
    tables: Counts = [defaultdict(Counter) for _ in range(order)]
    for length, table in enumerate(tables):
        for end in range(length, len(train)):
            table[train[end - length : end]][train[end]] += 1
    return tables


def bits_per_byte(tables: Counts, text: bytes, skip: int = 0) -> list[float]:
    """Mean of -log2 p over the text from place ``skip`` on, for each order 1, 2, .., len(tables).

    A place sees as many bytes before it as its order takes, those before ``skip`` included.
    """
    totals = [0.0] * len(tables)
    for end in range(skip, len(text)):
        p = 1 / 256
        for length, table in enumerate(tables):
            followed = table.get(text[end - length : end]) if length <= end else None
            if followed:
                kinds = len(followed)
                p = (followed[text[end]] + kinds * p) / (followed.total() + kinds)
            totals[length] -= math.log2(p)
    return [total / (len(text) - skip) for total in totals]


PLAN = Plan(
    800,
    3e-3,
    weight_decay=0.1,
    betas=(0.9, 0.95),
    warmup=30,
    measure_every=100,
    checkpoint_every=40,
    cooldown=400,
)
BATCH, WATCHED = 8, 8  # windows a step; held-out windows of the metrics
ORDERS = 6  # of the baseline: 0 to 5 bytes before
BEGINNINGS, ANEW, STEPS = 6, 4, 40  # short trainings in the table, and in the sample
SHORT = Plan(STEPS, 3e-3, weight_decay=0.1, betas=(0.9, 0.95), warmup=30, measure_every=STEPS)
DIGITS = 6
AGAIN = 8  # windows that the sample scores


def run(settings: Settings) -> list[Row]:
    """Train, score the held-out text, count the baseline. Quick: a beginning and small tables."""
    plan = SHORT if settings.quick else PLAN
    goals = Goals(settings.seed, BATCH, 64 if settings.quick else CONTEXT, WATCHED)
    found, metrics = trained(goals, plan, settings)
    weights.keep(NAME, settings, found)
    rows: list[Row] = [{"kind": "training", **line} for line in metrics]
    rows.append(decoder_row(goals, found, 4 if settings.quick else None))
    rows += baseline(2 if settings.quick else ORDERS)
    if not settings.quick:
        rows += [beginning(settings.seed + 1 + i) for i in range(BEGINNINGS)]
    return rows


def trained(goals: Goals, plan: Plan, settings: Settings) -> tuple[Parameters, list[Row]]:
    """A decoder trained from the goals' seed, and the metrics of its training."""
    parameters, folder = goals.start(), settings.folder
    metrics = train(
        parameters,
        goals.loss,
        goals.measure,
        plan,
        configuration={"seed": settings.seed, "batch": BATCH, "context": goals.context},
        folder=folder and folder / f"{'quick' if settings.quick else 'full'}-{settings.seed}",
        progress=settings.progress,
        what="decoder",
    )
    return {name: value.detach() for name, value in parameters.items()}, metrics


def decoder_row(goals: Goals, parameters: Parameters, pieces: int | None) -> Row:
    """The trained decoder on held-out text; ``again`` in float64 on its first windows."""
    wide = {name: value.double() for name, value in parameters.items()}
    again = scored(copy.deepcopy(goals.module).double(), wide, AGAIN)
    return {
        "kind": "decoder",
        "parameters": sum(value.numel() for value in parameters.values()),
        "bits": significant(float(scored(goals.module, parameters, pieces).mean()), DIGITS),
        "again": significant(float(again.mean()), DIGITS),
    }


def baseline(orders: int) -> list[Row]:
    """A row for every order, at the bytes that the decoder is scored on."""
    train_text, text = (bytes(part.tolist()) for part in corpus())
    half = CONTEXT // 2
    end = (len(text) - CONTEXT - 1) // half * half + CONTEXT + 1
    found = bits_per_byte(counted(train_text, orders), text[:end], skip=half + 1)
    return [
        {"kind": "n-gram", "order": n, "bits": significant(bits, DIGITS)}
        for n, bits in enumerate(found, 1)
    ]


def beginning(seed: int) -> Row:
    """Held-out bits per byte after a short training from a seed."""
    goals = Goals(seed, BATCH, 64, 4 * WATCHED)
    last = train(goals.start(), goals.loss, goals.measure, SHORT)[-1]
    return {"kind": "beginning", "seed": seed, **last}


# ---------------------------------------------------------------- the criterion


def judge(rows: list[Row], before: int = 1) -> Verdict:
    """Fewer bits per byte on held-out text than counting what follows so many bytes."""
    decoder = [row["bits"] for row in rows if row["kind"] == "decoder"]
    counted = {row["order"] - 1: row["bits"] for row in rows if row["kind"] == "n-gram"}
    if not decoder or len(counted) < ORDERS:
        return Verdict(None, "only the full setting is judged", cases=0)
    others = ", ".join(f"{bits:.3f} after {n}" for n, bits in counted.items())
    argument = f"{decoder[0]:.3f} bits per byte; by counting {others} bytes"
    ratio = decoder[0] / counted[before]
    return Verdict(decoder[0] < counted[before], argument, cases=1, ratio=ratio)


def sample(rows: list[Row]) -> list[Rerun]:
    """The committed weights scored again, and beginnings of trainings from other seeds.

    The first is in float64 from weights in float32, which float64 holds exactly. Only rounding
    differs: a mean of bytes by no more than one byte, and a byte as in
    :mod:`attnverify.experiments.engine.agreement`; then half a unit of the last stored digit, of
    figures below 10. The second: see :mod:`attnverify.experiments.engine.agreement`.
    """
    goals, kept = Goals(0, BATCH, CONTEXT, WATCHED), weights.committed(NAME)
    narrow = scored(goals.module, kept, AGAIN)
    wide = scored(goals.module.double(), {k: v.double() for k, v in kept.items()}, AGAIN)
    off = agreement.share(roundings()) * float((narrow - wide).abs().max())
    (stored,) = (row["again"] for row in rows if row["kind"] == "decoder")
    first = "bits per byte of the first windows"
    table = [row["bits"] for row in rows if row["kind"] == "beginning"]
    anew = [beginning(500 + i)["bits"] for i in range(ANEW)]
    groups = agreement.Group.of(table), agreement.Group.of(anew)
    (counted,) = (row["bits"] for row in rows if (row["kind"], row.get("order")) == ("n-gram", 1))
    half = 0.5 * 10.0 ** (1 - DIGITS)
    return [
        Rerun(first, stored, float(wide.mean()), off + half),
        Rerun("bits per byte by counting one", counted, baseline(1)[0]["bits"], 2 * half),
        agreement.compared(f"bits per byte after {STEPS} steps", *groups),
    ]


def roundings() -> int:
    """Along one chain of products: the sums of a layer one after the other, and the last one."""
    width, hidden, heads = (
        CONFIG[key] for key in ("hidden_size", "intermediate_size", "num_attention_heads")
    )
    layer = 3 * width + hidden + width // heads + 2 * CONTEXT + 2 * width  # two norms
    return CONFIG["num_hidden_layers"] * layer + 2 * width + CONFIG["vocab_size"]


EXPERIMENT = Experiment(
    name=NAME,
    run=run,
    judge=judge,
    twins=(("better than counting what follows three bytes", partial(judge, before=3)),),
    sample=sample,
    by_chance=1,
    quick_decides=False,
    limits=(
        "One decoder of one size, trained for minutes on half a megabyte of text of one kind. "
        "Counting with more bytes before is better than this decoder on this text. Losses on the "
        "way are not measured again by the tests, since only the last weights are kept."
    ),
)

"""Small decoders trained at learning rates up to failure, and what a watch would have seen.

A decoder of three layers learns the next byte of a text, with its normalization layers in front of
each branch (pre-norm) or after each sum (post-norm), with its scores clipped or not, and without
attention for comparison. Every few steps the same held-out windows are measured in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from statistics import median_high
from typing import Any

import torch
from torch import Tensor, nn

from attnverify.experiments.engine import agreement
from attnverify.experiments.engine.agreement import significant
from attnverify.experiments.engine.model import Answer, Experiment, Rerun, Row, Settings, all_of
from attnverify.experiments.engine.train import Parameters, Plan, stream, train
from attnverify.experiments.trained_models.decoder import corpus, windows
from attnverify.mathematics import clipping
from attnverify.mathematics.gauges import diameters_of, distances_of, layer_of, share_of
from attnverify.support.verdict import Verdict

NAME = "training-failures"
LAYERS, WIDTH, HEADS, CONTEXT, BATCH = 3, 64, 4, 64, 16
KEYS = WIDTH // HEADS
PROBE = 4  # held-out windows that are measured
STEPS, EVERY = 300, 5
PAIRED = (100, 200, 300)  # steps at which gradients are compared with gauges
CLIP = 30.0  # the largest score that clipping leaves
DIGITS = 4
LAST = 10  # measurements at the end whose mean loss is the final loss

#: Learning rates: the best of a pilot, and those at which it failed.
HEALTHY = {True: 3e-3, False: 1e-3}  # by norm_first
FAILING = {True: (3e-2, 6e-2), False: (1e-2, 2e-2)}
BORDER = (3e-3, 3.5e-3, 4e-3, 4.5e-3, 5e-3)  # of post-norm, in between; some failed in the pilot
SEEDS = 5

# ------------------------------------------------------------------ the decoder


@dataclass(frozen=True)
class Kind:
    """A decoder: where its normalization layers are, whether it attends, whether it is clipped."""

    norm_first: bool
    attention: bool = True
    clip: bool = False


@dataclass(frozen=True)
class Seen:
    """What one layer computed: tokens X (windows, n, width) as they enter attention, scores S and
    weights P (windows, heads, n, n), and averaged values Y (windows, heads, n, key width)."""

    X: Tensor
    S: Tensor
    P: Tensor
    Y: Tensor


def start(seed: int) -> Parameters:
    """Normal weights of deviation 1/sqrt(inputs), embeddings of 1/sqrt(width); gains 1, no biases.

    It is larger than usual, so that failures come within some hundred steps.
    """
    square, wide = (WIDTH, WIDTH), 4 * WIDTH
    shapes: dict[str, tuple[int, ...]] = {"words": (256, WIDTH), "places": (CONTEXT, WIDTH)}
    for k in range(LAYERS):
        shapes |= {f"{name}{k}": square for name in ("query", "key", "value", "output")}
        shapes |= {f"up{k}": (WIDTH, wide), f"down{k}": (wide, WIDTH)}
    random, found = stream(seed, NAME, -1), {}
    for name, shape in shapes.items():
        inputs = WIDTH if name in ("words", "places") else shape[0]
        found[name] = torch.randn(shape, generator=random) * inputs**-0.5
    gains = ["last", *(f"{name}{k}" for name in ("first", "second") for k in range(LAYERS))]
    return found | {name: torch.ones(WIDTH) for name in gains}


def logits(
    p: Parameters,
    words: Tensor,
    kind: Kind,
    kept: list[Seen] | None = None,
    largest: float | None = None,
) -> Tensor:
    """Logits of the next byte, (windows, length, 256).

    kept gets what each layer computed; largest: of a score, see :func:`clip`.
    """
    x = p["words"][words] + p["places"][: words.shape[-1]]
    for k in range(LAYERS):
        if kind.attention:
            x = _added(x, partial(_attention, p, k, kept, largest), p[f"first{k}"], kind.norm_first)
        x = _added(x, partial(_mlp, p, k), p[f"second{k}"], kind.norm_first)
    x = _normalized(x, p["last"]) if kind.norm_first else x
    return x @ p["words"].mT


def _added(x: Tensor, branch: Callable[[Tensor], Tensor], gain: Tensor, first: bool) -> Tensor:
    """Skip connection and branch, with the normalization layer first or last."""
    return x + branch(_normalized(x, gain)) if first else _normalized(x + branch(x), gain)


def _normalized(x: Tensor, gain: Tensor) -> Tensor:
    return nn.functional.layer_norm(x, (WIDTH,), gain)


def _mlp(p: Parameters, k: int, x: Tensor) -> Tensor:
    return nn.functional.gelu(x @ p[f"up{k}"]) @ p[f"down{k}"]


def _by_head(x: Tensor) -> Tensor:
    """(..., n, width) -> (..., heads, n, key width)."""
    return x.unflatten(-1, (HEADS, KEYS)).transpose(-3, -2)


def _attention(
    p: Parameters, k: int, kept: list[Seen] | None, largest: float | None, x: Tensor
) -> Tensor:
    Q, K, V = (_by_head(x @ p[f"{name}{k}"]) for name in ("query", "key", "value"))
    if largest is not None:
        queries, keys = (Y.transpose(0, 1).flatten(1, 2) for Y in (Q, K))  # of all windows
        factors = clipping.factor(queries, keys, KEYS**-0.5, largest)
        p[f"query{k}"].mul_(factors.repeat_interleave(KEYS))
        Q = Q * factors[:, None, None]
    S = Q @ K.mT / KEYS**0.5
    later = torch.ones(S.shape[-2:], dtype=torch.bool).triu(1)
    P = S.masked_fill(later, -torch.inf).softmax(-1)
    Y = P @ V
    if kept is not None:
        kept.append(Seen(x, S, P, Y))
    return Y.transpose(-3, -2).flatten(-2) @ p[f"output{k}"]


def loss(p: Parameters, words: Tensor, kind: Kind, kept: list[Seen] | None = None) -> Tensor:
    """Mean of -log p of each byte but the first, in nats."""
    found = logits(p, words[:, :-1], kind, kept)
    return nn.functional.cross_entropy(found.flatten(0, 1), words[:, 1:].flatten())


def clip(p: Parameters, words: Tensor, kind: Kind) -> None:
    """Scale queries, layer after layer, so that no score at these windows is above CLIP.

    As :func:`attninspect.clip_scores.clip_scores` does.
    """
    with torch.no_grad():
        logits(p, words[:, :-1], kind, largest=CLIP)


# ------------------------------------------------------------------ what is measured


def measure(p: Parameters, words: Tensor, kind: Kind) -> Row:
    """Loss, size of the gradient, and by layer what a watch measures; in float64.

    gradient: Euclidean norm over all parameters; score: the largest in size; pairs: for each head
    the gauge's share and the gradient of its query-key matrix, over the same weights of rows.
    """
    wide = {name: value.detach().double().requires_grad_() for name, value in p.items()}
    kept: list[Seen] = []
    with torch.enable_grad():
        value = loss(wide, words, kind, kept)
        inner = [each for seen in kept for each in (seen.S, seen.Y)]
        grads = torch.autograd.grad(value, [*wide.values(), *inner], allow_unused=True)
    own = [g for g in grads[: len(wide)] if g is not None]
    row: Row = {
        "loss": float(value.detach()),
        "gradient": sum(float(g.square().sum()) for g in own) ** 0.5,
    }
    if not kind.attention:
        return row
    found: dict[str, list[float]] = {name: [] for name in ("residual", "entropy", "gauge", "score")}
    pairs: list[list[float]] = []
    behind = iter(grads[len(wide) :])
    for k, seen in enumerate(kept):
        layers = [layer_of(x, P, None) for x, P in zip(seen.X.detach(), seen.P, strict=True)]
        heads = [head for layer in layers for head in layer.heads]
        found["residual"].append(_mean(layer.residual for layer in layers))
        found["entropy"].append(_mean(head.entropy for head in heads))
        found["gauge"].append(_mean(head.gauge for head in heads))
        found["score"].append(float(seen.S.detach().tril().abs().max()))
        pairs += _pairs(seen, next(behind), next(behind), wide[f"value{k}"].detach())
    return row | found | {"pairs": pairs}


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _pairs(seen: Seen, by_score: Tensor, by_value: Tensor, W_V: Tensor) -> list[list[float]]:
    """For each head the mean of P (1 - P) and the gradient of W_QK, over the same weights.

    A row's weight is |x_i| |g_i W'| diam(X_i)^2, with its query x_i, the gradient g_i in its output
    and the tokens X_i that it sees. By claim ``training.loss-gradient`` the second number, the
    nuclear norm of the gradient times sqrt(d_qk) over the sum of the weights, is at most the first.
    """
    X, P = seen.X.detach(), seen.P.detach()
    seen_keys = torch.ones(P.shape[-2:], dtype=torch.bool).tril()
    sizes = torch.stack([diameters_of(distances_of(x), seen_keys)[0] for x in X])
    below = (by_value @ _by_head(W_V).mT).norm(dim=-1)  # (windows, heads, n)
    weights = below * (X.norm(dim=-1) * sizes.square())[:, None]
    share = (weights * share_of(P)).sum((0, 2)) / weights.sum((0, 2))
    gradient = torch.einsum("bni,bhnm,bmj->hij", X, by_score, X)
    size = torch.linalg.matrix_norm(gradient, "nuc") / weights.sum((0, 2))
    return torch.stack([share, size], -1).tolist()


def trained(kind: Kind, rate: float, seed: int, steps: int = STEPS) -> Row:
    """One training: every figure as a list over the measured steps, of layers the worst.

    The worst is the least residual, entropy and gauge and the largest score.
    """
    text = corpus()
    pieces = windows(text.train, CONTEXT, 1)
    probe = windows(text.held_out, CONTEXT, CONTEXT)[:PROBE]

    def batch(done: int) -> Tensor:
        return pieces[torch.randint(len(pieces), (BATCH,), generator=stream(seed, NAME, done))]

    def goal(p: Parameters, done: int) -> Tensor:
        if kind.clip:
            clip(p, batch(done), kind)
        return loss(p, batch(done), kind)

    plan = Plan(steps, rate, weight_decay=0.01, measure_every=EVERY)
    rows = train(start(seed), goal, lambda p, done: measure(p, probe, kind), plan)
    head = {"kind": "run", **asdict(kind), "rate": rate, "seed": seed}
    series = {name: _rounded(row[name] for row in rows) for name in ("loss", "gradient")}
    if kind.attention:
        for name, worst in (("residual", min), ("entropy", min), ("gauge", min), ("score", max)):
            series[name] = _rounded(worst(row[name]) for row in rows)
        kept = [pair for row in rows if row["step"] in PAIRED for pair in row["pairs"]]
        series |= {"shares": _rounded(a for a, _ in kept), "sizes": _rounded(b for _, b in kept)}
    return head | series


def _rounded(values: Iterable[float]) -> list[float | None]:
    return [significant(value, DIGITS) for value in values]


# ------------------------------------------------------------------ the runs

FORMS: tuple[dict[str, bool], ...] = ({}, {"clip": True}, {"attention": False})
BEGINNINGS, ANEW, BEGIN = 6, 4, 40  # short trainings in the table, and in the sample


def plans(seeds: Iterable[int]) -> Iterator[tuple[Kind, float, int]]:
    """Decoders, learning rates and seeds of the table."""
    seeds = list(seeds)
    for first, form, seed in product((True, False), FORMS, seeds):
        for rate in (HEALTHY[first], *FAILING[first]):
            yield Kind(first, **form), rate, seed
    for rate, seed in product(BORDER, seeds):
        yield Kind(False), rate, seed


def run(settings: Settings) -> list[Row]:
    """All plans from five seeds; quick: one rate that fails, for 20 steps, pre-norm."""
    if settings.quick:
        return [trained(Kind(True), FAILING[True][0], settings.seed, steps=20)]
    chosen = list(plans(settings.seed + i for i in range(SEEDS)))
    rows = []
    for done, (kind, rate, seed) in enumerate(chosen):
        settings.progress(f"rate {rate:g}, seed {seed}", done / len(chosen))
        rows.append(trained(kind, rate, seed))
    return rows + [beginning(settings.seed + 100 + i) for i in range(BEGINNINGS)]


def beginning(seed: int) -> Row:
    """Loss after a short healthy training from a seed."""
    found = trained(Kind(True), HEALTHY[True], seed, steps=BEGIN)
    return {"kind": "beginning", "seed": seed, "loss": found["loss"][-1]}


# ------------------------------------------------------------------ the criterion

WORSE = 0.1  # nats above the same network without attention: attention has failed
LOW_ENTROPY, LOW_RESIDUAL = 0.5, 0.03  # of the alarm: nats in some layer, and of some layer
IN_A_ROW = 3
ALIKE, BROAD = 0.05, 1.0  # residual at the end of a rank collapse, and entropy of broad rows
HELPS = 0.05  # nats, mean over seeds


def final(row: Row) -> float:
    """Mean loss of the last measurements."""
    return _mean(row["loss"][-LAST:])


def alarm(row: Row) -> int | None:
    """The first step of three measurements in a row below a limit; None if there are none."""
    low = [
        entropy < LOW_ENTROPY or residual < LOW_RESIDUAL
        for entropy, residual in zip(row["entropy"], row["residual"], strict=True)
    ]
    starts = (i for i in range(len(low) - IN_A_ROW + 1) if all(low[i : i + IN_A_ROW]))
    first = next(starts, None)
    return None if first is None else first * EVERY


def told_by_loss(row: Row, healthy: Row) -> int | None:
    """The step from which on the loss stays WORSE above that of the run at the best rate."""
    high = [a > b + WORSE for a, b in zip(row["loss"], healthy["loss"], strict=True)]
    last_low = max((i for i, each in enumerate(high) if not each), default=-1)
    return None if last_low == len(high) - 1 else (last_low + 1) * EVERY


class Table:
    """The runs by kind, rate and seed."""

    def __init__(self, rows: list[Row]) -> None:
        self.runs = {
            (Kind(r["norm_first"], r["attention"], r["clip"]), r["rate"], r["seed"]): r
            for r in rows
            if r["kind"] == "run"
        }
        self.seeds = sorted({seed for _, _, seed in self.runs})

    def excess(self, kind: Kind, rate: float, seed: int) -> float:
        """Final loss above that of the network without attention."""
        without = self.runs[Kind(kind.norm_first, attention=False), rate, seed]
        return final(self.runs[kind, rate, seed]) - final(without)

    def failing(self, first: bool) -> list[tuple[Kind, float, int]]:
        return [(Kind(first), rate, seed) for rate in FAILING[first] for seed in self.seeds]

    def healthy(self, first: bool) -> list[tuple[Kind, float, int]]:
        return [(Kind(first), HEALTHY[first], seed) for seed in self.seeds]

    def gain(self, first: bool) -> float:
        """Mean of the final loss without clipping minus that with it, at the failing rates."""
        clipped = Kind(first, clip=True)
        return _mean(
            final(self.runs[key]) - final(self.runs[clipped, *key[1:]])
            for key in self.failing(first)
        )

    def ahead(self) -> list[int | None]:
        """Steps from the alarm to what the loss tells, of the failing runs; None: no alarm."""
        found: list[int | None] = []
        for first in (True, False):
            for key in self.failing(first):
                raised = alarm(self.runs[key])
                told = told_by_loss(self.runs[key], self.runs[Kind(first), HEALTHY[first], key[2]])
                found.append(None if raised is None else (STEPS if told is None else told) - raised)
        return found


def two_ways(table: Table, swapped: bool = False) -> Answer:
    """Pre-norm ends with low entropy, post-norm with a low residual, and neither with both."""
    answers: list[Answer] = []
    for first in (True, False):
        for key in table.failing(first):
            row = table.runs[key]
            entropy, residual = row["entropy"][-1], row["residual"][-1]
            narrow = entropy < LOW_ENTROPY and residual > ALIKE
            alike = residual < ALIKE and entropy > BROAD
            answers += [table.excess(*key) > WORSE, narrow if first != swapped else alike]
    return all_of(answers)


def sound(table: Table) -> Answer:
    """At the best rates no run fails, and none has an alarm."""
    keys = [*table.healthy(True), *table.healthy(False)]
    return all_of(table.excess(*key) < WORSE and alarm(table.runs[key]) is None for key in keys)


def early(table: Table, steps: int = 0) -> Answer:
    """Every failing run has an alarm, in three of four by more than so many steps ahead."""
    ahead = table.ahead()
    known = [each for each in ahead if each is not None]
    return len(known) == len(ahead) and sum(a > steps for a in known) >= 0.75 * len(ahead)


def remedies(table: Table, first: bool = True) -> Answer:
    """Clipping helps pre-norm and changes nothing in post-norm."""
    return table.gain(first) >= HELPS and abs(table.gain(not first)) < HELPS


def judge(rows: list[Row], *parts: Callable[[Table], Answer]) -> Verdict:
    """All parts of the criterion, or those that are given."""
    table = Table(rows)
    if len(table.seeds) < SEEDS:
        return Verdict(None, "only the full setting is judged", cases=0)
    held = all_of(part(table) for part in parts or (two_ways, sound, early, remedies))
    ahead = [each for each in table.ahead() if each is not None]
    lead = f", median {median_high(ahead)} steps ahead of the loss" if ahead else ""
    argument = (
        f"alarm in {len(ahead)} of {len(table.ahead())} failing runs{lead}; "
        f"clipping lowers the final loss by {table.gain(True):.3f} (pre-norm) "
        f"and {table.gain(False):.3f} (post-norm)"
    )
    return Verdict(held, argument, cases=len(table.runs))


def sample(rows: list[Row]) -> list[Rerun]:
    """Short trainings from other seeds; see :mod:`attnverify.experiments.engine.agreement`."""
    table = [row["loss"] for row in rows if row["kind"] == "beginning"]
    anew = [beginning(500 + i)["loss"] for i in range(ANEW)]
    groups = agreement.Group.of(table), agreement.Group.of(anew)
    return [agreement.compared(f"loss after {BEGIN} steps", *groups)]


def _twin(part: Callable[..., Answer], **changes: Any) -> Callable[[list[Row]], Verdict]:
    return lambda rows: judge(rows, partial(part, **changes))


EXPERIMENT = Experiment(
    name=NAME,
    run=run,
    judge=judge,
    twins=(
        ("the two ways to fail exchanged", _twin(two_ways, swapped=True)),
        ("clipping helps post-norm and not pre-norm", _twin(remedies, first=False)),
        ("100 steps ahead in three of four runs", _twin(early, steps=100)),
    ),
    sample=sample,
    by_chance=1,
    quick_decides=False,
    limits=(
        "One small decoder on one text, with a start larger than usual and AdamW without warm-up. "
        "The limits of the alarm were chosen after a pilot on the same decoder with other seeds. "
        "The tests train beginnings anew; whole runs are not measured again, since one that fails "
        "comes out otherwise on another machine, by no known law."
    ),
)

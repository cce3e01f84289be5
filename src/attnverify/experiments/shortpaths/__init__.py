"""Three experiments: train on a small task, then restrict the network to paths of one length.

A sample of the committed table is measured again in two ways.

**The same networks.** The weights of the first KEPT networks come with the package, so nothing is
trained, the same paths are drawn, and only rounding differs between machines; it is bounded as in
:mod:`attnverify.experiments.engine.agreement`. An accuracy is a count of tokens. It changes only at
a token whose two largest logits are nearer than twice the error of a logit; such tokens are
counted, and only so many may differ. For the committed weights there is none.

**Others like them.** Networks trained anew for the first steps, with other seeds, against all
networks of the table: their loss agrees up to chance, as that module says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

import torch
from scipy.stats import t as student
from torch import Tensor
from torch.nn.functional import cross_entropy

from attnverify.experiments.engine import agreement, results, weights
from attnverify.experiments.engine.ensemble import Ensemble, Weights
from attnverify.experiments.engine.model import (
    Answer,
    Experiment,
    Rerun,
    Row,
    Settings,
    above,
    all_of,
    at_most,
)
from attnverify.experiments.engine.train import Loss, Measure, Plan, stream, train
from attnverify.experiments.shortpaths import lengths
from attnverify.experiments.shortpaths.tasks import TASKS, Task
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.support.seeds import generator, seed_for
from attnverify.support.verdict import Verdict

DEPTH = 6
WARMUP = 50  # steps
KEPT = 2  # networks of the full size whose weights come with the package
LEVEL = 0.01  # of Student's one-sided tests over the networks
FALSE_ALARM = 1e-3  # probability that drawn paths miss the exact score by chance, in one table


@dataclass(frozen=True)
class Size:
    """How much to train and to measure.

    networks: seeds trained side by side. batch: sequences a step and network. sequences: in the
    test set, or to memorize. paths: drawn of every length. rate: learning rate after 50 steps.
    """

    networks: int
    steps: int
    rate: float
    batch: int
    sequences: int
    paths: int

    @property
    def every(self) -> int:
        """Steps from one measurement of the loss to the next."""
        return max(20, self.steps // 20)


QUICK = Size(networks=3, steps=120, rate=2e-3, batch=32, sequences=64, paths=50)
FULL = Size(networks=16, steps=1500, rate=1e-3, batch=32, sequences=128, paths=100)


class Trainee:
    """Networks with skip connections and without biases, with an embedding and a readout each.

    A symbol is embedded by a table, and its place in the sequence is added; a point (x, y) as
    (x, y, 1) times a matrix. All stacked along the networks.
    """

    def __init__(self, task: Task, networks: int, seed: int, device: str = "cpu") -> None:
        self.task = task
        nets = [
            self._network(task, seed_for(seed, task.name, str(i)) % 2**31) for i in range(networks)
        ]
        self.ensemble = Ensemble([net.to(device) for net in nets])
        attention = {n: w for n, w in self.ensemble.initial.items() if ".W_" in n}
        attention["weights.W_O"] /= (2 * DEPTH) ** 0.5  # all layers together start near X in size
        rows = 3 if task.vocabulary is None else task.vocabulary
        random = generator(seed, task.name, "embedding")
        normal = partial(torch.randn, generator=random)
        self.weights: Weights = attention | {
            "embedding": normal(networks, rows, task.width),
            "readout": normal(networks, task.width, task.labels) / task.width**0.5,
        }
        if task.vocabulary is not None:
            self.weights["places"] = normal(networks, task.tokens, task.width)
        self.weights = {name: w.to(device) for name, w in self.weights.items()}

    @staticmethod
    def _network(task: Task, seed: int) -> SelfAttentionNetwork:
        return SelfAttentionNetwork.random(
            DEPTH, task.heads, task.width, skip=True, bias=False, seed=seed, dtype=torch.float32
        )

    def embed(self, weights: Weights, inputs: Tensor) -> Tensor:
        """(networks, count, tokens, width)."""
        table = weights["embedding"]
        inputs = inputs.to(table.device)
        if self.task.vocabulary is None:
            points = torch.cat([inputs, torch.ones_like(inputs[..., :1])], -1).to(table.dtype)
            return points @ table[:, None]
        which = torch.arange(len(table), device=table.device)[:, None, None]
        return table[which, inputs] + weights["places"][:, None]

    def logits(self, weights: Weights, inputs: Tensor) -> Tensor:
        """(networks, count, tokens, labels)."""
        attention = {name: w for name, w in weights.items() if name.startswith("weights.")}
        outputs = self.ensemble.outputs(attention, self.embed(weights, inputs))
        return outputs @ weights["readout"][:, None]

    def losses(self, weights: Weights, inputs: Tensor, labels: Tensor) -> Tensor:
        """Mean cross entropy of every network, in nats a token."""
        logits = self.logits(weights, inputs)
        labels = labels.to(logits.device)
        each = cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none")
        return each.reshape(len(labels), -1).mean(1)


def run(name: str, settings: Settings) -> list[Row]:
    """Rows of the quick size, which the chapter runs, and in the full setting of the full one."""
    sizes = [QUICK] if settings.quick else [QUICK, FULL]
    return [row for size in sizes for row in run_size(name, settings, size)]


def seed_of(name: str, settings: Settings, size: Size) -> int:
    """The seed of all networks of one size."""
    return seed_for(settings.seed, name, f"{size.networks} networks, {size.steps} steps")


def run_size(name: str, settings: Settings, size: Size) -> list[Row]:
    """Train the networks of one size, then measure each of them length by length.

    The weights of the first KEPT networks of the full size are written beside the table.
    """
    seed = seed_of(name, settings, size)
    trainee = Trainee(
        TASKS[name](size.networks, seed, size.sequences), size.networks, seed, settings.device
    )
    history = _train(trainee, size, settings, seed)
    if size == FULL:
        weights.keep(name, settings, {key: w[:KEPT] for key, w in trainee.weights.items()})
    rows = []
    for index in range(size.networks):
        settings.progress(f"{name}: paths of network {index + 1}", index / size.networks)
        about = {"steps": size.steps, "network": index}
        whole, by_length = measured(trainee, index, size, seed)
        loss = [round(line["loss"][index], 5) for line in history]
        rows += [{**about, **whole, "loss": loss}, *({**about, **row} for row in by_length)]
    return rows


def goals(trainee: Trainee, size: Size, seed: int) -> tuple[Loss, Measure]:
    """What training lowers, on fresh sequences each step, and what it records of the test set."""
    task = trainee.task

    def loss(weights: Weights, done: int) -> Tensor:
        return trainee.losses(weights, *task.draw(stream(seed, task.name, done), size.batch)).sum()

    def measure(weights: Weights, done: int) -> Row:
        return {"loss": trainee.losses(weights, *task.test).tolist()}

    return loss, measure


def _train(trainee: Trainee, size: Size, settings: Settings, seed: int) -> list[Row]:
    every, name = size.every, trainee.task.name
    plan = Plan(size.steps, size.rate, warmup=WARMUP, measure_every=every, checkpoint_every=every)
    return train(
        trainee.weights,
        *goals(trainee, size, seed),
        plan,
        configuration={"task": name, "seed": seed, **asdict(size)},
        folder=settings.folder and settings.folder / f"{name}-{size.steps}",
        progress=settings.progress,
        what=f"{name}, {size.networks} networks",
    )


def measured(
    trainee: Trainee,
    index: int,
    size: Size,
    seed: int,
    dtype: torch.dtype = torch.float64,
    count: lengths.Count = lengths.accuracy,
) -> tuple[Row, list[Row]]:
    """One network, whole and length by length: see :func:`lengths.measure`."""
    own = {name: w.detach().cpu().to(dtype) for name, w in trainee.weights.items()}
    attention = {name: w for name, w in own.items() if name.startswith("weights.")}
    inputs, labels = trainee.task.test
    X, readout = trainee.embed(own, inputs)[index], own["readout"][index]
    net = trainee.ensemble.network(attention, index).to(dtype)
    random = generator(seed, "paths", str(index))
    return lengths.measure(net, X, readout, labels[index], size.paths, random, count)


def longest(rows: list[Row]) -> list[Row]:
    """The rows of the networks that were trained longest."""
    most = max((row["steps"] for row in rows), default=0)
    return [row for row in rows if row["steps"] == most]


def by_network(rows: list[Row], key: str, length: int | None) -> Tensor:
    """A column for one path length (None: the whole network), one entry a network."""
    chosen = [row[key] for row in rows if row.get("length") == length]
    return torch.tensor(chosen, dtype=torch.float64)


def mean_and_error(values: Tensor) -> tuple[float, float]:
    """Mean and its standard error over networks, which is NaN for fewer than two."""
    error = float(values.std() / len(values) ** 0.5) if len(values) > 1 else math.nan
    return float(values.mean()), error


def summary(rows: list[Row], key: str) -> list[tuple[float, float]]:
    """Mean and standard error of a column for the lengths 0..DEPTH, trained longest only."""
    rows = longest(rows)
    return [mean_and_error(by_network(rows, key, length)) for length in range(DEPTH + 1)]


def advantage(rows: list[Row], key: str, short: int, long: int) -> tuple[float, float]:
    """Mean and standard error over networks of a column at one length minus at another."""
    return mean_and_error(by_network(rows, key, short) - by_network(rows, key, long))


Factor = Callable[[Row], float]  # by which the estimate of a row's score is multiplied


def compared(rows: list[Row]) -> list[Row]:
    """The rows of lengths with more than one path, of which some were drawn."""
    return [row for row in rows if row.get("sampled", 1) > 1]


def deviation(rows: list[Row], factor: Factor = lambda row: 1.0) -> float:
    """Largest |factor sampled score - score| as a share of what chance allows, times the factor.

    Bernstein's inequality with the exact spread of all paths; the probabilities of all rows
    together are FALSE_ALARM. A length with a single path allows no difference: its two scores are
    of the same term, computed by the same products. NaN if nothing was drawn.
    """
    single = [row for row in rows if row.get("sampled") == 1]
    if any(factor(row) * row["sampled_score"] != row["score"] for row in single):
        return math.inf
    rows, shares = compared(rows), []
    for row in rows:
        gap = abs(factor(row) * row["sampled_score"] - row["score"])
        allowed = lengths.bernstein(
            row["spread"], row["farthest"], row["sampled"], FALSE_ALARM / len(rows)
        )
        shares.append(gap / (factor(row) * allowed))
    return float(torch.tensor(shares or [math.nan], dtype=torch.float64).max())  # NaN stays NaN


def exceeds(mean: float, error: float, networks: int, least: float = 0.0) -> Answer:
    """Whether a mean over networks is above ``least`` by Student's one-sided test at LEVEL."""
    if networks < 2:
        return None
    return above(mean, least + float(student.ppf(1 - LEVEL, networks - 1)) * error)


def judge(
    rows: list[Row],
    short: int = 1,
    long: int = DEPTH,
    factor: Factor = lambda row: 1.0,
    least: float = 0.0,
    allowance: float = 1.0,
) -> Verdict:
    """The criterion: see the claims. The options make its neighbors.

    least: how much larger the accuracy of the shorter paths is at least. allowance: the share of
    what chance allows that sampled scores may be off by.
    """
    rows = longest(rows)
    if not rows:
        return Verdict(None, "no networks", cases=0)
    summed, alone = (advantage(rows, key, short, long) for key in ("accuracy", "alone"))
    shares = by_network(rows, "sum_share", None)
    share, networks = float(shares.max()), len(shares)
    off = deviation(rows, factor)
    argument = (
        f"{networks} networks; accuracy of length {short} minus length {long}: all paths "
        f"{summed[0]:.3f} +- {summed[1]:.3f}, one path alone {alone[0]:.3f} +- {alone[1]:.3f}; "
        f"sampled scores off by {off:.2f} of what chance allows; sum over lengths within "
        f"{share:.0e} of its bound"
    )
    larger = [exceeds(*each, networks, least) for each in (summed, alone)]
    holds = all_of([*larger, at_most(off, allowance), at_most(share, 1)])
    return Verdict(holds, argument, cases=len(rows))


COUNTS = ("accuracy", "up_to", "sampled_accuracy", "alone")
FIGURES = ("score", "spread", "farthest", "sampled_score", "sampled_error")
EXACT = ("length", "paths", "sampled", "chance")
ANEW, STEPS = 8, (75, 150)  # networks trained anew; when their loss is compared


class Watch:
    """Counts right labels as :func:`lengths.accuracy` does, and keeps the logits."""

    def __init__(self) -> None:
        self.logits: list[Tensor] = []

    def __call__(self, logits: Tensor, labels: Tensor) -> float:
        self.logits.append(logits)
        return lengths.accuracy(logits, labels)


def roundings(trainee: Trainee) -> int:
    """Roundings along one chain of products: see ``FixedAttention.rounding_bound``."""
    width, tokens = trainee.task.width, trainee.task.tokens
    return DEPTH * (2 * width + tokens + 3)


def near_ties(wide: Watch, narrow: Watch, share: float) -> int:
    """Tokens whose two largest logits are nearer than rounding can move them, in all counts."""
    total = 0
    for logits, rough in zip(wide.logits, narrow.logits, strict=True):
        error = share * float((logits - rough.double()).abs().max())
        first, second = logits.topk(2).values.unbind(-1)
        total += int((first - second <= 2 * error).sum())
    return total


def kept_trainee(name: str) -> tuple[Trainee, int]:
    """The kept networks with their weights and their tests, and the seed of their run."""
    seed = seed_of(name, Settings(seed=results.seed(name)), FULL)
    task = TASKS[name](FULL.networks, seed, FULL.sequences)
    kept = weights.committed(name)
    count = len(kept["readout"])
    test = (task.test[0][:count], task.test[1][:count])
    trainee = Trainee(replace(task, test=test), count, seed)
    trainee.weights = kept
    return trainee, seed


def same_networks(name: str, rows: list[Row]) -> list[Rerun]:
    """Every figure of the kept networks, measured again from their weights."""
    trainee, seed = kept_trainee(name)
    found: list[Rerun] = []
    for index in range(len(trainee.weights["readout"])):
        stored = [row for row in longest(rows) if row["network"] == index]
        found += _one(trainee, index, seed, stored)
    return found


def _one(trainee: Trainee, index: int, seed: int, stored: list[Row]) -> list[Rerun]:
    wide, narrow = Watch(), Watch()
    again, rough = (
        _rows(measured(trainee, index, FULL, seed, dtype, watch))
        for dtype, watch in ((torch.float64, wide), (torch.float32, narrow))
    )
    share = agreement.share(roundings(trainee))
    ties = near_ties(wide, narrow, share)
    tokens = trainee.task.test[1][0].numel()
    out: list[Rerun] = []
    for old, new in zip(stored, again, strict=True):
        rerun = partial(_rerun, old, new, f"network {index}, length {old.get('length', 'any')}")
        out += [rerun(key, 0.0) for key in EXACT if key in old]
        for key in COUNTS:
            if key in old:
                counted = tokens * (new["sampled"] if key == "alone" else 1)
                out.append(rerun(key, (ties + 0.5) / counted))  # half a token: means round
        for key in FIGURES:
            if key in old:
                out.append(rerun(key, share * _relative(again, rough, key) * abs(new[key])))
    return out


def _rerun(old: Row, new: Row, where: str, key: str, tolerance: float) -> Rerun:
    return Rerun(f"{key}, {where}", old[key], new[key], tolerance)


def _rows(measured: tuple[Row, list[Row]]) -> list[Row]:
    return [measured[0], *measured[1]]


def _relative(again: list[Row], rough: list[Row], key: str) -> float:
    """What a figure is off by in float32 relative to itself, at the length where it is most."""
    return agreement.relative(*([row.get(key, 0.0) for row in rows] for rows in (again, rough)))


def other_networks(name: str, rows: list[Row]) -> list[Rerun]:
    """The loss of networks trained anew against that of all networks of the table."""
    size = replace(FULL, networks=ANEW)
    seed = seed_of(name, Settings(), size)
    trainee = Trainee(TASKS[name](ANEW, seed, size.sequences), ANEW, seed)
    plan = Plan(STEPS[-1], size.rate, warmup=WARMUP, measure_every=STEPS[0])
    history = train(trainee.weights, *goals(trainee, size, seed), plan)
    return [_loss(rows, step, history) for step in STEPS]


def _loss(rows: list[Row], step: int, history: list[Row]) -> Rerun:
    """The table has the loss before training and then every ``FULL.every`` steps."""
    losses = [row["loss"] for row in longest(rows) if "loss" in row]
    before = agreement.Group.of([each[step // FULL.every] for each in losses])
    (line,) = (line for line in history if line["step"] == step)
    after = agreement.Group.of(line["loss"])
    return agreement.compared(f"mean loss after {step} steps", before, after)


def sample(name: str, rows: list[Row]) -> list[Rerun]:
    """The kept networks measured again, and others trained anew; see the module."""
    return [*same_networks(name, rows), *other_networks(name, rows)]


def _experiment(name: str, limits: str) -> Experiment:
    return Experiment(
        name=name,
        run=partial(run, name),
        judge=judge,
        limits=limits,
        sample=partial(sample, name),
        by_chance=2,
        quick_decides=False,  # Student's quantile is 7 for 3 networks, 2.6 for 16
        twins=(
            ("the longest paths are the more accurate ones", partial(judge, short=DEPTH, long=1)),
            (
                "a path's score is that of their sum, the count left out",
                partial(judge, factor=lambda row: 1 / row["paths"]),
            ),
            (
                "twice the number of paths, for lengths above 0",
                partial(judge, factor=lambda row: 1.0 if row["paths"] == 1 else 2.0),
            ),
            ("the shortest is best: length 0 before length 1", partial(judge, short=0, long=1)),
            ("better by a fifth of the tokens, also one path alone", partial(judge, least=0.2)),
            (
                "drawn paths estimate the score four times as well as chance allows",
                partial(judge, allowance=1 / 4),
            ),
        ),
    )


OTHERS = "other depths, widths, training times or tasks; networks with MLPs or layer norm; that "
SORTING = _experiment("sorting", OTHERS + "the network uses its short paths apart from the rest")
HULL = _experiment("convex-hull", OTHERS + "lengths between 1 and the longest fall one by one")
MEMORIZATION = _experiment("memorization", OTHERS + "the networks generalize: there is no rule")

"""Two points of a circle, moved by one layer that is applied again and again.

After Dong, Cordonnier, Loukas (2021, section 4), read as follows. The sequence has two tokens in
the plane, at opposite points of the unit circle. One layer with one head, of width 2, is trained
to move both one step along their half turn of the circle, each pair on its own (the true position
is the input at every step). The trained layer is then fed its own output. Nothing is embedded, so
the recurrence is a network of shared layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.experiments.engine import agreement, weights
from attnverify.experiments.engine.ensemble import Ensemble, Weights
from attnverify.experiments.engine.model import Experiment, Rerun, Row, Settings, all_of
from attnverify.experiments.engine.train import Plan, train
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.attention import SelfAttentionNetwork
from attnverify.mathematics.weights import AttentionWeights
from attnverify.support.seeds import seed_for
from attnverify.support.verdict import Verdict

POINTS = 50  # steps of a half turn
HIDDEN = 32  # key, value and MLP width
FALLS, STAYS = "attention", "attention + skip"  # the variants of the criterion
STARTS = (1.0, 0.9, 1.1)  # radius of the first positions
RESOLUTION = 2.0**-40  # of a ratio of diameters: positions of size 1 have 53 bits
FAR = 1e3  # a diameter at which a run is stopped: it has left the plane of the figure
VARIANTS = {
    "attention": {"skip": False, "mlp": False},
    "attention + MLP": {"skip": False, "mlp": True},
    "attention + skip": {"skip": True, "mlp": False},
    "attention + skip + MLP": {"skip": True, "mlp": True},
}


@dataclass(frozen=True)
class Size:
    """How much is trained: ``seeds`` layers, each the best by loss of ``restarts`` trainings."""

    seeds: int
    restarts: int
    steps: int


QUICK = Size(seeds=3, restarts=3, steps=600)
FULL = Size(seeds=5, restarts=8, steps=4000)


def arcs() -> Float[Tensor, "pairs 2 2"]:
    """Opposite points of the unit circle, POINTS + 1 pairs from the angle 0 to half a turn."""
    angle = torch.arange(POINTS + 1, dtype=torch.float64) * math.pi / POINTS
    right = torch.stack([angle.cos(), angle.sin()], -1)
    return torch.stack([-right, right], 1)


def layers(variant: str, size: Size, settings: Settings) -> tuple[list[SelfAttentionNetwork], list]:
    """Trained layers of a variant, one a seed, and the root mean square error of each."""
    options, count = VARIANTS[variant], size.seeds * size.restarts
    seeds = [seed_for(settings.seed, "circle", variant, str(i)) % 2**31 for i in range(count)]
    width = HIDDEN if options["mlp"] else None
    ensemble = Ensemble(
        [
            SelfAttentionNetwork.random(
                1, 1, 2, HIDDEN, HIDDEN, skip=options["skip"], mlp_width=width, seed=seed
            ).to(settings.device)
            for seed in seeds
        ]
    )
    here, there = (
        part.expand(count, *part.shape).to(settings.device) for part in (arcs()[:-1], arcs()[1:])
    )

    def errors(weights: Weights) -> Tensor:
        return (ensemble.outputs(weights, here) - there).square().mean((1, 2, 3))

    plan = Plan(size.steps, learning_rate=1e-2, warmup=size.steps // 10, measure_every=size.steps)
    folder = settings.folder and settings.folder / variant.replace(" + ", "-")
    train(
        ensemble.initial,
        lambda weights, done: errors(weights).sum(),
        lambda weights, done: {"loss": errors(weights).tolist()},
        plan,
        folder=folder,
        configuration={"variant": variant, "seed": settings.seed},
        progress=settings.progress,
        what=variant,
    )
    with torch.no_grad():
        loss = errors(ensemble.initial).reshape(size.seeds, size.restarts).cpu()
    kept = [int(row.argmin()) + i * size.restarts for i, row in enumerate(loss)]
    own = {name: w.detach()[kept] for name, w in ensemble.initial.items()}
    if size == FULL and variant == STAYS:
        weights.keep("circle", settings, own)
    return [ensemble.network(own, k) for k in range(len(kept))], loss.amin(1).sqrt().tolist()


@torch.no_grad()
def trajectory(net: SelfAttentionNetwork, start: float, steps: int) -> Float[Tensor, "states 2 2"]:
    """Positions of both tokens, the first pair of the arcs times ``start`` and each output.

    Shorter than steps + 1 states if the tokens get FAR apart or away from the origin.
    """
    return torch.stack(list(_states(net, start * arcs()[0], steps)))


def _states(net: SelfAttentionNetwork, X: Tensor, steps: int) -> Iterator[Tensor]:
    X = X.to(net.weights["W_Q"].dtype)
    yield X
    for _ in range(steps):
        X = net(X)
        if float(X.abs().max()) > FAR:
            return
        yield X


def run(settings: Settings) -> list[Row]:
    """One row for every variant, seed and radius of the first positions."""
    size = QUICK if settings.quick else FULL
    rows = []
    for variant in VARIANTS:
        nets, errors = layers(variant, size, settings)
        for seed, (net, error) in enumerate(zip(nets, errors, strict=True)):
            for start in STARTS:
                row = {"variant": variant, "seed": seed, "start": start, "error": error}
                rows.append(row | effective(net, variant) | measure(net, start, seed == 0))
    return rows


def measure(net: SelfAttentionNetwork, start: float, draw: bool) -> Row:
    """The diameter after POINTS steps over the first one, None if the run was stopped before.

    With ``draw`` also the positions for the figure, rounded; :func:`positions` reads them.
    """
    states = trajectory(net, start, POINTS)
    sizes = norms.diameter(states)
    whole = len(states) == POINTS + 1
    return {
        "ratio": float(sizes[-1] / sizes[0]) if whole else None,
        "stopped": None if whole else len(states),
        "diameters": [float(f"{value:.4g}") for value in sizes[:: POINTS // 10]],
        **({"path": [round(value, 4) for value in states.flatten().tolist()]} if draw else {}),
    }


def positions(rows: list[Row], start: float) -> dict[str, Float[Tensor, "states 2 2"]]:
    """The first seed's positions from one radius, for every variant."""
    return {
        row["variant"]: torch.tensor(row["path"], dtype=torch.float64).reshape(-1, 2, 2)
        for row in rows
        if row["start"] == start and "path" in row
    }


def effective(net: SelfAttentionNetwork, variant: str) -> Row:
    """The twelve numbers that decide a layer of attention alone, and its threshold.

    W_QK and b_QK, both over sqrt(d_qk), W = W_V W_O and the whole bias b, row by row. Empty for the
    other variants.
    """
    if variant != "attention":
        return {}
    w = {name: value[0] for name, value in net.weights.items()}
    scale = net.key_width**0.5
    W_QK, W = w["W_Q"][0] @ w["W_K"][0].mT, w["W_V"][0] @ w["W_O"][0]
    qk_norm, v_norm = (float(torch.linalg.matrix_norm(M, 2)) for M in (W_QK, W))
    b_QK, b = w["W_K"][0] @ w["b_Q"][0], w["b_V"][0] @ w["W_O"][0] + w["b_O"]
    numbers = torch.cat([W_QK.flatten() / scale, b_QK / scale, W.flatten(), b])
    return {
        "layer": numbers.tolist(),
        "threshold": collapse.threshold(qk_norm, v_norm, net.key_width),
    }


def rebuilt(row: Row) -> SelfAttentionNetwork:
    """The layer of attention alone from its twelve numbers (claim attention.qk-reduction).

    W_Q = sqrt(2) W_QK, W_K = I, b_Q = sqrt(2) b_QK, W_V = W and W_O = I, with d_qk = 2.
    """
    eye, zero = torch.eye(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    W_QK, b_QK, W, b = torch.tensor(row["layer"], dtype=torch.float64).split([4, 2, 4, 2])
    stack = {
        "W_Q": 2**0.5 * W_QK.reshape(1, 2, 2),
        "b_Q": 2**0.5 * b_QK[None],
        "W_K": eye[None],
        "b_K": zero[None],
        "W_V": W.reshape(1, 2, 2),
        "b_V": zero[None],
        "W_O": eye[None],
        "b_O": b,
    }
    return SelfAttentionNetwork(AttentionWeights(**{n: a[None] for n, a in stack.items()}))


def ratios(rows: list[Row], variant: str, start: float) -> list[float]:
    """Last diameter over first one of every seed, infinite where the run was stopped."""
    chosen = [r["ratio"] for r in rows if r["variant"] == variant and r["start"] == start]
    return [math.inf if ratio is None else ratio for ratio in chosen]


def judge(
    rows: list[Row],
    falls: str = FALLS,
    stays: str = STAYS,
    start: float = 0.9,
    keeps: float = 0.5,
) -> Verdict:
    """The criterion: ``falls`` ends below 1/1000 of its first diameter, ``stays`` above ``keeps``.

    A run that was stopped neither falls nor stays. Two tokens that agree to the last bit are only
    known to be nearer than RESOLUTION.
    """
    low = [max(ratio, RESOLUTION) for ratio in ratios(rows, falls, start)]
    high = ratios(rows, stays, start)
    if not low or not high:
        return Verdict(None, f"no runs from radius {start}", cases=0)
    argument = (
        f"after {POINTS} steps from radius {start}: {falls} at most {max(low):.1e}, "
        f"{stays} at least {min(high):.3f} of the first diameter, {len(low)} seeds"
    )
    fell = all_of(ratio < 1e-3 for ratio in low)
    stayed = all_of(keeps < ratio < math.inf for ratio in high)
    return Verdict(all_of([fell, stayed]), argument, cases=len(low) + len(high))


def sample(rows: list[Row]) -> list[Rerun]:
    """Both variants of the criterion, from numbers in the table and from committed weights."""
    return [*_alone(rows), *_with_skip(rows)]


def _alone(rows: list[Row]) -> list[Rerun]:
    """The diameters of the layers of attention alone, run again from their twelve numbers.

    The table has four digits, so half a unit of the last one is the tolerance. Rounding is far
    below it for the first tenths of the run: two tokens at distance t get the distance
    v t tanh(c t^2) if the layer is extremal, which multiplies a relative error by
    1 + 4y/sinh(2y) <= 3, y = c t^2; five steps make that 3^5 times some 10^-15.
    """
    again = []
    for row in rows:
        if "layer" in row and len(row["diameters"]) > 1:
            size = float(norms.diameter(trajectory(rebuilt(row), row["start"], POINTS // 10))[-1])
            stored = row["diameters"][1]
            tolerance = 0.5 * 10 ** (math.floor(math.log10(stored)) - 3) + 1e-12 * stored
            again.append(
                Rerun(
                    f"seed {row['seed']}, radius {row['start']}, diameter after "
                    f"{POINTS // 10} steps",
                    stored,
                    size,
                    tolerance,
                )
            )
    return again


def _with_skip(rows: list[Row]) -> list[Rerun]:
    """The last diameter over the first of the committed layers with skip connection.

    Rounding is bounded as in :mod:`attnverify.experiments.engine.agreement`; a layer has inner
    products of length 2 and HIDDEN and of two tokens, 2 * 2 + 2 + HIDDEN + 3 roundings in a chain,
    and is applied POINTS times.
    """
    committed = weights.committed("circle")
    chosen = [row for row in rows if row["variant"] == STAYS]
    seeds = range(len(committed["weights.W_Q"]))
    nets = [_layer(committed, seed) for seed in seeds]
    wide, narrow = (
        [float(measure(nets[r["seed"]].to(dtype), r["start"], False)["ratio"]) for r in chosen]
        for dtype in (torch.float64, torch.float32)
    )
    off = agreement.share(POINTS * (9 + HIDDEN)) * agreement.relative(wide, narrow)
    return [
        Rerun(
            f"{STAYS}, seed {row['seed']}, radius {row['start']}, last diameter over the first",
            row["ratio"],
            again,
            off * again,
        )
        for row, again in zip(chosen, wide, strict=True)
    ]


def _layer(committed: Weights, seed: int) -> SelfAttentionNetwork:
    """One of the layers whose weights come with the package."""
    net = SelfAttentionNetwork.random(1, 1, 2, HIDDEN, HIDDEN, skip=True, seed=0)
    return Ensemble([net] * (seed + 1)).network(committed, seed)


EXPERIMENT = Experiment(
    name="circle",
    run=run,
    judge=judge,
    limits="other tasks, widths or numbers of tokens; MLPs, which are reported, have no "
    "criterion, and are not measured again by the tests: only a training of minutes could, and it "
    "comes out otherwise on another machine; starts outside the trained circle, from which "
    "attention alone grows",
    sample=sample,
    twins=(
        ("with skip connections the tokens collapse too", partial(judge, falls="attention + skip")),
        ("attention alone keeps half of the diameter", partial(judge, stays="attention")),
        ("with skip connections 99 percent are kept", partial(judge, keeps=0.99)),
        ("attention alone collapses from outside the circle too", partial(judge, start=1.1)),
    ),
)

"""Sinks of a trained encoder beside the log-odds that a silent head needs (sinks.necessary).

A head's sink is the key with the largest mean weight. The direction u is that of the point nearest
to 0 in the convex hull of the other values, so all of these reach a = |point| along u.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import nnls

from attnverify.experiments.engine.agreement import significant
from attnverify.experiments.engine.model import (
    Answer,
    Experiment,
    Rerun,
    Row,
    Settings,
    all_of,
    at_least,
    at_most,
)
from attnverify.experiments.texts import passage
from attnverify.experiments.trained_encoder.soundness import encoder_of
from attnverify.mathematics import sinks
from attnverify.mathematics.encoder import Encoder
from attnverify.support.errors import require
from attnverify.support.verdict import Verdict

QUICK = {"passages": 1, "words": 24}
FULL = {"passages": 5, "words": 48}
FIRST = 1  # the criterion was written after a look at passage 0
DIGITS = 6
NEAR = 2.0**-20  # a point so near to 0, against the largest entry, is taken for 0
GAP = 2.0**-33  # of the nearest point: its least product with a value, against its square
TURN = 4e-5  # between the directions of two machines, see :func:`sample`
FIGURES = ("share", "length", "quiet", "excess")


class Head(NamedTuple):
    """Figures of one head at one passage; excess is None where no sink can make the row silent.

    quiet is None, too, where 0 is nearly in the hull, so that there is no direction.

    position: of the sink; share: its mean weight; length: of its value, over the mean of the
    others; quiet: least |<u, o>|/a of a row; needed, excess: in that row, the sink's log-odds that
    are needed, and what it has beyond; bends: what a turn of u by 1 could change quiet and excess.
    """

    position: int
    share: float
    length: float
    quiet: float | None
    needed: float | None
    excess: float | None
    bends: tuple[float, float]


def nearest_point(values: np.ndarray) -> np.ndarray:
    """The point of the convex hull of the rows nearest to 0; raises InputError if it is not good.

    Least squares with weights that are not negative, and one more equation, their sum 1: the best
    point for any weight of this equation is a multiple of the nearest one.
    """
    system = np.vstack([values.T, np.full((1, len(values)), np.abs(values).max())])
    goal = np.append(np.zeros(values.shape[1]), system[-1, 0])
    weights, _ = nnls(system, goal, maxiter=100 * len(values))
    point = weights / weights.sum() @ values
    square = float(point @ point)
    gap = square - float((values @ point).min())
    in_hull = square <= (NEAR * float(system[-1, 0])) ** 2
    require(in_hull or gap <= GAP * square, "values", f"a gap of {gap:.1e}", f"{GAP:.1e} |point|^2")
    return 0 * point if in_hull else point


def measured(P: np.ndarray, V: np.ndarray) -> Head:
    """One head, from its attention matrix (tokens, tokens) and its values (tokens, head width)."""
    s = int(P.mean(0).argmax())
    others = np.delete(V, s, 0)
    share = float(P[:, s].mean())
    length = float(np.linalg.norm(V[s]) / np.linalg.norm(others, axis=1).mean())
    point = nearest_point(others)
    if not point.any():
        return Head(s, share, length, None, None, None, (math.inf, math.inf))
    u = point / np.linalg.norm(point)
    a, b, outputs = float((others @ u).min()), -float(V[s] @ u), P @ V @ u
    row = int(np.abs(outputs).argmin())
    p, o, longest = float(P[row, s]), float(outputs[row]), float(np.linalg.norm(V, axis=1).max())
    quiet = abs(o) / a
    needed = excess = None
    turned = math.inf
    if -b < o < a:
        needed = math.log(sinks.needed_odds(a, b, o))
        excess = math.log(p / (1 - p)) - needed
        turned = 2 * longest * (1 / (a - o) + (1 - p) / (b + o))
    bends = (longest / a * (1 + quiet), turned)
    return Head(s, share, length, quiet, needed, excess, bends)


@torch.no_grad()
def heads_of(encoder: Encoder, text: str) -> list[list[Head]]:
    """All heads at one text, by layer."""
    net, w = encoder.network, encoder.network.weights
    states = net.hidden(encoder.embed(text).to(w["W_Q"].device))
    found = []
    for i, X in enumerate(states[: net.depth]):
        Q, K, V = (X @ w[f"W_{k}"][i] + w[f"b_{k}"][i][:, None] for k in "QKV")
        P = torch.softmax(Q @ K.mT / net.key_width**0.5, -1).cpu().numpy()
        found.append([measured(p, v) for p, v in zip(P, V.cpu().numpy(), strict=True)])
    return found


def run(settings: Settings) -> list[Row]:
    """One row a head; lists have an entry a passage."""
    encoder, plan = encoder_of(settings), QUICK if settings.quick else FULL
    passages = []
    for number in range(plan["passages"]):
        settings.progress(f"passage {number + 1}", number / plan["passages"])
        text = passage(settings.seed + FIRST + number, plan["words"])
        passages.append(heads_of(encoder, text))
    rows: list[Row] = []
    for i, layer in enumerate(zip(*passages, strict=True), 1):
        for h, found in enumerate(zip(*layer, strict=True), 1):
            lists = {n: [significant(getattr(f, n), DIGITS) for f in found] for n in FIGURES}
            needed = [significant(f.needed, DIGITS) for f in found]
            sink = [f.position for f in found]
            rows.append({"layer": i, "head": h, "sink": sink, "needed": needed, **lists})
    return rows


# ---------------------------------------------------------------- the criterion


def entries(row: Row) -> list[Row]:
    """One row a passage."""
    names = ("sink", "needed", *FIGURES)
    return [dict(zip(names, v, strict=True)) for v in zip(*(row[n] for n in names), strict=True)]


def met(entry: Row, length: float = 0.15, quiet: float = 0.5, excess: float = 1.0) -> Answer:
    """Whether a head at a passage has a sink of small value, nearly the one that it needs."""
    if entry["sink"] != 0 or entry["excess"] is None:
        return False
    values = [(entry["length"], length), (entry["quiet"], quiet), (entry["excess"], excess)]
    return all_of(at_most(value, limit) for value, limit in values)


def judge(
    rows: list[Row],
    layers: tuple[int, ...] = (2, 3, 4, 5),
    share: float = 0.9,
    **limits: float,
) -> Verdict:
    """At least this share of the heads and passages of these layers meet the limits; no excess < 0.

    The last is the theorem itself, up to rounding of the table.
    """
    chosen = [e for row in rows if row["layer"] in layers for e in entries(row)]
    answers = [met(entry, **limits) for entry in chosen]
    if not answers or None in answers:
        return Verdict(None, "not all layers, or a figure is no number", cases=len(answers))
    found = sum(map(bool, answers)) / len(answers)
    sound = [
        at_least(e["excess"], -1e-6) for r in rows for e in entries(r) if e["excess"] is not None
    ]
    holds = all_of([at_least(found, share), all_of(sound)])
    return Verdict(holds, f"{found:.1%} of {len(answers)} heads and passages", cases=len(answers))


def sample(rows: list[Row]) -> list[Rerun]:
    """All heads at the first passage again.

    Values of two machines differ by at most a share 2e-12 of the longest (as for real-margins).
    Let y and z be their nearest points, e how far one value differs at most, and g the gap.
    Then <y, z> >= |y|^2 (1 - g) - e |y| and the same with z, so |y - z|^2 <= (|y| + |z|)(e + g r)
    with r the larger length. A value is at most 2^8 times as long as y, which is required. So
    |y - z|^2 <= 2 r^2 (2e-12 * 2^8 + 2^-33) < (3.6e-5 r)^2, and unit directions are within TURN. A
    turn changes quiet and excess by at most its size times ``bends``. The table has six digits.
    """
    encoder, reruns = Encoder.bundled(), []
    found = [h for layer in heads_of(encoder, passage(FIRST, FULL["words"])) for h in layer]
    for row, head in zip(rows, found, strict=True):
        require(head.bends[0] <= 2**8, "values", f"{head.bends[0]:.0f} times a", "at most 256")
        for name, turn in (("share", 0.0), ("length", 0.0), ("quiet", 1.0), ("excess", 1.0)):
            old, new = row[name][0], getattr(head, name)
            if old is None:
                continue
            bend = turn and TURN * head.bends[name == "excess"]
            what = f"layer {row['layer']}, head {row['head']}, {name}"
            reruns.append(Rerun(what, old, new, tolerance=bend + 1.1e-5 * abs(old)))
    return reruns


EXPERIMENT = Experiment(
    name="silent-heads",
    run=run,
    judge=judge,
    twins=(
        ("in all six layers", partial(judge, layers=(1, 2, 3, 4, 5, 6))),
        ("within a third of a nat of the needed log-odds", partial(judge, excess=1 / 3)),
        ("values a fiftieth of the others'", partial(judge, length=0.02)),
        ("an output of a twentieth of a", partial(judge, quiet=0.05)),
    ),
    sample=sample,
    takes_model=True,
    limits=(
        "One encoder, five passages of one text, one direction a head, and in each head its "
        "quietest row; nothing says that it should be quiet. The sink is the first token."
    ),
)

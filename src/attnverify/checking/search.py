"""Untrusted search: random instances and gradient ascent on left/right.

Floats near a boundary are rounding noise, and some instances they cannot decide at all: NaN,
overflow, a right side that underflows or is not positive. Whatever floats do not put at
left <= right is decided by :mod:`attnverify.checking.ball_comparison`, or counted as undecided: a
search speaks of the instances that were decided, and of none if they are fewer than half.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from attnverify.checking import sampling
from attnverify.checking.ascent import Progress, ascend, farther
from attnverify.checking.ball_comparison import Comparison, compare
from attnverify.checking.check import Inequality, Instance
from attnverify.checking.records import Outcome
from attnverify.checking.records import Settings as Settings
from attnverify.support.seeds import generator

CHUNK = 1 << 16  # sampled instances a batch
RECHECKED = 8192  # instances that floats leave open and balls decide, at most, a batch
BEST = 4  # and so many of the largest and of the smallest ratios of the others,
SPREAD = 8  # and so many between: where cancellation hides a summand, floats may give any ratio

FLAT = (
    "no attack: left/right stays the same for small changes of the arrays, so nothing climbs (an "
    "av.decision over all cases can be evidence here)"
)


@dataclass(frozen=True)
class Found:
    """Result of a search: outcome, largest believed ratio, its instance, how many were seen.

    decided: how many of the instances were decided, by floats or in balls; refuted_at: as in
    :class:`attnverify.checking.records.Record`; free: the parameters that the instance was built
    from.
    """

    outcome: Outcome
    ratio: float | None
    instance: Instance | None
    instances: int
    decided: int
    detail: str = ""
    refuted_at: float | None = None
    free: Instance | None = None


NOTHING = Found("pass", None, None, 0, 0)


def sample(
    check: Inequality, settings: Settings, name: str, progress: Progress | None = None
) -> Found:
    """Random instances of every size; those that floats leave open are decided in balls."""
    best, share = NOTHING, settings.share(check.sizes)
    for index, sizes in enumerate(check.sizes):
        random = generator(settings.seed, name, "sampled", str(index))
        for start in range(0, share, CHUNK):
            batch = min(CHUNK, share - start)
            free = sampling.parameters(sizes, batch, random, spread=True)
            best = _merge(best, _decide(check, free, settings.device))
            if progress:
                progress(batch)
    return _settled(best)


def attack(
    check: Inequality, settings: Settings, name: str, progress: Progress | None = None
) -> Found:
    """Gradient ascent on left/right over all free parameters and their scales.

    Where left/right has no slope anywhere, nothing climbed, and the outcome is unknown.
    """
    best, moved = NOTHING, False
    for index, sizes in enumerate(check.sizes):
        random = generator(settings.seed, name, "attacked", str(index))
        found, below, still_open, climbed = ascend(
            check, sizes, settings.restarts, settings.steps, random, settings.device, progress
        )
        moved = moved or climbed
        near = (found, below, still_open)
        beyond = (farther(check, found), farther(check, below))
        for points, far in [*((p, False) for p in near), *((p, True) for p in beyond)]:
            if len(next(iter(points.values()))):
                best = _merge(best, _decide(check, points, settings.device, far))
    if not moved and best.outcome == "pass":
        return replace(best, outcome="unknown", detail=FLAT)
    return _settled(best)


def _decide(check: Inequality, free: Instance, device: str, far: bool = False) -> Found:
    """What balls make of a batch of free parameters, where floats do not settle it.

    far: they are multiples of a point that was found, where scales go beyond those of the ascent
    and a violation that floats alone see says nothing.
    """
    with torch.no_grad():
        instance = check.build(**{k: v.to(device) for k, v in free.items()})
        seen = sampling.ratios(check, instance)
    found, place = _believe(check, instance, seen.cpu())
    if far and found.outcome == "unknown":
        found = replace(found, outcome="pass")
    return found if place is None else replace(found, free=sampling.single(free, place))


def _believe(
    check: Inequality, instance: Instance, floats: sampling.Ratios
) -> tuple[Found, int | None]:
    """What floats found, as balls see it: no ratio is reported before it was recomputed exactly.

    Looks at everything that floats leave open, RECHECKED instances at most, and at a few of the
    others. Fails on a certain violation; stays unknown if floats see a violation that balls do not
    settle. What neither of them decides counts as undecided, and what floats do not decide and was
    not looked at. Also returns the place of the instance.
    """
    left_open, total = int(floats.not_below.sum()), len(floats.open)
    looked = _looked_at(floats)
    best, index, unsettled = None, None, []
    for i in looked:
        one = sampling.single(instance, i)
        if not all(torch.isfinite(value).all() for value in one.values()):
            unsettled.append(i)  # build overflowed: no instance
            continue
        seen = compare(check, one)
        if seen.outcome == "fail":
            return Found("fail", seen.certain_ratio, one, total, total, _violation(seen)), i
        if seen.outcome == "unknown" and not seen.attained:
            unsettled.append(i)
        elif best is None or seen.certain_ratio > best:
            best, index = seen.certain_ratio, i
    above = floats.value > 1
    above[[i for i in looked if i not in unsettled]] = False
    undecided = len(unsettled) + max(0, left_open - RECHECKED)
    one = None if index is None else sampling.single(instance, index)
    outcome: Outcome = "unknown" if above.any() else "pass"
    return Found(outcome, best, one, total, total - undecided), index


def _looked_at(floats: sampling.Ratios) -> list[int]:
    """Which instances balls decide; none twice."""
    order = _order(floats)
    still_open, others = order[floats.open[order]], order[~floats.open[order]]
    between = others[:: max(1, len(others) // SPREAD)][:SPREAD]
    looked = torch.cat([still_open[:RECHECKED], others[:BEST], between, others[-BEST:]])
    return list(dict.fromkeys(looked.tolist()))


def _order(floats: sampling.Ratios) -> torch.Tensor:
    """Instances by ratio, the largest first; any that floats do not decide before all the others.

    Those of a left side that was lost come by their ratio, which is about 0.
    """
    just_above = 1 + torch.finfo(torch.float64).eps
    rank = torch.where(~floats.decided, floats.value.clamp_min(just_above), floats.value)
    return torch.argsort(rank, descending=True, stable=True)


def _violation(seen: Comparison) -> str:
    """A certain violation in words."""
    return f"{seen.told(12)} at {seen.bits} bits"


def shortfall(undecided: int, instances: int) -> str:
    """What stayed undecided in words, "" if nothing did."""
    return f"{undecided} of {instances} instances undecided" if undecided else ""


def _merge(a: Found, b: Found) -> Found:
    """Both searches as one: the worse outcome, and the largest ratio with that outcome."""
    order = {"pass": 0, "unknown": 1, "fail": 2}
    largest = [-torch.inf if f.ratio is None else f.ratio for f in (a, b)]
    worse = b if (order[b.outcome], largest[1]) > (order[a.outcome], largest[0]) else a
    total, decided = a.instances + b.instances, a.decided + b.decided
    return replace(worse, instances=total, decided=decided)


def _settled(found: Found) -> Found:
    """What stayed undecided, in words; a search that decided less than half shows nothing."""
    undecided = found.instances - found.decided
    if found.outcome == "fail" or not undecided:
        return found
    outcome = found.outcome if 2 * found.decided >= found.instances else "unknown"
    return replace(found, outcome=outcome, detail=shortfall(undecided, found.instances))

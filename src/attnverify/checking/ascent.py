"""Gradient ascent on left/right, all restarts at once, with a free scale for every parameter.

A bound may be worst where a parameter is very small or very large. Steps of a fixed size do not
get there, so a parameter is exp(s) v, and the ascent moves the number s as well as the array v.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from attnverify.checking import sampling
from attnverify.checking.check import Inequality, Instance, Sizes

Progress = Callable[[int], None]

STEP = 0.3  # the first step size of Adam, which then falls to 0 along a cosine
#: exp(s) stays within 2^-12 and 2^12. There a side of third order in the scale, computed with
#: cancellation from numbers near 1, keeps 53 - 36 = 17 of its bits, and floats still lead uphill.
FARTHEST = 12 * math.log(2)
SCREENED = 16
EXPONENTS = (*range(3, 13), *range(-12, -2))  # of 10, for scales beyond those of the ascent
FAR = 8
STEEP = 1e-3  # log(ratio) above, its tangent below: a restart at a ratio <= 0 has a slope too
LEVEL = 2.0**-40  # a change of log(ratio) over that of an array, relatively, made by rounding
NEAR = 1 + 1e-6  # a larger ratio is a violation or made by rounding, beyond that of an equality
#: Where the best ratios grew by no more than this share of themselves in PATIENCE of all steps, the
#: ascent goes on from the best points at COOLED of the cosine, where small steps begin.
GROWTH, PATIENCE, COOLED = 1e-4, 1 / 6, 3 / 4


def ascend(
    check: Inequality,
    sizes: Sizes,
    restarts: int,
    steps: int,
    random: torch.Generator,
    device: str,
    progress: Progress | None = None,
) -> tuple[Instance, Instance, Instance, bool]:
    """The best point of every restart, its best one below NEAR, and points floats do not decide.

    And whether any restart had a slope to climb. The second batch of free parameters leaves out
    restarts whose best ratio is below NEAR: where rounding gives a restart a large ratio, its
    largest true one may be another point's. The third holds the first undecided point of every
    restart, and as many at most of a broad screening: no slope leads to where floats fail.
    """
    moved = _starts(sizes, restarts, random).to(device).requires_grad_()
    adam, kept, largest, at, climbed = _Adam(moved), _Kept(moved), [], 0, False
    patience, cooled = (math.ceil(share * steps) for share in (PATIENCE, COOLED))
    while at <= steps:
        seen = sampling.ratios(check, check.build(**_parameters(moved, sizes)))
        kept.look(moved, seen)
        slope = _slope(moved, seen.value)
        with torch.no_grad():
            climbed = climbed or bool((slope * moved).abs().max() > LEVEL)
            adam.move(moved, slope, STEP * (1 + math.cos(math.pi * at / steps)) / 2)
            moved[:, -len(sizes) :].clamp_(-FARTHEST, FARTHEST)
        largest.append(kept.largest())
        then = at + 1
        if then < cooled and _stalled(largest, patience):
            then, adam = cooled, _Adam(moved)
            kept.best.put_back(moved)
        if progress:
            progress(then - at)
        at = then
    screened = _screened(check, sizes, restarts, random, device)
    best, below, still_open = (_parameters(points, sizes) for points in kept.points())
    still_open = {k: torch.cat([v, screened[k]]) for k, v in still_open.items()}
    return best, below, still_open, climbed


def _stalled(largest: list[torch.Tensor], patience: int) -> bool:
    """Whether the last ``patience`` steps added next to nothing to the largest ratios so far."""
    if len(largest) <= patience:
        return False
    now, before = largest[-1], largest[-1 - patience]
    return bool(((now == before) | (now - before <= GROWTH * now.abs())).all())


def _screened(check: Inequality, sizes: Sizes, restarts: int, random, device: str) -> Instance:
    """Of SCREENED points a restart the first that floats do not decide, ``restarts`` at most."""
    free = sampling.parameters(sizes, SCREENED * restarts, random, spread=True)
    free = {k: v.to(device) for k, v in free.items()}
    with torch.no_grad():
        still_open = (~sampling.ratios(check, check.build(**free)).decided).nonzero().flatten()
    return {k: v[still_open[:restarts]] for k, v in free.items()}


def farther(check: Inequality, found: Instance) -> Instance:
    """The best of the points that were found, far out and far in: those above it, to floats.

    A supremum at infinity or at zero is only approached, and the ascent ends at 2^12. So the best
    point is looked at with its parameters times 10^k, all together and each alone; of those with
    a larger ratio the FAR largest farther out, and as many farther in.
    """
    if not len(next(iter(found.values()))):
        return found
    with torch.no_grad():
        seen = sampling.ratios(check, check.build(**found)).value
        best = int(torch.argmax(seen))
        free, factors = scaled({k: v[best] for k, v in found.items()}, EXPONENTS)
        made = [v.reshape(len(v), -1) for v in check.build(**free).values()]
        whole = torch.stack([torch.isfinite(v).all(-1) for v in made]).all(0)
        if not whole.any():
            return {k: v[:0] for k, v in free.items()}
        free, factors = {k: v[whole] for k, v in free.items()}, factors.to(whole.device)[whole]
        far = sampling.ratios(check, check.build(**free))
        value = torch.where(far.decided & (far.value > seen[best]), far.value, -torch.inf)
        order = torch.argsort(value, descending=True, stable=True)
        order = order[torch.isfinite(value[order])]
        out = factors[order] > 1
        kept = torch.cat([order[out][:FAR], order[~out][:FAR]])
        return {k: v[kept] for k, v in free.items()}


def scaled(free: Instance, exponents: tuple[int, ...]) -> tuple[Instance, torch.Tensor]:
    """One point times 10^k, for all its parameters together and for each alone; the factors."""
    moved = [tuple(free), *((name,) for name in free if len(free) > 1)]
    factors = torch.tensor([10.0**k for k in exponents], dtype=torch.float64)
    batch = {
        name: torch.cat(
            [_times(value, factors if name in names else 1.0 + 0 * factors) for names in moved]
        )
        for name, value in free.items()
    }
    return batch, factors.repeat(len(moved))


def _times(value: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    return value * factors.to(value.device).reshape(-1, *[1] * value.ndim)


def _starts(sizes: Sizes, restarts: int, random: torch.Generator) -> torch.Tensor:
    """A row a restart: Gaussian arrays, and last the logarithm of the scale of each.

    Scale 1 for the first half, for the others log-uniform in 0.01..10.
    """
    arrays = sampling.parameters(sizes, restarts, random, spread=False)
    scales = torch.cat([sampling.log_scale(restarts, 1, random) for _ in sizes], 1)
    scales[: (restarts + 1) // 2] = 0
    return torch.cat([*(v.reshape(restarts, -1) for v in arrays.values()), scales], 1)


def _parameters(moved: torch.Tensor, sizes: Sizes) -> Instance:
    """What the rows of :func:`_starts` stand for: the arrays times their scales."""
    *parts, scales = moved.split([*map(math.prod, sizes.values()), len(sizes)], 1)
    scaled = zip(sizes.items(), parts, torch.exp(scales).split(1, 1), strict=True)
    return {k: (part * scale).reshape(-1, *size) for (k, size), part, scale in scaled}


def _slope(moved: torch.Tensor, ratio: torch.Tensor) -> torch.Tensor:
    """The gradient of the logarithm; 0 where a side does not move or overflows."""
    tangent = math.log(STEEP) + (ratio - STEEP) / STEEP
    height = torch.where(ratio > STEEP, torch.log(ratio.clamp_min(STEEP)), tangent)
    height = torch.where(torch.isfinite(height), height, 0.0).sum()
    if not height.requires_grad:
        return torch.zeros_like(moved)
    (slope,) = torch.autograd.grad(height, moved, materialize_grads=True)
    return torch.nan_to_num(slope, 0, 0, 0)


class _Adam:
    """Adam's steps uphill (Kingma and Ba 2015, with its constants); torch's takes 2 s to import."""

    def __init__(self, moved: torch.Tensor) -> None:
        self.steps, self.mean, self.square = 0, torch.zeros_like(moved), torch.zeros_like(moved)

    def move(self, moved: torch.Tensor, slope: torch.Tensor, rate: float) -> None:
        self.steps += 1
        self.mean.lerp_(slope, 0.1)
        self.square.lerp_(slope * slope, 0.001)
        size = (self.square / (1 - 0.999**self.steps)).sqrt_().add_(1e-8)
        moved.addcdiv_(self.mean, size, value=rate / (1 - 0.9**self.steps))


class _Kept:
    """Of every restart the best point, the best one below NEAR, and the first undecided one."""

    def __init__(self, moved: torch.Tensor) -> None:
        self.best, self.below, self.open = (_Points(moved) for _ in range(3))

    def look(self, moved: torch.Tensor, seen: sampling.Ratios) -> None:
        value, moved = seen.value.detach(), moved.detach()
        self.best.keep(moved, value, seen.decided)
        self.below.keep(moved, value, seen.decided & (value <= NEAR))
        self.open.keep(moved, torch.zeros_like(value), ~seen.decided)

    def largest(self) -> torch.Tensor:
        """The largest ratio of all restarts, and the largest below NEAR; -inf if there is none."""
        return torch.stack([self.best.ratio.max(), self.below.ratio.max()])

    def points(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The best ones, those below NEAR of restarts whose best is above, the undecided ones."""
        hidden = self.below.there & (self.best.ratio > NEAR)
        return self.best.points, self.below.points[hidden], self.open.points[self.open.there]


class _Points:
    """A point of every restart with its ratio, the larger one of those offered; -inf: none yet."""

    def __init__(self, moved: torch.Tensor) -> None:
        self.points = moved.detach().clone()
        self.ratio = torch.full_like(self.points[:, 0], -torch.inf)

    @property
    def there(self) -> torch.Tensor:
        """Which restarts have a point."""
        return self.ratio > -torch.inf

    def keep(self, moved: torch.Tensor, value: torch.Tensor, offered: torch.Tensor) -> None:
        better = offered & (value > self.ratio)
        self.ratio = torch.where(better, value, self.ratio)
        self.points = torch.where(better[:, None], moved, self.points)

    def put_back(self, moved: torch.Tensor) -> None:
        """Move every restart to its point, unless its ratio is above NEAR, maybe by rounding."""
        back = self.there & (self.ratio <= NEAR)
        with torch.no_grad():
            moved[back] = self.points[back]

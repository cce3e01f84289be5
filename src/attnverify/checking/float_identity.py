"""Sampled evidence of identities: |left - right| in floats against a derived rounding bound.

A bound that is too wide lets a wrong formula pass. So the search also looks at the bound, in every
size and in every entry of the sides. The identity with its right side off by 2^-26 of itself, half
the digits of float64, must be noticed: the planted error is beyond the bound in at least half of
the instances. (Where the right side is 0, the error is that share of its largest entry.) And some
error must be at least 2^-20 of its bound, unless all are 0: a bound counts every rounding at its
worst and so exceeds the error by their number, which is far below 2^20 in every formula of the
book.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import torch

from attnverify.checking import sampling
from attnverify.checking.check import Identity, Instance
from attnverify.checking.search import CHUNK, Found, Settings, shortfall
from attnverify.support.seeds import generator

SHARED_CHUNK = 64  # inputs that share one drawn network
PLANTED = 2.0**-26
IDLE = 2.0**-20


@dataclass(frozen=True)
class _Seen:
    """Over instances of one size: largest error/bound; how many; how many have finite bounds.

    planted, noticed: for every entry, in how many instances an error was planted and noticed.
    """

    worst: float
    instances: int
    decided: int
    planted: torch.Tensor
    noticed: torch.Tensor

    def __add__(self, other: _Seen) -> _Seen:
        counts = [(s.planted, s.noticed) for s in (self, other)]
        if self.planted.shape != other.planted.shape:  # the batch axis of one is not known
            counts = [(a.sum()[None], b.sum()[None]) for a, b in counts]
        return _Seen(
            max(self.worst, other.worst),
            self.instances + other.instances,
            self.decided + other.decided,
            counts[0][0] + counts[1][0],
            counts[0][1] + counts[1][1],
        )

    @property
    def too_wide(self) -> str:
        """What shows that the bound is too wide, or "" if nothing does."""
        if not self.planted.any():
            return "no error can be planted, the right side is 0: put a term of the left side there"
        few = (2 * self.noticed < self.planted) | (self.planted == 0)
        if few.any():
            words = f"in {int(few.sum())} of {few.numel()} entries"
            return f"{words}, a right side off by 2^-26 shows in less than half of the instances"
        idle = 0 < self.worst < IDLE
        return f"no error comes near it, the largest is {self.worst:.1e} of it" if idle else ""


def sample_identity(check: Identity, settings: Settings, name: str) -> Found:
    """Random instances; |left - right| against the derived rounding bound, and that against both.

    An instance whose bound overflows is undecided.
    """
    share = settings.share(check.sizes)
    return _found([_sample(check, settings, name, i, share) for i in range(len(check.sizes))])


def _sample(check: Identity, settings: Settings, name: str, index: int, share: int) -> _Seen:
    """What the instances of one size show."""
    random = generator(settings.seed, name, "sampled", str(index))
    chunk = SHARED_CHUNK if check.shared else CHUNK
    seen = []
    for start in range(0, share, chunk):
        batch = min(chunk, share - start)
        sizes = check.sizes[index]
        free = sampling.parameters(sizes, batch, random, spread=True, shared=check.shared)
        with torch.no_grad():
            instance = check.build(**{k: v.to(settings.device) for k, v in free.items()})
            seen.append(_look(check, instance, batch))
    return functools.reduce(_Seen.__add__, seen)


def _look(check: Identity, instance: Instance, batch: int) -> _Seen:
    (left, right), bound = check.sides(**instance), check.bound(**instance)
    sides = torch.broadcast_tensors(abs(left - right), right, bound)
    axes = [axis for axis, size in enumerate(sides[0].shape) if size == batch]
    alone = axes[:1] == [0] or len(axes) == 1  # a network for all inputs may have other axes first
    sides = [v.movedim(axes[0], 0) if alone else v[None] for v in sides]
    ratio, finite, planted, noticed = _compared(*(v.reshape(len(v), -1) for v in sides))
    decided = int(finite.all(-1).sum()) if alone else batch * int(finite.all())
    worst = float(torch.nan_to_num(ratio, posinf=torch.inf).max())
    if not alone:  # all or none is decided, and entries are counted together
        planted, noticed = (v.sum()[None, None] for v in (planted, noticed))
    return _Seen(worst, batch, decided, planted.sum(0).cpu(), noticed.sum(0).cpu())


def _compared(error, right, bound) -> tuple[torch.Tensor, ...]:
    """error/bound; which bounds are finite; where an error is planted, and where noticed."""
    finite = torch.isfinite(bound)
    # a NaN on either side, or a negative bound, is a failure and never a pass
    ratio = torch.where(error == 0, 0.0, error / torch.where(bound >= 0, bound, 0.0))
    ratio = torch.nan_to_num(ratio, nan=torch.inf)
    ratio = torch.where(finite | torch.isnan(error), ratio, 0.0)
    largest = torch.where(torch.isfinite(right), abs(right), 0.0).amax(-1, keepdim=True)
    size = torch.where(right == 0, largest, abs(right))
    planted = (size > 0) & torch.isfinite(size)
    return ratio, finite, planted, planted & finite & (PLANTED * size > bound + error)


def _found(seen: list[_Seen]) -> Found:
    """All sizes together; each of them has to pass."""
    instances, decided = (sum(getattr(s, n) for s in seen) for n in ("instances", "decided"))
    worst = max(s.worst for s in seen)
    result = Found("pass", worst, None, instances, decided)
    if worst > 1:
        words = f"the largest error is {worst:.2g} times its rounding bound"
        return replace(result, outcome="fail", detail=words)
    words = shortfall(instances - decided, instances)
    if any(2 * s.decided < s.instances for s in seen):
        return replace(result, outcome="unknown", detail=words)
    for s in seen:
        if s.too_wide:
            words = f"the rounding bound is too wide: {s.too_wide}"
            return replace(result, outcome="unknown", detail=words)
    return replace(result, detail=words)

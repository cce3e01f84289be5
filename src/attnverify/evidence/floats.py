"""Sampled evidence of identities: |left - right| in floats against a derived rounding bound.

A bound that is too wide lets a wrong formula pass. So the search also looks at the bound. The
identity with its right side off by 2^-26 of itself, half the digits of float64, must be noticed:
the planted error is beyond the bound in most entries that are not 0. And some error must be at
least 2^-20 of its bound, unless all are 0: a bound counts every rounding at its worst and so
exceeds the error by their number, which is far below 2^20 in every formula of the book.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from attnverify.evidence import draw
from attnverify.evidence.forms import Identity, Instance
from attnverify.evidence.search import CHUNK, Found, Settings
from attnverify.seeds import generator

SHARED_CHUNK = 64  # inputs that share one drawn network
PLANTED = 2.0**-26
IDLE = 2.0**-20


@dataclass(frozen=True)
class _Seen:
    """Over some instances: largest error/bound; how many have finite bounds; over their entries
    with right != 0: how many, and how many of them notice the planted error."""

    worst: float = 0.0
    instances: int = 0
    decided: int = 0
    nonzero: int = 0
    noticed: int = 0

    def __add__(self, other: _Seen) -> _Seen:
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("instances", "decided", "nonzero", "noticed")
        }
        return _Seen(max(self.worst, other.worst), **sums)


def sample_identity(check: Identity, settings: Settings, name: str) -> Found:
    """Random instances; |left - right| against the derived rounding bound, and that against both.

    An instance whose bound overflows is undecided.
    """
    seen = _Seen()
    share = -(-settings.samples // len(check.sizes))
    for index, sizes in enumerate(check.sizes):
        random = generator(settings.seed, name, "sampled", str(index))
        chunk = SHARED_CHUNK if check.shared else CHUNK
        for start in range(0, share, chunk):
            batch = min(chunk, share - start)
            free = draw.parameters(sizes, batch, random, spread=True, shared=check.shared)
            with torch.no_grad():
                instance = check.build(**{k: v.to(settings.device) for k, v in free.items()})
                seen += _look(check, instance, batch)
    return _found(seen)


def _look(check: Identity, instance: Instance, batch: int) -> _Seen:
    left, right, bound = (f(**instance) for f in (check.left, check.right, check.bound))
    error, right, bound = torch.broadcast_tensors(abs(left - right), right, bound)
    finite = torch.isfinite(bound)
    # a NaN on either side, or a negative bound, is a failure and never a pass
    ratio = torch.where(error == 0, 0.0, error / torch.where(bound >= 0, bound, 0.0))
    ratio = torch.nan_to_num(ratio, nan=torch.inf)
    ratio = torch.where(finite | torch.isnan(error), ratio, 0.0)
    nonzero = (right != 0) & torch.isfinite(right)
    noticed = nonzero & finite & (PLANTED * abs(right) > bound + error)
    alone = finite.shape[0] == batch  # else the batch is a later axis: all or none is decided
    decided = int(finite.reshape(batch, -1).all(-1).sum()) if alone else batch * int(finite.all())
    worst = float(torch.nan_to_num(ratio, posinf=torch.inf).max())
    return _Seen(worst, batch, decided, int(nonzero.sum()), int(noticed.sum()))


def _found(seen: _Seen) -> Found:
    result = Found("pass", seen.worst, None, seen.instances, seen.decided)
    if seen.worst > 1:
        return replace(result, outcome="fail")
    if 2 * seen.decided < seen.instances:
        words = f"{seen.instances - seen.decided} of {seen.instances} instances undecided"
        return replace(result, outcome="unknown", detail=words)
    if 2 * seen.noticed < seen.nonzero:
        words = f"a right side off by 2^-26 shows in {seen.noticed} of {seen.nonzero} entries"
        return replace(result, outcome="unknown", detail=f"the rounding bound is too wide: {words}")
    if 0 < seen.worst < IDLE:
        words = f"no error comes near it, the largest is {seen.worst:.1e} of it"
        return replace(result, outcome="unknown", detail=f"the rounding bound is too wide: {words}")
    undecided = seen.instances - seen.decided
    words = f"{undecided} of {seen.instances} instances undecided" if undecided else ""
    return replace(result, detail=words)

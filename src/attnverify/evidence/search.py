"""Untrusted search: random instances and gradient ascent on left/right.

Floats near a boundary are rounding noise, so nothing found above 1 is believed before
:mod:`attnverify.evidence.exact` has looked at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from attnverify.evidence import draw
from attnverify.evidence.exact import Comparison, compare
from attnverify.evidence.forms import Identity, Inequality, Instance
from attnverify.evidence.records import Outcome

CHUNK = 1 << 16  # sampled instances a batch
SHARED_CHUNK = 64  # inputs that share one drawn network
RECHECKED = 8192  # instances above 1 in floats that are recomputed in balls, at most, a batch
BEST = 8  # and so many of the largest ratios in any case

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Found:
    """Result of a search: outcome, largest believed ratio, its instance, how many were seen."""

    outcome: Outcome
    ratio: float | None
    instance: Instance | None
    instances: int
    detail: str = ""


@dataclass(frozen=True)
class Settings:
    """How hard to search. Equal settings give equal results."""

    samples: int = 2000
    restarts: int = 24
    steps: int = 300
    seed: int = 0
    device: str = "cpu"


def sample(
    check: Inequality, settings: Settings, name: str, progress: Progress | None = None
) -> Found:
    """Random instances of every size; those above 1 are rechecked in balls."""
    best = Found("pass", 0.0, None, 0)
    share = -(-settings.samples // len(check.sizes))
    for index, sizes in enumerate(check.sizes):
        random = draw.generator(settings.seed, name, "sampled", str(index))
        for start in range(0, share, CHUNK):
            batch = min(CHUNK, share - start)
            found = _sample_batch(check, sizes, batch, random, settings.device)
            best = _merge(best, found)
            if progress:
                progress(batch)
    return best


def _sample_batch(check, sizes, batch, random, device) -> Found:
    with torch.no_grad():
        free = draw.parameters(sizes, batch, random, spread=True)
        instance = check.build(**{k: v.to(device) for k, v in free.items()})
        ratio = draw.ratios(check, instance).cpu()
    return _believe(check, instance, ratio)


def _believe(check: Inequality, instance: Instance, ratio: torch.Tensor) -> Found:
    """What floats found, as balls see it: no ratio is reported before it was recomputed exactly.

    Looks at everything that floats put above 1 and at the few largest below. Fails on a certain
    violation; stays unknown if something above 1 cannot be settled.
    """
    ratio = torch.nan_to_num(ratio, nan=torch.inf)
    above = int((ratio > 1).sum())
    order = torch.argsort(ratio, descending=True)[: max(min(above, RECHECKED), BEST)].tolist()
    best, doubtful = None, above - min(above, RECHECKED)
    for i in order:
        seen = compare(check, draw.single(instance, i))
        if seen.outcome == "fail":
            return Found("fail", seen.midpoint, draw.single(instance, i), len(ratio), _words(seen))
        settled = seen.outcome == "pass" or seen.attained
        if settled and (best is None or seen.midpoint > best[0]):
            best = seen.midpoint, i
        doubtful += not settled and bool(ratio[i] > 1)
    outcome: Outcome = "unknown" if doubtful or best is None else "pass"
    detail = f"{doubtful} instances above 1 in floats stayed unsettled" if doubtful else ""
    value, index = best if best is not None else (float(ratio[order[0]]), order[0])
    return Found(outcome, value, draw.single(instance, index), len(ratio), detail)


def _words(seen: Comparison) -> str:
    return f"left/right = {seen.ratio.str(12)} at {seen.bits} bits"


def _merge(a: Found, b: Found) -> Found:
    order = {"pass": 0, "unknown": 1, "fail": 2}
    worse = b if (order[b.outcome], b.ratio) > (order[a.outcome], a.ratio) else a
    return Found(
        worse.outcome, worse.ratio, worse.instance, a.instances + b.instances, worse.detail
    )


def attack(
    check: Inequality, settings: Settings, name: str, progress: Progress | None = None
) -> Found:
    """Gradient ascent on left/right over all free parameters, all restarts at once."""
    best = Found("pass", 0.0, None, 0)
    for index, sizes in enumerate(check.sizes):
        random = draw.generator(settings.seed, name, "attacked", str(index))
        start = draw.parameters(sizes, settings.restarts, random, spread=False)
        instance, ratio = _ascend(check, start, settings, progress)
        best = _merge(best, _believe(check, instance, ratio))
    return best


def _ascend(check, start, settings, progress) -> tuple[Instance, torch.Tensor]:
    """Adam with a cosine step size from 0.3 to 0; keeps the best point of every restart."""
    free = {k: v.to(settings.device).requires_grad_() for k, v in start.items()}
    optimizer = torch.optim.Adam(free.values(), lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, settings.steps))
    best = {k: v.detach().clone() for k, v in free.items()}
    best_ratio = torch.full(
        (settings.restarts,), -torch.inf, dtype=torch.float64, device=settings.device
    )
    for _ in range(settings.steps + 1):
        optimizer.zero_grad()
        ratio = draw.ratios(check, check.build(**free))
        torch.log(ratio.clamp_min(1e-30)).sum().neg().backward()
        with torch.no_grad():
            better = torch.nan_to_num(ratio.detach(), nan=-torch.inf) > best_ratio
            best_ratio[better] = ratio.detach()[better]
            for k, v in free.items():
                best[k][better] = v.detach()[better]
                v.grad = torch.nan_to_num(v.grad, nan=0.0, posinf=0.0, neginf=0.0)
        optimizer.step()
        schedule.step()
        if progress:
            progress(1)
    with torch.no_grad():
        instance = check.build(**best)
        return instance, draw.ratios(check, instance).cpu()


def sample_identity(check: Identity, settings: Settings, name: str) -> Found:
    """Random instances; |left - right| against the derived rounding bound."""
    worst, instances, outcome = 0.0, 0, "pass"
    share = -(-settings.samples // len(check.sizes))
    for index, sizes in enumerate(check.sizes):
        random = draw.generator(settings.seed, name, "sampled", str(index))
        chunk = SHARED_CHUNK if check.shared else CHUNK
        for start in range(0, share, chunk):
            batch = min(chunk, share - start)
            free = draw.parameters(sizes, batch, random, spread=True, shared=check.shared)
            with torch.no_grad():
                instance = check.build(**{k: v.to(settings.device) for k, v in free.items()})
                error = abs(check.left(**instance) - check.right(**instance))
                ratio = torch.where(error == 0, 0.0, error / check.bound(**instance))
            # a NaN on either side or in the bound is a failure, never a pass
            largest = float(torch.nan_to_num(ratio, nan=torch.inf).max())
            worst, instances = max(worst, largest), instances + batch
            outcome = "pass" if worst <= 1 else "fail"
    return Found(outcome, worst, None, instances)

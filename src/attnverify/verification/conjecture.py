"""Search for the best constant of an inequality: the least C with left <= C right.

The largest left/right that a search finds is a lower bound of C, certified in ball arithmetic at
its instance. Nothing bounds C from above: a number of simple form that lies just above is proposed
(:mod:`attnverify.checking.closed_forms`), with how likely it is that one lies as near by chance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import flint
import torch

from attnverify.arithmetic import ops
from attnverify.checking import sampling
from attnverify.checking.ascent import scaled
from attnverify.checking.ball_comparison import compare
from attnverify.checking.check import Formula, Inequality, Instance, Sizes, unchanged
from attnverify.checking.check_fields import require_sizes
from attnverify.checking.closed_forms import NARROW, Proposal, number, propose
from attnverify.checking.preflight import require_formulas
from attnverify.checking.search import Settings, attack
from attnverify.support.errors import InputError, require
from attnverify.support.seeds import generator
from attnverify.support.tables import Table
from attnverify.verification.replay import exact

BITS = 256  # for what is done with certified ratios: more than they have
FIRST = 1 << 10  # instances whose ratios say about how large C is
LARGEST = 2.0**60  # a ratio beyond this is called unbounded

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Constant:
    """What a search for the best constant found.

    lower, upper: left/right at ``instance`` lies between these floats, so that C is at least
    ``lower``; instances: how many were looked at; proposal: None if no number of simple form is
    near; twin: a factor of the proposed constant with which the inequality is certainly false at
    ``instance``, None without a proposal; growth: where the quotient still grows, in words, ""
    if it is not seen to. There nothing is proposed: a proposal lies above what is certified by
    less than the growth.
    """

    lower: float
    upper: float
    instance: Instance
    instances: int
    seconds: float
    proposal: Proposal | None
    twin: float | None
    growth: str = ""

    def __str__(self) -> str:
        found = f"C >= {self.lower:.12g}, certified at an instance"
        if self.growth:
            return f"{found}; {self.growth}"
        if self.proposal is None:
            return f"{found}; no number of simple form is near enough above to be proposed"
        p = self.proposal
        return (
            f"{found}; probably C = {p.constant} ({p.form}), {p.gap:.1e} above; were C no such "
            f"number, one would lie so near with probability {p.chance:.1e} at most"
        )

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self) -> Table:
        """What was found, a line each."""
        p, none = self.proposal, "no number of simple form is near enough"
        rows = [
            ("certified", f"C ≥ {self.lower:.12g}"),
            ("at", "; ".join(_in_words(name, value) for name, value in self.instance.items())),
            ("proposed", self.growth or none if p is None else f"C = {p.constant}, {p.form}"),
        ]
        if p is not None:
            rows.append(("distance", f"{p.gap:.1e} of C above what is certified"))
            rows.append(("by chance", f"so near with probability {p.chance:.1e} at most"))
            rows.append(("certainly false", f"with {self.twin!r} times the proposed constant"))
        rows.append(("searched", f"{self.instances:,} instances, {self.seconds:.1f} s"))
        return Table("The best constant C of left ≤ C right", ("", "what was found"), rows)

    def as_json(self) -> dict[str, Any]:
        """What was found, with the instance as exact hexadecimal numbers."""
        p = self.proposal
        return {
            "at least": self.lower,
            "ratio between": [self.lower.hex(), self.upper.hex()],
            "proposal": p and {**asdict(p), "constant": str(p.constant)},
            "twin": self.twin,
            "growth": self.growth,
            "instances": self.instances,
            "seconds": round(self.seconds, 3),
            "instance": {name: exact(value) for name, value in self.instance.items()},
        }


def _in_words(name: str, value: torch.Tensor) -> str:
    few = ", ".join(f"{float(v):.4g}" for v in value.flatten()[:6])
    return f"{name} = ({few}{', …' if value.numel() > 6 else ''})"


def best_constant(
    left: Formula,
    right: Formula,
    sizes: Sequence[Sizes],
    *,
    build: Callable[..., Instance] = unchanged,
    hypotheses: Formula | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Constant:
    """The best constant of ``left <= C right``, as far as a search can tell.

    left, right, sizes, build, hypotheses: as of :class:`~attnverify.checking.check.Inequality`.
    Raises InputError for formulas or sizes that cannot be used, and if left/right exceeds 2^60 or
    is nowhere positive.

    Returns a ``Constant``: bounds of left/right at the worst instance, certified in ball
    arithmetic, and a number of simple form just above them, if one is near. Nothing bounds C
    from above.

    >>> import attnverify as av
    >>> found = av.best_constant(  # (sum x)^2 <= C sum x^2 for three numbers
    ...     lambda x: av.ops.square(av.ops.sum(x, -1)),
    ...     lambda x: av.ops.sum(av.ops.square(x), -1),
    ...     sizes=[{"x": (3,)}],
    ...     settings=av.evidence.Settings(restarts=4, steps=150, seed=0),
    ... )
    >>> round(found.lower, 6), found.proposal.constant
    (3.0, 3)
    """
    start = time.perf_counter()
    settings = settings or Settings(restarts=32, steps=600)
    require_sizes("", sizes)
    check = Inequality(left, right, tuple(sizes), build=build, hypotheses=hypotheses)
    require_formulas("", check)
    factor = 2 * _about(check, settings)
    best, instances = None, 0
    while True:
        require(factor < LARGEST, "right", f"left/right above {factor:.3g}", "a bounded quotient")
        found = attack(check.scaled(factor), settings, "best constant", progress)
        instances += found.instances
        best = found if found.instance is not None else best
        if found.outcome != "fail":
            break
        factor = 2 * max(factor, factor * (found.ratio or 1))
    if best is None or best.instance is None or best.free is None:
        raise InputError("left: got no instance that balls decide, expected one at least")
    lower, upper = certified(check, best.instance)
    growth = _growth(check, best.free, lower)
    proposal = None if growth else propose(lower)
    twin = proposal and _twin(proposal, lower)
    seconds = time.perf_counter() - start
    return Constant(lower, upper, best.instance, instances, seconds, proposal, twin, growth)


def _growth(check: Inequality, free: Instance, lower: float) -> str:
    """Where the quotient is larger by NARROW still, 1000 times as far out or in; "" for nowhere."""
    batch, factors = scaled(free, (3, -3))
    instance = check.build(**batch)
    for place, factor in enumerate(factors.tolist()):
        try:
            there = certified(check, sampling.single(instance, place))[0]
        except InputError:  # no instance, or none that balls decide
            continue
        if there > (1 + NARROW) * lower:
            where = "1000 times as large" if factor > 1 else "1000 times as small"
            return (
                f"the quotient still grows, to {there:.6g} at arrays {where}: it may have no bound"
            )
    return ""


def _about(check: Inequality, settings: Settings) -> float:
    """The largest left/right of some random instances, in floats."""
    best = 0.0
    for index, sizes in enumerate(check.sizes):
        random = generator(settings.seed, "about", str(index))
        free = sampling.parameters(sizes, FIRST, random, spread=True)
        with torch.no_grad():
            seen = sampling.ratios(check, check.build(**free)).value
        best = max([best, *seen[torch.isfinite(seen)].tolist()])
    require(best > 0, "left", "no positive value", "one at some instance")
    return best


def certified(check: Inequality, instance: Instance) -> tuple[float, float]:
    """Floats around left/right at an instance, from balls.

    Raises InputError if the hypotheses do not surely hold there.
    """
    seen = compare(check.scaled(LARGEST), instance)
    require(seen.outcome == "pass", "hypotheses", seen.hypotheses, "an instance that meets them")
    with ops.precision(BITS):
        low, high = seen.ratio.lower() * LARGEST, seen.ratio.upper() * LARGEST
        ends = float(low), float(high)
        below = ends[0] if flint.arb(ends[0]) <= low else math.nextafter(ends[0], -math.inf)
        above = ends[1] if flint.arb(ends[1]) >= high else math.nextafter(ends[1], math.inf)
    return below, above


def _twin(proposal: Proposal, lower: float) -> float:
    """The factor 1 - 10^-k next to 1, k <= 12, that puts the constant below what is certified.

    There is one for a gap below NARROW.
    """
    with ops.precision(BITS):
        constant = number(proposal.constant, ops.balls(torch.ones(1)))
        factors = [1 - 10.0**-k for k in range(12, 1, -1)]
        return next(f for f in factors if flint.arb(f) * constant < flint.arb(lower))

"""Search for the best constant of an inequality: the least C with left <= C right.

The largest left/right that a search finds is a lower bound of C, certified in ball arithmetic at
its instance. Nothing bounds C from above: a number of simple form that lies just above is proposed,
with how likely it is that one lies as near by chance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from typing import Any

import flint
import sympy as sp
import torch

from attnverify import ops
from attnverify.errors import InputError, require
from attnverify.evidence import draw
from attnverify.evidence.exact import compare
from attnverify.evidence.forms import Formula, Inequality, Instance, Sizes, unchanged
from attnverify.evidence.search import Settings, attack
from attnverify.seeds import generator

BITS = 256  # of the certificate
FIRST = 1 << 10  # instances whose ratios say about how large C is
LARGEST = 2.0**60  # a ratio beyond this is called unbounded
BY_CHANCE = 1e-3  # a proposal that is as likely to be a coincidence as this is not made
NARROW = 1e-2  # how far above the certified ratio a proposal may lie, at most, relatively

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Proposal:
    """A number of simple form just above a ratio.

    gap: how far above, relatively; chance: how many numbers of its form one expects so near above a
    number of this size, were it drawn at random (uniform logarithm).
    """

    constant: sp.Expr
    form: str
    gap: float
    chance: float


@dataclass(frozen=True)
class Constant:
    """What a search for the best constant found.

    ratio: enclosure of left/right at ``instance``, so that C is at least its lower end; instances:
    how many were looked at; proposal: None if no number of simple form is near.
    """

    ratio: flint.arb
    instance: Instance
    instances: int
    seconds: float
    proposal: Proposal | None

    @property
    def lower(self) -> float:
        """The largest float that C is certainly not below, to 53 bits."""
        value = float(self.ratio.lower())
        return value if flint.arb(value) <= self.ratio.lower() else math.nextafter(value, -math.inf)

    def __str__(self) -> str:
        found = f"C >= {self.lower:.12g}, certified at an instance"
        if self.proposal is None:
            return f"{found}; no number of simple form is near enough above to be proposed"
        p = self.proposal
        return (
            f"{found}; probably C = {p.constant} ({p.form}), {p.gap:.1e} above; by chance one "
            f"would expect {p.chance:.1e} numbers of this form as near"
        )

    def as_json(self) -> dict[str, Any]:
        """What was found, with the instance as exact hexadecimal numbers."""
        p = self.proposal
        return {
            "at least": self.lower,
            "ratio": self.ratio.str(20),
            "proposal": p and {**asdict(p), "constant": str(p.constant)},
            "instances": self.instances,
            "seconds": round(self.seconds, 3),
            "instance": {
                name: {
                    "shape": list(value.shape),
                    "values": [float(v).hex() for v in value.flatten()],
                }
                for name, value in self.instance.items()
            },
        }

    @property
    def twin(self) -> float:
        """A factor of the proposed constant with which the inequality is certainly false."""
        if self.proposal is None:
            raise ValueError("no constant is proposed: there is nothing to be a twin of")
        for nines in range(12, 0, -1):
            factor = 1 - 10.0**-nines
            if factor * float(self.proposal.constant) < self.lower:
                return factor
        raise ValueError(f"gap: got {self.proposal.gap:.2g}, expected one below 0.1")


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

    left, right, sizes, build, hypotheses: as of :class:`~attnverify.evidence.forms.Inequality`.
    Raises InputError if left/right exceeds 2^60, or is nowhere positive.
    """
    start = time.perf_counter()
    settings = settings or Settings(restarts=32, steps=600)
    check = Inequality(left, right, tuple(sizes), build=build, hypotheses=hypotheses)
    factor = 2 * _about(check, settings)
    instance, instances = None, 0
    while True:
        require(factor < LARGEST, "right", f"left/right above {factor:.3g}", "a bounded quotient")
        found = attack(check.scaled(factor), settings, "best constant", progress)
        instances += found.instances
        instance = found.instance if found.instance is not None else instance
        if found.outcome != "fail":
            break
        factor = 2 * max(factor, factor * (found.ratio or 1))
    if instance is None:
        raise InputError("left: got no instance that balls decide, expected one at least")
    ratio = _certified(check, instance)
    seconds = time.perf_counter() - start
    return Constant(ratio, instance, instances, seconds, propose(float(ratio.lower())))


def _about(check: Inequality, settings: Settings) -> float:
    """The largest left/right of some random instances, in floats."""
    best = 0.0
    for index, sizes in enumerate(check.sizes):
        random = generator(settings.seed, "about", str(index))
        free = draw.parameters(sizes, FIRST, random, spread=True)
        with torch.no_grad():
            seen = draw.ratios(check, check.build(**free)).value
        best = max([best, *seen[torch.isfinite(seen)].tolist()])
    require(best > 0, "left", "no positive value", "one at some instance")
    return best


def _certified(check: Inequality, instance: Instance) -> flint.arb:
    """left/right in balls; InputError if the hypotheses do not surely hold there."""
    with ops.precision(BITS):
        seen = compare(check.scaled(LARGEST), instance)
        require(
            seen.outcome == "pass", "hypotheses", seen.hypotheses, "an instance that meets them"
        )
        return seen.ratio * flint.arb(LARGEST)


def propose(ratio: float) -> Proposal | None:
    """The number of simple form that lies just above ``ratio`` and is least likely by chance."""
    found = []
    for form in FORMS:
        values = _numbers(form)
        near = sum(ratio / 2 < value < 2 * ratio for value, _ in values)
        above = [(value, number) for value, number in values if value >= ratio]
        if above:
            value, number = min(above, key=lambda pair: pair[0])
            gap = value / ratio - 1
            found.append(Proposal(number, form, gap, near / math.log(4) * gap))
    best = min(found, key=lambda p: p.chance, default=None)
    return best if best and best.chance < BY_CHANCE and best.gap < NARROW else None


#: Forms of numbers, from simple to less simple: what is multiplied with small quotients.
FORMS: dict[str, tuple[int, tuple[Any, ...]]] = {
    "a quotient up to 8": (8, (sp.Integer(1),)),
    "a quotient up to 32": (32, (sp.Integer(1),)),
    "a root of a quotient up to 16": (16, ()),
    "a quotient up to 8 times log 2, pi or e, or over one": (
        8,
        tuple(f**s for f, s in product((sp.log(2), sp.pi, sp.E), (1, -1))),
    ),
    "a quotient up to 8 times the root of 2 pi, pi or e, or over one": (
        8,
        tuple(sp.sqrt(f) ** s for f, s in product((2 * sp.pi, sp.pi, sp.E), (1, -1))),
    ),
}


@cache
def _numbers(form: str) -> tuple[tuple[float, sp.Expr], ...]:
    """The numbers of a form, each once, with their floats rounded up."""
    largest, factors = FORMS[form]
    quotients = {sp.Rational(p, q) for p in range(1, largest + 1) for q in range(1, largest + 1)}
    found = {f * q for f in factors for q in quotients} or {sp.sqrt(q) for q in quotients}
    return tuple((math.nextafter(float(sp.N(number, 30)), math.inf), number) for number in found)


def number(expression: sp.Expr | str, like: Any) -> Any:
    """A number such as "sqrt(2)/4" in the arithmetic of ``like``: torch, balls.

    expression: integers, quotients, products, square roots, logarithms, pi and E.
    """
    if isinstance(expression, str):
        expression = sp.sympify(expression)
    if expression.is_Integer:
        return ops.constant(int(expression), like)
    if isinstance(expression, sp.Rational):
        return ops.constant(int(expression.p), like) / ops.constant(int(expression.q), like)
    if expression is sp.pi:
        return ops.pi(like)
    if expression is sp.E:
        return ops.exp(ops.constant(1, like))
    if expression.func is sp.log:
        return ops.log(number(expression.args[0], like))
    if expression.func is sp.Pow and abs(expression.args[1]) == sp.Rational(1, 2):
        root = ops.sqrt(number(expression.args[0], like))
        return root if expression.args[1] > 0 else ops.constant(1, like) / root
    if expression.func is sp.Pow and expression.args[1] == -1:
        return ops.constant(1, like) / number(expression.args[0], like)
    parts = [number(part, like) for part in expression.args]
    total = parts[0]
    for part in parts[1:]:
        total = total * part if expression.func is sp.Mul else total + part
    return total

"""The trusted part: comparing both sides of a claim in ball or rational arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

import flint
import numpy as np

from attnverify.arithmetic import ops
from attnverify.checking.check import Identity, Inequality, Instance
from attnverify.checking.instance_shapes import require_instance
from attnverify.checking.records import ATTAINED, Outcome
from attnverify.support.errors import require
from attnverify.support.vocabulary import counted

PRECISIONS = (128, 256, 512, 1024)


@dataclass(frozen=True)
class Comparison:
    """Verdict on one instance: pass (left <= right), fail (left > right) or unknown.

    ratio: an enclosure of the largest left/right; bits: the precision that settled it;
    attained: the hypotheses hold and the ratio is enclosed within
    2^-40 of 1.
    """

    outcome: Outcome
    ratio: flint.arb
    bits: int
    hypotheses: Outcome = "pass"

    @property
    def attained(self) -> bool:
        near = abs(self.ratio - 1) < flint.arb(ATTAINED)
        return bool(near) and self.hypotheses == "pass"

    def told(self, digits: int) -> str:
        """The ratio in words, with so many digits."""
        if self.ratio.is_nan():
            return "no ratio, as right is not certainly positive"
        return f"left/right = {self.ratio.str(digits)}"

    @property
    def certain_ratio(self) -> float:
        """What the largest left/right is at least, for certain; NaN if nothing encloses it.

        A comparison may be settled while the ratio is still known to a few bits only. The middle
        of such an enclosure says nothing.
        """
        with ops.precision(self.bits):
            least = float(self.ratio.lower())
        return least if math.isnan(least) else max(least, 0.0)


def compare(check: Inequality, instance: Instance) -> Comparison:
    """left <= right in balls at one exact instance, at rising precision until it is settled.

    Raises InputError for an instance that the check could not have made.
    """
    require_instance(check, instance)
    for bits in PRECISIONS[:-1]:
        seen = _compare_at(check, instance, bits)
        if seen.outcome != "unknown" or seen.attained:
            return seen
    return _compare_at(check, instance, PRECISIONS[-1])


def _compare_at(check: Inequality, instance: Instance, bits: int) -> Comparison:
    with ops.precision(bits):
        exact = {name: np.asarray(ops.balls(value))[None] for name, value in instance.items()}
        return _compare_once(check, exact, bits)


def _compare_once(check: Inequality, exact: Instance, bits: int) -> Comparison:
    left, right = (_flat(side) for side in check.sides(**exact))
    require(bool(left), "left", "no entries", "one value or more to compare")
    given = check.hypotheses(**exact) if check.hypotheses else ()
    sides = [(_flat(smaller), _flat(larger)) for smaller, larger in given]
    for a, b in sides:
        words = f"a pair of {len(a)} and {len(b)} numbers"
        require(len(a) == len(b), "hypotheses", words, "as many on both sides, as (0 * x, x)")
    pairs = [pair for a, b in sides for pair in zip(a, b, strict=True)]
    hypotheses = _all([_below(a, b) for a, b in pairs])
    outcome = _all([_below(a, b) for a, b in zip(left, right, strict=True)])
    if hypotheses != "pass":
        outcome = "unknown"
    return Comparison(outcome, _largest_ratio(left, right), bits, hypotheses)


def _flat(x) -> list[flint.arb]:
    return list(np.asarray(x, dtype=object).reshape(-1))


def _below(a: flint.arb, b: flint.arb) -> Outcome:
    """a <= b: certain, certainly not, or unknown. Comparisons of balls are true only if certain."""
    return "pass" if a <= b else "fail" if a > b else "unknown"


def _all(outcomes: list[Outcome]) -> Outcome:
    if "fail" in outcomes:
        return "fail"
    return "unknown" if "unknown" in outcomes else "pass"


def _largest_ratio(left: list[flint.arb], right: list[flint.arb]) -> flint.arb:
    """An enclosure of the largest left/right, at least 0, over the entries where right > 0.

    Where the sign of right is open there may be a ratio of any size, so that nothing is enclosed
    (NaN), unless left <= right is certain: then left cannot be positive where right might be 0.
    """
    out = flint.arb(0)
    for a, b in zip(left, right, strict=True):
        if b > 0:
            out = out.max(a / b)  # encloses the larger number, also where balls overlap
        elif not a <= b:
            return flint.arb("nan")
    return out


def compare_identity(check: Identity, instance: Instance) -> tuple[Outcome, str]:
    """left == right at one exact instance, with the reason in words."""
    left, right = check.sides(**instance)
    require(np.size(left) > 0 and np.size(right) > 0, "left", "no entries", "one value or more")
    if check.arithmetic == "rational":
        differing = int(np.sum(np.asarray(left != right)))
        return (
            ("pass", "equal rationals")
            if differing == 0
            else ("fail", f"{counted(differing, 'differing entry')}")
        )
    difference = _flat(left - right)
    if any(d != 0 for d in difference):
        return "fail", "entries certainly differ"
    sizes = [abs(d) for d in difference]
    limit = 2.0 ** (-flint.ctx.prec / 2)
    near = all(size < limit for size in sizes)  # a NaN is not: no comparison with it is true
    worst = float(ops.amax(np.array(sizes, dtype=object), 0).upper())
    return ("pass" if near else "unknown"), f"equal to within {worst:.1e}"

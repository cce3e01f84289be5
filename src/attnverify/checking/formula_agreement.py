"""Whether a formula is the same in every arithmetic, tried at exact instances.

Three rules, for every value that a formula gives at an instance:

* **Floats lie at the ball.** Evaluated in balls of 40 bits, each operation adds a radius of about
  2^-40 of its value, and radii are passed on. One in floats is off by 2^-53 of its value, by a few
  units more for exp and its like, sums in another order and a softmax that is shifted first: less
  than the 2^13 units that lie between. So the float is off by less than the radius E, and lies
  within 2 E of the center, which the exact value is within E of. Where an operation is exact in
  balls by chance, there is no radius: 2^-40 of the value is allowed too. A float that overflowed or
  came near underflow is not compared: no search believes it.
* **Wide balls enclose.** At inputs of a relative radius 2^-20, the value encloses those at corners
  of the inputs. A formula that takes a ball for its midpoint does not.
* **Nothing is drawn.** Asked again, a formula gives the same bits.

A formula can see in which arithmetic it is asked, and at which precision. It can so pass this trial
and lie later; the trial finds mistakes, and lies that do not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Instance
from attnverify.checking.sampling import UNDERFLOW
from attnverify.support.errors import require

COARSE, FINE = 40, 128  # bits
WIDE = 2.0**-20
CORNERS = 3

Evaluate = Callable[[Instance], Any]


def in_balls(where: str, formula: Evaluate, instance: Instance, bits: int) -> list[flint.arb]:
    """The values of a formula at one instance, in balls."""
    with ops.precision(bits):
        exact = {name: ops.balls(value) for name, value in instance.items()}
        return balls_of(where, formula(exact))


def balls_of(where: str, found: Any) -> list[flint.arb]:
    """The numbers that a formula gave in ball arithmetic; whole numbers may stand in hypotheses."""
    out = []
    for part in parts(found):
        for value in np.asarray(part, dtype=object).reshape(-1):
            number = isinstance(value, flint.arb | flint.fmpq)
            plain = isinstance(found, list) and type(value) in (int, float)
            given = type(value).__name__
            require(number or plain, f"{where} in ball arithmetic", given, "balls, by av.ops")
            out.append(flint.arb(value))
    return out


def parts(found: Any) -> list[Any]:
    """The arrays that a formula gives: of a side the one, of hypotheses both of every pair."""
    if not isinstance(found, list | tuple):
        return [found]
    return [side for pair in found for side in (pair if isinstance(pair, list | tuple) else [pair])]


def require_same(where: str, first: Sequence[Any], second: Sequence[Any]) -> None:
    """Two calls at one instance gave the same bits."""
    same = len(first) == len(second) and all(map(_same, first, second))
    require(same, where, "other values when asked again", "the same for the same instance")


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    if isinstance(a, flint.arb) and isinstance(b, flint.arb):
        return a.is_nan() or b.is_nan() or (a.mid() == b.mid() and a.rad() == b.rad())
    return type(a) is type(b) and bool(np.all(a == b))


def require_near(where: str, floats: Sequence[torch.Tensor], balls: Sequence[flint.arb]) -> None:
    """The floats of one instance lie at the balls of 40 bits."""
    numbers = [v for part in floats for v in part.detach().reshape(-1).tolist()]
    counts = f"{len(numbers)} values in floats and {len(balls)} in balls"
    require(len(numbers) == len(balls), where, counts, "as many")
    for value, ball in zip(numbers, balls, strict=True):
        if not np.isfinite(value) or abs(value) < UNDERFLOW or not ball.is_finite():
            continue
        with ops.precision(FINE):
            off = abs(flint.arb(value) - ball.mid())
            apart = off > 2 * ball.rad() + abs(ball.mid()) * 2.0**-COARSE
        given = f"{value!r} in floats and {ball.str(17)} in balls at one instance"
        require(not apart, where, given, "one formula for both, by operators and av.ops")


def require_overlap(where: str, first: Sequence[Any], second: Sequence[flint.arb]) -> None:
    """Two enclosures of the same numbers meet."""
    for a, b in zip(first, second, strict=True):
        apart = a.is_finite() and b.is_finite() and not a.overlaps(b)
        given = f"{a.str(9)} and {b.str(9)}"
        require(not apart, where, given, "enclosures of one number, which meet")


def require_enclosing(where: str, formula: Evaluate, instance: Instance) -> None:
    """Balls with a radius give balls that hold what corners of them give."""
    random = np.random.default_rng(0)
    with ops.precision(FINE):
        centers = {name: ops.balls(value) for name, value in instance.items()}
        steps = {name: _entries(lambda v: abs(v) * WIDE, v) for name, v in centers.items()}
        wide = {
            name: v + _entries(lambda r: flint.arb(0, r), steps[name])
            for name, v in centers.items()
        }
        outer = _enclosure(where, formula, wide)
        for corner in range(CORNERS) if outer else ():
            signs = {
                name: np.full(v.shape, 1 - 2 * corner)
                if corner < 2
                else random.choice([-1, 1], v.shape)
                for name, v in steps.items()
            }
            point = {
                name: v + steps[name] * _entries(int, signs[name]) for name, v in centers.items()
            }
            inner = _enclosure(where, formula, point)
            for a, b in zip(outer, inner, strict=False):
                apart = a.is_finite() and b.is_finite() and not a.overlaps(b)
                given = f"{a.str(9)} for inputs with a radius, and {b.str(9)} within it"
                words = "balls that enclose, without a midpoint or a value of one"
                require(not apart, f"{where} in ball arithmetic", given, words)


def _enclosure(where: str, formula: Evaluate, instance: Instance) -> list[flint.arb]:
    """What a formula gives, nothing where it does without: a wide ball may have no root."""
    try:
        found = formula(instance)
    except (ArithmeticError, ValueError):
        return []
    return balls_of(where, found)


def _entries(function: Callable[[Any], Any], array: Any) -> np.ndarray:
    return np.asarray(np.frompyfunc(function, 1, 1)(np.asarray(array, dtype=object)), dtype=object)

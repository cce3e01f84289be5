"""Formulas against their definitions, written out entry by entry in ball arithmetic.

A bound with room to spare hides an error in its constant, and an identity hides one that both of
its sides share. So the quantities that claims are made of are compared with definitions that share
no code with them: sums and maxima over single entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.support.verdict import Verdict

NEAR = 2.0**-40  # the width a difference may have, relative to 1 and the value
LIMITS = "these instances, drawn at random; generic, so that no two quantities agree by chance"

Pair = tuple[str, Any, Any]


def agree(pairs: Callable[[], Iterable[Pair]]) -> Verdict:
    """Whether the sides of every pair (name, formula, definition) are equal, entry by entry.

    False where shapes differ or two balls are apart, unknown where a difference stays wide, and
    where there is nothing to compare.
    """
    wide, cases = [], 0
    with ops.precision(128):
        for name, formula, definition in pairs():
            left, right = (np.asarray(v, dtype=object) for v in (formula, definition))
            if left.shape != right.shape:
                return Verdict(False, f"{name}: shape {left.shape}, not {right.shape}", cases)
            for a, b in zip(left.flat, right.flat, strict=True):
                if a != b:
                    return Verdict(False, f"{name}: {arb(a).str(9)}, not {arb(b).str(9)}", cases)
                room = NEAR * (1 + abs(arb(b)).upper())
                wide += [name] if not abs(arb(a) - arb(b)) < room else []
                cases += 1
    if not cases:
        return Verdict(None, "nothing to compare", 0)
    return Verdict(None if wide else True, f"too wide: {wide}" if wide else "all agree", cases)


def drawn(seed: int, *shapes: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Arrays of balls k/8 with whole k other than 0 between -24 and 24.

    >>> import attnverify as av
    >>> [array.shape for array in av.drawn(0, (2, 3), (4,))]
    [(2, 3), (4,)]
    """
    random = np.random.default_rng(seed)
    for shape in shapes:
        sizes = random.integers(1, 25, shape) * random.choice([-1, 1], shape)
        yield ops.balls(sizes / 8)


def largest(values: Iterable[arb]) -> arb:
    """An enclosure of the largest value.

    >>> import attnverify as av
    >>> print(av.largest(av.ops.balls([1, 3, 2])))
    3.00000000000000
    """
    return reduce(lambda a, b: a.max(b), values)


def table(function: Callable[..., Any], *shape: int) -> np.ndarray:
    """The array whose entry at (i, j, ...) is function(i, j, ...).

    >>> import attnverify as av
    >>> av.table(lambda i, j: 10 * i + j, 2, 2).tolist()
    [[0, 1], [10, 11]]
    """
    out = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        out[index] = function(*index)
    return out


def within(tolerance: float, found: arb, known: arb) -> arb:
    """0 if the two certainly differ by at most a stated tolerance, else how far they are apart."""
    apart = abs(found - known)
    return arb(0) if apart <= tolerance else apart

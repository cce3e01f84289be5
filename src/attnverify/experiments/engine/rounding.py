"""How far two float64 runs of one measurement may be apart, by what float32 is off by.

In float32 each rounding is 2^29 times as large as in float64. To first order the error of a figure
is a sum of roundings, at most m of them along one chain of products, each times what it is
multiplied by later. As long as they do not all cancel in float32, the error in float64 is at most
m 2^-29 times the float32 one; two machines are apart by twice that. Where the same bound holds for
many figures, the largest relative error in float32 stands for all, so that no lucky one counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

WIDER = 2.0**-29  # a rounding in float64 over one in float32


def significant(value: float | None, digits: int) -> float | None:
    """A figure as tables have it, to so many digits; None if it is missing, NaN or infinite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")


def share(roundings: int) -> float:
    """Of what float32 is off by: the distance that two float64 runs may have."""
    return 2 * roundings * WIDER


def relative(wide: Iterable[float], narrow: Iterable[float]) -> float:
    """Largest relative error of the float32 figures; those that are 0 are left out."""
    pairs = [(a, b) for a, b in zip(wide, narrow, strict=True) if a]
    return max(abs(a - b) / abs(a) for a, b in pairs)

"""Simulated figures against stated ones: floats, of which one may be NaN."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from attnverify.arithmetic.interval_cover import certain


def within(deviations: Iterable[float], most: float | int) -> tuple[bool | None, float]:
    """Whether the largest deviation is at most ``most``, and that deviation.

    Unknown if one is NaN: it is the largest then, and no comparison with it is true. Python's
    ``max`` would drop it unless it came first.
    """
    worst = float(torch.tensor(list(deviations), dtype=torch.float64).max())
    return certain(worst <= most, worst > most), worst

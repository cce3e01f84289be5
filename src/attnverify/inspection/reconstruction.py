"""One comparison of the trace with the model: an error against its derived bound."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnverify.support.errors import RunError


class ReconstructionError(RunError):
    """The trace is not the model: an adapter does not fit. The message names the place."""


@dataclass(frozen=True)
class Check:
    """Where a comparison was made, and the largest error there over its bound.

    idle: zeros in place of all that the model computed there would have passed as well, so that the
    comparison decides nothing.
    """

    place: str
    ratio: float
    idle: bool = False


def compared(place: str, error: Tensor, bound: Tensor, seen: Tensor) -> Check:
    """The check; raises ReconstructionError where an error exceeds its bound or is no number.

    seen: what the model computed there.
    """
    error, bound = error.abs(), bound.expand(error.shape)
    # An extreme of numbers one of which is NaN is NaN.
    if not all(bool(torch.isfinite(extreme)) for extreme in torch.aminmax(bound)):
        raise ReconstructionError(
            f"{place}: its roundings cannot be bounded in this dtype; use float64"
        )
    ratios = error / bound
    where = int(ratios.argmax())
    ratio = float(ratios.flatten()[where])
    if not ratio <= 1:
        raise ReconstructionError(
            f"{place}: the adapter is not this model there: off by "
            f"{float(error.flatten()[where]):.3g} where rounding explains "
            f"{float(bound.flatten()[where]):.3g} ({ratio:.3g} times)"
        )
    return Check(place, ratio, idle=not bool((seen.abs() > bound).any()))

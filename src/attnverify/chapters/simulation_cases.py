"""Query-key matrices for comparing simulation, inversion and quadrature, and how to compare."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from attnverify.arithmetic.interval_cover import certain
from attnverify.mathematics import localization


@dataclass(frozen=True)
class Case:
    """Case: a query-key matrix, a token covariance, a number of tokens and a temperature."""

    W: torch.Tensor
    covariance: torch.Tensor
    tokens: int
    temperature: float

    @property
    def product(self) -> torch.Tensor:
        """Product C'WC with the Cholesky factor S = CC'; the package uses the symmetric root."""
        factor = torch.linalg.cholesky(self.covariance)
        return factor.mT @ self.W @ factor

    @functools.cached_property
    def weights(self) -> torch.Tensor:
        """Chi-square weights (tokens, 2 d) of the exact law."""
        return localization.weights(self.product, self.tokens)

    @property
    def thresholds(self) -> tuple[float, float]:
        return -self.temperature, (self.tokens - 1) * self.temperature


def _diagonal(*values: float | int) -> torch.Tensor:
    return torch.diag(torch.tensor(values, dtype=torch.float64))


def _mixing() -> torch.Tensor:
    """Covariance other than the identity."""
    return 0.75 * torch.eye(4, dtype=torch.float64) + 0.25


#: Five spectra: concentrated, spread, one outlier, sign-mixed, not symmetric.
CASES = {
    "concentrated": Case(_diagonal(1, 1, 1, 1), _diagonal(1, 1, 1, 1), 8, 2.0),
    "spread": Case(_diagonal(2, 1, 0.5, 0.25), _mixing(), 8, 2.0),
    "one outlier": Case(_diagonal(3, 0.5, 0.5, 0.5), _diagonal(1, 1, 1, 1), 8, 3.0),
    "sign-mixed": Case(_diagonal(1.5, -1, 0.75, -0.5), _diagonal(1, 1, 1, 1), 8, 1.5),
    "not symmetric": Case(
        torch.tensor(
            [[1, 1.5, 0, 0], [-1.5, 1, 0, 0.5], [0, 0.5, 0.5, 1], [0.25, 0, -1, 0.5]],
            dtype=torch.float64,
        ),
        _mixing(),
        8,
        2.0,
    ),
}


def within(deviations: Iterable[float], most: float | int) -> tuple[bool | None, float]:
    """Whether the largest deviation is at most ``most``, and that deviation.

    The answer is None if a deviation is NaN: torch's maximum is then NaN, which compares as false,
    while Python's ``max`` would drop it unless it came first.
    """
    worst = float(torch.tensor(list(deviations), dtype=torch.float64).max())
    return certain(worst <= most, worst > most), worst

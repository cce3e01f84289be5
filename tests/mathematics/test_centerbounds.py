"""The bounds on the optimal residual against the linear programs."""

import math

import pytest
import torch

from attnverify.mathematics import norms
from attnverify.mathematics.center import TOLERANCE
from attnverify.mathematics.centerbounds import optimal_residual_bounds
from attnverify.support.errors import InputError


def cases():
    g = torch.Generator().manual_seed(0)
    for n, d in ((2, 3), (3, 7), (5, 4), (8, 20), (12, 2)):
        yield torch.randn(n, d, generator=g, dtype=torch.float64)
        heavy = torch.randn(n, d, generator=g, dtype=torch.float64)
        yield heavy / torch.rand(n, 1, generator=g, dtype=torch.float64)  # tokens of unlike size
        yield torch.randn(n, d, generator=g, dtype=torch.float64).sign()  # many ties
        yield torch.eye(n, d, dtype=torch.float64) + 100


@pytest.mark.parametrize("X", list(cases()))
def test_bounds_enclose_the_optimum(X):
    """The programs are solved to TOLERANCE in units of the largest entry; sums of n d numbers."""
    best = float(norms.composite(norms.residual(X, "optimal")))
    low, high = optimal_residual_bounds(X)
    slack = TOLERANCE * X.numel() * float(norms.mean_centered(X).abs().max())
    assert low - slack <= best <= high + slack
    assert high <= float(norms.composite(norms.mean_centered(X))) * (1 + 1e-12)
    assert low >= best / 2  # useful: the mean alone would give best / (2 - 2/n)


@pytest.mark.parametrize("rounds", [1, 2, 3, 12])
def test_the_weights_move_as_they_should(rounds):
    """24 tokens 0 and +-3 e_i, i < 3: at the center 0, the median, both sums are least, 6 and 3.

    All weighted medians are 0, so update t multiplies the weight of 0 by e^(-s_t), s_t =
    2/sqrt(2 + t), against that of the other 6. The least row sum is at least 3 times the latter.
    """
    X = torch.zeros(30, 3, dtype=torch.float64)
    X[4:7], X[20:23] = 3 * torch.eye(3), -3 * torch.eye(3)
    low, high = optimal_residual_bounds(X, rounds)
    near = 24 * math.exp(-sum(2 / math.sqrt(2 + t) for t in range(rounds - 1)))
    assert low == pytest.approx(math.sqrt(6 * 3 * 6 / (6 + near)), rel=1e-12)
    assert high == pytest.approx(math.sqrt(18), rel=1e-12)


def test_scale_and_shift():
    g = torch.Generator().manual_seed(1)
    X = torch.randn(6, 9, generator=g, dtype=torch.float64)
    low, high = optimal_residual_bounds(X)
    tiny = optimal_residual_bounds(X * 2.0**-900)  # a power of two: exact
    assert tiny == (low * 2.0**-900, high * 2.0**-900)
    assert optimal_residual_bounds(torch.zeros(3, 4, dtype=torch.float64)) == (0.0, 0.0)


@pytest.mark.parametrize("X", [torch.zeros(0, 4), torch.full((2, 2), torch.inf)])
def test_bad_input(X):
    with pytest.raises(InputError, match="^X: got"):
        optimal_residual_bounds(X)

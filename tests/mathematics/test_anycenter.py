"""The lower bound of the composite value over all centers, against the optimal center."""

import pytest
import torch

from attnverify.mathematics import heads, norms
from attnverify.mathematics.norms import least_composite


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(40, *shape, generator=random, dtype=torch.float64).exp()


@pytest.mark.parametrize("shape", [(2, 4), (4, 3), (6, 6), (5, 1)])
def test_it_is_below_the_optimal_center_and_near_it(shape):
    X = drawn(*shape)
    low, best = least_composite(X), norms.composite(norms.residual(X))
    # The linear programs are exact to 1e-9 of the entries. 0.7 is no rounding bound: it says that
    # the lower bound is worth something at every one of these draws.
    assert (low <= best * (1 + 1e-8)).all() and (low >= 0.7 * best).all()
    if shape[0] == 2:
        torch.testing.assert_close(low, best, rtol=1e-8, atol=0)


@pytest.mark.parametrize(
    ("first", "other", "d", "n"),
    [(0.75, 0.75, 2, 4), (0.75, 0.75, 2, 9), (3.0, 1.0, 4, 10), (4.0, 1.0, 9, 12)],
)
def test_one_row_beside_equal_ones_is_exact(first, other, d, n):
    A = torch.zeros(n, d, dtype=torch.float64)
    A[0], A[0, 0] = other, first
    closed = heads.spike_residual_squared(first, other, d, n) ** 0.5
    assert least_composite(A).item() == pytest.approx(closed, rel=1e-14)
    assert norms.composite(norms.residual(A)).item() == pytest.approx(closed, rel=1e-8)
    signs = torch.tensor([1.0, -1.0] * d)[:d].double()
    assert least_composite(A * signs).item() == pytest.approx(closed, rel=1e-14)

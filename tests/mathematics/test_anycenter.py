"""The lower bound of the composite value over all centers, against the optimal center."""

import numpy as np
import pytest
import torch

from attnverify.arithmetic import ops
from attnverify.mathematics import heads, norms
from attnverify.mathematics.norms import least_composite


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(40, *shape, generator=random, dtype=torch.float64).exp()


@pytest.mark.parametrize("shape", [(2, 1), (2, 4), (3, 2), (4, 3), (6, 6), (5, 1)])
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


def relative_error(X, off=0.0):
    """Of least_composite in floats, where differences of entries are off by ``off`` besides.

    With a, b, s, L of the module: a, b, L and s a have at most 25 roundings of positive numbers,
    and with e more in an entry they are off by e (n/a + d/b) relative: D in all. Where a (L - s a)
    is the largest value it is at least a b, so L - s a >= b and (L + s a)/(L - s a) <= 1 + 2 s a/b;
    likewise 1 + 2 b/(s a) for b (L - b)/s. So a product is off by (2 + 2 r) D and its root by
    (1 + r) D, r the larger of s a/b and b/(s a): 1 for the slope b/a.
    """
    n, d = X.shape[-2:]
    apart = abs(X[..., :, None, :] - X[..., None, :, :])
    a = apart.sum(-3).amin(-2).amax(-1)
    b = apart.sum(-1).amax((-1, -2)) / 2
    other = d / (n - 2) * a / b
    return (1 + torch.maximum(other, 1 / other)) * (25 * 2.0**-53 + off * (n / a + d / b))


def test_balls_enclose_what_floats_find():
    X = drawn(4, 3, seed=1)[:5]
    with ops.precision(128):
        balls = least_composite(ops.balls(X))
    exact = torch.tensor([float(v) for v in balls], dtype=torch.float64)
    assert ((least_composite(X) / exact - 1).abs() <= relative_error(X)).all()


def test_it_does_not_see_the_center():
    """X + y is rounded, so a difference of its entries is off by 2 u of the largest."""
    X, y = drawn(4, 3), drawn(1, 3, seed=2)
    off = 2 * 2.0**-53 * (X + y).amax((-1, -2))
    limit = relative_error(X, off) + relative_error(X)
    assert ((least_composite(X + y) / least_composite(X) - 1).abs() <= limit).all()
    assert np.isnan(least_composite(torch.ones(3, 2, dtype=torch.float64)).item())

"""Entropy, its floor, and the piecewise linear softmax; the bounds are checked as claims."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import softmax as scipy_softmax
from scipy.stats import entropy as scipy_entropy

from attnverify import InputError
from attnverify.mathematics import eigenspectrum as spectrum
from attnverify.mathematics import entropy, softmax

UNIT = 2.0**-53  # unit roundoff of float64
ROWS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 7)),
    elements=st.floats(-30, 30, allow_subnormal=False),
)


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=random)


@given(ROWS)
@settings(max_examples=100, deadline=None)
def test_entropy_agrees_with_scipy(u):
    seen = entropy.entropy(torch.from_numpy(u))
    wanted = scipy_entropy(scipy_softmax(u, axis=-1), axis=-1)
    # T terms p log p, |log p| <= 60 + log T, p to (T + 62) roundings: absolute error below
    # 2 * 70 * (2 T + 70) * UNIT over both computations
    tokens = u.shape[-1]
    assert np.abs(seen.numpy() - wanted).max() <= 140 * (2 * tokens + 70) * UNIT


def test_entropy_of_rows_that_overflow_exp():
    u = torch.tensor([[1000.0, 0.0, -1000.0], [1000.0, 1000.0, -1000.0]], dtype=torch.float64)
    assert entropy.entropy(u).tolist() == [0.0, math.log(2)]


def test_deficit_of_equal_logits_is_zero():
    # log T twice, each rounded once, and the sum of T equal weights is exact
    assert entropy.deficit(torch.full((3, 8), 7.0, dtype=torch.float64)).abs().max() <= 8 * UNIT


def test_floor_values():
    assert float(entropy.lower_bound(0.0, 5)) == pytest.approx(math.log(5), rel=2 * UNIT)
    gap = 2 * math.sqrt(4 / 3)
    p = np.array([math.exp(gap), 1, 1, 1])
    # four terms and an exponential: a few dozen roundings
    assert float(entropy.lower_bound(2, 4)) == pytest.approx(scipy_entropy(p), rel=64 * UNIT)
    assert float(entropy.lower_bound(1e6, 4)) == 0.0


def test_floor_is_vectorized_and_decreases():
    sigma = torch.linspace(0, 20, 60, dtype=torch.float64).reshape(3, 20)
    floor = entropy.lower_bound(sigma, 9)
    assert floor.shape == (3, 20) and floor.dtype == torch.float64
    assert (floor.flatten().diff() < 0).all()
    assert float(floor[1, 3]) == float(entropy.lower_bound(float(sigma[1, 3]), 9))
    assert entropy.lower_bound(torch.zeros(0), 3).shape == (0,)


@pytest.mark.parametrize(
    ("sigma", "tokens", "message"),
    [
        (-0.5, 4, r"sigma: got 1 bad entries, the first -0.5, expected finite numbers >= 0"),
        (math.nan, 4, r"sigma: got 1 bad entries, the first nan"),
        (torch.tensor([1.0, math.inf, -math.inf]), 4, r"sigma: got 2 bad entries, the first inf"),
        (1.0, 1, r"tokens: got 1, expected an integer >= 2"),
    ],
)
def test_bad_input_is_named(sigma, tokens, message):
    with pytest.raises(InputError, match=message):
        entropy.lower_bound(sigma, tokens)


def test_logits_and_their_bound():
    w, X = gaussian(3, 4, 4), gaussian(2, 3, 6, 4, seed=1)
    u = entropy.logits(w, X, 0.7)
    assert u.shape == (2, 3, 6)
    by_hand = X[1, 2] @ w[2] @ X[1, 2, -1] / 0.7
    size = float(spectrum.squared_norm(w[2]).sqrt() * X[1, 2].norm() * X[1, 2, -1].norm()) / 0.7
    assert (u[1, 2] - by_hand).abs().max() <= 4 * 10 * UNIT * size  # two products of width 4
    bound = entropy.logit_norm_bound(w, X, 0.7)
    assert bound.shape == (2, 3) and (u.norm(dim=-1) < bound).all()


def test_piecewise_linear_values():
    u = torch.tensor([[2.0, 2.0, -4.0], [0.0, 0.0, 0.0], [1.0, 0.0, -1.0]], dtype=torch.float64)
    # (1 + c)/3, the quotient rounded once: 3/3, -3/3; 1/3; 2/3, 1/3, 0
    wanted = torch.tensor([[3, 3, 0], [1, 1, 1], [2, 1, 0]], dtype=torch.float64) / 3
    assert torch.equal(softmax.piecewise_linear(u), wanted)


@given(ROWS)
@settings(max_examples=100, deadline=None)
def test_piecewise_linear_is_the_clamped_line(u):
    u = torch.from_numpy(u)
    weights = softmax.piecewise_linear(u)
    assert weights.shape == u.shape
    assert torch.equal(weights, softmax.linearized(u).clamp(0, 1))
    tokens = u.shape[-1]
    line = (1 + u - u.mean(-1, keepdim=True)) / tokens
    # entries and mean up to 30, T + 4 roundings, divided by T
    assert (weights - line.clamp(0, 1)).abs().max() <= 2 * 64 * (tokens + 4) * UNIT / tokens


def test_mass_between_one_and_all_but_one():
    # rows of small integers: the weights are 1 or 0 up to one rounding of the quotient
    for tokens in (2, 3, 8):
        row = torch.full((tokens,), tokens - 1.0, dtype=torch.float64)
        row[-1] = -((tokens - 1.0) ** 2)
        assert float(softmax.piecewise_linear(row).sum()) == tokens - 1
        equal = softmax.piecewise_linear(torch.full((tokens,), 3.0, dtype=torch.float64))
        assert float(equal.sum()) == pytest.approx(1, rel=tokens * UNIT * 2)

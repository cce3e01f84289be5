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
from attnverify.mathematics import entropy

UNIT = 2.0**-53  # unit roundoff of float64
ROWS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 7)),
    elements=st.floats(-30, 30, allow_subnormal=False),
)


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

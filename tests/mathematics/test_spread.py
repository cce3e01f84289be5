"""Entropy floors in the spread, the exponential row and the Edgeworth correction, as functions."""

import math

import pytest
import torch

from attnverify import InputError
from attnverify.mathematics import entropy, softmax_row, walk

UNIT = 2.0**-53


def values(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def test_the_floor_takes_arrays_and_ends():
    floors = entropy.floor_of_spread(values(0.0, 1.0, 1000.0), 5)
    assert float(floors[0]) == pytest.approx(math.log(5), abs=8 * UNIT)
    assert 0 <= float(floors[2]) <= 8 * UNIT * 1000
    assert (floors.diff() < 0).all()


@pytest.mark.parametrize("D", [-1.0, math.inf, math.nan])
def test_the_floor_refuses_what_is_no_spread(D):
    with pytest.raises(InputError, match="D: got 1 bad entries"):
        entropy.floor_of_spread(D, 4)


@pytest.mark.parametrize("tokens", [1, -3])
def test_the_floor_refuses_what_is_no_number_of_tokens(tokens):
    with pytest.raises(InputError, match="tokens: got .*, expected an integer >= 2"):
        entropy.floor_of_spread(1.0, tokens)


def test_drawn_rows_have_the_covariance_of_a_walk():
    """M = I in width 1: logits z y_i/sqrt(T) of a walk, z = y_T/sqrt(T); E u_i = i/T.

    The standard error of a mean of n values of variance below 3 is sqrt(3/n); 4 of them.
    """
    n, tokens = 200_000, 5
    u = softmax_row.sample_logits(
        values(1.0)[None], tokens, 1.0, n, torch.Generator().manual_seed(0)
    )
    assert u.shape == (n, tokens)
    expected = walk.indices(tokens, u) / tokens
    assert ((u.mean(0) - expected).abs() <= 4 * (3 / n) ** 0.5).all()


def test_profiles_have_their_limits():
    """K(a) is a^2/24 - a^4/2880 + ... for small a; the contrast of halves is tanh(a/4)."""
    a = values(0.125, -0.125)
    assert (softmax_row.profile_deficit(a) - a**2 / 24).abs().max() <= 0.125**4 / 480
    assert (softmax_row.profile_contrast(a, 0.5) - torch.tanh(a / 4)).abs().max() <= 64 * UNIT


def test_one_raised_token_is_not_the_worst_row():
    """Weights 4, 3, 5, 4 over 16, raised by 1/2: a pair of share 7/16 loses more than any token."""
    base, D = values(4.0, 3.0, 5.0, 4.0).log(), values(0.5)[0]
    most = float(entropy.widest_divergence(base, D))
    raised = float(entropy.relative_entropy(values(0.5, 0.5, 0.0, 0.0), base))
    # either side: some 20 operations on numbers of at most 1
    assert abs(most - raised) <= 20 * UNIT
    assert most > float(entropy.two_levels(values(4.0, 3.0, 5.0) / 16, D).max()) + 1e-3

"""Entropy floors in the spread, the exponential row and the Edgeworth correction, as functions."""

import math

import pytest
import torch

from attnverify import InputError
from attnverify.mathematics import entropy, softmax_row, walk


def values(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


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

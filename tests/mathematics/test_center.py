"""The linear programs of the optimal center: few kinks against all of them, and their bound."""

import numpy as np
import pytest

from attnverify.mathematics import center
from benchmarks.center import full_program


def rows(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("shape", [(2, 3), (5, 1), (1, 4), (6, 4), (9, 12), (20, 8)])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 1e-6), (0.05, 1.0)])
def test_a_few_kinks_reach_the_optimum_of_the_full_program(shape, weights):
    """Both solve to TOLERANCE in each of the n d entries, which are at most 4 in absolute value."""
    X = rows(*shape, seed=1).clip(-4, 4)
    w_1, w_inf = np.array(weights) / sum(weights)
    found = center.Program(X).minimize(w_1, w_inf)
    value = w_1 * found.sums[0] + w_inf * found.sums[1]
    assert abs(value - full_program(X, w_1, w_inf)) <= 4 * center.TOLERANCE * X.size


def test_ties_and_equal_columns_are_no_obstacle():
    X = np.sign(rows(8, 6))
    X[:, 1] = 1
    found = center.Program(X).minimize(0.5, 0.5)
    value = sum(found.sums) / 2
    assert abs(value - full_program(X, 0.5, 0.5)) <= center.TOLERANCE * X.size

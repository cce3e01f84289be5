"""Many heads over depth: the threshold, costs of a layer, what rows and columns move."""

import math

import pytest
import torch

from attnverify import InputError
from attnverify.mathematics import collapse, depth_bounds, localization


@pytest.mark.parametrize("heads", [1, 3])
def test_the_threshold_of_equal_heads_is_that_of_one_head(heads):
    """Equal rates: the root is that of one head with the sum of the value norms."""
    found = depth_bounds.heads_threshold([2.0] * heads, [6 / heads / 2] * heads, 9)
    assert found == pytest.approx(collapse.threshold(2.0, 3.0, 9), rel=2.0**-45)


def test_norms_and_rates_give_one_threshold():
    q, v = torch.rand(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = depth_bounds.heads_threshold(q.tolist(), v.tolist(), 4)
    assert found == depth_bounds.layer_threshold(q / 8, v) < math.inf


def test_heads_without_scores_or_values_do_not_count():
    assert depth_bounds.heads_threshold([1.0, 0.0], [1.0, 5.0], 4) == math.inf
    assert depth_bounds.heads_threshold([1.0, 3.0], [1.0, 0.0], 4) == math.inf
    assert depth_bounds.heads_threshold([], [], 4) == math.inf


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([1.0], [1.0, 2.0], 4), "value_norms"),
        (([-1.0], [1.0], 4), "qk_norms"),
        (([1.0], [math.nan], 4), "value_norms"),
        (([1.0], [2.0], 0), "key_width"),
    ],
)
def test_what_is_no_layer_is_refused(arguments, name):
    with pytest.raises(InputError, match=f"^{name}: got"):
        depth_bounds.heads_threshold(*arguments)


def test_the_recursion_stays_at_the_threshold_for_one_layer():
    q, v = [1.0, 2.0, 6.0], [0.7, 0.5, 0.4]
    star = torch.tensor(depth_bounds.heads_threshold(q, v, 16), dtype=torch.float64)
    c = torch.tensor(q, dtype=torch.float64) / 16
    after = depth_bounds.recursion(star, c, torch.tensor(v, dtype=torch.float64), 1)
    assert float(after / star) == pytest.approx(1, abs=2.0**-45)


def test_the_cost_of_a_layer_near_zero_is_two():
    x = torch.tensor([1e-6], dtype=torch.float64)
    cost = depth_bounds.skip_cost(x, torch.tensor([0.5], dtype=torch.float64))
    assert float(cost[0]) == pytest.approx(2 + 3e-6, abs=1e-9)  # 2 + 3x, rounding 2^-53/x


def test_a_row_and_a_column_of_two_tokens():
    base, E = torch.zeros(2).double(), torch.tensor([[0.5, -0.5]]).double()
    column, row = collapse.column_and_row_changes(base, E)
    assert float(column) == pytest.approx(math.tanh(0.5) / 2, rel=2.0**-45)
    assert float(row) == pytest.approx(math.tanh(0.5) / 2, rel=2.0**-45)


def test_the_window_closes_at_temperature_zero():
    half, xi, theta = torch.tensor([[0.5, 0.5], [1.0, 1.0], [0.0, 20.0]], dtype=torch.float64)
    closed, wide = localization.fixed_temperature_limit(half, xi, theta)
    assert float(closed) == 0 and float(wide) == pytest.approx(0.5, abs=2.0**-45)

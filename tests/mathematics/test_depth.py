"""Many heads over depth: the threshold, costs of a layer, what rows and columns move."""

import math

import pytest
import torch

from attnverify import InputError
from attnverify.mathematics import collapse, depth_bounds


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

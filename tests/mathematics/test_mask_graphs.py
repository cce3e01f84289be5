"""Centers of masks, and what is refused; the rest is compared with definitions by the claims."""

import numpy as np
import pytest
import torch

from attnverify.arithmetic import ops
from attnverify.mathematics import mask_graphs
from attnverify.support.errors import InputError


def test_the_radius_of_a_window_is_the_number_of_steps_to_the_first_token():
    for tokens, window in ((2, 2), (9, 3), (10, 3), (64, 9)):
        keep = ops.causal(tokens, torch.zeros(1), window)
        assert mask_graphs.center(keep) == (0, -(-(tokens - 1) // (window - 1)))


def test_two_tokens_of_a_ring_meet_sooner_than_all_reach_one():
    for tokens, radii in ((3, (1, 1)), (5, (2, 1)), (8, (4, 2)), (12, (6, 3))):
        far = abs(np.subtract.outer(range(tokens), range(tokens)))
        keep = np.minimum(far, tokens - far) <= 1
        assert (mask_graphs.center(keep)[1], mask_graphs.pair_radius(keep)) == radii
    assert mask_graphs.pair_radius(np.ones((1, 1), dtype=bool)) == 1


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (np.eye(3, dtype=bool), "keep: got no token that every token reaches"),
        (np.tri(3, k=-1, dtype=bool), "keep: got a query that does not see itself"),
    ],
)
def test_a_mask_without_a_center_is_refused(keep, message):
    with pytest.raises(InputError, match=message):
        mask_graphs.center(keep)

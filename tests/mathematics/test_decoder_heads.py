"""Heads bounded together, and networks whose heads share keys and values."""

import pytest
import torch

import attnverify as av
from attnverify import InputError


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_heads_of_a_group_share_keys_and_values(groups):
    net = av.SelfAttentionNetwork.random(2, 4, 8, key_heads=groups, seed=3)
    w, times = net.weights.at(1), 4 // groups
    for name in ("W_K", "b_K", "W_V", "b_V"):
        value = getattr(w, name)
        assert torch.equal(value, value[::times].repeat_interleave(times, 0))
        assert len(torch.unique(value, dim=0)) == groups
    assert len(torch.unique(w.W_Q, dim=0)) == len(torch.unique(w.W_O, dim=0)) == 4


def test_one_group_a_head_is_the_network_without_groups():
    pair = [av.SelfAttentionNetwork.random(2, 4, 8, key_heads=k, seed=3) for k in (4, None)]
    X = gaussian(5, 8)
    assert torch.equal(pair[0](X), pair[1](X))


@pytest.mark.parametrize("groups", [3, 8])
def test_groups_must_divide_the_heads(groups):
    with pytest.raises(InputError, match=r"key_heads: got \d with 4 heads, expected a divisor"):
        av.SelfAttentionNetwork.random(1, 4, 8, key_heads=groups)

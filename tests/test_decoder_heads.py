"""Heads bounded together, and networks whose heads share keys and values."""

import pytest
import torch

import attnverify as av
from attnverify import InputError, ops
from attnverify.formulas import stacked


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


@pytest.mark.parametrize("groups", [0, 3, 8])
def test_groups_must_divide_the_heads(groups):
    with pytest.raises(InputError, match=r"key_heads: got \d with 4 heads, expected a divisor"):
        av.SelfAttentionNetwork.random(1, 4, 8, key_heads=groups)


@pytest.mark.parametrize("axis", [-1, -2, -3])
def test_repeated_entries_stand_in_a_row(axis):
    A = gaussian(2, 3, 4)
    known = A.repeat_interleave(2, axis)
    assert torch.equal(stacked.repeat(A, 2, axis), known)
    assert (stacked.repeat(ops.balls(A), 2, axis) == ops.balls(known)).all()


def test_the_best_stack_of_orthogonal_heads_is_below_the_balanced_one():
    """Outputs along e_1 and 2 e_2 with t = 1: sqrt 5 at best, sqrt 6 balanced, 3 summed."""
    W = torch.zeros(2, 1, 2, dtype=torch.float64)
    W[0, 0, 0], W[1, 0, 1] = 1, 2
    t, s = torch.ones(2, dtype=torch.float64), torch.tensor([1.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(stacked.stacked_factor(t, W, s).square(), torch.tensor(5.0).double())
    torch.testing.assert_close(stacked.balanced_factor(t, W).square(), torch.tensor(6.0).double())


def test_every_direction_is_below_every_stack():
    W, t, s = gaussian(3, 4, 5), gaussian(3, seed=1).sigmoid(), gaussian(3, seed=2).exp()
    y = gaussian(1000, 5, seed=3)
    y = y / y.norm(dim=-1, keepdim=True)
    assert stacked.along(t, W, y).max() <= stacked.stacked_factor(t, W, s)


def test_the_best_signs_are_the_best_direction_of_heads_that_read_one():
    """Each y is below; y along the best signed sum attains it."""
    r, t = gaussian(5, 3), torch.ones(5, dtype=torch.float64)
    y = gaussian(1000, 3, seed=1)
    found = stacked.along(t, r[:, None], y / y.norm(dim=-1, keepdim=True)).max()
    best = stacked.along_best(r)
    assert 0.99 * best < found <= best * (1 + 1e-12)
    torch.testing.assert_close(stacked.along_best(r[:1]), r[0].norm())


def test_a_groups_factor_is_that_of_its_stored_matrices():
    W_V, W_O, t = gaussian(2, 5, 3), gaussian(6, 3, 5, seed=1), torch.arange(1.0, 7).double()
    norm = lambda A: torch.linalg.matrix_norm(A, ord=2)  # noqa: E731
    known = norm(W_V[0]) * norm(W_O[:3].reshape(9, 5)) * 14**0.5
    known = known + norm(W_V[1]) * norm(W_O[3:].reshape(9, 5)) * 77**0.5
    torch.testing.assert_close(stacked.grouped_factor(t, W_V, W_O), known)

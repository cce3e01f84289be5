"""Heads bounded together, and networks whose heads share keys and values."""

import pytest
import torch

import attnverify as av
from attnverify import InputError
from attnverify.arithmetic import ops
from attnverify.mathematics import head_bounds


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


@pytest.mark.parametrize("axis", [-1, -2, -3])
def test_repeated_entries_stand_in_a_row(axis):
    A = gaussian(2, 3, 4)
    known = A.repeat_interleave(2, axis)
    assert torch.equal(head_bounds.repeat(A, 2, axis), known)
    assert (head_bounds.repeat(ops.balls(A), 2, axis) == ops.balls(known)).all()


def test_the_best_stack_of_orthogonal_heads_is_below_the_balanced_one():
    """Outputs along e_1 and 2 e_2 with t = 1: sqrt 5 at best, sqrt 6 balanced, 3 summed.

    A norm of at most 2 columns is backward stable to 10 * 2 u (LAPACK Users' Guide, section 4.9).
    The balanced factor has one more behind its s (half of it, and 2 roundings), and s in both of
    its parts: 20 + 13 and 13 + 2, a product, and twice that in the square: 99.
    """
    W = torch.zeros(2, 1, 2, dtype=torch.float64)
    W[0, 0, 0], W[1, 0, 1] = 1, 2
    t, s = torch.ones(2, dtype=torch.float64), torch.tensor([1.0, 0.5], dtype=torch.float64)
    found = head_bounds.stacked_factor(t, W, s), head_bounds.balanced_factor(t, W)
    squares = [float(factor.square()) for factor in found]
    assert squares == pytest.approx([5, 6], rel=99 * 2.0**-53, abs=0)


def test_every_direction_is_below_every_stack():
    W, t, s = gaussian(3, 4, 5), gaussian(3, seed=1).sigmoid(), gaussian(3, seed=2).exp()
    y = gaussian(1000, 5, seed=3)
    y = y / y.norm(dim=-1, keepdim=True)
    assert head_bounds.along(t, W, y).max() <= head_bounds.stacked_factor(t, W, s)


def test_the_best_signs_are_the_best_direction_of_heads_that_read_one():
    """Each y is below; y along the best signed sum attains it.

    Behind y, off by 4 u, a summand |r_h y| has 5 roundings of at most |r_h|, their sum 5 more, and
    the best signed sum 4 and half of 3: less than 20 u sum |r_h|. Not 0.99 but 1 would be the
    supremum over y: it says that one of 1000 directions is near the best one.
    """
    r, t = gaussian(5, 3), torch.ones(5, dtype=torch.float64)
    y = gaussian(1000, 3, seed=1)
    found = head_bounds.along(t, r[:, None], y / y.norm(dim=-1, keepdim=True)).max()
    best = head_bounds.along_best(r)
    assert 0.99 * best < found <= best + 20 * 2.0**-53 * r.norm(dim=-1).sum()
    # half of 3 roundings and the root, on either side
    assert float(head_bounds.along_best(r[:1])) == pytest.approx(
        float(r[0].norm()), rel=5 * 2.0**-53
    )


def test_a_groups_factor_is_that_of_its_stored_matrices():
    """Norms of 5 x 3 and 9 x 5 entries, backward stable to 10 * 5 u and 10 * 9 u, and 5 roundings
    of positive numbers, on either side."""
    W_V, W_O, t = gaussian(2, 5, 3), gaussian(6, 3, 5, seed=1), torch.arange(1.0, 7).double()
    norm = lambda A: torch.linalg.matrix_norm(A, ord=2)  # noqa: E731
    known = norm(W_V[0]) * norm(W_O[:3].reshape(9, 5)) * 14**0.5
    known = known + norm(W_V[1]) * norm(W_O[3:].reshape(9, 5)) * 77**0.5
    found = float(head_bounds.grouped_factor(t, W_V, W_O))
    assert found == pytest.approx(float(known), rel=2 * (50 + 90 + 5) * 2.0**-53, abs=0)

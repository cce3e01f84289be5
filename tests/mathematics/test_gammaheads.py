"""Many heads with gamma: the family by types of tokens, its best center, the certificate for it."""

import numpy as np
import pytest
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.chapters import distinct_layers
from attnverify.mathematics import collapse, heads, norms

KEY = heads.GAMMA_KEY_WIDTH
TYPES = [0, 1, 2, 3, 4, 3, 4, 3]  # of up to 8 tokens: signs +, -, +, -, +, -, +, -


@pytest.fixture(autouse=True)
def many_bits():
    with ops.precision(256):
        yield


def _balls(d, n, w=0.125, bias=8.0):
    return {k: ops.balls(v) for k, v in heads.gamma_family(d, n, w, bias).items()}


def _layer(i):
    return collapse.layer(i["X"], i["W_QK"], i["b_QK"], i["W"], KEY)


# the dense layer has float64 roots of d and n/8: exact for these
@pytest.mark.parametrize(("d", "n"), [(9, 8), (16, 8)])
def test_types_of_tokens_are_the_dense_layer(d, n):
    dense, few = _layer(_balls(d, n)), _layer(heads.gamma_family_distinct(d, n, 0.125, 8.0))
    gap = dense - few[TYPES[:n]][:, [0] + [1] * (d - 1)]
    assert all(x.contains(0) and x.rad() < 2.0**-200 for x in gap.flat)


def test_sizes_and_gamma_are_those_of_the_dense_layer():
    d, n, w = 16, 8, 0.125
    dense, found = _balls(d, n, w, 128.0), distinct_layers.gamma_family(d, n, w)
    gamma = collapse.gamma(dense["X"], dense["W_QK"], KEY)
    sizes = norms.max_column_sum(dense["W_QK"]) * norms.composite(dense["W"]) / 2
    assert all(abs(g - arb(n) ** -0.5) < 2.0**-200 for g in (*gamma, ops.amax(found.gammas, -1)))
    assert abs(ops.amax(found.heads, -1) - ops.amax(sizes, -1)) < 2.0**-200
    assert abs(ops.sum(found.gammas * found.heads, -1) - ops.sum(gamma * sizes, -1)) < 2.0**-200


@pytest.mark.parametrize(("d", "n"), [(8, 8), (12, 12), (13, 6), (9, 4)])
def test_enclosed_residual_is_that_of_the_best_center(d, n):
    """By linear programs, which leave 1e-9 of a sum; the output is about 2^-6 of one."""
    i = heads.gamma_family(d, n, 2.0**-4)
    best = float(norms.composite(norms.residual(_layer(i))))
    assert best == pytest.approx(
        float(distinct_layers.gamma_family(d, n, 2.0**-4).left.mid()), rel=1e-6
    )
    assert float(norms.composite(norms.residual(i["X"]))) == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_pairs_of_rows_bound_the_residual_of_any_matrix(seed):
    A = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    columns = np.array([arb(1)] * 5, dtype=object)
    pairs = ((0, 1, 1), (2, 3, 1), (4, 5, 1))
    low = heads.paired_residual(ops.balls(A), pairs, columns)
    assert float(low.mid()) <= float(norms.composite(norms.residual(A))) * (1 + 1e-8)

"""Many heads: the reduction to distinct rows and columns, the center's closed form, the factors."""

import math

import numpy as np
import pytest
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.chapters import distinct_layers
from attnverify.mathematics import collapse, heads, norms

KEY = heads.WIDE_KEY_WIDTH


@pytest.fixture(autouse=True)
def many_bits():
    with ops.precision(256):
        yield


def _ball(value):
    return np.array([arb(value)], dtype=object)


def _dense(d, n, w, bias):
    """The output of the dense layer in balls; sqrt(d) is a whole number."""
    layer = {k: ops.balls(v) for k, v in heads.wide_family(d, n, w, bias).items()}
    return collapse.layer(layer["X"], layer["W_QK"], layer["b_QK"], layer["W"], KEY)


@pytest.mark.parametrize(("d", "n", "bias"), [(4, 3, 2.0), (4, 9, 8.0), (9, 6, 0.0)])
def test_distinct_rows_and_columns_are_the_dense_layer(d, n, bias):
    dense = _dense(d, n, 0.125, bias)
    i = heads.wide_family_distinct(d, n, 0.125, bias)
    few = collapse.layer(i["X"], i["W_QK"], i["b_QK"], i["W"], KEY)
    gap = dense - few[[0, 1] + [2] * (n - 2)][:, [0] + [1] * (d - 1)]
    assert all(x.contains(0) and x.rad() < 2.0**-230 for x in gap.flat)


@pytest.mark.parametrize(("d", "n"), [(2, 6), (4, 8), (9, 11), (16, 14), (25, 60)])
def test_closed_form_of_the_center_is_the_optimum(d, n):
    """Above n = 3 sqrt(d) + 1; the linear programs allow each of a few sums an error of 1e-9."""
    i = heads.wide_family(d, n, 0.25)
    Y = collapse.layer(i["X"], i["W_QK"], i["b_QK"], i["W"], KEY)
    best = float(norms.composite(norms.residual(Y)))
    layer = distinct_layers.family(d, n, 0.25, bias=64.0)
    assert best == pytest.approx(float(layer.left.mid()), rel=1e-8)
    formula = heads.wide_family_ratio(_ball(d), _ball(n), _ball(0.25), _ball(64))[0]
    assert (formula - layer.printed).contains(0)


def test_below_the_hypothesis_the_closed_form_is_refused():
    with pytest.raises(ArithmeticError, match="outside the closed form"):
        distinct_layers.family(16, 12, 0.25)


SCORES = {"D": 1.25, "y": 0.25, "lead": 1.5, "m": 2, "w": 0.125}


@pytest.mark.parametrize(("d", "zeros"), [(8, 30), (18, 40)])
def test_residual_of_large_scores_is_enclosed(d, zeros):
    """By the linear programs, exact to 1e-9 of a sum; the dense floats are off by some 1e-14."""
    i = heads.large_family(d, zeros, 64, **SCORES, bias=64.0)
    Y = collapse.layer(i["X"], i["W_QK"], i["b_QK"], i["W"], 64)
    best = float(norms.composite(norms.residual(Y)))
    right = collapse.cubic(
        collapse.published_constant(i["X"], i["W_QK"], i["W"], 64), norms.composite(i["X"])
    )
    ratio, D = distinct_layers.large(d, zeros, 64, bias=64.0, **SCORES)
    low, high = float(ratio.lower()), float(ratio.upper())
    assert low * (1 - 1e-8) <= best / float(right) <= high * (1 + 1e-8)
    assert (D - 1.25).contains(0)
    assert float(norms.composite(norms.residual(i["X"]))) == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize(("d", "zeros", "key"), [(18, 17, 64), (18, 40, 17)])
def test_outside_its_hypotheses_the_lower_bound_is_refused(d, zeros, key):
    with pytest.raises(ArithmeticError, match="outside the residual"):
        distinct_layers.large(d, zeros, key, **SCORES)


@pytest.mark.parametrize("d", [16, 64])
def test_pair_is_the_dense_layer(d):
    i = collapse.many_heads_counterexample(d, 0.25)
    Y = collapse.layer(i["X"], i["W_QK"], i["b_QK"], i["W"], 1)
    right = collapse.cubic(
        collapse.published_constant(i["X"], i["W_QK"], i["W"], 1), norms.composite(i["X"])
    )
    dense = float(norms.composite(norms.mean_centered(Y)) / right)
    # sums of d terms, and two weights that nearly cancel: as in the notebook
    error = (2 * d + 32 / math.tanh(0.25**2 / 4)) * 2.0**-53
    assert dense == pytest.approx(float(distinct_layers.pair(d, 0.25).printed.mid()), rel=error)


@pytest.mark.parametrize(
    ("layer", "key_width"),
    [
        (heads.wide_family(4, 7), KEY),
        (heads.gamma_family(8, 6), KEY),
        (collapse.many_heads_counterexample(16, 0.25), 1),
    ],
    ids=["many tokens", "with gamma", "two tokens"],
)
def test_counterexamples_are_layers_of_their_key_width(layer, key_width):
    """W_QK = W_Q W_K^T and b_QK = W_K b_Q with d_qk columns: together of rank d_qk at most."""
    for W_QK, b_QK in zip(layer["W_QK"], layer["b_QK"], strict=True):
        assert torch.linalg.matrix_rank(torch.cat([W_QK, b_QK[None]])) <= key_width

"""A causal head with positions: against the network, its shape and its rates, in floats."""

import math

import pytest
import torch

import attnverify as av
from attnverify.mathematics import causal_positions as formulas
from attnverify.mathematics import mask_bounds
from attnverify.mathematics.positions import Positions

NEAR = 2**-40  # chains of some hundred roundings, on weights of at least 2^-6 and shapes below 2^9


def randn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def head(n=5, width=3):
    maps = {"W_Q": (1, width, 4), "W_K": (1, width, 4), "b_Q": (1, 4), "b_K": (1, 4)}
    return {name: randn(*s, seed=i) / 2 for i, (name, s) in enumerate(maps.items())} | {
        "angles": randn(1, 2, seed=7),
        "bias": randn(1, 2 * n - 1, seed=8),
    }


def test_weights_are_those_of_the_network():
    places = Positions(randn(1, 1, 2, seed=1), randn(1, 1, 9, seed=2))
    mask = av.Mask(causal=True)
    net = av.SelfAttentionNetwork.random(1, 1, 3, 4, positions=places, mask=mask, seed=3)
    maps = {key: net.weights[key][0] for key in ("W_Q", "W_K", "b_Q", "b_K")}
    maps |= {"angles": places.angles[0], "bias": places.bias[0]}
    X = randn(5, 3, seed=4)
    P = formulas.weights(formulas.logits(X, **maps))
    assert (P - net.attention(X)[0, 0]).abs().max() < NEAR
    assert (formulas.layer(X, **maps) - P @ X).abs().max() < NEAR


@pytest.mark.parametrize("alike", [1, 2, 3])
def test_equal_tokens_see_distances(alike):
    X, maps = randn(5, 3, seed=5), head()
    P = formulas.weights(formulas.logits_of_equal(X, **maps))
    levels = formulas.levels(X[:1], 5, **maps)
    own = formulas.own_by_distance(levels)
    assert (own - formulas.own(P)).abs().max() < NEAR
    assert (own.diff() < 0).all()
    u = formulas.shape(P, alike)
    assert (u[:alike] == 0).all() and u[alike] == 1 and (u[alike:] > 0).all()
    assert (P @ u - own[alike] * u).abs().max() < NEAR * u.max()


@pytest.mark.parametrize("alike", [1, 2, 3])
def test_alibi_is_between_no_positions_and_a_head_that_sees_itself(alike):
    """The slope 2^-30 changes no digit that 2^-20 shows; at slope 32 a token sees itself alone."""
    flat, steep = torch.tensor([2.0**-30, 32.0], dtype=torch.float64)
    assert abs(formulas.alibi_rate(flat, alike) - 1 / (alike + 1)) < 2**-20
    assert abs(formulas.alibi_rate(steep, alike) - 1) < 2**-40
    plain = mask_bounds.shape(6, alike, flat)
    assert (formulas.alibi_shape(flat, 6, alike) - plain).abs().max() < 2**-20
    doubling = formulas.alibi_shape(torch.tensor(math.log(2), dtype=torch.float64), 5, 1)
    assert (doubling - torch.tensor([0, 1, 3, 7, 15])).abs().max() < NEAR


def test_nothing_moves_where_logits_do_not_depend_on_tokens():
    X, maps = randn(5, 3, seed=6), head()
    maps |= {"W_Q": 0 * maps["W_Q"], "W_K": 0 * maps["W_K"]}
    Z, equal = formulas.logits(X, **maps), formulas.logits_of_equal(X, **maps)
    assert formulas.moved(Z, equal, 1) < NEAR
    P = formulas.weights(Z)
    line = formulas.shape(P, 2)[:, None] * randn(1, 3, seed=9)
    ratio = formulas.spread(P @ line, formulas.shape(P, 2), 2)
    ratio = ratio / formulas.spread(line, formulas.shape(P, 2), 2)
    assert abs(ratio - formulas.own(P)[2]) < NEAR


def test_a_weight_that_is_tilted():
    half, two = torch.tensor([0.5, 2.0], dtype=torch.float64)
    assert abs(formulas.tilted(half, two) - 1 / (1 + math.exp(-2))) < NEAR
    assert abs(formulas.tilted(half, -two) - 1 / (1 + math.exp(2))) < NEAR

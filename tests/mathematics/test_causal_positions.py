"""A causal head with positions: against the network, its shape and its rates, in floats."""

import torch

import attnverify as av
from attnverify.mathematics import causal_positions as formulas
from attnverify.mathematics.positions import Positions

NEAR = 2**-40  # chains of some hundred roundings, on weights of at least 2^-6 and shapes below 2^9


def randn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


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

"""Tokens at initialization: what attention with random value maps does to their inner products.

A layer is X' = X + alpha sum_h A_h X W_h. Given X and the A_h, the entries of the maps W_h are
uncorrelated, with mean 0 and variance s^2/(d H) for width d and H heads. The average over them of
the Gram matrix of inner products X X' follows from the Gram matrix before the layer, at every
width, with the number gain = alpha^2 s^2. This module serves the claims ``training.*`` on
initialization.

Shapes: Gram matrices G (..., n, n), attention A (..., heads, n, n), gain a number or (...). All
functions work in any arithmetic of :mod:`attnverify.arithmetic.ops`.

>>> import torch
>>> from attnverify.mathematics import initialization
>>> G = torch.eye(8, dtype=torch.float64)  # eight orthogonal tokens of length 1
>>> [round(initialization.uniform_cosine(8, 1.0, layers), 2) for layers in (1, 2, 3, 4)]
[0.11, 0.27, 0.47, 0.65]
>>> after = initialization.uniform_gram(G, 1.0, 4)
>>> round((after[0, 1] / after[0, 0]).item(), 2)
0.65
"""

from __future__ import annotations

import math

from attnverify.arithmetic import ops
from attnverify.support.errors import require


def gram_step(G, A, gain):
    """Expected Gram matrix after a layer, G + gain (1/H) sum_h A_h G A_h'; shape of G."""
    mixed = ops.sum(A @ G[..., None, :, :] @ ops.transpose(A), -3) / A.shape[-3]
    return G + _spread(gain) * mixed


def _spread(gain):
    """A number, or numbers (...) with two further axes."""
    return gain[..., None, None] if getattr(gain, "ndim", 0) else gain


def added(gain, layers: int):
    """(1 + gain)^layers - 1, by which the mean token's expected squared length grows; (...)."""
    found = 0 * gain
    for _ in range(layers):
        found = found + gain * (1 + found)  # no cancellation for a small gain
    return found


def uniform_gram(G, gain, layers: int):
    """Expected Gram matrix after layers of uniform attention, G + added |mean|^2 11'."""
    return G + _spread(added(gain, layers) * mean_square(G))


def mean_square(G):
    """Squared length of the mean token, the mean of all entries of G; (...)."""
    return ops.sum(ops.sum(G, -1), -1) / G.shape[-1] ** 2


def centered_square(G):
    """Sum of the squared distances of the tokens from their mean; (...)."""
    n = G.shape[-1]
    return ops.sum(ops.stack([G[..., i, i] for i in range(n)], -1), -1) - n * mean_square(G)


def share(centered, common):
    """Share centered/(centered + common) of two parts of the tokens' sum of squares."""
    return centered / (centered + common)


def uniform_cosine(tokens: int, gain: float, layers: int) -> float:
    """Expected inner product over expected squared length, from orthogonal tokens of one length.

    Under uniform attention it is (g - 1)/(g - 1 + n) with g = (1 + gain)^layers. Raises InputError
    for fewer than 2 tokens, gain < 0 or layers < 0.
    """
    require(tokens >= 2, "tokens", tokens, "an integer >= 2")
    require(gain >= 0, "gain", gain, "a number >= 0")
    require(layers >= 0, "layers", layers, "an integer >= 0")
    grown = math.expm1(layers * math.log1p(gain))
    return grown / (grown + tokens)


def fourth_moment(gain, width: int):
    """(1 + gain)^2 + (4 gain + 2 gain^2)/width: the factor of E |mean|^4 in a Gaussian layer."""
    return ops.square(1 + gain) + (4 * gain + 2 * ops.square(gain)) / width

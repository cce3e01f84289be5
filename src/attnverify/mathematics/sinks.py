"""What a silent head costs: attention sinks, softmax-plus-one, gates and massive activations.

A head is silent if its output is small. The formulas say which weight and which score a sink needs
for that, what an added constant in softmax's denominator changes, and how nearly constant a
normalized token with one large coordinate is. They serve the claims sinks.*.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`. A head's values are projected
on one direction u: a is a lower bound of the keys' projections, -b that of the sink.

>>> import torch
>>> from attnverify.mathematics import sinks
>>> sinks.needed_weight(2.0, 1.0, 0.5)  # a = 2, b = 1, output at most 1/2
0.5
>>> Z, c = torch.zeros(1, 3, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
>>> sinks.plus_one(Z, c)
tensor([[0.2500, 0.2500, 0.2500]], dtype=torch.float64)
"""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics import collapse, layernorm, norms
from attnverify.mathematics.spectral import spectral_norm


def needed_weight(a, b, e):
    """Least weight (a - e) / (a + b) of a sink at -b if the others are at a or more, for e."""
    return (a - e) / (a + b)


def needed_odds(a, b, e):
    """Odds (a - e) / (b + e) of that weight: the sink's weight over that of all other keys."""
    return (a - e) / (b + e)


def plus_one(Z, c):
    """Weights e^{z_j} / (e^c + sum_k e^{z_k}) of each row; c = 0 gives softmax-plus-one.

    Z (..., rows, keys), c (..., 1); shape of Z.
    """
    added = c[..., None] + 0 * Z[..., :1]
    return ops.softmax(ops.join([Z, added], -1))[..., :-1]


def gate(g):
    """Sigmoid 1 / (1 + e^{-g}) of a gate's logit."""
    return 1 / (1 + ops.exp(-g))


def substochastic_bound(P, X):
    """Bound on the diameter of P X for any rows P_i, of sums r_i, (batch).

    The largest (|P_i - P_k|_1 - |r_i - r_k|)/2 diam(X) + |r_i - r_k| max |x_j| over rows i, k;
    P (batch, m, n), X (batch, n, d).
    """
    size, length, sums = norms.diameter(X), layernorm.largest_length(X), ops.sum(P, -1)
    pairs = []
    for i in range(P.shape[-2]):
        apart = ops.sum(abs(P - P[..., i : i + 1, :]), -1)
        lost = abs(sums - sums[..., i : i + 1])
        pairs.append((apart - lost) / 2 * size[..., None] + lost * length[..., None])
    return ops.amax(ops.amax(ops.stack(pairs, -1), -1), -1)


def layer(X, W_QK, t, c, W, key_width: int):
    """Output of one head with scores x_i W_QK x_j^T / sqrt(d_qk) + t_j and c in the denominator.

    X (..., tokens, width), t (..., tokens), c (..., 1), W_QK and W (..., width, width).
    """
    return plus_one(collapse.scores(X, W_QK, key_width) + t[..., None, :], c) @ X @ W


def hull_diameter(X):
    """Diameter max(diam(X), max |x_j|) of the tokens and zero, (...)."""
    return ops.maximum(norms.diameter(X), layernorm.largest_length(X))


def layer_bound(X, W_QK, W, key_width: int):
    """Bound |W| D tanh(|W_QK| diam(X) D / (4 sqrt(d_qk))) on its diameter, D the hull diameter."""
    D = hull_diameter(X)
    rate = collapse.rate(W_QK, key_width)
    return spectral_norm(W) * D * ops.tanh(rate * norms.diameter(X) * D)


# ------------------------------------------------------------------------- massive activations


def tangent_layer(X, epsilon):
    """Tangent of the angle between a token's layer norm and that of its first axis, (..., tokens).

    sqrt(d tau^2 + d^2 epsilon / (d - 1)) / m, with m the first coordinate less the mean of the
    others and tau their standard deviation; m > 0. epsilon (..., 1).
    """
    d, rest = X.shape[-1], X[..., 1:]
    m = X[..., 0] - ops.sum(rest, -1) / (d - 1)
    variance = ops.square(layernorm.standard_deviation(rest)[..., 0])
    return ops.sqrt(d * variance + epsilon * ops.constant(d * d, X) / (d - 1)) / m


def tangent_rms(X, epsilon):
    """The same for RMS norm: sqrt(|w|^2 + d epsilon) / m, w the other coordinates; m > 0."""
    return ops.sqrt(layernorm.length_squared(X[..., 1:]) + X.shape[-1] * epsilon) / X[..., 0]


def chord(tangent):
    """Chord 2 sin(theta/2) of the unit circle from tan theta, theta < pi/2."""
    s = ops.sqrt(1 + ops.square(tangent))
    return tangent * ops.sqrt(2 / (s * (s + 1)))


def double_chord(tangent):
    """Chord 2 sin(theta) of twice the angle."""
    return 2 * tangent / ops.sqrt(1 + ops.square(tangent))

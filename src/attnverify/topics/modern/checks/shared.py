"""A layer whose heads share keys and values, with all its weights and biases."""

from __future__ import annotations

from attnverify.mathematics.stacked import repeat
from attnverify.topics.shared.biases import full_layer


def grouped_layer(X, W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O):
    """:func:`full_layer` with keys and values of groups, (..., groups, d, k), for their heads.

    The heads of a group stand in a row.
    """
    times = W_Q.shape[-3] // W_K.shape[-3]
    W_K, W_V = (repeat(W, times, -3) for W in (W_K, W_V))
    b_K, b_V = (repeat(b, times, -2) for b in (b_K, b_V))
    return full_layer(X, W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O)

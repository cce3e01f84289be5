"""One attention layer with all eight weights and biases, for bounds that hold for all biases.

Most checks use the reduced form (claim attention.qk-reduction) with the query bias alone, since the
key bias has no effect and the others shift all tokens alike. Here nothing is left out.
"""

from __future__ import annotations

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Instance
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.head_bounds import repeat
from attnverify.mathematics.spectral import spectral_norm


def full_layer(X, W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O):
    """Output sum_h P_h (X W_V,h + 1 b_V,h') W_O,h + 1 b_O' of the layer, shape of X.

    X (..., n, d), W (..., H, d, k), b_O (..., d); P_h = softmax((X W_Q,h + 1 b_Q,h')(X W_K,h + 1
    b_K,h')' / sqrt(k)).
    """
    Y = X[..., None, :, :]
    queries, keys = Y @ W_Q + b_Q[..., None, :], Y @ W_K + b_K[..., None, :]
    P = ops.softmax(queries @ ops.transpose(keys) / ops.root(W_Q.shape[-1], X))
    return ops.sum(P @ (Y @ W_V + b_V[..., None, :]) @ W_O, -3) + b_O[..., None, :]


def grouped_layer(X, W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O):
    """Output of :func:`full_layer` with keys and values of groups, (..., groups, d, k).

    The heads of a group are neighbors.
    """
    times = W_Q.shape[-3] // W_K.shape[-3]
    W_K, W_V = (repeat(W, times, -3) for W in (W_K, W_V))
    b_K, b_V = (repeat(b, times, -2) for b in (b_K, b_V))
    return full_layer(X, W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O)


def share(X, W_Q, W_K, W_V, W_O):
    """Share sum_h ||W_V,h W_O,h||_2 tanh(c_h diam(X)^2) of the diameter, shape (...).

    c_h is the rate of W_Q,h W_K,h'; arrays as in :func:`full_layer`.
    """
    c = collapse.rate(W_Q @ ops.transpose(W_K), W_Q.shape[-1])
    return collapse.sharp_factor(norms.diameter(X), c, spectral_norm(W_V @ W_O))


def two_tokens(value: float) -> Instance:
    """Instance of tokens +-e_1, W_Q = W_K = e_1, W_V = value I and all biases but the query's.

    Scores depend on the first feature alone; with the query bias both tokens would attend alike.
    """
    eye = torch.eye(2, dtype=torch.float64)
    return {
        "X": torch.stack([eye[0], -eye[0]]),
        **{f"W_{name}": eye[None, :, :1] for name in "QK"},
        "b_Q": torch.zeros(1, 1, dtype=torch.float64),
        "b_K": torch.full((1, 1), 0.75, dtype=torch.float64),
        "W_V": value * eye[None],
        "b_V": torch.tensor([[0.5, -1.5]], dtype=torch.float64),
        "W_O": eye[None],
        "b_O": torch.tensor([2.0, 0.25], dtype=torch.float64),
    }


#: The arrays of :func:`full_layer` as checks declare them, and their lengths n, d, H, k, v.
ARRAYS = "X[n,d] W_Q[H,d,k] b_Q[H,k] W_K[H,d,k] b_K[H,k] W_V[H,d,v] b_V[H,v] W_O[H,v,d] b_O[d]"
LENGTHS = ((2, 2, 1, 1, 2), (3, 2, 2, 2, 1), (4, 3, 2, 2, 2))

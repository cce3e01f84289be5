"""Normalization in front of a layer, gated maps behind it: Lipschitz constants and what they give.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`. g (..., width) is a scale;
squares of lengths are taken over the features. A layer with normalization in front is SA(N(X)).
"""

from __future__ import annotations

from typing import Any

from attnverify.arithmetic import ops
from attnverify.mathematics import layernorm
from attnverify.mathematics.spectral import spectral_norm

# ---------------------------------------------------------------- RMS norm and layer norm


def length_squared(X):
    """|x_i|^2 of each token, (..., tokens)."""
    return ops.sum(ops.square(X), -1)


def largest_length(X):
    """max_i |x_i|; (..., tokens, width) -> (...)."""
    return ops.sqrt(ops.amax(length_squared(X), -1))


def rms_norm(X, g, epsilon):
    """x diag(g) / sqrt(|x|^2 / d + epsilon) for each token; epsilon (..., 1, 1) or a number."""
    mean = length_squared(X)[..., None] / ops.constant(X.shape[-1], X)
    return X / ops.sqrt(mean + epsilon) * g[..., None, :]


def layer_norm(X, g, epsilon):
    """:func:`rms_norm` of the deviations of a token from its own mean."""
    return rms_norm(layernorm.deviations(X), g, epsilon)


def lipschitz(size, squared, width: int, epsilon):
    """size / sqrt(squared/width + epsilon): Lipschitz constant on tokens of squared length
    ``squared`` at least; size is the largest |g_k|, for layer norm :func:`centered_size`."""
    return size / ops.sqrt(squared / ops.constant(width, squared) + epsilon)


def centered_size(g):
    """||(I - 11^T/d) diag(g)||_2, at most the largest |g_k|; shape (...)."""
    return spectral_norm(layernorm.deviations(ops.eye(g.shape[-1], g)) * g[..., None, :])


# ---------------------------------------------------------------- gated MLPs


def silu(a):
    """a / (1 + e^-a)."""
    return a / (1 + ops.exp(-a))


def gated(X, W_G, W_U, W_D, gate: Any = silu):
    """(gate(x W_G) * x W_U) W_D for each token; shape of X."""
    return (gate(X @ W_G) * (X @ W_U)) @ W_D


#: K = 1 + a/4 + 3/(4a) with a tanh(a/2) = 3, rounded up; a is between these two.
GATE, GATE_AT = "2.0421313", ("3.2436", "3.2437")


def gated_lipschitz(radius, W_G, W_U, W_D):
    """K radius ||W_G|| ||W_U|| ||W_D||: Lipschitz constant of :func:`gated` on |x| <= radius."""
    K = gate_constant(W_G)
    return K * radius * spectral_norm(W_G) * spectral_norm(W_U) * spectral_norm(W_D)


def gate_constant(like):
    """K, exactly its decimals."""
    return ops.constant(int(GATE.replace(".", "")), like) / ops.constant(10**7, like)

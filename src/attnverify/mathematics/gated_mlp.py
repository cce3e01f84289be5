"""Gated MLPs as formulas, and their Lipschitz constant on a ball."""

from __future__ import annotations

from typing import Any

from attnverify.arithmetic import ops
from attnverify.mathematics.spectral import spectral_norm


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

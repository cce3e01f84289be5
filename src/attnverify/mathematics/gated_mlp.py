"""Gated MLPs (SwiGLU) as formulas, and their Lipschitz constant on a ball.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`: X (..., tokens, width), W_G and
W_U (..., width, hidden), W_D (..., hidden, width). They serve the claims modern.gated-mlp and
modern.layer-share.
"""

from __future__ import annotations

from typing import Any

from attnverify.arithmetic import ops
from attnverify.mathematics.spectral import spectral_norm


def silu(a):
    """SiLU activation a / (1 + e^-a)."""
    return a / (1 + ops.exp(-a))


def gated(X, W_G, W_U, W_D, gate: Any = silu):
    """Gated MLP (gate(x W_G) * x W_U) W_D of each token; shape of X."""
    return (gate(X @ W_G) * (X @ W_U)) @ W_D


#: K = 1 + a/4 + 3/(4a) with a tanh(a/2) = 3, rounded up; a is between these two.
GATE, GATE_AT = "2.0421313", ("3.2436", "3.2437")


def gated_lipschitz(radius, W_G, W_U, W_D):
    """Lipschitz constant K radius ||W_G|| ||W_U|| ||W_D|| of :func:`gated` on |x| <= radius."""
    K = gate_constant(W_G)
    return K * radius * spectral_norm(W_G) * spectral_norm(W_U) * spectral_norm(W_D)


def gate_constant(like):
    """Constant K with exactly the decimals of GATE, in the arithmetic of ``like``."""
    return ops.constant(int(GATE.replace(".", "")), like) / ops.constant(10**7, like)

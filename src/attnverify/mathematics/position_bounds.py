"""Bounds on the diameter after a layer with positions in its logits (rotary, ALiBi, tables).

Positions let equal tokens attend differently, so the cubic rate of rank collapse ends; what is left
is a geometric one. The formulas serve the claims modern.positions-layer and
modern.positions-end-cubic.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`. Arrays of one layer: X (...,
tokens, width); W_Q, W_K (..., heads, width, key_width); b_Q, b_K (..., heads, key_width); angles
(..., heads, planes) and bias (..., heads, 2 reach - 1) as in
:class:`attnverify.mathematics.positions.Positions`, None for none; W = W_V W_O (..., heads, width,
width). Biases after the attention shift all tokens alike and are left out.
"""

from __future__ import annotations

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.mathematics import norms
from attnverify.mathematics.positions import scores
from attnverify.mathematics.softmax import oscillation, variation_bound
from attnverify.mathematics.spectral import spectral_norm

# ---------------------------------------------------------------- what a layer does


def logits(X, W_Q, W_K, b_Q, b_K, angles=None, bias=None):
    """Logits l_ij of every head, (..., heads, tokens, tokens)."""
    Y = X[..., None, :, :]
    return scores(Y @ W_Q + b_Q[..., None, :], Y @ W_K + b_K[..., None, :], angles, bias)


def layer(X, W, **maps):
    """Output sum_h P_h X W_h of a layer, shape of X; maps are those of :func:`logits`."""
    return ops.sum(ops.softmax(logits(X, **maps)) @ X[..., None, :, :] @ W, -3)


def alone(X, c):
    """Tokens that are all c (..., 1, width), in the shape of X."""
    return 0 * X + c


# ---------------------------------------------------------------- the bound of a layer


def unexplained(X, A, W_Q, **maps):
    """Part e_ij = l_ij - x_i A_h x_j^T / sqrt(d_qk) of the logits; A (..., heads, width, width)."""
    Y = X[..., None, :, :]
    explained = Y @ A @ ops.transpose(Y) / ops.root(W_Q.shape[-1], X)
    return logits(X, W_Q=W_Q, **maps) - explained


def between_rows(e):
    """Largest oscillation of the difference of two rows of e (..., tokens, tokens) -> (...)."""
    apart = e[..., :, None, :] - e[..., None, :, :]
    return ops.amax(ops.amax(oscillation(apart), -1), -1)


def parts(X, A, **maps):
    """How far two rows of logits differ: omega_h by positions, kappa_h by tokens; (..., heads)."""
    size, root = norms.diameter(X[..., None, :, :]), ops.root(maps["W_Q"].shape[-1], X)
    return between_rows(unexplained(X, A, **maps)), spectral_norm(A) * ops.square(size) / root


def factor(omega, kappa, W):
    """Factor sum_h ||W_h||_2 tanh((omega_h + kappa_h) / 4) of a layer."""
    return ops.sum(spectral_norm(W) * variation_bound(omega + kappa), -1)


def layer_factor(X, A, W, **maps):
    """Largest share of the diameter that a layer leaves, by the reference matrices A_h."""
    return factor(*parts(X, A, **maps), W)


def score_map(W_Q, W_K):
    """Query-key matrix W_Q W_K^T, the reference A of the sharp theorem."""
    return W_Q @ ops.transpose(W_K)


def moved(X, c, **maps):
    """Change zeta_c = max_i osc_j(l_ij(X) - l_ij(n copies of c)) of the logits, (..., heads)."""
    return ops.amax(oscillation(logits(X, **maps) - logits(alone(X, c), **maps)), -1)


# ---------------------------------------------------------------- two tokens in a plane


def plane_factor(size, middle, angle, q, key_width: int):
    """Factor tanh(q/sqrt(d_qk) (m sin(t/2) + d cos(t/2)/2)^2) of two tokens at (m, +-d/2).

    W_QK = q I, the plane turns by t from a token to the next.
    """
    half = angle / 2
    reach = middle * ops.sin(half) + size * ops.cos(half) / 2
    return variation_bound(4 * q * ops.square(reach) / ops.root(key_width, size))


# ---------------------------------------------------------------- the rate


def moduli(P) -> ops.Array:
    """Moduli of the eigenvalues of P (tokens, tokens) in falling order, without the eigenvalue 1.

    In balls they are enclosed, and the eigenvalue that is left out is the only one near 1.
    """
    if ops.is_torch(P):
        return torch.linalg.eigvals(P).abs().sort(descending=True).values[1:]
    values = flint.acb_mat(P.tolist()).eig()
    sizes = [abs(value) for value in values if not value.contains(1)]
    assert len(sizes) == len(P) - 1, "an eigenvalue beside 1 that balls cannot tell from it"
    return np.array(sorted(sizes, key=float, reverse=True), dtype=object)

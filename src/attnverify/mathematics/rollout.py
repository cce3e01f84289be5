"""Attention rollout and relevance propagation, beside the linear operator of a network.

Held at its attention matrices, a network with skip connections is a linear operator on its tokens,
biases apart. Attention rollout (Abnar and Zuidema 2020) multiplies half attention, averaged over
heads, and half identity in its place. Relevance propagation (Chefer, Gur and Wolf 2021) multiplies
the identity plus the positive part of attention times its gradient. They serve the claims
rollout.*, in any arithmetic of :mod:`attnverify.arithmetic.ops`.

>>> import torch
>>> from attnverify.mathematics import rollout
>>> A = torch.tensor([[0.0, 1.0], [0.0, 1.0]]).double().expand(2, 2, 2)  # both tokens read token 2
>>> half, quarter = torch.full((2,), 0.5).double(), torch.full((2,), 0.25).double()
>>> rollout.product(A, half)[0].tolist(), rollout.law(half).tolist()
([0.25, 0.75], [0.25, 0.5, 0.25])
>>> rollout.shares(A, quarter)[0]  # if attention adds a quarter of what it reads
tensor([0.6400, 0.3600], dtype=torch.float64)
"""

from __future__ import annotations

import math

from attnverify.arithmetic import ops
from attnverify.mathematics import norms
from attnverify.mathematics.attention import mix
from attnverify.mathematics.held import FixedAttention

# ------------------------------------------------------------------------------------ the operator


def covectors(fixed: FixedAttention, C):
    """What C at the output asks of the output of each layer, 0 (the input) to depth, a list.

    C (..., tokens, width). One step back is C + sum_h P_h^T C W_h^T, so all cost depth heads such
    products, whatever the number of tokens or paths.
    """
    found = [C]
    for layer in reversed(fixed.layers):
        W_V, W_O = ops.transpose(layer.W_O), ops.transpose(layer.W_V)
        back = mix(ops.transpose(layer.P), found[0], W_V, W_O)
        found.insert(0, found[0] + back if fixed.skip else back)
    return found


def parts(fixed: FixedAttention, X, C):
    """Part of each input token in <C, output without biases>, (..., tokens)."""
    return ops.sum(covectors(fixed, C)[0] * X, -1)


def flows(fixed: FixedAttention, X, C):
    """Attention entries times their gradients, (depth, heads, ..., tokens, tokens).

    Gradients of <C, output> with all other attention entries held, for a network without biases.
    Each is the sum of the terms of all paths through this step.
    """
    found, behind = [], covectors(fixed, C)
    for layer, C in zip(fixed.layers, behind[1:], strict=True):
        W = layer.W_V @ layer.W_O
        values = X[None] @ W.reshape(len(W), *(1,) * (X.ndim - 2), *W.shape[1:])
        found.append(layer.P * (C[None] @ ops.transpose(values)))
        step = mix(layer.P, X, layer.W_V, layer.W_O)
        X = X + step if fixed.skip else step
    return ops.stack(found, 0)


# ------------------------------------------------------------------------------------ rollout


def chain(A, keep, add):
    """Product over layers of keep_l I + add_l A_l, the last layer on the left, (..., n, n).

    A (..., depth, n, n); keep and add (..., depth).
    """
    one = ops.eye(A.shape[-1], A)
    found = one
    for i in range(A.shape[-3]):
        kept, added = keep[..., i, None, None], add[..., i, None, None]
        found = (kept * one + added * A[..., i, :, :]) @ found
    return found


def product(A, a):
    """Rollout: the product of a_l A_l + (1 - a_l) I; a_l = 1/2 is the published one."""
    return chain(A, 1 - a, a)


def held(A, w):
    """The operator's weights of tokens if layer l is X -> X + w_l A_l X."""
    return chain(A, 1 + 0 * w, w)


def shares(A, w):
    """Rows of :func:`held` over their sums, the product of 1 + w_l: rollout with w/(1 + w)."""
    return product(A, w / (1 + w))


def by_length(A, a):
    """Sums of rollout's terms by the number of attention factors, (..., depth + 1, n, n)."""
    one = ops.eye(A.shape[-1], A)
    sums = [one]
    for i in range(A.shape[-3]):
        share, P = a[..., i, None, None], A[..., i, :, :]
        kept = [(1 - share) * S for S in sums] + [0 * P]
        sums = [kept[0]] + [k + share * (P @ S) for k, S in zip(kept[1:], sums, strict=True)]
    return ops.stack(sums, -3)


def law(a):
    """Law of the number of successes of independent trials with chances a, (..., depth + 1)."""
    found = [1 + 0 * a[..., 0]]
    for i in range(a.shape[-1]):
        chance = a[..., i]
        up = [0 * chance, *(chance * p for p in found)]
        stay = [*((1 - chance) * p for p in found), 0 * chance]
        found = [u + s for u, s in zip(up, stay, strict=True)]
    return ops.stack(found, -1)


def path_law(a):
    """Law of the whole sequence of these trials, (..., 2^depth); trial l has the digit 2^l."""
    found = 1 + 0 * a[..., :1]
    for i in range(a.shape[-1]):
        chance = a[..., i, None]
        found = ops.join([(1 - chance) * found, chance * found], -1)
    return found


def largest_ratio(w):
    """The product of max(w_l, 1/w_l): how much more one path can weigh than another, (...)."""
    found = 1 + 0 * w[..., 0]
    for i in range(w.shape[-1]):
        found = found * ops.maximum(w[..., i], 1 / w[..., i])
    return found


def farthest(w):
    """Largest distance of rollout from the shares: of the laws at w/(1 + w) and at 1/2, (...)."""
    half = ops.constant(0.5, w) + 0 * w
    return norms.total_variation(path_law(w / (1 + w)), path_law(half))


def farthest_equal(w: float, depth: int) -> float:
    """:func:`farthest` for equal w in each of ``depth`` layers: of two binomial laws."""
    a = w / (1 + w)
    terms = (
        math.comb(depth, k) * abs(a**k * (1 - a) ** (depth - k) - 0.5**depth)
        for k in range(depth + 1)
    )
    return sum(terms) / 2


# ------------------------------------------------------------------------------------ relevance


def relevance(G):
    """Product of I + mean_h G_h^+, the last layer on the left; G (..., depth, heads, n, n)."""
    positive = (G + abs(G)) / 2
    A = ops.sum(positive, -3) / G.shape[-3]
    one = 1 + 0 * A[..., 0, 0]
    return chain(A, one, one)

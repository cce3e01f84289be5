"""Masks as graphs: how fast tokens become alike if every allowed key has at least some weight.

A mask is a graph: ``keep`` (tokens, tokens) is True where a query (row) sees a key (column), and
every query sees itself. A center is a token that every token reaches along such steps; the radius
is the largest number of steps. The formulas serve the claims masks.* and work in any arithmetic of
:mod:`attnverify.arithmetic.ops`. ``least``: the least weight epsilon of an allowed key.

>>> from attnverify.arithmetic import ops
>>> from attnverify.mathematics import mask_graphs
>>> import torch
>>> window = ops.causal(7, torch.zeros(1), window=3)
>>> mask_graphs.center(window)
(0, 3)
>>> half = torch.tensor(0.5, dtype=torch.float64)
>>> mask_graphs.unreached(half, 2, 4).item()  # 0 or 1 heads among 4 tosses
0.3125
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnverify.arithmetic import ops
from attnverify.mathematics import layernorm, norms
from attnverify.mathematics.mask_bounds import tilted
from attnverify.support.errors import InputError, require


def center(keep: Any) -> tuple[int, int]:
    """A center of a mask, as an index from 0, and the radius, which is the smallest possible one.

    Raises InputError if a query does not see itself or if no token is reached by all.
    """
    steps = np.asarray(keep).astype(bool)
    seen = bool(steps.diagonal().all())
    require(seen, "keep", "a query that does not see itself", "True on the diagonal")
    reached = np.eye(len(steps), dtype=bool)
    for radius in range(len(steps)):
        if reached.all(0).any():
            return int(reached.all(0).argmax()), radius
        reached = reached @ steps
    raise InputError("keep: got no token that every token reaches, expected a mask with a center")


def pair_radius(keep: Any) -> int:
    """Least number s >= 1 so that any two tokens reach a common one by at most s steps each.

    It is at most the radius, if that is not 0. Raises InputError as ``center`` does.
    """
    most = max(1, center(keep)[1])
    steps = reached = np.asarray(keep).astype(bool)
    for size in range(1, most):
        if (reached @ reached.T).all():
            return size
        reached = reached @ steps
    return most


def weights(Z, least, keep):
    """Attention whose allowed weights are more than ``least``; Z (..., n, n) are any scores.

    least: (..., 1, 1), at most 1 over the number of keys of every query.
    """
    ones = ops.where(keep, 1 + 0 * Z, 0 * Z)
    floor = least * ones
    return floor + (1 - ops.sum(floor, -1, keepdims=True)) * ops.softmax(Z, keep)


def product(P):
    """Product P_L ... P_1 of the layers (..., layers, n, n), the first layer to the right."""
    whole = P[..., 0, :, :]
    for layer in range(1, P.shape[-3]):
        whole = P[..., layer, :, :] @ whole
    return whole


def missed(least, radius: int):
    """Bound 1 - epsilon^s on the contraction coefficient of s layers, s the pair radius."""
    return 1 - math.prod([least] * radius)


def unreached(least, radius: int, layers: int):
    """Chance that ``layers`` tosses with heads at chance ``least`` show less than r heads."""
    some = [
        math.comb(layers, k) * math.prod([least] * k + [1 - least] * (layers - k))
        for k in range(min(radius, layers + 1))
    ]
    return sum(some)


def window_unreached(least, tokens: int, window: int, layers: int):
    """Largest contraction coefficient of some layers under a causal window, u_n of layer L.

    u_1 = 0 and u_i = 1 for i > 1 at first; a layer makes u_i - epsilon sum_j (u_i - u_j) of it,
    over the keys j of token i.
    """
    u = [0 * least] + [1 + 0 * least] * (tokens - 1)
    for _ in range(layers):
        u = [
            u[i] - least * sum(u[i] - u[j] for j in range(max(0, i - window + 1), i + 1))
            for i in range(tokens)
        ]
    return u[-1]


def ring(least, tokens: int, reach: int, like):
    """Attention on a ring: ``least`` on the ``reach`` neighbors on either side, the rest on itself.

    least: (..., 1, 1); result (..., tokens, tokens).
    """
    far = np.abs(np.subtract.outer(np.arange(tokens), np.arange(tokens)))
    far = np.minimum(far, tokens - far)
    near = ops.balls((far > 0) & (far <= reach)) if not ops.is_torch(like) else None
    if near is None:
        near = like.new_tensor((far > 0) & (far <= reach))
    return ops.eye(tokens, like) * (1 - 2 * reach * least) + near * least


def ring_points(tokens: int, like):
    """Points (cos, sin) of a regular polygon, (tokens, 2)."""
    angles = 2 * ops.pi(like) / tokens * ops.counting(tokens, like)
    return ops.stack([ops.cos(angles), ops.sin(angles)], -1)


def ring_factor(least, tokens: int, reach: int, like):
    """Factor 1 - 2 epsilon sum_k (1 - cos(2 pi k/n)) of a layer on the polygon; shape of least."""
    cosines = ring_points(tokens, like)[1 : reach + 1, 0]
    return 1 - 2 * least * ops.sum(1 - cosines, -1)


def score_spread(X, q, key_width: int):
    """Bound R q diam(X) / sqrt(d_qk) on the oscillation of a row of scores, (...).

    R is the length of the longest token, q = ||W_QK||_2.
    """
    return layernorm.largest_length(X) * q * norms.diameter(X) / ops.root(key_width, X)


def least_weight(spread, keys: int):
    """Least weight 1/(1 + (m - 1) e^spread) of softmax over m scores with this oscillation."""
    return tilted(-spread, keys - 1)

"""Checks of layers whose heads share keys and values: a bound by groups, a cubic one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from attnverify.arithmetic import ops
from attnverify.chapters.full_layer import grouped_layer
from attnverify.chapters.layer_instances import two_tokens
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, head_bounds, norms
from attnverify.topics.modern.definitions import heads as definitions


def _group_sizes(n: int, d: int, k: int, v: int, G: int, m: int) -> dict[str, tuple[int, ...]]:
    """Shapes for n tokens of width d and G groups of m heads."""
    H = G * m
    return {
        "X": (n, d),
        **{"W_Q": (H, d, k), "b_Q": (H, k), "W_K": (G, d, k), "b_K": (G, k)},
        **{"W_V": (G, d, v), "b_V": (G, v), "W_O": (H, v, d), "b_O": (d,)},
    }


def _group_falls(X, W_Q, W_K):
    W_QK = W_Q @ ops.transpose(head_bounds.repeat(W_K, W_Q.shape[-3] // W_K.shape[-3], -3))
    return collapse.falls(norms.diameter(X), collapse.rate(W_QK, W_Q.shape[-1]))


def _grouped(X, W_Q, W_K, W_V, W_O, **_):
    return norms.diameter(X) * head_bounds.grouped_factor(_group_falls(X, W_Q, W_K), W_V, W_O)


def _mean_shares(X, W_Q, W_K, W_V, W_O, **_):
    """Bound of a twin, with the mean t_h of a group in place of the root mean square."""
    G, H = W_V.shape[-3], W_O.shape[-3]
    t = _group_falls(X, W_Q, W_K)
    mean = ops.sum(t.reshape(*t.shape[:-1], G, H // G), -1) / ops.constant(H // G, X)
    return norms.diameter(X) * head_bounds.grouped_factor(
        head_bounds.repeat(mean, H // G, -1), W_V, W_O
    )


def _stored(X, W_Q, W_K, W_V, W_O, **_):
    """Cubic bound in the norms of the stored matrices."""
    factor = head_bounds.stored_constant(W_Q, W_K, W_V, W_O)
    return collapse.cubic(factor, norms.diameter(X))


def _group(size: float, scores: list[float]) -> Instance:
    """Instance of one group and two tokens; W_V = e_1 e_1', W_O,h = e_1 e_h', W_Q scores[h] e_1."""
    m, d = len(scores), len(scores)
    column = torch.zeros(d, 1, dtype=torch.float64)
    column[0, 0] = 1
    W_O = torch.eye(d, dtype=torch.float64)[:, None]
    return {
        "X": two_tokens(d, size),
        "W_Q": torch.tensor(scores, dtype=torch.float64)[:, None, None] * column,
        "b_Q": torch.zeros(m, 1, dtype=torch.float64),
        "W_K": column[None],
        "b_K": torch.full((1, 1), 0.75, dtype=torch.float64),
        "W_V": column[None],
        "b_V": torch.full((1, 1), -1.5, dtype=torch.float64),
        "W_O": W_O,
        "b_O": torch.full((d,), 0.25, dtype=torch.float64),
    }


GROUP_SIZES = (
    _group_sizes(2, 2, 1, 1, 1, 2),
    _group_sizes(3, 2, 2, 1, 2, 2),
    _group_sizes(4, 3, 2, 2, 1, 3),
)


def _of_groups(right: Callable[..., Any], *extremal: Callable[[], Instance]) -> Inequality:
    return Inequality(
        left=lambda **i: norms.diameter(grouped_layer(**i)),
        right=right,
        sizes=GROUP_SIZES,
        extremal=extremal,
        divides=(("W_K", "W_Q"),),
    ).times(0.9999)


GROUPED = _of_groups(_grouped, partial(_group, 1.5, [1.0, 1.25, 1.5])).but(
    "the mean of the t_h of a group in place of their root mean square", right=_mean_shares
)
STORED = _of_groups(_stored, partial(_group, 2.0**-10, [1.0, 2.0, 0.5]))

CHECKS: dict[str, dict[str, Check]] = {
    "modern.grouped-keys": {
        "one group": GROUPED,
        "stored matrices": STORED,
        "entry by entry": by_definition(
            definitions.groups, "the heads of a group apart", together=False
        ),
    },
}

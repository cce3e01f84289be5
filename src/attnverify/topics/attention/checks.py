"""Checks of the attention lemmas: shift invariance and the reduction of the biases."""

from __future__ import annotations

from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma, softmax_error, unit
from attnverify.checking.check import Check, Identity
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import attention
from attnverify.topics.attention import definitions as definitions


def _shift_bound(z, c):
    """Rounding bound: fl(z + c) is off by at most u |z + c|; the rest is :func:`softmax_error`."""
    largest = abs(z).amax(-1) + abs(c).amax(-1)
    return softmax_error(torch.softmax(z, -1), unit(z) * largest, largest)


def _shift_all_but_last(z, c):
    first = ops.full((z.shape[-1],), 1, z)
    first[-1] = ops.constant(0, z)
    return ops.softmax(z + c * first)


SHIFT = (
    Identity(
        left=lambda z, c: ops.softmax(z + c),
        right=lambda z, c: ops.softmax(z),
        bound=_shift_bound,
        sizes=tuple({"z": (n,), "c": (1,)} for n in (2, 5, 17)),
        arithmetic="ball",
    )
    .but("a constant added to all tokens but one", left=_shift_all_but_last)
    .but("a constant factor instead of a summand", left=lambda z, c: ops.softmax(c * z))
)

QK_NAMES = ("W_Q", "b_Q", "W_K", "b_K")


def _full_attention(X, W_Q, b_Q, W_K, b_K):
    return ops.softmax(attention.logits(X, W_Q, b_Q, W_K, b_K))


def _reduced_attention(X, W_Q, b_Q, W_K, b_K, bias=lambda q, b, k, c: k @ b):
    maps, Y = zip(W_Q, b_Q, W_K, b_K, strict=True), ops.transpose(X)
    scores = [(X @ (q @ ops.transpose(k)) + bias(q, b, k, c)) @ Y for q, b, k, c in maps]
    return ops.softmax(ops.stack(scores, 0) / ops.root(W_Q.shape[-1], X))


def _qk_bound(X, W_Q, b_Q, W_K, b_K):
    """Rounding bound: logits have at most m roundings a chain, so are off by gamma_m of |.|.

    m: inner products of length width (twice), key_width and width again, two additions of biases,
    one root and one division, on either side.
    """
    m = 3 * X.shape[-1] + W_Q.shape[-1] + 6
    size = attention.logits(*map(abs, (X, W_Q, b_Q, W_K, b_K)))
    P = _full_attention(X, W_Q, b_Q, W_K, b_K)
    return softmax_error(P, gamma(m, X) * size.amax(-1), size.amax(-1))


QK_REDUCTION = (
    Identity(
        left=_full_attention,
        right=_reduced_attention,
        bound=_qk_bound,
        sizes=tuple(
            {"X": (n, d), "W_Q": (H, d, k), "b_Q": (H, k), "W_K": (H, d, k), "b_K": (H, k)}
            for n, d, k, H in ((2, 1, 1, 1), (3, 4, 2, 2), (6, 5, 3, 1))
        ),
        shared=QK_NAMES,
        arithmetic="ball",
    )
    .but(
        "the key bias kept in place of the query bias",
        right=partial(_reduced_attention, bias=lambda q, b, k, c: q @ c),
    )
    .but(
        "all bias terms dropped",
        right=partial(_reduced_attention, bias=lambda q, b, k, c: 0 * (k @ b)),
    )
)

CHECKS: dict[str, dict[str, Check]] = {
    "attention.shift-invariance": {"softmax": SHIFT},
    "attention.qk-reduction": {
        "attention": QK_REDUCTION,
        "token by token": by_definition(definitions.weights, "sqrt 4 in place of sqrt 3", scale=4),
    },
}

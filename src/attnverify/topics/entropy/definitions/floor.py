"""Entropy of a row of softmax and its floor, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, total
from attnverify.mathematics import entropy
from attnverify.topics.softmax.definitions import softmax_row


def entropies(rest: int = 1) -> Iterator[Pair]:
    """-sum p log p, the row (gap, 0, ..., 0) that attains the floor, and its centered norm."""
    (u,) = (v / 2 for v in drawn(2, (5,)))
    H = -total(p * p.log() for p in softmax_row(u))
    yield "entropy", entropy.entropy(u), H
    yield "deficit", entropy.deficit(u), arb(5).log() - H
    gap = abs(u[0])
    row = softmax_row([gap, *[arb(0)] * 4])
    yield "floor", entropy.floor(gap, 4 + rest), -total(p * p.log() for p in row)
    norm = ((gap * 4 / 5) ** 2 + 4 * (gap / 5) ** 2).sqrt()
    yield "gap", entropy.widest_gap(np.array([norm], dtype=object), 5), [gap]


def last_row(power: int = 1) -> Iterator[Pair]:
    """The last token's logits and the bound on their norm, tokens of rank one."""
    W, u, v = drawn(3, (3, 3), (4,), (3,))
    X, temperature = u[:, None] * v[None, :], arb(1.5)
    z = [
        total(X[i, k] * W[k, m] * X[3, m] for k in range(3) for m in range(3)) / temperature
        for i in range(4)
    ]
    yield "logits", entropy.logits(W, X, temperature), z
    squares = [total(a * a for a in A.flat) for A in (W, X[3], u, v)]
    bound = (squares[0] * squares[1] * squares[2] * squares[3]).sqrt() / temperature**power
    yield "their norm", entropy.logit_norm_bound(W, X, temperature), bound
    yield "softmax", ops.softmax(u), softmax_row(u)

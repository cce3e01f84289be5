"""Definitions of the entropy of a softmax row and of its floors, entry by entry."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, total
from attnverify.mathematics import entropy
from attnverify.topics.softmax.definitions import softmax_row


def entropies(rest: int = 1) -> Iterator[Pair]:
    """Entropy -sum p log p, the row (gap, 0, ..., 0) at the floor, and its centered norm."""
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


def _divergence(p, q) -> arb:
    return total(a * (a / b).log() for a, b in zip(p, q, strict=True))


def _over_sets(base) -> tuple:
    """Largest K(q(S), 1/2), and the largest relative entropy of a row raised by 1/2 on a set."""
    levels = itertools.product((arb(0), arb(1) / 2), repeat=len(base))
    rows = [[b + v for b, v in zip(base, up, strict=True)] for up in levels]
    found = entropy.widest_divergence(base, ops.constant(1, base) / 2 * ops.full((1,), 1, base))
    return found, [largest([_divergence(softmax_row(r), softmax_row(base)) for r in rows[1:-1]])]


def floors(wrong: int = 0) -> Iterator[Pair]:
    """Relative entropies of rows with weights, and the constant from the best share."""
    e, base = (v / 4 for v in drawn(3, (5,), (5,)))
    q = softmax_row(base)
    yield (
        "relative entropy",
        entropy.relative_entropy(e, base),
        _divergence(softmax_row(base + e), q),
    )
    yield "sets", *_over_sets(base[:3])
    D = abs(e[0])
    (size,) = drawn(3, (5,))
    size = abs(size[:1]) / 4
    rows = [
        _divergence(softmax_row([D] * k + [arb(0)] * (4 - k)), [arb(1) / 4] * 4) for k in (1, 2, 3)
    ]
    yield "two levels", entropy.two_levels(arb(1) / 2, size), [rows[1]]
    yield "widest", entropy.widest_deficit(size, 4), [largest(rows)]
    a = D if wrong else D * D.exp() / (D.exp() - 1)
    s = (a - 1) / (D.exp() - 1)
    yield "tilt", entropy.tilt(size), [a]
    yield "best share", entropy.best_share(size), [s]
    best = _divergence(softmax_row([D + s.log(), (1 - s).log()]), [s, 1 - s])
    yield "constant", entropy.spread_constant(size), [best]


def sizes(center: int = 1) -> Iterator[Pair]:
    """The bounds on norm and spread of the logits for W and centered tokens of rank one."""
    u, v, z, m, w = drawn(4, (3,), (3,), (4,), (3,), (3,))
    z = z - center * total(z) / 4
    X, temperature = m + z[:, None] * w, arb(3) / 2
    norm = lambda a: total(b * b for b in a).sqrt()  # noqa: E731
    query = norm(u) * norm(v) * norm(X[3]) / temperature
    W = u[:, None] * v
    yield "norm", entropy.centered_norm_bound(W, X, temperature), query * norm(z) * norm(w)
    width = (largest(z) + largest(-z)) * norm(w)
    yield "spread", entropy.logit_spread_bound(W, X, temperature), query * width

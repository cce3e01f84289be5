"""Entropy floors of a row of given spread, and the sizes they are taken at, entry by entry."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, total
from attnverify.mathematics import entropy
from attnverify.topics.softmax.definitions import softmax_row


def _divergence(p, q) -> arb:
    return total(a * (a / b).log() for a, b in zip(p, q, strict=True))


def _over_sets(base) -> tuple:
    """max_S K(q(S), 1/2) and the largest relative entropy of a row raised by 1/2 on a set."""
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

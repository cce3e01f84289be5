"""Definitions of masked attention and of the sizes in its claims, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import mask_bounds
from attnverify.topics.collapse.definitions.layers import attention_by_entries

KEY_WIDTH = 3  # as in attention_by_entries
TOKENS, WIDTH = 6, 2


def _instance(seed: int):
    X, Q, V = drawn(seed, (TOKENS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH))
    return X / 4, Q / 4, V / 4


def _layer(X, Q, V, sees):
    P = attention_by_entries(X, Q[None], 0 * Q[:1], sees)[0]
    n, d = X.shape
    values = table(lambda j, m: total(X[j, k] * V[k, m] for k in range(d)), n, d)
    return table(lambda i, m: total(P[i, j] * values[j, m] for j in range(n)), n, d)


def _oscillation(X, Q, sees) -> arb:
    n, d = X.shape

    def score(i: int, j: int) -> arb:
        pairs = total(X[i, k] * Q[k, m] * X[j, m] for k in range(d) for m in range(d))
        return pairs / arb(KEY_WIDTH).sqrt()

    seen = ((i, j, k) for i in range(n) for j in range(n) for k in range(n))
    kept = (t for t in seen if sees(t[0], t[1]) and sees(t[0], t[2]))
    return largest(score(i, j) - score(i, k) for i, j, k in kept)


def _distance(X, i: int) -> arb:
    return total((X[i, k] - X[0, k]) ** 2 for k in range(X.shape[1])).sqrt()


def causal(sees=lambda i, j: j <= i) -> Iterator[Pair]:
    """Masked layer, its largest oscillation, and N with binomial coefficients for m = 1, 2."""
    X, Q, V = _instance(1)
    yield "tokens", mask_bounds.layer(X, Q, V, KEY_WIDTH), _layer(X, Q, V, sees)
    yield "D", mask_bounds.largest_oscillation(X, Q, KEY_WIDTH), _oscillation(X, Q, sees)
    for m in (1, 2):
        known = largest(_distance(X, i) / comb(i, m) for i in range(m, TOKENS))
        yield f"N for m = {m}", mask_bounds.spread(X, m), known


def window(width: int = 3) -> Iterator[Pair]:
    """Quantities of a window of three tokens, where token i sees u with the mean u_i/(m + 1)."""
    X, Q, V = _instance(2)
    sees = lambda i, j: i - width < j <= i  # noqa: E731
    yield "tokens", mask_bounds.layer(X, Q, V, KEY_WIDTH, 3), _layer(X, Q, V, sees)
    yield "D", mask_bounds.largest_oscillation(X, Q, KEY_WIDTH, 3), _oscillation(X, Q, sees)
    for n, m, w in ((8, 1, 3), (9, 1, 4), (9, 2, 5), (5, 1, 9)):
        u = mask_bounds.shape(n, m, ops.balls(np.zeros(1)), w)
        seen = [u[max(0, i - w + 1) : i + 1] for i in range(n)]
        mean = table(lambda i: total(list(seen[i])) / len(seen[i]), n)  # noqa: B023
        yield f"u, w = {w}", u / (m + 1), mean

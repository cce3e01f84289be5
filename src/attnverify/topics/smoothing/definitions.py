"""Definitions of the distance to equal rows and of s(P), entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import smoothing


def sizes(less: int = 0) -> Iterator[Pair]:
    """Distance over pairs of tokens, s(P) of a matrix of rank one, a layer, a scale, a fusion."""
    X, P, W, u = drawn(7, (4, 3), (2, 4, 4), (2, 3, 3), (4,))
    pairs = total((X[i, k] - X[j, k]) ** 2 for i in range(4) for j in range(i) for k in range(3))
    yield "distance", smoothing.distance(X), (pairs / (4 - less)).sqrt()
    v = np.array([arb(k) for k in (1, -2, 5, 0)], dtype=object)
    spread = lambda a: total((b - total(a) / 4) ** 2 for b in a)  # noqa: E731
    whole = (spread(u) * spread(v)).sqrt()
    yield "mixing", smoothing.mixing(u[:, None] * v[None, :]), whole
    heads, keys, width = range(2), range(4), range(3)
    added = lambda i, k: total(  # noqa: E731
        P[h, i, j] * X[j, m] * W[h, m, k] for h in heads for j in keys for m in width
    )
    yield "layer", smoothing.layer(X, P, W), table(lambda i, k: X[i, k] + added(i, k), 4, 3)
    squares = [total(a * a for a in x) / 3 for x in X]
    yield "scale", smoothing.scale(X), (-largest(-square for square in squares)).sqrt()
    a = u[:2]
    fused = table(lambda i, j: a[0] * P[0, i, j] + a[1] * P[1, i, j], 4, 4)
    yield "fused", smoothing.fused(P, a), fused
    yield "kept", smoothing.kept(np.array([arb(3), arb(5)]), a), 3 * a[0] - 5 * a[1]

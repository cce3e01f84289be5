"""Definitions of the sizes of tokens on the sphere, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import sphere


def sizes(power: int = 2) -> Iterator[Pair]:
    """Cap, dual sizes, largest angle, least inner product, simplex, all entry by entry."""
    X, u = drawn(11, (4, 3), (4,))
    X[:, 0] = abs(X[:, 0]) + 9
    dot = lambda x, y: total(a * b for a, b in zip(x, y, strict=True))  # noqa: E731
    size = lambda x: dot(x, x).sqrt()  # noqa: E731
    least = lambda values: -largest(-value for value in values)  # noqa: E731
    radii = [(dot(x, x) / x[0] ** power - 1).sqrt() for x in X]
    yield "cap", sphere.cap(X), largest(radii)
    cosines = [dot(x, y) / (size(x) * size(y)) for i, x in enumerate(X) for y in X[:i]]
    yield "least product", sphere.least_product(X), least(cosines)
    angle = least(cosines).acos()
    yield "largest angle", sphere.half_largest_angle(X), (angle / 2).tan()
    mu = abs(u) / total(abs(u))
    rows = [x / size(x) for x in X]
    gap = lambda x, y: dot(x - y, x - y)  # noqa: E731
    spread = lambda r: total(  # noqa: E731
        mu[i] * mu[j] * gap(r[i], r[j]) for i in range(4) for j in range(i)
    ).sqrt()
    yield "dual radius", sphere.dual_radius(X, mu), spread(X)
    yield "dual tangent", sphere.dual_tangent(X, mu), spread(rows).asin().tan()
    far = lambda i, j: dot(points[i], points[j])  # noqa: E731
    height = arb(1) / 8
    points = sphere.simplex(4, height, X)
    inner = height - (1 - height) / 3
    yield "simplex", table(far, 4, 4), table(lambda i, j: arb(1) if i == j else inner, 4, 4)
    t, kappa = arb(3) / 4, arb(5) / 2
    yield (
        "bound",
        sphere.collapse_bound(np.array([t], dtype=object), kappa, 1)[0],
        ((kappa * t.atan().sin() ** 2).tanh() * t),
    )

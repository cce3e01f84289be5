"""Definitions of the sizes of tokens on the sphere, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import sphere


def sizes(power: int = 2) -> Iterator[Pair]:
    """Common weight, cap, largest angle, least inner product, simplex, all one by one."""
    X, P = drawn(11, (4, 3), (4, 4))
    X[:, 0] = abs(X[:, 0]) + 9
    dot = lambda x, y: total(a * b for a, b in zip(x, y, strict=True))  # noqa: E731
    size = lambda x: dot(x, x).sqrt()  # noqa: E731
    least = lambda values: -largest(-value for value in values)  # noqa: E731
    yield "common", sphere.common(P), total(least(P[:, j]) for j in range(4))
    radii = [(dot(x, x) / x[0] ** power - 1).sqrt() for x in X]
    yield "cap", sphere.cap(X), largest(radii)
    cosines = [dot(x, y) / (size(x) * size(y)) for i, x in enumerate(X) for y in X[:i]]
    yield "least product", sphere.least_product(X), least(cosines)
    angle = least(cosines).acos()
    yield "largest angle", sphere.half_largest_angle(X), (angle / 2).tan()
    axis = X[0] - X[1] / 8
    about = [(dot(x, axis) / (size(x) * size(axis))).acos() for x in X]
    yield "cap about an axis", sphere.half_cap_about(X, axis), (largest(about) / 2).tan()
    far = lambda i, j: dot(points[i], points[j])  # noqa: E731
    height = ops.balls(ops.rationals([0.125]))[0]
    points = sphere.simplex(4, height, X)
    inner = height - (1 - height) / 3
    yield "simplex", table(far, 4, 4), table(lambda i, j: arb(1) if i == j else inner, 4, 4)
    t, kappa = arb(3) / 4, arb(5) / 2
    yield "bound", sphere.collapse_bound(ops.balls(ops.rationals([0.75])), kappa, 1)[0], (
        (kappa * t.atan().sin() ** 2).tanh() * t
    )

"""Definitions of sinks, softmax-plus-one and angles of normalized tokens, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import layernorm, sinks


def weights(sign: int = 1) -> Iterator[Pair]:
    """The weight p at which (1 - p) a - p b is e, and its odds p/(1 - p)."""
    for a, b, e in ((3, 2, 1), (2, -1, 0), (5, 0, 3)):
        p = sinks.needed_weight(arb(a), arb(b), arb(e))
        yield "output", (1 - p) * a - p * b * sign, arb(e)
        yield "odds", sinks.needed_odds(arb(a), arb(b), arb(e)), p / (1 - p)


def plus_one(one: int = 1) -> Iterator[Pair]:
    """Weights of softmax-plus-one, as they are defined and as a gate on a softmax."""
    Z, c = drawn(1, (2, 4), (1,))
    Z = Z / 4
    E = ops.exp(Z)
    sums = [total(row) for row in E]
    P = sinks.plus_one(Z, 0 * c)
    yield "one", P, table(lambda i, j: E[i, j] / (one + sums[i]), 2, 4)
    P = sinks.plus_one(Z, c)
    added = table(lambda i, j: E[i, j] / (c[0].exp() + sums[i]), 2, 4)
    yield "constant", P, added
    gates = [sinks.gate(s.log() - c[0]) for s in sums]
    yield "gate", table(lambda i, j: gates[i] * E[i, j] / sums[i], 2, 4), P
    yield "sigmoid", sinks.gate(c[0]), c[0].exp() / (1 + c[0].exp())


def lost_weight(lost: int = 1) -> Iterator[Pair]:
    """Bound on the diameter by pairs of rows, whose differences are split by their signs."""
    P, X = drawn(2, (3, 5), (5, 2))
    apart = [total((a - b) ** 2 for a, b in zip(x, y, strict=True)).sqrt() for x in X for y in X]
    length = largest(total(a * a for a in x).sqrt() for x in X)
    bounds = []
    for p in P:
        for q in P:
            more = total((a - b).max(arb(0)) for a, b in zip(p, q, strict=True))
            less = total((b - a).max(arb(0)) for a, b in zip(p, q, strict=True))
            if total(p) - total(q) >= 0:  # else the other order of the pair counts
                bounds.append(less * largest(apart) + lost * (more - less) * length)
    yield "bound", sinks.substochastic_bound(P[None], X[None])[0], largest(bounds)


def layers(power: int = 1) -> Iterator[Pair]:
    """A head with a constant in the denominator, and the diameter of its tokens and zero."""
    X, W_QK, t, c, W = drawn(3, (3, 2), (2, 2), (3,), (1,), (2, 2))
    X, key_width = X / 4, 9
    score = table(
        lambda i, j: total(X[i, a] * W_QK[a, b] * X[j, b] for a in range(2) for b in range(2)) / 3,
        3,
        3,
    )
    E = ops.exp(table(lambda i, j: score[i, j] ** power + t[j], 3, 3))
    P = table(lambda i, j: E[i, j] / (c[0].exp() + total(E[i])), 3, 3)
    Y = table(
        lambda i, k: total(P[i, j] * X[j, a] * W[a, k] for j in range(3) for a in range(2)), 3, 2
    )
    yield "layer", sinks.layer(X, W_QK, t, c, W, key_width), Y
    points = [*X, 0 * X[0]]
    squares = [
        total((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x in points for y in points
    ]
    yield "hull", sinks.hull_diameter(X), largest(squares).sqrt()


def mean(x):
    """Mean of the last axis."""
    return ops.sum(x, -1) / ops.constant(x.shape[-1], x)


def distances(X, e, norm: Callable):
    """Distance of each normalized token from that of the first axis, (..., tokens).

    X (..., tokens, width), e (..., 1) for the norm of X, whose epsilon it is.
    """
    one = ops.full((X.shape[-1],), 1, X)
    gap = norm(X, one, e[..., None]) - norm(ops.eye(X.shape[-1], X)[:1], one, 0 * e[..., None])
    return ops.sqrt(ops.sum(gap * gap, -1))


def angles(less: int = 0) -> Iterator[Pair]:
    """Tangents of the angles from inner products, and chords from their tangents."""
    (X,) = drawn(4, (3, 4))
    X = abs(X)
    X[:, 0] += 9
    e, d = ops.balls(np.array([0.25])), 4 - less
    for name, tangent, norm, center in (
        ("layer norm", sinks.tangent_layer, layernorm.layer_norm, 1),
        ("RMS norm", sinks.tangent_rms, layernorm.rms_norm, 0),
    ):
        axis = [arb(k == 0) - arb(center) / 4 for k in range(4)]
        found, exact = [], []
        for x in X:
            y = [a - center * total(x) / 4 for a in x]
            square = total(a * a for a in y) + d * e[0]
            along = total(a * b for a, b in zip(y, axis, strict=True))
            cosine = along / (square * total(a * a for a in axis)).sqrt()
            found.append((1 - cosine**2).sqrt() / cosine)
            spread = total((a - center * total(x[1:]) / 3) ** 2 for a in x[1:])
            exact.append((4 * (1 - cosine) ** 2 + 4 * spread / square).sqrt())
        yield name, tangent(X, e), found
        yield "chord", sinks.chord(tangent(X, e)), [2 * (t.atan() / 2).sin() for t in found]
        yield f"distance, {name}", distances(X, e, norm), exact
        yield "double", sinks.double_chord(tangent(X, e)), [2 * t.atan().sin() for t in found]

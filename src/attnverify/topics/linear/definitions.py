"""Quantities of linear attention, entry by entry: weights, layers, polynomials, features."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, total
from attnverify.mathematics import kernels


def rows(half: int = 2) -> Iterator[Pair]:
    """A row with replaced exponentials, and the bound without a logarithm."""
    s, t = (v / 4 for v in drawn(3, (5,), (5,)))
    w = [x.exp() * (1 + y / 4) for x, y in zip(s, t, strict=True)]
    yield "row", kernels.weights(s, 1 + t / 4), [x / total(w) for x in w]
    delta = arb(5) / 8
    square = (arb(1) - delta * delta) ** (arb(1) / half)
    yield "bound", kernels.variation(delta), delta / (1 + square)


def _head(X, W_QK, W, T, width: int) -> list[list[arb]]:
    out = []
    for i, x in enumerate(X):
        scores = [
            total(x[a] * W_QK[a, b] * y[b] for a in range(2) for b in range(2)) / arb(width).sqrt()
            for y in X
        ]
        w = [s.exp() * (1 + t) for s, t in zip(scores, T[i], strict=True)]
        mean = [total(p * y[a] for p, y in zip(w, X, strict=True)) / total(w) for a in range(2)]
        out.append([total(mean[a] * W[a, b] for a in range(2)) for b in range(2)])
    return out


def layers(twice: int = 2) -> Iterator[Pair]:
    """A layer of two heads, the factor of one, and the bounds on the error over depth."""
    X, W_QK, W, T = (v / 4 for v in drawn(4, (3, 2), (2, 2, 2), (2, 2, 2), (2, 3, 3)))
    heads = [_head(X, W_QK[h], W[h], T[h], 4) for h in range(2)]
    both = [[a + b for a, b in zip(r, s, strict=True)] for r, s in zip(*heads, strict=True)]
    yield "layer", kernels.layer(X, W_QK, W, T, 4), both
    yield "longest", kernels.longest(X), largest(total(a * a for a in x).sqrt() for x in X)
    c, delta = arb(1) / 8, arb(1) / 3
    add = (c + delta.atanh()).tanh()
    yield "factor", kernels.factor(np.array([c]), delta)[0], add
    D = largest(total((a - b) ** 2 for a, b in zip(x, y, strict=True)).sqrt() for x in X for y in X)
    R = largest(total(a * a for a in x).sqrt() for x in X)
    eta, theta = delta / (1 + (1 - delta * delta).sqrt()), (c * D * D).tanh()
    e = eta * D
    e = e + D * theta * (eta.atanh() + c * e * (D * theta + twice * R)).tanh()
    yield "two layers", kernels.error_after(X, c, delta, 2), e
    any_depth = eta * D / (1 - theta) * (c * D * (D + twice * R) / (1 - theta)).exp()
    yield "any depth", kernels.error_at_any_depth(X, c, delta), any_depth


def polynomials(skipped: int = 0) -> Iterator[Pair]:
    """Taylor's polynomial and its error as a series, the error at points, and the features."""
    r = arb(3) / 2
    for p in (1, 2, 5):
        value = total(r**k / math.factorial(k) for k in range(skipped, p + 1))
        yield "polynomial", kernels.taylor(r, p), value
        tail = total((-r) ** k / math.factorial(k) for k in range(p + 1, 60))
        yield (
            "error",
            kernels.taylor_error(ops.balls(np.array([1.5]))[0:1], p)[0],
            abs(r.exp() * tail),
        )
        at = [total(x**k / math.factorial(k) for k in range(p + 1)) / x.exp() for x in (-r, r)]
        spread = (at[0] / at[1]).log() if p % 2 == 0 else -abs(at[0]).log()
        if p != 1:  # 1 + s is negative at -3/2
            yield "spread", kernels.taylor_spread(ops.balls(np.array([1.5])), p)[0], spread
    (s,) = (v / 4 for v in drawn(6, (4,)))
    s = s + ops.counting(4, s) * 16
    a = [
        x.exp() / math.prod((x - y for k, y in enumerate(s) if k != i), start=arb(1))
        for i, x in enumerate(s)
    ]
    yield "points", kernels.least_error(s), abs(total(a)) / total(abs(x) for x in a)
    q, k = (v / 4 for v in drawn(7, (3,), (3,)))
    powers = [m for m in itertools.product(range(4), repeat=3) if sum(m) <= 3]
    root = lambda m: arb(math.prod(map(math.factorial, m))).sqrt()  # noqa: E731
    monomial = lambda x, m: math.prod((v**e for v, e in zip(x, m, strict=True)), start=arb(1))  # noqa: E731
    maps = [[monomial(x, m) / root(m) for m in powers] for x in (q, k)]
    inner = total(a * b for a, b in zip(*maps, strict=True))
    product = total(a * b for a, b in zip(q, k, strict=True))
    yield "features", kernels.taylor(product, 3), inner
    yield "their number", arb(kernels.features(3, 3)), arb(len(powers))

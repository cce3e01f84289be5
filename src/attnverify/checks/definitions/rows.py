"""Rows of softmax: oscillation, linearization, entropy and its floor, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify import ops
from attnverify.checks.definitions.agree import Pair, drawn, largest, total
from attnverify.formulas import entropy, softmax


def _softmax(u) -> list[arb]:
    return [1 / total((v - w).exp() for v in u) for w in u]


def perturbed(upper: int = 2) -> Iterator[Pair]:
    """What logits that move by e do to a row, and the bounds in the oscillation of e."""
    u, e = (v / 4 for v in drawn(0, (5,), (5,)))
    D = largest([a - b for a in e for b in e])
    r, P = _softmax(u), _softmax(u + e)
    yield "oscillation", softmax.oscillation(e), D
    yield "moved", softmax.upper_deviation(u, e), [p - q for p, q in zip(P, r, strict=True)]
    yield "above", softmax.upper_deviation_bound(u[None], e[None])[0], [upper * D * q for q in r]
    yield "below", softmax.lower_deviation_bound(u[None], e[None])[0], [D * q for q in r]
    yield "variation", softmax.variation_bound(D), ((D / 2).exp() - 1) / ((D / 2).exp() + 1)
    before = _softmax([u[0], arb(0)])[0]
    lost = before - _softmax([u[0] + 2 * (-abs(u[1])), arb(0)])[0]
    yield "mass lost", softmax.mass_lost(before, (-abs(u[1])).exp()), lost


def linear(tokens: int = 5) -> Iterator[Pair]:
    """The linearization of a row at equal logits, cut to [0, 1], and the bounds on its error."""
    for scale in (0.25, 8):
        (u,) = (v / scale for v in drawn(1, (5,)))
        mean, P = total(u) / 5, _softmax(u)
        line = [(1 + v - mean) / tokens for v in u]
        D = largest(u) + largest(-u)
        yield "line", softmax.linearized(u), line
        error = [abs(p - q) for p, q in zip(P, line, strict=True)]
        yield "error", softmax.linearization_error(u), error
        cut = [arb(0) if v < 0 else arb(1) if v > 1 else v for v in line]
        yield "cut", softmax.piecewise_linear(u), cut
        series = total(D**k / arb(k + 1).gamma() for k in range(2, 120))
        yield "sharp bound", softmax.linearization_bound_sharp(u), series / 5
        yield "bound", softmax.linearization_bound(u), D * D * D.exp() / 10


def entropies(rest: int = 1) -> Iterator[Pair]:
    """-sum p log p, the row (gap, 0, ..., 0) that attains the floor, and its centered norm."""
    (u,) = (v / 2 for v in drawn(2, (5,)))
    H = -total(p * p.log() for p in _softmax(u))
    yield "entropy", entropy.entropy(u), H
    yield "deficit", entropy.deficit(u), arb(5).log() - H
    gap = abs(u[0])
    row = _softmax([gap, *[arb(0)] * 4])
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
    yield "softmax", ops.softmax(u), _softmax(u)

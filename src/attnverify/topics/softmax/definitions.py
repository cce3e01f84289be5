"""Rows of softmax: oscillation and linearization, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, largest, total
from attnverify.mathematics import softmax


def softmax_row(u) -> list[arb]:
    return [1 / total((v - w).exp() for v in u) for w in u]


def perturbed(upper: int = 2) -> Iterator[Pair]:
    """What logits that move by e do to a row, and the bounds in the oscillation of e."""
    u, e = (v / 4 for v in drawn(0, (5,), (5,)))
    D = largest([a - b for a in e for b in e])
    r, P = softmax_row(u), softmax_row(u + e)
    yield "oscillation", softmax.oscillation(e), D
    yield "moved", softmax.upper_deviation(u, e), [p - q for p, q in zip(P, r, strict=True)]
    yield "above", softmax.upper_deviation_bound(u[None], e[None])[0], [upper * D * q for q in r]
    yield "below", softmax.lower_deviation_bound(u[None], e[None])[0], [D * q for q in r]
    yield "variation", softmax.variation_bound(D), ((D / 2).exp() - 1) / ((D / 2).exp() + 1)
    before = softmax_row([u[0], arb(0)])[0]
    lost = before - softmax_row([u[0] + 2 * (-abs(u[1])), arb(0)])[0]
    yield "mass lost", softmax.mass_lost(before, (-abs(u[1])).exp()), lost


def linear(tokens: int = 5) -> Iterator[Pair]:
    """The linearization of a row at equal logits, cut to [0, 1], and the bounds on its error."""
    for scale in (0.25, 8):
        (u,) = (v / scale for v in drawn(1, (5,)))
        mean, P = total(u) / 5, softmax_row(u)
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

"""Definitions of the Edgeworth correction, its bound and a token's skewness, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb, fmpq

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, total
from attnverify.mathematics import chisquare, localization
from attnverify.topics.localization.definitions.scores import power_trace, whole_form


def _in_balls(M: np.ndarray) -> np.ndarray:
    return np.vectorize(arb, otypes=[object])(M)


def terms(power: int = 1) -> Iterator[Pair]:
    """Skewness from the third cumulant, the correction, and the bound at stable rank 6."""
    mu, y = drawn(7, (5,), (1,))
    deviation = (2 * total(m * m for m in mu)).sqrt()
    kappa = (8 * total(m * m * m for m in mu) / deviation**3) ** power
    yield "skewness", chisquare.skewness(mu), kappa
    density = (-y[0] * y[0] / 2).exp() / (2 * arb.pi()).sqrt()
    found = chisquare.edgeworth_correction(y, chisquare.skewness(mu))
    yield "correction", found, [kappa * (density - y[0] * y[0] * density) / 6]
    up, down = arb(3) / 4, [arb(3) / 8] * 16  # sum mu^2 = (9/16)(2 + 4), squared over the largest
    mixed = np.array([up, *down, -up], dtype=object)
    beta = up**5 + total(v**5 for v in down) - up**5
    yield "unpaired", chisquare.unpaired_fifth(mixed), beta
    digamma = 2 - arb.const_euler() - 2 * arb(2).log()
    pairs = ((arb(3) / 2).log() - digamma) / (2 * arb.pi())
    V = 6 * up * up
    skew = (8 * 16 * (arb(3) / 8) ** 3) ** 2 / (2 * V) ** 3
    known = pairs + skew / (9 * arb.pi()) + 6 * beta / (5 * (arb.pi() * V**5).sqrt())
    yield "bound", chisquare.edgeworth_bound(mixed), known
    known = arb(17) / (54 * arb.pi()) + 1 / (54 * arb.pi()) + 1 / (5 * (6 * arb.pi()).sqrt())
    yield "bound by the rank 6", chisquare.edgeworth_rank_bound(ops.balls(np.array([6.0]))), [known]


def tokens(part: int = 3) -> Iterator[Pair]:
    """Skewness and third power sum at each of 5 tokens, from the quadratic form in all steps."""
    M = ops.rationals(np.array([[2, 1], [1, -0.5]]))
    shape = power_trace(M, 3) ** 2 / power_trace(M, 2) ** 3
    for i in range(1, 6):
        form = whole_form(M, 5, i)
        third, second = 8 * power_trace(form, 3), 2 * power_trace(form, 2)
        g, h2 = fmpq(2 * i - 6, 2), fmpq(2)  # h^2 = (25 - 1)/12
        wrong = (4 * g * g + part * h2) / (4 * g * g + 3 * h2)
        sizes = [np.array([arb(v)], dtype=object) for v in (g, h2)]
        found = localization.token_skewness(sizes[0], ops.sqrt(sizes[1]), arb(shape).sqrt())
        yield f"token {i}", found * wrong, [arb(third) / arb(second).sqrt() ** 3]
    skewed = ops.rationals(np.array([[2, 1, 0], [-3, 1, 0.5], [0, 1, -1]]))
    for i in range(1, 6):
        g, h2 = fmpq(2 * i - 6, 2), fmpq(part * 2, 3)
        third, second = (power_trace(whole_form(skewed, 5, i), p) for p in (3, 2))
        yield f"any matrix, token {i}", localization.third_trace(skewed, g, h2), third
        sizes = [np.array([arb(v)], dtype=object) for v in (g, h2)]
        found = localization.relative_cubes(_in_balls(skewed)[None], sizes[0], ops.sqrt(sizes[1]))
        yield f"relative, token {i}", found, [abs(arb(third)) / arb(second).sqrt() ** 3]

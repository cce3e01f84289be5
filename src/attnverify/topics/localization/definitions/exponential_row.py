"""Definitions of the exponential row's entropy, contrast and variance, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, total
from attnverify.mathematics import softmax_row
from attnverify.topics.softmax import definitions as softmax


def profiles(finite: int = 1, tokens: int = 8) -> Iterator[Pair]:
    """Entropy log T - K(a) + K(a/T) and contrast of rows e^(a i/T), and two sums of the proof."""
    (slopes,) = drawn(6, (4,))
    for a in slopes:
        size = np.array([a], dtype=object)
        p = softmax.softmax_row([a * i / tokens for i in range(1, tokens + 1)])
        deficit = arb(tokens).log() + total(v * v.log() for v in p)
        K = softmax_row.profile_deficit(size) - finite * softmax_row.profile_deficit(size / tokens)
        yield "deficit", K, [deficit]
        for share in (1, 2, 4):
            last = total(p[-share:]) - total(p[:share])
            yield "contrast", softmax_row.profile_contrast(size, arb(share) / tokens), [last]
            yield "of a row", softmax_row.contrast(np.array(p, dtype=object), share), last
        n = range(tokens)
        pairs = total(p[i] * p[j] * abs(i - j) * (tokens - abs(i - j)) for i in n for j in n)
        yield "pairs", softmax_row.pair_spread(np.array(p, dtype=object)), pairs / tokens**2
        apart = total(p[i] * p[j] * (i - j) ** 2 for i in n for j in n) / 2
        yield (
            "variance",
            softmax_row.position_variance(np.array(p, dtype=object)),
            apart / tokens**2,
        )

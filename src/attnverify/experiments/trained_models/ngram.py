"""The baseline: an interpolated model of the next byte given the last few, by counting.

Witten and Bell's weights: after a context that came N times, with T different next bytes,

    p(b | context) = (count(b) + T p(b | shorter context)) / (N + T),

down to the uniform law over 256 bytes. A context never seen is passed over.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict

Counts = list[dict[bytes, Counter[int]]]


def counted(train: bytes, order: int) -> Counts:
    """What followed every context of 0, 1, .., order - 1 bytes."""
    tables: Counts = [defaultdict(Counter) for _ in range(order)]
    for length, table in enumerate(tables):
        for end in range(length, len(train)):
            table[train[end - length : end]][train[end]] += 1
    return tables


def bits_per_byte(tables: Counts, text: bytes, skip: int = 0) -> list[float]:
    """Mean of -log2 p over the text from place ``skip`` on, for each order 1, 2, .., len(tables).

    A place sees as many bytes before it as its order takes, those before ``skip`` included.
    """
    totals = [0.0] * len(tables)
    for end in range(skip, len(text)):
        p = 1 / 256
        for length, table in enumerate(tables):
            followed = table.get(text[end - length : end]) if length <= end else None
            if followed:
                kinds = len(followed)
                p = (followed[text[end]] + kinds * p) / (followed.total() + kinds)
            totals[length] -= math.log2(p)
    return [total / (len(text) - skip) for total in totals]

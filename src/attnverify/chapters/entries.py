"""Rows, entry by entry in balls: what the formulas of several chapters are compared with.

Nothing here shares code with ``attnverify.mathematics``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from flint import arb


def softmax(u: Iterable[arb]) -> np.ndarray:
    """Weights of a row of logits u (n,): 1 / sum_j e^(u_j - u_i) at i; balls (n,)."""
    u = list(u)
    return np.array([1 / sum((v - w).exp() for v in u) for w in u], dtype=object)


def entropy(p: Iterable[arb]) -> arb:
    """Entropy -sum p log p of positive weights p (n,), balls."""
    return -sum(a * a.log() for a in p)


def relative_entropy(p: Iterable[arb], q: Iterable[arb]) -> arb:
    """Relative entropy sum p log(p/q) of positive weights p, q (n,), balls."""
    return sum(a * (a / b).log() for a, b in zip(p, q, strict=True))

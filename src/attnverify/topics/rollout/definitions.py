"""Definitions of flows, laws and relevance, by enumeration and entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import rollout
from attnverify.mathematics.paths import FixedAttention


def _numbers(*values: Any) -> np.ndarray:
    return np.array([arb(v) for v in values], dtype=object)


def flows(power: int = 1) -> Iterator[Pair]:
    """What a number loses without one attention entry: a number is linear in each of them."""
    P, W_V, W_O, X, C = drawn(7, (2, 2, 3, 3), (2, 2, 2, 1), (2, 2, 1, 2), (3, 2), (3, 2))
    b = _numbers(0, 0, 0, 0).reshape(2, 2)

    def number(P: np.ndarray) -> arb:
        return total((C * FixedAttention(P, W_V, W_O, b, skip=True).forward(X)).flat)

    def lost(*at: int) -> arb:
        without = P.copy()
        without[at] = arb(0)
        return (number(P) - number(without)) ** power

    held = FixedAttention(P, W_V, W_O, b, skip=True)
    yield "flow", rollout.flows(held, X, C), table(lost, 2, 2, 3, 3)


def laws(more: int = 0) -> Iterator[Pair]:
    """Laws of rollout and their distance, over all sets of layers."""
    a = _numbers(0.25, 0.5, 0.875)
    (w,) = (abs(v) for v in drawn(2, (3,)))
    sets = list(product((0, 1), repeat=3))
    sizes = [sum(S) + more for S in sets]
    chances = [_over(S, a, 1 - a) for S in sets]
    gains = [_over(S, w, 1 + 0 * w) for S in sets]
    sums = [
        arb(0) + sum(c for c, k in zip(chances, sizes, strict=True) if k == n) for n in range(4)
    ]
    yield "law", rollout.law(a), sums
    yield "ratio", rollout.largest_ratio(w), largest(g / h for g in gains for h in gains)
    apart = total(abs(g / total(gains) - arb(1) / 8) for g in gains) / 2
    yield "distance", rollout.farthest(w), apart


def _over(S: tuple[int, ...], taken: np.ndarray, left: np.ndarray) -> arb:
    """Product of the entries of ``taken`` in the set S, and of those of ``left`` outside."""
    return prod((taken[i] if s else left[i] for i, s in enumerate(S)), start=arb(1))


def relevance(sign: int = 1) -> Iterator[Pair]:
    """Relevance of two layers and two heads, and rollout, token by token."""
    (G,) = drawn(4, (2, 2, 3, 3))
    kept = table(lambda m, i, j: _kept(sign * G[m, :, i, j]) * sign, 2, 3, 3)
    one = table(lambda i, j: arb(i == j), 3, 3)
    M, N = one + kept[1], one + kept[0]
    through = table(lambda i, j: total(M[i, k] * N[k, j] for k in range(3)), 3, 3)
    yield "relevance", rollout.relevance(G), through
    A, a = G[:, 0], _numbers(0.25, 0.5)
    M, N = (a[m] * A[m] + (1 - a[m]) * one for m in (1, 0))
    twice = table(lambda i, j: total(M[i, k] * N[k, j] for k in range(3)), 3, 3)
    yield "rollout", rollout.product(A, a), twice


def _kept(values: np.ndarray) -> arb:
    """Mean of two values, with 0 in place of a negative one."""
    return total(v if v > 0 else arb(0) for v in values) / 2

"""Definitions of radius, tosses and walks on a mask, by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, table, total
from attnverify.mathematics import mask_graphs


def graphs(more: int = 0) -> Iterator[Pair]:
    """Chances of few heads over all tosses, weights with a floor, products and radius by walks."""
    e = arb(3) / 16
    for radius, layers in ((1, 3), (2, 5), (4, 3)):
        tosses = product((0, 1), repeat=layers + more)
        chances = [_chance(toss, e) for toss in tosses if sum(toss) < radius]
        yield "few heads", mask_graphs.unreached(e, radius, layers), total(chances)
    (Z,) = drawn(5, (2, 3, 3))
    keep = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 1]], dtype=bool)
    P = mask_graphs.weights(Z / 8, e, keep)
    yield "floor", P, table(lambda layer, i, j: _weight(Z[layer] / 8, e, keep, i, j), 2, 3, 3)
    twice = table(lambda i, j: total(P[1, i, k] * P[0, k, j] for k in range(3)), 3, 3)
    yield "product", mask_graphs.product(P), twice
    seen = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0], [1, 0, 0, 1]], dtype=bool)
    yield "radius", arb(mask_graphs.center(seen)[1]), arb(3)
    yield "center", arb(mask_graphs.center(seen)[0]), arb(2)


def _chance(toss: tuple[int, ...], e: arb) -> arb:
    chance = arb(1)
    for side in toss:
        chance *= e if side else 1 - e
    return chance


def _weight(Z: np.ndarray, e: arb, keep: np.ndarray, i: int, j: int) -> arb:
    """Entry of attention with a floor."""
    if not keep[i, j]:
        return arb(0)
    seen = [k for k in range(3) if keep[i, k]]
    return e + (1 - len(seen) * e) * Z[i, j].exp() / total(Z[i, k].exp() for k in seen)


def walks(more: int = 0) -> Iterator[Pair]:
    """Chance that a walk under a window has not reached token 1, over all walks; the ring."""
    e, n, w, layers = arb(1) / 8, 4, 3, 3
    missed = [_walk(steps, e, w) for steps in product(range(1, n), repeat=layers + more) if steps]
    yield "window", mask_graphs.window_unreached(e, n, w, layers), total(missed)
    P = mask_graphs.ring(np.array([[e]], dtype=object), 5, 1, np.array([e], dtype=object))
    near = table(lambda i, j: {0: 1 - 2 * e, 1: e, 4: e}.get(abs(i - j), arb(0)), 5, 5)
    yield "ring", P, near


def _walk(steps: tuple[int, ...], e: arb, window: int) -> arb:
    """Chance of a walk from the last of four tokens, with e on every key but its own."""
    at, chance = 3, arb(1)
    for step in steps:
        keys = min(at + 1, window)
        back = at - step
        if back == 0:
            chance *= 1 - (keys - 1) * e
        elif 0 < back < window:
            chance *= e
        else:
            return arb(0)
        at = step
    return chance

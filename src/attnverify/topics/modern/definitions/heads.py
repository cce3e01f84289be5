"""Definitions of bounds on several heads, and of layers with grouped keys, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.chapters.full_layer import grouped_layer
from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import collapse, head_bounds
from attnverify.mathematics.spectral import spectral_norm


def heads(power: int = 1) -> Iterator[Pair]:
    """Quantities of heads: t_h, the factor along y, the stack and its factor, the best signs."""
    H, d, m = 2, 3, 2
    W, y, rates = drawn(5, (H, d, m), (m,), (H,))
    c: Any = abs(rates)
    (t,) = collapse.falls(ops.balls(np.array([0.75])), c)
    yield "t", t, table(lambda h: (arb(9) / 16 * c[h]).tanh(), H)
    pair = [total(W[h, i, k] * y[k] for k in range(m)) for h in range(H) for i in range(d)]
    lengths = [total(v * v for v in pair[h * d : (h + 1) * d]).sqrt() for h in range(H)]
    yield (
        "along y",
        head_bounds.along(t, W, y),
        total(a * b for a, b in zip(t, lengths, strict=True)),
    )
    s = table(lambda h: arb(h + 2), H)
    gram = table(
        lambda j, k: total(s[h] ** 2 * W[h, i, j] * W[h, i, k] for h in range(H) for i in range(d)),
        m,
        m,
    )
    top = (gram[0, 0] + gram[1, 1]) / 2
    top += (((gram[0, 0] - gram[1, 1]) / 2) ** 2 + gram[0, 1] ** 2).sqrt()
    known = (top * total(t[h] ** 2 / s[h] ** (2 * power) for h in range(H))).sqrt()
    yield "stacked", head_bounds.stacked_factor(t, W, s), known
    (r,) = drawn(6, (3, 2))
    signed = [
        [total(sign * v for sign, v in zip(signs, column, strict=True)) for column in r.T]
        for signs in product((1, -1), repeat=3)
    ]
    yield (
        "best signs",
        head_bounds.along_best(r),
        largest(total(v * v for v in row).sqrt() for row in signed),
    )


def groups(together: bool = True) -> Iterator[Pair]:
    """Layer whose heads 1, 2 and 3, 4 share keys and values, head by head, and its factor.

    together: the heads of a group are neighbors; else 1, 3 and 2, 4 share.
    """
    G, m, n, d, k, v = 2, 2, 3, 3, 2, 1
    H = G * m
    names = ("X", "W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O")
    shapes = ((n, d), (H, d, k), (H, k), (G, d, k), (G, k), (G, d, v), (G, v), (H, v, d), (d,))
    i: dict[str, Any] = dict(zip(names, (a / 4 for a in drawn(7, *shapes)), strict=True))
    of = [h // m if together else h % G for h in range(H)]

    def part(name: str, g: int, token: int, a: int) -> arb:
        return (
            total(i["X"][token, b] * i[f"W_{name}"][g, b, a] for b in range(d))
            + (i[f"b_{name}"][g, a])
        )

    def score(h: int, p: int, q: int) -> arb:
        pairs = total(part("Q", h, p, a) * part("K", of[h], q, a) for a in range(k))
        return (pairs / arb(k).sqrt()).exp()

    def entry(p: int, b: int) -> arb:
        terms = [i["b_O"][b]]
        for h in range(H):
            whole = total(score(h, p, q) for q in range(n))
            terms += [
                score(h, p, q) / whole * part("V", of[h], q, a) * i["W_O"][h, a, b]
                for q in range(n)
                for a in range(v)
            ]
        return total(terms)

    yield "layer", grouped_layer(**i), table(entry, n, d)
    t = table(lambda h: arb(h + 1), H)
    rows = [[i["W_O"][h, 0] for h in range(H) if of[h] == g] for g in range(G)]
    sizes = [
        spectral_norm(i["W_V"][g])
        * spectral_norm(ops.stack(rows[g], 0))
        * total(t[h] ** 2 for h in range(H) if of[h] == g).sqrt()
        for g in range(G)
    ]
    yield "factor", head_bounds.grouped_factor(t, i["W_V"], i["W_O"]), total(sizes)

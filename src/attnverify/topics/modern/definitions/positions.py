"""Definitions of logits with positions and of their bounds, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import position_bounds as formulas
from attnverify.mathematics.spectral import spectral_norm

TOKENS, WIDTH, HEADS, KEY_WIDTH = 3, 5, 2, 4


def _instance() -> dict[str, np.ndarray]:
    """Random layer with rotations and biases."""
    n, d, H, k = TOKENS, WIDTH, HEADS, KEY_WIDTH
    names = ("X", "W_Q", "W_K", "b_Q", "b_K", "angles", "bias", "A", "W", "c")
    shapes = ((n, d), (H, d, k), (H, d, k), (H, k), (H, k), (H, k // 2), (H, 2 * n - 1))
    arrays = drawn(4, *shapes, (H, d, d), (H, d, d), (1, d))
    return {name: array / 4 for name, array in zip(names, arrays, strict=True)}


def _score(i: int, j: int, h: int, X, W_Q, W_K, b_Q, b_K, angles, bias, sign: int) -> arb:
    """Score of one query and key, with the rotation by their distance."""
    d, k = W_Q.shape[1:]
    query, key = (
        [total(X[t, f] * W[h, f, m] for f in range(d)) + b[h, m] for m in range(k)]
        for t, W, b in ((i, W_Q, b_Q), (j, W_K, b_K))
    )

    def plane(m: int) -> arb:
        (a, b), (c, e) = ((v[m], v[m + k // 2]) for v in (query, key))
        turn = angles[h, m] * (sign * (i - j))
        return (a * c + b * e) * turn.cos() - (b * c - a * e) * turn.sin()

    own = total(plane(m) for m in range(k // 2)) / arb(k).sqrt()
    return own + bias[h, TOKENS - 1 + i - j]


def positions(sign: int = 1) -> Iterator[Pair]:
    """Logits, the parts of the bound, and the bound.

    sign: of the distance by which a query is turned against a key.
    """
    given = _instance()
    X, A, W, _ = (given.pop(name) for name in ("X", "A", "W", "c"))
    n, heads, root = TOKENS, range(HEADS), arb(KEY_WIDTH).sqrt()
    z = table(lambda h, i, j: _score(i, j, h, X, **given, sign=sign), HEADS, n, n)
    yield "logits", formulas.logits(X, **given), z
    pairs = [(a, b) for a in range(WIDTH) for b in range(WIDTH)]
    explained = table(
        lambda h, i, j: total(X[i, a] * A[h, a, b] * X[j, b] for a, b in pairs) / root, HEADS, n, n
    )
    e, every = z - explained, list(np.ndindex(n, n, n, n))
    omega = [largest(f[i, j] - f[k, j] - f[i, m] + f[k, m] for i, j, k, m in every) for f in e]
    apart = [total((X[i, f] - X[j, f]) ** 2 for f in range(WIDTH)) for i, j in np.ndindex(n, n)]
    kappa = [spectral_norm(A[h]) * largest(apart) / root for h in heads]
    for name, found, known in zip(
        ("omega", "kappa"), formulas.parts(X, A, **given), (omega, kappa), strict=True
    ):
        yield name, found, np.array(known, dtype=object)
    known = total(spectral_norm(W[h]) * ((omega[h] + kappa[h]) / 4).tanh() for h in heads)
    yield "factor", formulas.layer_factor(X, A, W, **given), known
    yield "two tokens", *_plane(ops.balls(np.array([0.75, 1.5, 1.25, 2.0])))


def equal_tokens(sign: int = 1) -> Iterator[Pair]:
    """The largest change of a row of logits from those of equal tokens; sign as in the other."""
    given, n = _instance(), TOKENS
    X, _, _, c = (given.pop(name) for name in ("X", "A", "W", "c"))
    equal = np.repeat(c, n, axis=0)

    def moved(h: int, i: int, j: int) -> arb:
        own, other = (_score(i, j, h, Y, **given, sign=sign) for Y in (X, equal))
        return own - other

    e = table(moved, HEADS, n, n)
    zeta = [largest(f[i, j] - f[i, k] for i, j, k in np.ndindex(n, n, n)) for f in e]
    yield "zeta", formulas.moved(X, c, **given), np.array(zeta, dtype=object)


def _plane(numbers) -> tuple[arb, arb]:
    """The factor of two tokens, and from their places: weights of a token on itself and beside."""
    size, m, angle, q = numbers
    own = m * m + size * size / 4
    turned = (2 * (size / (2 * m)).atan() + angle).cos() * own
    weights = [(q * s / arb(2).sqrt()).exp() for s in (own, turned)]
    found = formulas.plane_factor(*numbers[:, None], key_width=2)[0]
    return found, (weights[0] - weights[1]) / (weights[0] + weights[1])

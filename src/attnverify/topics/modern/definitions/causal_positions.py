"""Definitions of a causal head with positions and of what decides its rate, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import causal_positions as formulas

TOKENS, WIDTH, KEY_WIDTH, ALIKE = 5, 2, 4, 2


def _instance() -> dict[str, np.ndarray]:
    """Random head with rotations and biases, and tokens of which the first two are equal."""
    n, d, k = TOKENS, WIDTH, KEY_WIDTH
    names = ("X", "W_Q", "W_K", "b_Q", "b_K", "angles", "bias")
    shapes = ((n, d), (1, d, k), (1, d, k), (1, k), (1, k), (1, k // 2), (1, 2 * n - 1))
    given = {name: array / 4 for name, array in zip(names, drawn(8, *shapes), strict=True)}
    given["X"][1] = given["X"][0]
    return given


def _logit(i: int, j: int, X, W_Q, W_K, b_Q, b_K, angles, bias, sign: int) -> arb:
    """Logit of a query and a key, in lengths and angles of their planes."""
    n, d, k = TOKENS, WIDTH, KEY_WIDTH
    query, key = (
        [total(X[t, f] * W[0, f, m] for f in range(d)) + b[0, m] for m in range(k)]
        for t, W, b in ((i, W_Q, b_Q), (j, W_K, b_K))
    )

    def plane(p: int) -> arb:
        (a, b), (c, e) = ((v[p], v[p + k // 2]) for v in (query, key))
        size = ((a * a + b * b) * (c * c + e * e)).sqrt()
        turn = arb.atan2(b, a) - arb.atan2(e, c) + sign * (i - j) * angles[0, p]
        return size * turn.cos()

    return total(plane(p) for p in range(k // 2)) / arb(k).sqrt() + bias[0, n - 1 + i - j]


def _logits(given: dict[str, np.ndarray], X: np.ndarray, sign: int) -> np.ndarray:
    maps = {name: value for name, value in given.items() if name != "X"}
    return table(lambda i, j: _logit(i, j, X, **maps, sign=sign), TOKENS, TOKENS)


def _weights(z: Callable[[int, int], arb], n: int) -> np.ndarray:
    """Attention matrix of logits z(i, j), 0 above the diagonal."""
    rows = [total(z(i, j).exp() for j in range(i + 1)) for i in range(n)]
    return table(lambda i, j: z(i, j).exp() / rows[i] if j <= i else arb(0), n, n)


def head(sign: int = 1) -> Iterator[Pair]:
    """Tokens after a layer, its oscillation D, and logits and weights of equal tokens.

    sign: of the distance by which a query is turned against a key.
    """
    given, n, m = _instance(), TOKENS, ALIKE
    X = given["X"]
    maps = {name: value for name, value in given.items() if name != "X"}
    Z, E = (_logits(given, Y, sign) for Y in (X, np.repeat(X[:1], n, axis=0)))
    P = _weights(lambda i, j: Z[i, j], n)
    mean = lambda i, f: total(P[i, j] * X[j, f] for j in range(n))  # noqa: E731
    yield "tokens", formulas.layer(X, **maps), table(mean, n, WIDTH)
    yield "logits of equal tokens", formulas.logits_of_equal(X, **maps), E
    seen = [(i, j, k) for i in range(m, n) for j in range(i + 1) for k in range(i + 1)]
    D = largest((Z[i, j] - E[i, j]) - (Z[i, k] - E[i, k]) for i, j, k in seen)
    yield "D", formulas.moved(formulas.logits(X, **maps), E, m), D
    by_distance = table(lambda t: E[n - 1, n - 1 - t], n)
    yield "l(t)", formulas.levels(X[:1], n, **maps), by_distance
    own = _weights(lambda i, j: E[i, j], n)
    known = table(lambda i: own[i, i], n)
    yield "weights on themselves", formulas.own_by_distance(by_distance), known
    yield "the same, of the matrix", formulas.own(formulas.weights(E)), known


def shapes(slope_of_twin: float = 1.0) -> Iterator[Pair]:
    """The eigenvector u, by P u = p u, and the closed forms of ALiBi.

    slope_of_twin: a multiple of the slope in the matrix, for a twin.
    """
    (Z,) = drawn(9, (TOKENS, TOKENS))
    for m in (1, 3):
        Z[m, m] += 4  # token m + 1 gives itself more than later ones do
        P = _weights(lambda i, j: Z[i, j], TOKENS)
        yield f"u, m = {m}", *_eigenvector(P, formulas.shape(formulas.weights(Z), m), m, P[m, m])
        X, u = drawn(10 + m, (TOKENS, WIDTH), (TOKENS,))
        apart = [total((X[i, f] - X[0, f]) ** 2 for f in range(WIDTH)) for i in range(TOKENS)]
        known = largest(apart[i].sqrt() / abs(u[i]) for i in range(m, TOKENS))
        yield f"N, m = {m}", formulas.spread(X, abs(u), m), known
    for n, m, slope in ((5, 1, 0.5), (6, 2, 0.25), (6, 3, 1.5)):
        b = arb(slope)
        P = _weights(lambda i, j: (i - j) * -b * slope_of_twin, n)  # noqa: B023
        rate = 1 / total((-b * slope_of_twin * t).exp() for t in range(m + 1))
        yield "rate of ALiBi", formulas.alibi_rate(np.array([b]), m)[0], rate
        yield "u of ALiBi", *_eigenvector(P, formulas.alibi_shape(np.array([b]), n, m)[0], m, rate)


def _eigenvector(P, u, m: int, rate: arb) -> tuple[np.ndarray, np.ndarray]:
    """Entries of P u and of rate * u, the first m entries 0 and the next 1."""
    n = len(P)
    mean = [total(P[i, j] * u[j] for j in range(n)) for i in range(n)]
    wanted = [arb(0)] * m + [rate] + [rate * u[i] for i in range(m + 1, n)]
    return np.array(mean, dtype=object), np.array(wanted, dtype=object)

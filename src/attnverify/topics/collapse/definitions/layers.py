"""Definitions of the quantities of the collapse theorems, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, largest, table, total
from attnverify.mathematics import collapse, heads, norms

KEY_WIDTH = 3  # its root is no whole number
TOKENS, WIDTH, HEADS = 4, 3, 2


def _layer_instance(seed: int = 0, depth: int = 1):
    """Random X (n, d), W_QK (L, H, d, d), b_QK (L, H, d) and W (L, H, d, d), with X small."""
    n, d, H, L = TOKENS, WIDTH, HEADS, depth
    X, Q, b, W = drawn(seed, (n, d), (L, H, d, d), (L, H, d), (L, H, d, d))
    return X / 4, Q / 4, b / 4, W / 4


def attention_by_entries(X, Q, b, mask=lambda i, j: True):
    """Attention P_h,ij over the keys j that token i may see, from x_i' Q_h x_j + b_h' x_j."""
    n, d = X.shape

    def score(h: int, i: int, j: int) -> arb:
        pairs = total(X[i, k] * Q[h, k, m] * X[j, m] for k in range(d) for m in range(d))
        return (pairs + total(b[h, m] * X[j, m] for m in range(d))) / arb(KEY_WIDTH).sqrt()

    def weight(h: int, i: int, j: int) -> arb:
        seen = [k for k in range(n) if mask(i, k)]
        if j not in seen:
            return arb(0)
        return 1 / total((score(h, i, k) - score(h, i, j)).exp() for k in seen)

    return table(weight, len(Q), n, n)


def layer_by_entries(X, Q, b, W):
    """Output sum_h sum_j P_h,ij sum_k X_jk W_h,km for every token i and feature m."""
    P, (n, d) = attention_by_entries(X, Q, b), X.shape
    indices = [(h, j, k) for h in range(len(Q)) for j in range(n) for k in range(d)]
    return table(lambda i, m: total(P[h, i, j] * X[j, k] * W[h, k, m] for h, j, k in indices), n, d)


def layers(skip_sign: int = 1) -> Iterator[Pair]:
    """Attention, one layer, and two layers with and without skip connections."""
    X, Q, b, W = _layer_instance(seed=1, depth=2)
    yield "P", collapse.attention(X, Q[0], b[0], KEY_WIDTH), attention_by_entries(X, Q[0], b[0])
    once = layer_by_entries(X, Q[0], b[0], W[0])
    yield "layer", collapse.layer(X, Q[0], b[0], W[0], KEY_WIDTH), once
    twice = layer_by_entries(once, Q[1], b[1], W[1])
    yield "network", collapse.network(X, Q, b, W, KEY_WIDTH), twice
    Y = X + skip_sign * once
    twice = Y + skip_sign * layer_by_entries(Y, Q[1], b[1], W[1])
    yield "with skip", collapse.network(X, Q, b, W, KEY_WIDTH, skip=True), twice


def _column_sums(A) -> arb:
    """Norm ||A||_1 of one matrix, from its entries."""
    return largest(total(abs(v) for v in column) for column in A.T)


def _row_sums(A) -> arb:
    """Norm ||A||_inf of one matrix, from its entries."""
    return _column_sums(A.T)


def scores_by_entries(R, Q):
    """Scores E_h,ij = r_i' Q_h r_j / sqrt(d_qk)."""
    (n, d), root = R.shape, arb(KEY_WIDTH).sqrt()

    def score(h: int, i: int, j: int) -> arb:
        return total(R[i, k] * Q[h, k, m] * R[j, m] for k in range(d) for m in range(d)) / root

    return table(score, len(Q), n, n)


def _gammas(E) -> list[arb]:
    """Factor gamma = sqrt(sum_i D_i max_i D_i) / (2 ||E||_1) of every head."""
    D = [[largest(row) + largest(-row) for row in head] for head in E]
    return [
        (total(d) * largest(d)).sqrt() / (2 * _column_sums(e)) for d, e in zip(D, E, strict=True)
    ]


def with_gamma(root: int = 4) -> Iterator[Pair]:
    """((nd)^(1/4) + (nd)^(-1/4))/(2 sqrt 2) sum_h gamma_h q_h ||W_h|| / sqrt(d_qk), by heads."""
    R, (Q,), _, (W,) = _layer_instance()
    tau = arb(TOKENS * WIDTH).root(root)
    sizes = [
        _column_sums(q) * (_column_sums(w) * _row_sums(w)).sqrt() for q, w in zip(Q, W, strict=True)
    ]
    by_head = total(g * s for g, s in zip(_gammas(scores_by_entries(R, Q)), sizes, strict=True))
    known = (tau + 1 / tau) / arb(8).sqrt() * by_head / arb(KEY_WIDTH).sqrt()
    yield "constant", heads.gamma_constant(R, Q, W, KEY_WIDTH), known


def published(constant: int = 4) -> Iterator[Pair]:
    """Scores E, gamma, the constants of Dong et al., and the constant that holds for many heads."""
    R, (Q,), _, (W,) = _layer_instance()
    E, root = scores_by_entries(R, Q), arb(KEY_WIDTH).sqrt()
    yield "E", collapse.scores_of_residual(R, Q, KEY_WIDTH), E
    gammas = _gammas(E)
    yield "gamma", collapse.gamma(R, Q, KEY_WIDTH), gammas
    sizes = [(_column_sums(q), _column_sums(w), _row_sums(w)) for q, w in zip(Q, W, strict=True)]
    beta = largest(q * (c * r).sqrt() for q, c, r in sizes)
    yield (
        "published",
        collapse.published_constant(R, Q, W, KEY_WIDTH),
        constant * HEADS * beta / root,
    )
    both = total(q * c for q, c, _ in sizes) * total(q * r for q, _, r in sizes)
    yield (
        "corrected",
        collapse.corrected_constant(R, Q, W, KEY_WIDTH),
        constant * both.sqrt() / root,
    )


def recursion(power: int = 3) -> Iterator[Pair]:
    """Cubic bound C a^3 and its iterate C^((3^L - 1)/2) a^(3^L)."""
    C, a = (ball[0] for ball in drawn(3, (1,), (1,)))
    yield "cubic", collapse.cubic(C, a), C * a**power
    for L in (0, 1, 2, 3):
        known = total([C ** ((power**L - 1) // 2) * a ** (power**L)])
        yield f"{L} layers", collapse.iterate(C, a, L), known


def unconditional(tilt: int = 2) -> Iterator[Pair]:
    """min{kappa(D/2), e^(D/2)/sqrt 2} on either side of where the two cross, kappa by a series."""
    for value in (0.5, 1.5, 4.0, 9.0):
        D = arb(value)
        series = total((D / 2) ** k / arb(k + 1).gamma() / (k + 1) for k in range(80))
        least = -largest([-series, -(D / 2).exp() / arb(tilt).sqrt()])
        found = collapse.unconditional_constant(np.array([D], dtype=object))[0]
        yield f"D = {value}", found, least


def counterexamples(factor: int = 4) -> Iterator[Pair]:
    """Closed forms of the counterexamples, and their layers with the printed bound."""
    many = {k: ops.balls(v) for k, v in collapse.many_heads_counterexample(4, 0.5).items()}
    X, Q, b, W = (many[name] for name in ("X", "W_QK", "b_QK", "W"))
    size = norms.composite(X)
    known = norms.composite(norms.mean_centered(collapse.layer(X, Q, b, W, 1)))
    known = known / (factor * 2 * norms.composite(W[0]) * size**3)  # two heads, ||W_QK||_1 = 1
    yield "many heads", heads.printed_ratio(4, arb(1) / 2), known
    yield "anchor", heads.unconditional_ratio(3), _anchor_ratio(3, factor)


def _anchor_ratio(k: int, factor: int) -> arb:
    """Ratio for an anchor, k tokens that pull and k idle ones, from one column of the output."""
    n, M, zero = 2 * k + 1, (arb(16) * k).log(), arb(0)
    R = table(lambda i, j: arb(int(j == (i - 1) % (k + 1) and i <= k)), n, k + 1)
    Q = table(lambda _, i, j: M if i == j < k else zero, 1, k + 1, k + 1)
    b = table(lambda _, i: arb(2 * k).log() if i == k else zero, 1, k + 1)
    W = table(lambda _, i, j: arb(int(i == j == k)), 1, k + 1, k + 1)
    column = collapse.layer(R, Q, b, W, 1)[:, k]
    middle = (largest(column) - largest(-column)) / 2
    apart = [abs(v - middle) for v in column]
    return (total(apart) * largest(apart)).sqrt() / (factor * M)

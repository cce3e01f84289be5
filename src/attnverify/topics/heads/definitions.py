"""Definitions of heads, staircases, experts and copying layers, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, table, total
from attnverify.mathematics import copying
from attnverify.topics.softmax.definitions import softmax_row


def lost(less: int = 1) -> Iterator[Pair]:
    """Score that a row loses whose other keys lie 1 + w below, where w e^{w + 1} = n - 1."""
    for n in (2, 3, 10):
        w = copying.lost_score(n)
        yield "root", w * (w + 1).exp(), arb(n - less)
        p = softmax_row([arb(0), *[-1 - w] * (n - 1)])
        yield "row", total(p[1:]) * (1 + w), w
        yield "share", copying.share(copying.rivals(1 + w, n - 1)), total(p[1:])


def pairs_of_keys(scale: int = 2) -> Iterator[Pair]:
    """One head with the keys q and -q, and an eigenvalue by the characteristic polynomial."""
    W, q = drawn(6, (2, 2), (1, 2))
    K = ops.join([q, -q], -2)
    s = total(q[0, a] * W[a, b] * q[0, b] for a in range(2) for b in range(2)) / scale
    p = softmax_row([s, -s])
    yield "output", copying.read(q, K, K, W, 2)[0], [(p[0] - p[1]) * x for x in q[0]]
    S = (W + W.T) / 2
    (a, b), (_, c) = S
    middle, apart = (a + c) / 2, (((a - c) / 2) ** 2 + b**2).sqrt()
    yield "eigenvalue", copying.least_eigenvalue(S), middle - apart


def staircases(half: int = 2) -> Iterator[Pair]:
    """Means of four values at a point, by their weights e^{-beta (x - v)^2 / 2}."""
    for a, step, beta, cell, u in ((-1, 0.5, 3, 0, 0.25), (2, 3, 0.25, 1, 0.75), (0, 1, 2, 2, 0.5)):
        v = [arb(a) + step * k for k in range(4)]
        x = arb(a) + step * (cell + arb(u))
        e = [(-beta * (x - y) ** 2 / half).exp() for y in v]
        mean = total(w * y for w, y in zip(e, v, strict=True)) / total(e)
        point, values = np.array([x], dtype=object), np.array(v, dtype=object)
        yield "mean", copying.staircase(point, values, np.array([arb(beta)])), [mean]
        if cell == 0:  # then this is also the error of the first cell
            found = copying.first_cell(np.array([arb(u)]), np.array([arb(beta * step**2)]), 4)
            yield "cell", a + step * found, [mean]


def mixture(one: int = 1) -> Iterator[Pair]:
    """Heads with gates as a mixture of mixtures, and as one softmax over all triples."""
    H, n, d, a, c = 2, 3, 2, 3, 2
    X, W, g, V, U = drawn(7, (n, d), (H, d, d), (H, n, a), (H, d, a), (H, a, c))
    X, W, g = X / 4, W / 4, abs(g)
    s = table(
        lambda h, i, j: total(X[i, k] * W[h, k, m] * X[j, m] for k in range(d) for m in range(d)),
        H,
        n,
        n,
    )
    e = ops.exp(s)
    P = table(lambda h, i, j: e[h, i, j] / total(e[h, i]), H, n, n)
    value = table(lambda h, j, b: total(X[j, k] * V[h, k, b] for k in range(d)), H, n, a)
    every = [(h, b, j) for h in range(H) for b in range(a) for j in range(n)]
    found, flat = copying.gated(X, W, g, V, U), []
    outer, E = np.empty((n, c), dtype=object), copying.experts(X, V, U)
    for i in range(n):
        G = total(g[:, i].flat)
        joint = softmax_row(
            [s[h, i, j] + g[h, i, b].log() - one * total(e[h, i]).log() for h, b, j in every]
        )
        flat.append(
            [g[h, i, b] / G * P[h, i, j] - p for (h, b, j), p in zip(every, joint, strict=True)]
        )
        for k in range(c):
            outer[i, k] = total(
                g[h, i, b] * P[h, i, j] * value[h, j, b] * U[h, b, k] for h, b, j in every
            )
    yield "output", found, outer
    yield "experts", E, table(lambda h, j, b, k: value[h, j, b] * U[h, b, k], H, n, a, c)
    yield "one softmax", flat, [[arb(0)] * len(every)] * n


WORDS = ([0, 1, 2, 0], [1, 0, 2, 0, 1, 2, 0], [0, 0, 0], [0, 1, 0, 1, 2, 1])


def copied(back: int = 1) -> Iterator[Pair]:
    """Outputs of two layers by their scores, one after the other, and the word that is right."""
    beta, gamma = arb(2), arb(0.5)
    for words in WORDS:
        n = len(words) - 1
        T = ops.balls(np.eye(3)[words])
        agree = []  # of the mean word of row j with the last word
        for j in range(n + 1):
            P = softmax_row([beta * (i == j - back) for i in range(j + 1)])
            agree.append(total(p * (words[i] == words[-1]) for i, p in enumerate(P)))
        p = softmax_row([(n + 1) * gamma * a + gamma * j for j, a in enumerate(agree)])
        output = [total(q * (w == k) for q, w in zip(p, words, strict=True)) for k in range(3)]
        one = np.array([arb(1)], dtype=object)
        yield "output", copying.induction(T, beta * one, gamma * one), output
        last = max(j for j in range(1, n + 1) if words[j - 1] == words[-1])
        yield "word", copying.follower(T), [arb(k == words[last]) for k in range(3)]
        levels = total((-gamma * i).exp() for i in range(1, n + 1))
        lost = 2 * (n + 1) * gamma * n / (beta.exp() + n)
        yield "odds", copying.copying_odds(n, beta * one, gamma * one), [lost.exp() * levels]

"""Definitions of attention and paths, token by token: weights, layers, terms, sums by length."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from flint import arb

from attnverify.arithmetic import ops
from attnverify.checking.definition_agreement import Pair, drawn, table, total
from attnverify.mathematics import attention, paths

DEPTH, HEADS, TOKENS, WIDTH, KEY, VALUE = 3, 2, 3, 4, 3, 2  # no two axes that meet are equal


def weights(scale: int = KEY) -> Iterator[Pair]:
    """Logits and attention of two heads with both biases, softmax of q_i . k_j / sqrt(d_qk)."""
    H, n, d, k = HEADS, TOKENS, WIDTH, KEY
    X, W_Q, b_Q, W_K, b_K = drawn(0, (n, d), (H, d, k), (H, k), (H, d, k), (H, k))
    X = X / 4

    def part(W, b, h: int, i: int, m: int) -> arb:
        return total(X[i, a] * W[h, a, m] for a in range(d)) + b[h, m]

    def score(h: int, i: int, j: int) -> arb:
        pairs = total(part(W_Q, b_Q, h, i, m) * part(W_K, b_K, h, j, m) for m in range(k))
        return pairs / arb(scale).sqrt()

    z = attention.logits(X, W_Q, b_Q, W_K, b_K)
    known = table(score, H, n, n)
    yield "logits", z, known
    whole = table(lambda h, i: total(ops.exp(known)[h, i]), H, n)
    P = table(lambda h, i, j: ops.exp(known)[h, i, j] / whole[h, i], H, n, n)
    yield "weights", ops.softmax(z), P


def _stack(seed: int):
    """Rows of attention that sum to 1, X and the weights and biases of a stack; exact balls."""
    L, H, n, d, v = DEPTH, HEADS, TOKENS, WIDTH, VALUE
    shapes = ((L, H, n, n), (n, d), (L, H, d, v), (L, H, v), (L, H, v, d), (L, d))
    Z, X, W_V, b_V, W_O, b_O = drawn(seed, *shapes)
    P = table(lambda *i: abs(Z[i]) / total(abs(z) for z in Z[i[:-1]]), *Z.shape)
    return P, X, W_V / 4, b_V, W_O / 4, b_O


def _head(P, X, W_V, b_V, W_O) -> object:
    """Output P (X W_V + 1 b_V') W_O of one head, entry by entry."""
    (n, d), v = X.shape, len(b_V)
    values = table(lambda j, m: total(X[j, k] * W_V[k, m] for k in range(d)) + b_V[m], n, v)
    mixed = table(lambda i, m: total(P[i, j] * values[j, m] for j in range(n)), n, v)
    return table(lambda i, k: total(mixed[i, m] * W_O[m, k] for m in range(v)), n, d)


def _network(skip: bool, P, X, W_V, b_V, W_O, b_O):
    """Output of the layers in turn, with the value biases added before the attention."""
    for layer in range(len(P)):
        heads = [
            _head(P[layer, h], X, W_V[layer, h], b_V[layer, h], W_O[layer, h])
            for h in range(len(P[layer]))
        ]
        step = total(heads) + b_O[layer]
        X = X + step if skip else step
    return X


def _term(path: tuple[int, ...], P, X, W_V, b_V, W_O, b_O):
    """Term of one path, through one head in every layer (0 for none), without biases."""
    for layer, head in enumerate(path):
        if head > 0:
            h = head - 1
            X = _head(P[layer, h], X, W_V[layer, h], 0 * b_V[layer, h], W_O[layer, h])
    return X


def layers(skip: bool, carried: bool | None = None) -> Iterator[Pair]:
    """Forward pass, single paths and sums by length; carried: skip connection of the twin."""
    P, X, W_V, b_V, W_O, b_O = stack = _stack(1)
    fixed = paths.FixedAttention(P, W_V, W_O, attention.layer_bias(b_V, W_O, b_O), skip)
    known = _network(skip if carried is None else carried, *stack)
    yield "forward", fixed.forward(X), known
    indices = list(product(range(0 if skip else 1, HEADS + 1), repeat=DEPTH))
    terms = {path: _term(path, *stack) for path in indices}
    for path, term in terms.items():
        yield f"path {path}", fixed.term(X, path), term
    yield "with bias", total(terms.values()) + fixed.bias_vector(), known
    for length, found in enumerate(fixed.by_length(X)):
        of_length = [t for path, t in terms.items() if DEPTH - path.count(0) == length]
        yield f"length {length}", found, total([0 * X, *of_length])

"""Definitions of RMS norm, layer norm with a scale and gated MLPs, feature by feature."""

from __future__ import annotations

from collections.abc import Iterator

from flint import arb

from attnverify.checking.definition_agreement import Pair, drawn, table, total
from attnverify.mathematics import gated_mlp, layernorm


def norms(mean: bool = True) -> Iterator[Pair]:
    """Both norms of two tokens with epsilon = 1/4; the twin divides by the sum of squares."""
    X, g = drawn(2, (2, 3), (3,))
    share = arb(3) if mean else arb(1)

    def entry(i: int, k: int, center: arb) -> arb:
        squares = total((x - center) ** 2 for x in X[i])
        return (X[i, k] - center) * g[k] / (squares / share + arb(1) / 4).sqrt()

    epsilon = arb(1) / 4
    known = table(lambda i, k: entry(i, k, arb(0)), 2, 3)
    yield "RMS norm", layernorm.rms_norm(X, g, epsilon), known
    known = table(lambda i, k: entry(i, k, total(X[i]) / 3), 2, 3)
    yield "layer norm", layernorm.layer_norm(X, g, epsilon), known


def gated(sign: int = -1) -> Iterator[Pair]:
    """Gated MLP entry by entry; the twin takes 1/(1 + e^a)."""
    X, W_G, W_U, W_D = drawn(3, (2, 3), (3, 4), (3, 4), (4, 3))

    def hidden(i: int, j: int) -> arb:
        a, u = (total(X[i, k] * W[k, j] for k in range(3)) for W in (W_G, W_U))
        return a * u / (1 + (sign * a).exp())

    known = table(lambda i, k: total(hidden(i, j) * W_D[j, k] for j in range(4)), 2, 3)
    yield "gated", gated_mlp.gated(X, W_G, W_U, W_D), known

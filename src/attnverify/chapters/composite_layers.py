"""Layers and networks in the composite value of the residual, whose scores are bounded.

A layer is R (n, d), x (1, d), W_QK, W (heads, d, d) and b_QK (heads, d), on the tokens R + 1 x'; a
network is X (n, d) and weights (depth, heads, ...). The key width is that of
:mod:`attnverify.chapters.layer_instances`. Formulas take float64 tensors or balls with a batch axis
in front; instances are float64 tensors without one. Drawn networks have two tokens, whose best
center is their mean at every layer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import (
    KEY_WIDTH,
    LIMIT,
    bounded_layer,
    oscillations_bounded,
    power,
    two_token_layer,
)
from attnverify.checking.check import Instance
from attnverify.mathematics import collapse, heads, norms
from attnverify.mathematics.softmax import critical_float, critical_oscillation, oscillation

WIDE = 8.0  # oscillations drawn for bounds that need no condition
#: Draws a layer whose scores have any size up to WIDE.
any_scores = partial(bounded_layer, limit=WIDE)
#: Free parameters of a layer on two tokens, on more, and of a network on two.
TWO = "u[1,d] x[1,d] W_QK[H,d,d] b_QK[H,d] W[H,d,d] s[H]"
MORE = "R[n,d] x[1,d] W_QK[H,d,d] b_QK[H,d] W[H,d,d] s[H]"
NETWORK = "u[1,d] x[1,d] W_QK[L,H,d,d] b_QK[L,H,d] W[L,H,d,d] s[L,H]"

# ---------------------------------------------------------------- one layer


def about_the_mean(R, x, W_QK, b_QK, W):
    """Composite value of the output less its mean token, the best center of two tokens."""
    return norms.composite(norms.mean_centered(collapse.layer(R + x, W_QK, b_QK, W, KEY_WIDTH)))


def moved(R, x, W_QK, b_QK, W):
    """Output minus the center of the proof, sum_h (P_h - 1 r_h^T) R W_h, shape of R."""
    P = collapse.attention(R + x, W_QK, b_QK, KEY_WIDTH)
    S = R[..., None, :, :]
    scores = (x[..., None, :, :] @ W_QK + b_QK[..., None, :]) @ ops.transpose(S)
    base = ops.softmax(scores / ops.root(KEY_WIDTH, R))
    return ops.sum((P - base) @ S @ W, -3)


def cubic(constant: Callable, R, x, W_QK, b_QK, W):
    """Bound constant(R, W_QK, W, d_qk) ||R||^3 of a layer."""
    return collapse.cubic(constant(R, W_QK, W, KEY_WIDTH), norms.composite(R))


def pulled_apart(tokens: int = 4, exponent: int = 10) -> Instance:
    """Layer of tokens e_1, e_2, 0, ...; the first attends to one of two, away from the other.

    W_QK = 2 w e_1 (e_1 - e_2)^T with w = 2^-exponent (d_qk = 4), W_V = I, and a query bias that
    leaves a zero token a weight of about e^-40.
    """
    W_QK = torch.tensor([[[1.0, -1.0], [0.0, 0.0]]], dtype=torch.float64) * 2.0 ** (1 - exponent)
    return {
        "R": torch.eye(tokens, 2, dtype=torch.float64),
        "x": torch.zeros(1, 2, dtype=torch.float64),
        "W_QK": W_QK,
        "b_QK": torch.full((1, 2), 80.0, dtype=torch.float64),
        "W": torch.eye(2, dtype=torch.float64)[None],
    }


def pulled_apart_twice() -> Instance:
    """Layer of :func:`pulled_apart` and a head of 1/2 its scores and 1/4 of its value map."""
    one, sizes = pulled_apart(), {"W_QK": 0.5, "b_QK": 1.0, "W": 0.25}
    return {**one, **{k: torch.cat([one[k], size * one[k]]) for k, size in sizes.items()}}


def with_key_width(layer: Instance, key_width: int) -> Instance:
    """A layer X, W_QK, b_QK, W for ``key_width``, its logits equal at the key width of checks."""
    factor, X = (KEY_WIDTH / key_width) ** 0.5, layer["X"]
    maps = {"W_QK": factor * layer["W_QK"], "b_QK": factor * layer["b_QK"], "W": layer["W"]}
    return {"R": X, "x": 0 * X[:1], **maps}


def two_wide(width: int) -> Instance:
    """Two tokens with tiny scores; two heads, W_1 = sqrt(d) e_1 e_1^T and W_2 = e_1 1^T."""
    return with_key_width(collapse.many_heads_counterexample(width, 2.0**-10), 1)


def many_wide(width: int, tokens: int) -> Instance:
    """The layer of small scores on which two such heads reach the bound by the width."""
    return with_key_width(heads.wide_family(width, tokens, 2.0**-10), heads.WIDE_KEY_WIDTH)


# ---------------------------------------------------------------- depth

# Rounding in the first layer moves the scores of the second a little: more room below x*.
NETWORK_LIMIT = critical_float() * (1 - 2.0**-20)
#: The title of the twin whose bound is :func:`iterated_more`.
LARGER_EXPONENT = "the exponent (3^L - 1)/2 + 0.04 in place of (3^L - 1)/2"


def bounded_network(
    u, x, W_QK, b_QK, W, s, limit: float = NETWORK_LIMIT, after: Callable | None = None
) -> Instance:
    """Network on two tokens whose scores are scaled, layer by layer, at that layer's input.

    after: what follows layer i, a function of (i, tokens).
    """
    X, maps = torch.cat([u, -u], dim=-2) + x, []
    for i in range(W.shape[-4]):
        part = {"W_QK": W_QK[:, i], "b_QK": b_QK[:, i], "W": W[:, i]}
        R = norms.mean_centered(X)
        built = bounded_layer(x=X - R, s=s[:, i], R=R, limit=limit, **part)
        maps.append(built["W_QK"])
        X = collapse.layer(X, built["W_QK"], part["b_QK"], part["W"], KEY_WIDTH)
        X = X if after is None else after(i, X)
    X = torch.cat([u, -u], dim=-2) + x
    return {"X": X, "W_QK": torch.stack(maps, 1), "b_QK": b_QK, "W": W}


def states(X, W_QK, b_QK, W, after: Callable | None = None) -> tuple[list[tuple], Any]:
    """(residual, W_QK, W) at the input of every layer, and the residual of the output."""
    layers = []
    for i in range(W.shape[-4]):
        Q, V = W_QK[..., i, :, :, :], W[..., i, :, :, :]
        layers.append((norms.mean_centered(X), Q, V))
        X = collapse.layer(X, Q, b_QK[..., i, :, :], V, KEY_WIDTH)
        X = X if after is None else after(i, X)
    return layers, norms.mean_centered(X)


def largest(function: Callable, layers: list[tuple]) -> Any:
    """Largest value over the layers of a function of (R, W_QK, W, d_qk)."""
    return ops.amax(ops.stack([function(*layer, KEY_WIDTH) for layer in layers], -1), -1)


def over_depth(constant: Callable, iterate: Callable, **network: Any) -> tuple[Any, Any]:
    """The residual of the output, and the bound by the largest constant of the layers.

    ||res SAN(X)|| and iterate(max_l constant(R_l, W_QK,l, W_l, d_qk), ||res X||, L), (...).
    """
    layers, output = states(**network)
    size = norms.composite(layers[0][0])
    return norms.composite(output), iterate(largest(constant, layers), size, len(layers))


def within_condition(**network: Any) -> list[tuple[Any, Any]]:
    """Hypothesis D_i <= x* at every layer."""
    layers, _ = states(**network)
    return [pair for R, Q, _ in layers for pair in oscillations_bounded(R, Q)]


def iterated_more(constant, size, depth: int):
    """Bound of a twin, constant^((3^L - 1)/2 + 1/25) size^(3^L), constant > 0."""
    return collapse.iterate(constant, size, depth) * power(constant, 0.04)


def two_layers(value: float = 1.0, heads: int = 1) -> Instance:
    """Network of two layers that both keep as much as a layer can.

    ||R||, ||R W|| and ||E|| are as large as allowed.
    Tokens +-e_1/256 with W_QK = e_1 e_1^T and W = value e_1 1^T; then +-t (1, 1) with W_QK = I and
    W = value 1 e_1^T. Several heads are alike.
    """
    one, eye = two_token_layer(2.0**-8), torch.eye(2, dtype=torch.float64)
    W = torch.stack([one["W"], one["W"].mT]).repeat(1, heads, 1, 1)
    W_QK = torch.stack([one["W_QK"], eye[None]]).repeat(1, heads, 1, 1)
    return {"X": one["R"], "W_QK": W_QK, "b_QK": 0 * W[..., 0], "W": value * W}


# ---------------------------------------------------------------- rows of scores with one base


def bounded_rows(base, E, s, **others) -> Instance:
    """Rows E (..., rows, tokens) scaled together: the largest oscillation is a free share of x*."""
    largest = oscillation(E).amax(-1, keepdim=True).clamp_min(1e-6)
    return {"base": base, "E": E * (LIMIT * torch.sigmoid(s) / largest)[..., None], **others}


def rows_bounded(E, **_) -> list[tuple[Any, Any]]:
    """Hypothesis that every row of E has an oscillation of at most x*."""
    D = oscillation(E)
    return [(D, ops.full(tuple(D.shape), 0, D) + critical_oscillation(D))]


def one_row(size: float) -> Instance:
    """Two tokens of equal weight and one row (size, -size)."""
    zero = torch.zeros(2, dtype=torch.float64)
    return {"base": zero, "E": torch.tensor([[size, -size]], dtype=torch.float64)}


def one_heavy(light: int, D: float) -> Instance:
    """Token 1 has half of the weight and each light token is raised once."""
    base = torch.zeros(light + 1, dtype=torch.float64)
    base[0] = torch.tensor(float(light)).double().log()
    E = torch.zeros(2 * light, light + 1, dtype=torch.float64)
    E[:light, 1:] = D * torch.eye(light, dtype=torch.float64)
    E[light:, 0] = D / light
    return {"base": base, "E": E}

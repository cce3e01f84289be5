"""Checks of collapse in the composite value: one head and many heads, one layer and depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import (
    KEY_WIDTH,
    bounded_layer,
    layer_sizes,
    oscillations_bounded,
    small_scores,
)
from attnverify.checking.check import Inequality
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.norms import least_composite
from attnverify.mathematics.softmax import oscillation
from attnverify.topics.collapse.checks import depth


def _residual_two(R, x, W_QK, b_QK, W):
    """Least composite value of the residual for two tokens, whose best center is the mean."""
    return norms.composite(norms.mean_centered(collapse.layer(R + x, W_QK, b_QK, W, KEY_WIDTH)))


def _moved(R, x, W_QK, b_QK, W):
    """Output minus the center of the proof, sum_h (P_h - 1 r_h^T) R W_h."""
    P = collapse.attention(R + x, W_QK, b_QK, KEY_WIDTH)
    S = R[..., None, :, :]
    scores = (x[..., None, :, :] @ W_QK + b_QK[..., None, :]) @ ops.transpose(S)
    base = ops.softmax(scores / ops.root(KEY_WIDTH, R))
    return ops.sum((P - base) @ S @ W, -3)


def _residual_any(**instance):
    """Composite value with the center of the proof, at least the least one that is claimed."""
    return norms.composite(_moved(**instance))


def _residual_least(**instance):
    """Lower bound on the least composite value, since twins must be false for every center."""
    return least_composite(_moved(**instance))


def bound(constant: Callable) -> Callable:
    """Right side constant ||R||^3 of a one-layer bound."""

    def right(R, x, W_QK, b_QK, W):
        return collapse.cubic(constant(R, W_QK, W, KEY_WIDTH), norms.composite(R))

    return right


def _version_2(R, W_QK, W, key_width):
    gamma = ops.amax(collapse.gamma(R, W_QK, key_width), -1)
    return gamma * collapse.published_constant(R, W_QK, W, key_width)


def _sharpened(R, W_QK, W, key_width):
    """Constant of one head, where the largest oscillation decides what replaces 4."""
    D = oscillation(collapse.scores_of_residual(R, W_QK, key_width))[..., 0, :]
    constant = collapse.unconditional_constant(ops.amax(D, -1))
    return constant * collapse.corrected_constant(R, W_QK, W, key_width) / ops.constant(4, R)


def _root_two(R, W_QK, W, key_width):
    """Constant with sqrt(2) in place of 4."""
    return collapse.corrected_constant(R, W_QK, W, key_width) / ops.root(8, R)


def _best_gamma(R, W_QK, W, key_width):
    """Constant with gamma / sqrt(2) in place of 4 gamma."""
    return _version_2(R, W_QK, W, key_width) / ops.root(32, R)


def _layers(constant: Callable, heads: int = 1, extremal=(), more=()) -> dict[str, Inequality]:
    """Two checks of a one-layer bound: two tokens with the best center, more with the proof's.

    extremal, more: extremal instances of the two.
    """
    two = Inequality(
        left=_residual_two,
        right=bound(constant),
        sizes=tuple(layer_sizes(2, d, heads) for d in (1, 2, 4)),
        build=bounded_layer,
        hypotheses=oscillations_bounded,
        extremal=extremal,
    )
    many = replace(
        two,
        left=_residual_any,
        lower=_residual_least,
        sizes=tuple(layer_sizes(n, d, heads) for n, d in ((3, 2), (6, 3))),
        extremal=more,
    )
    return {"two tokens": two, "more tokens": many}


def refuted_at(checks: dict[str, Inequality], *factors: float) -> dict[str, Inequality]:
    """Checks with a twin each, whose right side is smaller by a factor."""
    pairs = zip(checks.items(), factors, strict=True)
    return {name: check.times(factor) for (name, check), factor in pairs}


# The factors: 1/(4 sqrt 2) = 0.17678 is the best for gamma, and without gamma for four tokens or
# more; without gamma two tokens leave at most 1/8 of the bound with 4.
SINGLE_LAYER = refuted_at(
    _layers(_version_2, extremal=(small_scores,), more=(small_scores,)), 0.1767, 0.1767
)


def _unconditional(constant: Callable, *more: Callable) -> dict[str, Inequality]:
    """Checks of a bound that needs no condition."""
    checks = _layers(constant, extremal=(small_scores,), more=more).items()
    return {
        name: replace(check, hypotheses=None, build=unconditional_layer) for name, check in checks
    }


def unconditional_layer(**parameters):
    """Layer whose scores have any size up to depth.WIDE."""
    return bounded_layer(**parameters, limit=depth.WIDE)


def pulled_apart(tokens: int = 4, exponent: int = 10) -> dict[str, torch.Tensor]:
    """Layer of tokens e_1, e_2, 0, ...; the first attends to one of two, away from the other.

    W_QK = 2 w e_1 (e_1 - e_2)^T with w = 2^-exponent (d_qk = 4), W_V = I, and a query bias that
    leaves a zero token a weight of about e^-40.
    """
    R = torch.eye(tokens, 2, dtype=torch.float64)
    W_QK = torch.tensor([[[1.0, -1.0], [0.0, 0.0]]], dtype=torch.float64) * 2.0 ** (1 - exponent)
    return {
        "R": R,
        "x": torch.zeros(1, 2, dtype=torch.float64),
        "W_QK": W_QK,
        "b_QK": torch.full((1, 2), 80.0, dtype=torch.float64),
        "W": torch.eye(2, dtype=torch.float64)[None],
    }


WITHOUT_GAMMA = refuted_at(
    _layers(collapse.published_constant, extremal=(small_scores,), more=(pulled_apart,)),
    0.1249,
    0.1767,
)
SHARPENED = refuted_at(
    _unconditional(_sharpened, pulled_apart, lambda: pulled_apart(9)), 0.707, 0.999
)
BEST_GAMMA = refuted_at(_unconditional(_best_gamma, small_scores), 0.9999, 0.9999)


def pulled_apart_twice() -> dict[str, torch.Tensor]:
    """Layer of :func:`pulled_apart` and a head of 1/2 its scores and 1/4 of its value map."""
    one = pulled_apart()
    heads = {"W_QK": 0.5, "b_QK": 1.0, "W": 0.25}
    return {**one, **{k: torch.cat([one[k], size * one[k]]) for k, size in heads.items()}}


def _two_heads(constant: Callable) -> dict[str, Inequality]:
    return _layers(constant, 2, (lambda: small_scores(2),), (pulled_apart_twice,))


MANY_HEADS = refuted_at(_two_heads(collapse.corrected_constant), 0.1249, 0.1767)
MANY_HEADS_SHARPENED = {
    f"{name}, constant sqrt 2": check
    for name, check in refuted_at(_two_heads(_root_two), 0.3535, 0.4999).items()
}

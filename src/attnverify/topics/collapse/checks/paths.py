"""Checks of single paths: every path's term against the product of the factors on its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import KEY_WIDTH, extremal_network
from attnverify.checking.check import Check, Inequality
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.spectral import spectral_norm


def _layers(X, W_QK, b_QK, W, skip: bool) -> Iterator[tuple]:
    """Diameter, attention matrices, W_QK and W of every layer, with index 0 if skip."""
    for i in range(W.shape[-4]):
        at = (A[..., i, :, :, :] if A is not b_QK else A[..., i, :, :] for A in (W_QK, b_QK, W))
        Q, b, V = at
        yield norms.diameter(X), collapse.attention(X, Q, b, KEY_WIDTH), Q, V
        Y = collapse.layer(X, Q, b, V, KEY_WIDTH)
        X = X + Y if skip else Y


def _terms(X, W_QK, b_QK, W, skip: bool):
    """Diameters of the terms of all paths but the one of skips alone; (..., paths).

    That one's term is X and its bound diam(X): a ratio of 1 everywhere would be the largest always,
    and a search would climb nowhere.
    """
    terms = X[..., None, :, :]
    for _, P, _, V in _layers(X, W_QK, b_QK, W, skip):
        start = terms[..., :, None, :, :]
        moved = P[..., None, :, :, :] @ start @ V[..., None, :, :, :]
        terms = _flat(ops.join([start, moved], -3) if skip else moved, -4)
    return norms.diameter(terms)[..., int(skip) :]


def _factors(X, W_QK, b_QK, W, skip: bool, first: bool = False):
    """Bounds of the claim; first: a twin that gives every layer the diameter of the first."""
    start = norms.diameter(X)
    bounds = start[..., None]
    for size, _, Q, V in _layers(X, W_QK, b_QK, W, skip):
        falls = collapse.falls(start if first else size, collapse.rate(Q, KEY_WIDTH))
        before = bounds[..., :, None]
        moved = before * (spectral_norm(V) * falls)[..., None, :]
        bounds = _flat(ops.join([before, moved], -1) if skip else moved, -2)
    return bounds[..., int(skip) :]


def _flat(x, axis: int):
    """Two axes as one: paths up to a layer, and that layer's heads (with the skip before them)."""
    return x.reshape(*x.shape[:axis], -1, *x.shape[x.ndim + axis + 2 :])


def _check(skip: bool, extremal: tuple[Callable, ...]) -> Inequality:
    shapes = ((2, 2, 2, 2), (4, 3, 2, 2), (3, 2, 3, 1))
    return Inequality(
        left=partial(_terms, skip=skip),
        right=partial(_factors, skip=skip),
        sizes=tuple(
            {"X": (n, d), "W_QK": (L, H, d, d), "b_QK": (L, H, d), "W": (L, H, d, d)}
            for n, d, L, H in shapes
        ),
        extremal=extremal,
    ).times(0.9996)


WITHOUT = _check(
    False,
    (
        lambda: extremal_network(2.0, 3, 1.5, heads=2, growth=0.25),
        lambda: extremal_network(1.0, 2, 1.0, heads=3),
    ),
)
WITH = _check(True, (lambda: extremal_network(2.0, 3, 0.5, heads=2, growth=0.25),)).but(
    "with skip connections the diameter of the input at every layer",
    right=partial(_factors, skip=True, first=True),
)

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.each-path": {"without skip": WITHOUT, "with skip": WITH},
}

"""Checks of the definition audit: composite value, residual centers, diameter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.arithmetic.rounding import gamma
from attnverify.checking.check import Check, Decision, Identity, Inequality, Twin
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import norms
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.norms import definitions as definitions


def _tensor(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _product_bound(A, B):
    return norms.composite(A) * norms.composite(B)


PRODUCT = (
    Inequality(
        left=lambda A, B: norms.composite(A @ B),
        right=_product_bound,
        sizes=tuple({"A": (n, k), "B": (k, m)} for n, k, m in ((2, 2, 2), (3, 2, 4), (5, 5, 5))),
        extremal=(lambda: {"A": torch.eye(2), "B": torch.eye(2)},),
    )
    .times(0.9999)
    .but(
        "the first factor measured by its largest column sum alone",
        right=lambda A, B: norms.max_column_sum(A) * norms.composite(B),
    )
)


def _sum_bound(A, **_):
    """Rounding bound: sums of n terms are off by gamma_n each, for two factors, evaluated twice."""
    return 2 * gamma(2 * (A.shape[-1] + A.shape[-2]) + 3, A) * norms.composite_squared(A)


def _transpose(left: Callable, right: Callable, twins: tuple[Twin, ...] = ()) -> Identity:
    return Identity(left, right, _sum_bound, ({"A": (2, 2)}, {"A": (3, 5)}), twins=twins)


TRANSPOSE = _transpose(
    lambda A: norms.composite_squared(ops.transpose(A)),
    lambda A: norms.composite_squared(A),
    (
        Twin(
            "the column half alone is invariant",
            _transpose(lambda A: norms.max_column_sum(ops.transpose(A)), norms.max_column_sum),
        ),
    ),
)


def _subadditivity(second: list[list[int]], factor: float) -> Verdict:
    """Whether the pair violates ||A + B|| <= factor (||A|| + ||B||), in balls."""
    A = ops.balls(np.array([[1, 0], [1, 0]]))
    B = ops.balls(np.array(second))
    parts = norms.composite(A) + norms.composite(B)
    whole = norms.composite(A + B)
    limit = ops.constant(factor, A) * parts
    holds = certain(whole > limit, whole <= limit)
    return Verdict(
        holds,
        f"||A+B|| = {whole.str(10)}, ||A|| + ||B|| = {parts.str(10)}",
        ratio=float((whole / parts).mid()),
    )


def _violation(second: list[list[int]], factor: float = 1.0, twins=()) -> Decision:
    limits = "this pair; the failure grows with the size of the matrices"
    return Decision(partial(_subadditivity, second, factor), limits, kind="certified", twins=twins)


ROW = [[1, 1], [0, 0]]
NOT_SUBADDITIVE = _violation(
    ROW,
    twins=(
        Twin("the pair violates the inequality even with a factor 1.061", _violation(ROW, 1.061)),
        Twin("two matrices with ones in a column do it too", _violation([[0, 1], [0, 1]])),
    ),
)


def _variant(left: Callable, right: Callable, bound: Callable, sizes, twins=()) -> Identity:
    return Identity(left, right, bound, sizes, arithmetic="ball", twins=twins)


def _scale_sizes() -> tuple[dict[str, tuple[int, ...]], ...]:
    return ({"A": (2, 2), "c": (1, 1)}, {"A": (3, 5), "c": (1, 1)})


def _size_of(c):
    return abs(c)[..., 0, 0]


def _homogeneous_bound(A, c):
    m = 2 * (A.shape[-1] + A.shape[-2]) + 8
    return gamma(m, A) * (
        _size_of(c) * norms.composite(A) + _size_of(c) ** 2 * norms.composite(A) ** 2
    )


def _homogeneous(value: Callable, degree: int, twins=()) -> Identity:
    return _variant(
        lambda A, c: value(c * A),
        lambda A, c: _size_of(c) ** degree * value(A),
        _homogeneous_bound,
        _scale_sizes(),
        twins,
    )


WITH_ROOT = _homogeneous(
    norms.composite,
    1,
    (Twin("the root-free variant has degree 1", _homogeneous(norms.composite_squared, 1)),),
)
WITHOUT_ROOT = _homogeneous(
    norms.composite_squared,
    2,
    (Twin("the variant with the root has degree 2", _homogeneous(norms.composite, 2)),),
)


def center_factor(X, x):
    """Bound 2 (1 - 1/n) ||X - 1 x^T||_{1,inf} on the residual with the mean."""
    n, two = ops.constant(X.shape[-2], X), ops.constant(2, X)
    return (two - two / n) * norms.composite(X - x)


def extremal_center(tokens: int = 3, exponent: int = 12) -> dict[str, torch.Tensor]:
    """Instance X, x whose ratio tends to 2 (1 - 1/n) as the exponent grows.

    One column a e_2 with a = 2^-exponent carries the largest column sum; K columns
    (1, -1, ..., -1) / K, with n / K <= a, carry the largest row sum.
    """
    a = 2.0**-exponent
    columns = 2 ** (exponent + (tokens - 1).bit_length())
    X = torch.full((tokens, columns + 1), -1.0 / columns, dtype=torch.float64)
    X[0] = 1.0 / columns
    X[:, -1] = 0.0
    X[1, -1] = a
    return {"X": X, "x": torch.zeros(1, columns + 1, dtype=torch.float64)}


CENTERS = (
    Inequality(
        left=lambda X, x: norms.composite(norms.mean_centered(X)),
        right=center_factor,
        sizes=tuple({"X": (n, d), "x": (1, d)} for n, d in ((3, 8), (3, 32), (5, 40))),
        extremal=(extremal_center, lambda: extremal_center(5, 9)),
    )
    .times(0.9995)
    .but("the mean is the minimizer", right=lambda X, x: norms.composite(X - x))
)


def _right_bound(X, W):
    return spectral_norm(W) * norms.diameter(X)


TWO_TOKENS = [[1.0, 0.0], [-1.0, 0.0]]


def _skewed() -> dict[str, torch.Tensor]:
    """Tokens +-(3, 4) and W = (3, 4) (1, 2, 2)', of one singular value, 15."""
    u = _tensor([[3.0], [4.0]])
    return {"X": torch.cat([u.mT, -u.mT]), "W": u @ _tensor([[1.0, 2.0, 2.0]])}


def _four_columns() -> dict[str, torch.Tensor]:
    """Rows that differ by four unequal entries: twice their total variation is no entry."""
    Z = _tensor([[1.0, 0.5, 0.0, -0.5], [0.0, -0.25, 1.0, 0.5]])
    return {"Z": Z, "X": _tensor([[1.0], [1.0], [-1.0], [-1.0]])}


RIGHT_FACTOR = (
    Inequality(
        left=lambda X, W: norms.diameter(X @ W),
        right=_right_bound,
        sizes=({"X": (2, 2), "W": (2, 2)}, {"X": (4, 3), "W": (3, 5)}),
        extremal=(
            lambda: {"X": _tensor(TWO_TOKENS), "W": _tensor([[2.0, 0.0], [0.0, 1.0]])},
            _skewed,
        ),
    )
    .times(0.9999)
    .but(
        "the largest column sum in place of the largest singular value",
        right=lambda X, W: norms.max_column_sum(W) * norms.diameter(X),
    )
)


def _left_bound(Z, X):
    return norms.contraction(ops.softmax(Z)) * norms.diameter(X)


def _half_largest_entry(Z, X):
    """A smaller neighbor of the contraction coefficient: half the largest entry difference."""
    P = ops.softmax(Z)
    rows = [ops.amax(abs(P - P[..., i : i + 1, :]), -1) for i in range(P.shape[-2])]
    largest = ops.amax(ops.amax(ops.stack(rows, -1), -1), -1)
    return largest / ops.constant(2, largest) * norms.diameter(X)


LEFT_FACTOR = (
    Inequality(
        left=lambda Z, X: norms.diameter(ops.softmax(Z) @ X),
        right=_left_bound,
        sizes=({"Z": (2, 3), "X": (3, 2)}, {"Z": (4, 3), "X": (3, 5)}),
        extremal=(
            lambda: {"Z": _tensor([[1.0, 0.0], [0.0, 1.0]]), "X": _tensor(TWO_TOKENS)},
            _four_columns,
        ),
    )
    .times(0.9999)
    .but(
        "half the largest entry difference in place of the total variation",
        right=_half_largest_entry,
    )
)

TRIANGLE = Inequality(
    left=lambda X, Y: norms.diameter(X + Y),
    right=lambda X, Y: norms.diameter(X) + norms.diameter(Y),
    sizes=({"X": (2, 2), "Y": (2, 2)}, {"X": (4, 3), "Y": (4, 3)}),
    extremal=(lambda: {"X": _tensor(TWO_TOKENS), "Y": _tensor(TWO_TOKENS)},),
).times(0.9999)

CHECKS: dict[str, dict[str, Check]] = {
    "norms.submultiplicative": {
        "product": PRODUCT,
        "transpose": TRANSPOSE,
        "entry by entry": by_definition(definitions.sizes, "without the root", squared=1),
    },
    "norms.not-subadditive": {"pair": NOT_SUBADDITIVE},
    "norms.square-variant": {"with the root": WITH_ROOT, "without the root": WITHOUT_ROOT},
    "norms.residual-centers": {
        "mean": CENTERS,
        "entry by entry": by_definition(definitions.centered, "n - 1 in place of n", tokens=3),
    },
    "norms.diameter": {
        "right factor": RIGHT_FACTOR,
        "left factor": LEFT_FACTOR,
        "triangle inequality": TRIANGLE,
        "entry by entry": by_definition(definitions.distances, "without the half", half=1),
        "singular values": by_definition(
            definitions.spectral, "a negative minor allowed", indefinite=1
        ),
    },
}

"""Sizes of matrices in the collapse theorems: composite value, residual, diameter, contraction.

A token matrix X has one row a token. Its residual X - 1 x^T is what is left when one common token x
is taken from every row, and its diameter is the largest distance of two tokens; both are 0 exactly
when all tokens are equal. The composite value sqrt(||A||_1 ||A||_inf) is the size in which Dong,
Cordonnier and Loukas (2021) state rank collapse; the variants of their paper and released code are
here beside it.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`: floats, balls and rationals.

>>> import torch
>>> import attnverify as av
>>> X = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
>>> av.norms.diameter(X).item()
5.0
>>> round(av.norms.composite(X).item() ** 2, 6)  # 4 * 7: largest column sum, largest row sum
28.0
>>> av.norms.residual(X, "mean")
tensor([[-1.5000, -2.0000],
        [ 1.5000,  2.0000]], dtype=torch.float64)
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import takes
from attnverify.mathematics.center import optimal_center
from attnverify.support.errors import require, require_tokens

Center = Literal["optimal", "median", "mean"]
LARGEST_OPTIMAL = 1 << 16  # entries of one input, for which the optimal center takes minutes


@takes("A")
def max_column_sum(A):
    """||A||_1: the largest column sum of absolute values; A (..., rows, columns) -> (...)."""
    return ops.amax(ops.sum(abs(A), -2), -1)


@takes("A")
def max_row_sum(A):
    """||A||_inf: the largest row sum of absolute values; A (..., rows, columns) -> (...)."""
    return ops.amax(ops.sum(abs(A), -1), -1)


@takes("A")
def composite(A):
    """Composite value ||A||_{1,inf} = sqrt(||A||_1 ||A||_inf); no norm, since not subadditive."""
    return ops.sqrt(composite_squared(A))


@takes("A")
def composite_squared(A):
    """||A||_1 ||A||_inf: the composite value without its square root, homogeneous of degree 2."""
    return max_column_sum(A) * max_row_sum(A)


@takes("X")
def mean_centered(X):
    """X minus the mean of its rows (tokens)."""
    return X - ops.sum(X, -2, keepdims=True) / ops.constant(X.shape[-2], X)


@takes("X")
def diameter(X: ops.Array) -> ops.Array:
    """Largest Euclidean distance between two rows of X (..., tokens, width) -> (...).

    A seminorm that vanishes exactly when all tokens are equal; its cost is that of
    :func:`largest_distance`.
    """
    tokens = getattr(X, "ndim", 0) >= 2
    given = f"shape {tuple(X.shape)}" if hasattr(X, "shape") else type(X).__name__
    require(tokens, "X", given, "an array of shape (..., tokens, width)")
    return largest_distance(X, 2)


@takes("p", "q")
def total_variation(p, q):
    """TV(p, q) = (1/2) sum_j |p_j - q_j| along the last axis."""
    return ops.sum(abs(p - q), -1) / ops.constant(2, p)


@takes("P")
def contraction(P):
    """Dobrushin coefficient max_{i,k} TV(P_i, P_k) of a row-stochastic P (..., n, m) -> (...).

    Its cost is that of :func:`largest_distance`.
    """
    return largest_distance(P, 1) / 2


@takes("X")
def residual(
    X: Float[Tensor, "*batch tokens width"], center: Center = "optimal"
) -> Float[Tensor, "*batch tokens width"]:
    """Residual X - 1 x^T of the tokens X, with the token x chosen by ``center``.

    "optimal": x minimizes the composite value of the difference (exact up to the tolerance of the
    linear programs, see :mod:`attnverify.mathematics.center`); "median": coordinatewise median,
    which minimizes ||.||_1; "mean": the mean token.

    "optimal" takes about half a second for 64 x 64 entries and half a minute for 200 x 128; its
    cost grows faster than the square of their number. Raises InputError for more than
    ``LARGEST_OPTIMAL`` entries.
    """
    require_tokens("X", X)
    require(
        center in ("optimal", "median", "mean"),
        "center",
        repr(center),
        '"optimal", "median" or "mean"',
    )
    if center == "mean":
        return mean_centered(X)
    if center == "median":
        return X - X.quantile(0.5, dim=-2, keepdim=True)
    require(
        X.shape[-2] * X.shape[-1] <= LARGEST_OPTIMAL,
        "X",
        f'{X.shape[-2]} x {X.shape[-1]} entries with center="optimal"',
        f"at most {LARGEST_OPTIMAL:,}, which takes minutes: use "
        'centerbounds.optimal_residual_bounds, or center="median" or "mean"',
    )
    flat = X.reshape(-1, *X.shape[-2:])
    centers = torch.stack([torch.as_tensor(optimal_center(x.cpu().numpy())) for x in flat])
    return X - centers.to(X).reshape(*X.shape[:-2], 1, X.shape[-1])


# ------------------------------------------------------------------------------- distances of rows

DISTANCES_HELD = 1 << 18  # distances held at once on torch: 2 MiB in float64, which caches hold


def largest_distance(X: ops.Array, power: int) -> ops.Array:
    """Largest distance of two rows in the 1-norm (power 1) or 2-norm (2); (..., n, m) -> (...).

    Differences are taken entry by entry, so that close rows lose no digits. n^2 m operations. On
    torch at most DISTANCES_HELD distances are held at once; with gradients the backward pass keeps
    all n^2 of them, and the gradient is 0 at rows that coincide. 16-bit floats are computed in
    float32.
    """
    if ops.is_torch(X):
        return _largest_in_tensor(X, power)
    rows = [_largest_from_row(X, i, power) for i in range(X.shape[-2])]
    largest = ops.amax(ops.stack(rows, -1), -1)
    return ops.sqrt(largest) if power == 2 else largest


def _largest_from_row(X, i: int, power: int):
    """Largest sum_j |X_ij - X_kj|^power of row i and the rows k >= i."""
    differences = X[..., i:, :] - X[..., i : i + 1, :]
    entries = ops.square(differences) if power == 2 else abs(differences)
    return ops.amax(ops.sum(entries, -1), -1)


def _largest_in_tensor(X: torch.Tensor, power: int) -> torch.Tensor:
    exact = X.float() if torch.finfo(X.dtype).bits < 32 else X  # cdist has no 16-bit kernel
    rows = max(1, DISTANCES_HELD // max(1, math.prod(exact.shape[:-1])))
    # The default mode subtracts squared norms and loses the digits of close rows.
    mode = "donot_use_mm_for_euclid_dist"
    parts = [
        torch.cdist(part, exact[..., rows * i :, :], p=power, compute_mode=mode).amax((-2, -1))
        for i, part in enumerate(exact.split(rows, dim=-2))
    ]
    return torch.stack(parts, -1).amax(-1).to(X.dtype)


# --------------------------------------------------------------------- the best center, from below


def _smallest(x, axis: int):
    return -ops.amax(-x, axis)


def least_composite(A):
    """Lower bound on the composite value of A - 1 y^T over all centers y; A (..., n, d) -> (...).

    A proof names one center, and the value there is an upper bound on the least one. To refute a
    smaller bound a lower bound is needed. Let f_1 and f_inf be the largest column and row sum of
    |A - 1 y^T|.

    - f_1 >= a, the largest least column sum; a column sum is least at one of its entries;
    - f_inf >= b, half the largest 1-norm of a difference of two rows;
    - s f_1 + f_inf >= L for s > 0: f_1 is at least the mean column sum, f_inf at least the sum of
      any row i, and s/d sum_m |A_mj - y| + |A_ij - y| is least at an entry of column j.

    On {f_1 >= a, f_inf >= b, s f_1 + f_inf >= L} the product f_1 f_inf is at least a b, and if the
    line cuts off the corner (a, b) it is least at an end of the cut: it is concave along the line.

    Exact for two rows, and where :func:`attnverify.mathematics.heads.spike_residual_squared` is, if
    n is large against d (the tests compare). NaN if all rows are equal.
    """
    n, d = A.shape[-2:]
    apart = abs(A[..., :, None, :] - A[..., None, :, :])  # (..., row, center, column)
    columns = ops.sum(apart, -3)  # (..., center, column)
    a = ops.amax(_smallest(columns, -2), -1)
    b = ops.amax(ops.amax(ops.sum(apart, -1), -1), -1) / ops.constant(2, A)
    slopes = [b / a]
    if n > 2:  # the slope of the frontier at the best center of one row beside equal ones
        slopes.append(0 * a + ops.constant(d, A) / ops.constant(n - 2, A))
    found = [a * b]
    for s in slopes:
        weight = (s / ops.constant(d, A))[..., None, None, None]
        each = ops.sum(_smallest(weight * columns[..., None, :, :] + apart, -2), -1)  # (..., row)
        L = ops.amax(each, -1)
        found.append(_smallest(ops.stack([a * (L - s * a), b * (L - b) / s], -1), -1))
    return ops.sqrt(ops.amax(ops.stack(found, -1), -1))

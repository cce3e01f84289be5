"""Matrix sizes used by the collapse theorems: composite value, residual, diameter.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`. The literature and the released
code of Dong, Cordonnier and Loukas (2021) use several variants; each is here beside the others.

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

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import takes
from attnverify.mathematics.center import optimal_center
from attnverify.mathematics.pairwise import largest_distance
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
    """||A||_{1,inf} = sqrt(||A||_1 ||A||_inf); not a norm (it is not subadditive)."""
    return ops.sqrt(composite_squared(A))


@takes("A")
def composite_squared(A):
    """||A||_1 ||A||_inf: the variant without the square root, homogeneous of degree 2."""
    return max_column_sum(A) * max_row_sum(A)


@takes("X")
def mean_centered(X):
    """X minus the mean of its rows (tokens)."""
    return X - ops.sum(X, -2, keepdims=True) / ops.constant(X.shape[-2], X)


@takes("X")
def diameter(X: ops.Array) -> ops.Array:
    """Largest Euclidean distance between two rows of X (..., tokens, width) -> (...).

    A seminorm that vanishes exactly when all tokens are equal; its cost is that of
    :func:`attnverify.mathematics.pairwise.largest_distance`.
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

    Its cost is that of :func:`attnverify.mathematics.pairwise.largest_distance`.
    """
    return largest_distance(P, 1) / 2


@takes("X")
def residual(
    X: Float[Tensor, "*batch tokens width"], center: Center = "optimal"
) -> Float[Tensor, "*batch tokens width"]:
    """X - 1 x^T with x by ``center``.

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

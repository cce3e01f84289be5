"""Statistics of a query-key matrix W: xi, effective rank, asymmetry, eigenvalues.

Bao, Hataya and Karakida (2024) predict from them whether attention is localized and whether its
entropy collapses. They serve the claims eigenspectrum.* and localization.*.

Formulas work in any arithmetic of :mod:`attnverify.arithmetic.ops`; W has shape (..., d, d). The
public functions at the end check their argument first.

>>> import torch
>>> import attnverify as av
>>> W = torch.diag(torch.tensor([2.0, 1.0, 2.0], dtype=torch.float64))
>>> round(av.spectrum.xi(W).item(), 6)  # 5 / sqrt(9)
1.666667
>>> av.spectrum.asymmetry(W).item()
1.0
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.arithmetic.arrays import takes
from attnverify.mathematics import walk
from attnverify.support.errors import require, require_finite


def squared_norm(w):
    """Squared Frobenius norm ||W||_F^2 = tr(WW'); (..., d, d) -> (...)."""
    return ops.sum(ops.square(w), (-2, -1))


def square_trace(w):
    """Trace of W^2, the sum of the squared eigenvalues; (..., d, d) -> (...)."""
    return ops.sum(w * ops.transpose(w), (-2, -1))


def distance_to_scalar(w):
    """Squared distance ||W - (tr W/d) I||_F^2 to the multiples of I; (..., d, d) -> (...)."""
    eye = ops.eye(w.shape[-1], w)
    mean = ops.sum(w * eye, (-2, -1), keepdims=True) / ops.constant(w.shape[-1], w)
    return squared_norm(w - mean * eye)


@takes("w")
def xi(w: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch"]:
    """tr W / ||W||_F = tr W / sqrt(tr(W^2)) for symmetric W, at most sqrt(d) (Bao et al. 2024).

    With token covariance S pass S^(1/2) W S^(1/2). Errors: InputError unless W is symmetric (see
    :func:`xi_general`) and not zero.
    """
    require_symmetric("w", w, "spectrum.xi_general")
    return xi_general(w)


@takes("w")
def xi_general(w: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch"]:
    """tr W / ||W||_F for any W, at most sqrt(d); equal to xi for symmetric W."""
    w = rescaled(w)
    return walk.trace(w) / squared_norm(w).sqrt()


@takes("w")
def asymmetry(w: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch"]:
    """tr(W^2)/||W||_F^2 in [-1, 1]: 1 for symmetric W, -1 for skew-symmetric W.

    It is (s^2 - k^2)/(s^2 + k^2) for the Frobenius norms s, k of the symmetric and skew parts.
    """
    w = rescaled(w)
    return square_trace(w) / squared_norm(w)


@takes("w")
def effective_rank(w: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch"]:
    """tr(W^2)^2/tr(W^4) for symmetric W, between 1 and d."""
    require_symmetric("w", w, "the singular values of w")
    w = rescaled(w)
    squared = w @ w
    return walk.trace(squared).square() / squared_norm(squared)


@takes("query", "key")
def eigenvalues(
    query: Float[Tensor, "*batch width key"], key: Float[Tensor, "*batch width key"]
) -> Tensor:
    """The eigenvalues of W = query key' that can differ from zero, complex; (..., key).

    They are those of the smaller key' query. Errors: InputError for two matrices of unlike shape,
    for entries that are not finite, and where that product overflows.
    """
    shapes = f"shape {tuple(query.shape)}", f"shape {tuple(key.shape)}"
    require(query.shape == key.shape and query.ndim >= 2, "key", shapes[1], f"query's {shapes[0]}")
    require_finite("query", query)
    require_finite("key", key)
    small = key.mT @ query
    bad = int((~torch.isfinite(small)).sum())
    given = f"a product key' query with {bad} entries beyond {small.dtype}"
    require(bad == 0, "query", given, "smaller matrices, or a wider dtype")  # LAPACK would crash
    return torch.linalg.eigvals(small)


def rescaled(w: Tensor) -> Tensor:
    """Matrix W over its largest |entry|, which keeps all statistics and makes squares finite.

    Raises InputError unless w is a finite square matrix other than zero.
    """
    require_square("w", w)
    largest = w.abs().amax((-2, -1), keepdim=True)
    require(bool((largest > 0).all()), "w", "tr(WW') = 0", "a matrix that is not zero")
    return w / largest


def require_square(argument: str, w: Tensor) -> None:
    """Raises InputError unless w is a finite floating matrix (..., d, d)."""
    shape = tuple(w.shape)
    square = w.ndim >= 2 and shape[-1] == shape[-2] and shape[-1] >= 1
    require(square, argument, f"shape {shape}", "a square matrix (..., d, d)")
    require(w.is_floating_point(), argument, f"dtype {w.dtype}", "a floating dtype")
    require_finite(argument, w)


def require_symmetric(argument: str, w: Tensor, instead: str) -> None:
    """Raises InputError unless w is symmetric up to rounding; instead: what takes any matrix."""
    _require_symmetric(argument, w, f"a symmetric one; for any matrix use {instead}")


def _require_symmetric(argument: str, w: Tensor, expected: str) -> None:
    """Raises InputError unless w is symmetric up to 3 d u ||W||_F.

    That is the rounding of a product of three d x d matrices.
    """
    require_square(argument, w)
    unit = w.abs().amax((-2, -1), keepdim=True).clamp_min(torch.finfo(w.dtype).tiny)
    off = ((w - w.mT) / unit).abs().amax((-2, -1))
    limit = 3 * w.shape[-1] * torch.finfo(w.dtype).eps * squared_norm(w / unit).sqrt()
    given = f"an asymmetric matrix (off by {float((off * unit[..., 0, 0]).max()):.3g})"
    require(bool((off <= limit).all()), argument, given, expected)


def covariance_root(covariance: Tensor | None, width: int) -> Tensor:
    """Symmetric root of S (None: the identity); S must be symmetric positive definite."""
    if covariance is None:
        return torch.eye(width, dtype=torch.float64)
    expected = "a symmetric positive definite matrix"
    _require_symmetric("covariance", covariance, expected)
    require(
        tuple(covariance.shape) == (width, width),
        "covariance",
        f"shape {tuple(covariance.shape)}",
        f"shape {(width, width)}",
    )
    values, vectors = torch.linalg.eigh(covariance.double())
    smallest = float(values.min())
    require(smallest > 0, "covariance", f"smallest eigenvalue {smallest:.3g}", expected)
    return vectors * values.sqrt() @ vectors.mT

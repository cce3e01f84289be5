"""The QK-eigenspectrum of every head, and the regularizer that concentrates it.

W_QK = W_Q W_K^T has rank at most k, its key width; its nonzero eigenvalues are those of the k x k
matrix W_K^T W_Q. For a symmetric matrix tr(W^2) is the sum of squared eigenvalues. A trained
W_QK is not symmetric, and then tr(W^2) = |S|^2 - |A|^2 (Frobenius norms of the symmetric and the
antisymmetric part) has no lower bound, so that shrinking it would reward a large antisymmetric
part. Everywhere here tr(W W^T) = |W|^2 takes its place: it is tr(W^2) for symmetric W, it bounds
the sum of squared eigenvalues from above (Schur), and at fixed trace and rank <= k its minimizers
have all k eigenvalues equal.
"""

from __future__ import annotations

from jaxtyping import Complex, Float
from torch import Tensor

from attnverify.mathematics import eigenspectrum as spectrum
from attnverify.mathematics import querykey

Weights = Float[Tensor, "*heads width key_width"]

#: Statistics of every head, by name; in this order tr W, |W|^2, tr(W)/|W| (at most sqrt(k), when
#: all k eigenvalues agree), and |A|^2 / |W|^2 for the antisymmetric part A.
STATISTICS = {
    "trace": querykey.trace,
    "squared_norm": querykey.squared_norm,
    "xi": querykey.xi_general,
    "asymmetry": querykey.skew_square,
}


def eigenvalues(W_Q: Weights, W_K: Weights) -> Complex[Tensor, "*heads key_width"]:
    """The k eigenvalues of W_QK that are not zero by its rank."""
    return spectrum.eigenvalues(W_Q, W_K)


def regularizer(
    W_Q: Weights, W_K: Weights, kappa: Tensor, nu: Tensor, target: Tensor
) -> Float[Tensor, "*heads"]:
    """kappa tr(W W^T) + nu (tr W - target)^2 of every head (Bao, Hataya, Karakida 2024)."""
    size, trace = querykey.squared_norm(W_Q, W_K), querykey.trace(W_Q, W_K)
    return kappa * size + nu * (trace - target) ** 2

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

from attnverify.formulas import eigenspectrum as spectrum

Weights = Float[Tensor, "*heads width key_width"]


def trace(W_Q: Weights, W_K: Weights) -> Float[Tensor, "*heads"]:
    """tr(W_Q W_K^T)."""
    return (W_Q * W_K).sum((-2, -1))


def squared_norm(W_Q: Weights, W_K: Weights) -> Float[Tensor, "*heads"]:
    """tr(W W^T) of W = W_Q W_K^T, by way of the k x k matrices W_Q^T W_Q and W_K^T W_K."""
    return ((W_Q.mT @ W_Q) * (W_K.mT @ W_K)).sum((-2, -1))


def xi(W_Q: Weights, W_K: Weights) -> Float[Tensor, "*heads"]:
    """tr(W)/sqrt(tr(W W^T)): at most sqrt(k) in absolute value, when all k eigenvalues agree."""
    return trace(W_Q, W_K) / squared_norm(W_Q, W_K).sqrt()


def asymmetry(W_Q: Weights, W_K: Weights) -> Float[Tensor, "*heads"]:
    """|A|^2 / |W|^2 for the antisymmetric part A: 0 symmetric, 1/2 like a random matrix."""
    inner = W_K.mT @ W_Q
    return (1 - spectrum.square_trace(inner) / squared_norm(W_Q, W_K)) / 2


def eigenvalues(W_Q: Weights, W_K: Weights) -> Complex[Tensor, "*heads key_width"]:
    """The k eigenvalues of W_QK that are not zero by its rank."""
    return spectrum.eigenvalues(W_Q, W_K)


def regularizer(
    W_Q: Weights, W_K: Weights, kappa: Tensor, nu: Tensor, target: Tensor
) -> Float[Tensor, "*heads"]:
    """kappa tr(W W^T) + nu (tr W - target)^2 of every head (Bao, Hataya, Karakida 2024)."""
    return kappa * squared_norm(W_Q, W_K) + nu * (trace(W_Q, W_K) - target) ** 2

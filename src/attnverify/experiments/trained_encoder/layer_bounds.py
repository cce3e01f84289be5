"""The bounds on collapse for one attention layer of the size of a real encoder.

Their formulas are those of :mod:`attnverify.mathematics.collapse`. Spectral norms of products A B^T
of tall matrices are taken from the triangles of their QR factors, which have the same singular
values.
"""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

from attnverify.mathematics import collapse, norms
from attnverify.mathematics.deviations import Layer, Tokens
from attnverify.mathematics.softmax import critical_float, oscillation
from attnverify.mathematics.spectral import spectral_norm, thin_product

Rates = tuple[Float[Tensor, " heads"], Float[Tensor, " heads"]]
SMALLEST = 1e-290  # a bound below this may have underflowed, and then bounds nothing


def rates(layer: Layer) -> Rates:
    """(c_h, v_h): rates of the heads and largest singular values of their value maps."""
    c = collapse.rate(thin_product(layer.W_Q, layer.W_K), layer.W_Q.shape[-1])
    return c, spectral_norm(thin_product(layer.W_V, layer.W_O.mT))


def residual_of_diameter(tokens: int, width: int) -> float:
    """K with ||X - 1 mean^T||_{1,inf} <= K diam(X), for n tokens of width d.

    Row i of the residual is the mean of the differences x_i - x_k, so its absolute sum is at most
    sqrt(d) (1 - 1/n) diam. A column's is at most sqrt(n) times its Euclidean norm, so at most
    sqrt(n) ||R||_F, and ||R||_F^2 = sum_{i,k} ||x_i - x_k||^2 / (2n) <= (n - 1)/2 diam^2.
    """
    rows = math.sqrt(width) * (1 - 1 / tokens)
    return math.sqrt(rows * math.sqrt(tokens * (tokens - 1) / 2))


def diameter(X: Tokens) -> float:
    """Largest distance of two tokens, scaled so that tiny deviations do not underflow."""
    largest = X.deviations.abs().max()
    return float(norms.diameter(X.deviations / largest) * largest) if largest > 0 else 0.0


def sharp_step(rates: Rates, size: float) -> float:
    """Bound on the diameter after one attention layer whose input has diameter ``size``."""
    c, v = rates
    return size * float(collapse.sharp_factor(v.new_tensor(size), c, v))


def composite_steps(layer: Layer, X: Tokens) -> dict[str, float | None]:
    """Bounds on the composite residual after one attention layer: as printed, and corrected.

    None where the condition on the oscillations of the scores fails, or after underflow.
    """
    R, k = X.deviations, layer.W_Q.shape[-1]
    W_QK, W = layer.W_Q @ layer.W_K.mT, layer.W_V @ layer.W_O
    scores = collapse.scores_of_residual(R, W_QK, k)
    if float(oscillation(scores).max()) > critical_float():
        return {"printed": None, "corrected": None}
    size = norms.composite(R)
    found = {
        "printed": collapse.cubic(collapse.published_constant(R, W_QK, W, k), size),
        "corrected": collapse.cubic(collapse.corrected_constant(R, W_QK, W, k), size),
    }
    return {name: float(b) if b > SMALLEST else None for name, b in found.items()}

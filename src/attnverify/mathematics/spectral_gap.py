"""The two largest singular values of attention, the centered matrix between them, large weights.

A (..., n, n) is row-stochastic: no entry is negative and every row sums to 1. C = I - J with
J = 11^T/n takes the mean row away, so C A X is the output A X minus its mean token. The total of
a key is its column sum. The formulas serve the claims gap.* and work in any arithmetic of
:mod:`attnverify.arithmetic.ops`; the laws of large weights are in balls or floats.

>>> import torch
>>> from attnverify.mathematics import spectral_gap as gap
>>> A = torch.tensor([[0.9, 0.1], [0.5, 0.5]], dtype=torch.float64)
>>> [round(f(A).item(), 3) for f in (gap.second, gap.centered_norm, gap.area)]
[0.367, 0.4, 0.4]
"""

from __future__ import annotations

from itertools import combinations, permutations

from attnverify.arithmetic import ops
from attnverify.mathematics import doubly, norms
from attnverify.mathematics.spectral import spectral_norm


def compound(A):
    """Second compound of A: all 2 x 2 minors, by pairs of rows and of columns."""
    pairs = list(combinations(range(A.shape[-1]), 2))
    minor = lambda i, k, j, m: A[..., i, j] * A[..., k, m] - A[..., i, m] * A[..., k, j]  # noqa: E731
    rows = [ops.stack([minor(*at, *by) for by in pairs], -1) for at in pairs]
    return ops.stack(rows, -2)


def area(A):
    """Product s_1 s_2 of the two largest singular values, the norm of the compound; (...)."""
    return spectral_norm(compound(A))


def second(A):
    """Second largest singular value s_2; (...)."""
    return area(A) / spectral_norm(A)


def centered_norm(A):
    """Norm of C A; (...)."""
    return spectral_norm(norms.mean_centered(A))


def gathered(A):
    """Lower bound 1 + (1/n) sum_j (t_j - 1)^2 of s_1^2, with the totals t; (...)."""
    return 1 + ops.sum(ops.square(doubly.totals(A) - 1), -1) / A.shape[-1]


def removed(A, u):
    """A - 1 u^T for a row u (..., n)."""
    return A - u[..., None, :]


def excess(A):
    """Largest distance of A_ij to the mean of key j's other weights, |n A_ij - t_j|/(n - 1)."""
    n = A.shape[-1]
    over = abs(n * A - doubly.totals(A)[..., None, :]) / (n - 1)
    return ops.amax(ops.amax(over, -1), -1)


def determinant(A, sign: int = -1):
    """Determinant by its n! terms, for small n; with ``sign`` 1 the permanent; (...)."""
    total = 0
    for order in permutations(range(A.shape[-1])):
        turned = sum(a > b for a, b in combinations(order, 2))
        term = sign**turned
        for i, j in enumerate(order):
            term = term * A[..., i, j]
        total = total + term
    return total


# ----------------------------------------------------------------- the law of the largest weight


def bulk(sigma):
    """Standard deviation v = sqrt(e^(sigma^2) - 1) of a weight in units of its mean."""
    return ops.sqrt(ops.expm1(ops.square(sigma)))


def _logit(sigma, weight, keys: int, factor):
    """Logit of that weight if the other keys sum to ``factor`` times their mean."""
    odds = weight / (1 - weight)
    mean = (keys - 1) * ops.exp(ops.square(sigma) / 2)
    return ops.log(factor * mean * odds)


def at_least(sigma, theta, margin, n: int):
    """Lower bound on P(sqrt(n) max A_ij >= theta) for logits i.i.d. N(0, sigma^2)."""
    x = _logit(sigma, theta / ops.root(n, theta), n, 1 + margin)
    below = ops.exp(n * n * ops.log(ops.normal_cdf(x / sigma)))
    return 1 - below - ops.exp(ops.square(sigma)) / (ops.square(margin) * (n - 1))


def at_most(sigma, theta, margin, n: int):
    """Upper bound on the same probability."""
    x = _logit(sigma, theta / ops.root(n, theta), n, 1 - margin)
    few = ops.exp(-ops.square(margin) * (n - 1) * ops.exp(-ops.square(sigma)) / 2)
    return n * n * (ops.normal_cdf(-x / sigma) + few)

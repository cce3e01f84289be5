"""Signal propagation probability in the model of Bao, Hataya and Karakida (2024).

It says at which positions a token's signal passes through the last token's attention, given the
spectrum of the query-key matrix. The formulas serve the claims localization.*. The weight of token
i is clip((1 + (omega_i - mean(omega))/temperature)/T, 0, 1) for the scores of
:mod:`attnverify.mathematics.walk`. Its signal propagates if the weight lies strictly inside (0, 1):

    rho_i = P(-temperature < omega_i - mean(omega) < (T - 1) temperature).

Four ways to compute it: exactly, by the normal approximation, by the limit of many tokens, and by
simulation.

>>> import torch
>>> import attnverify as av
>>> rho = av.localization.probability(torch.eye(4, dtype=torch.float64), tokens=3, temperature=2.0)
>>> [round(value, 4) for value in rho.tolist()]
[0.3099, 0.8911, 0.5917]
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.mathematics import chisquare, walk
from attnverify.mathematics import eigenspectrum as spectrum
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.errors import require

Method = Literal["exact", "gaussian", "limit", "limit-general", "simulation"]
METHODS = ("exact", "gaussian", "limit", "limit-general", "simulation")
SIMULATED = 1 << 22  # numbers of simulated walks held at once


def probability(
    w_qk: Float[Tensor, "d d"],
    tokens: int,
    temperature: float,
    method: Method = "exact",
    *,
    covariance: Float[Tensor, "d d"] | None = None,
    accuracy: float = 1e-8,
    samples: int = 100_000,
    seed: int = 0,
) -> Float[Tensor, "tokens"]:
    """Signal propagation probability rho_i of the tokens i = 1..tokens, float64.

    covariance: S, the identity if None.
    method "exact": by inverting the characteristic function, error at most ``accuracy`` for given
    chi-square weights; these come from a float64 eigensolver, whose error is not enclosed;
    "gaussian": normal approximation with the exact mean and variance; "limit": many tokens and a
    normal law, for symmetric w_qk only (Bao et al. 2024); "limit-general": the same for any w_qk;
    "simulation": share of ``samples`` walks, standard error at most 1/(2 sqrt(samples)).
    Raises InputError for a bad shape, entry, covariance, temperature, fewer than 2 tokens,
    w_qk = 0, or an accuracy that cannot be met.
    """
    spectrum.require_square("w_qk", w_qk)
    require(w_qk.ndim == 2, "w_qk", f"shape {tuple(w_qk.shape)}", "one square matrix (d, d)")
    require(isinstance(tokens, int) and tokens >= 2, "tokens", tokens, "an integer >= 2")
    require(0 < temperature < math.inf, "temperature", temperature, "a positive number")
    require(method in METHODS, "method", repr(method), f"one of {METHODS}")
    root = spectrum.covariance_root(covariance, w_qk.shape[-1])
    w, temperature = _over_largest(w_qk.double(), temperature)
    if method == "limit":
        spectrum.require_symmetric("w_qk", w_qk.double(), 'method="limit-general"')
    if method == "simulation":
        return _simulate(w, root, tokens, temperature, samples, seed)
    product, temperature = _over_largest(root @ w @ root, temperature)
    if method == "exact":
        return _exact(product, tokens, temperature, accuracy)
    if method == "gaussian":
        return _gaussian(product, tokens, temperature)
    return _limit(product, tokens, temperature)


def _over_largest(w: Tensor, temperature: float) -> tuple[Tensor, float]:
    """Matrix and temperature over the largest |entry| of w: rho is kept, squares stay finite."""
    largest = float(w.abs().amax())
    require(largest > 0, "w_qk", "tr(WSW'S) = 0", "a matrix that is not zero")
    return w / largest, temperature / largest


def weights(product: Float[Tensor, "d d"], tokens: int) -> Float[Tensor, "tokens 2*d"]:
    """Weights mu_k of the centered scores, one row a token.

    In law omega_i - mean(omega) is sum_k mu_k z_k^2 with the weights of row i. product: S^(1/2) W
    S^(1/2). The weights are the eigenvalues of [[g M_s, h M/2], [h M'/2, 0]], M_s = (M + M')/2, h^2
    = (T^2 - 1)/12. For symmetric W with eigenvalues w_k of the product they are w_k (g_i +-
    sqrt(a_i T))/2. The former needs an eigendecomposition for each token, the latter one for all.
    """
    g = walk.alignment(walk.indices(tokens, product), tokens)
    h = math.sqrt(walk.remainder(tokens))
    symmetric = (product + product.mT) / 2
    if bool((symmetric == product).all()):
        return symmetric_weights(torch.linalg.eigvalsh(product), g, h)
    zero = torch.zeros_like(product)
    corner = torch.cat([torch.cat([symmetric, zero], -1), torch.cat([zero, zero], -1)], -2)
    cross = torch.cat([torch.cat([zero, product], -1), torch.cat([product.mT, zero], -1)], -2)
    return torch.linalg.eigvalsh(g[:, None, None] * corner + h / 2 * cross)


def symmetric_weights(eigenvalues, g, h):
    """Weights w_k (g +- sqrt(g^2 + h^2))/2 of symmetric W; eigenvalues (d,), g (T,) -> (T, 2d)."""
    root = ops.sqrt(ops.square(g) + h * h)
    both = [(g + root)[:, None] * eigenvalues / 2, (g - root)[:, None] * eigenvalues / 2]
    return ops.join(both, -1)


def between(weights, low, high, accuracy):
    """Probability P(low < Q < high) for every row of weights (T, m), to ``accuracy``; (T,)."""
    x = weights.new_tensor([low, high]).expand(len(weights), 2)
    values, _ = chisquare.distribution(weights, x, accuracy, together=2)
    return (values[:, 1] - values[:, 0]).clamp(0, 1)


def _exact(product, tokens, temperature, accuracy) -> Tensor:
    high = (tokens - 1) * temperature
    return between(weights(product, tokens), -temperature, high, accuracy)


def gaussian(mean, deviation, low, high):
    """Normal probability of [low, high], computed as 1 less the two tails."""
    below = ops.normal_cdf((low - mean) / deviation)
    above = ops.normal_cdf((mean - high) / deviation)
    return 1 - below - above


def _gaussian(product, tokens, temperature) -> Tensor:
    i = walk.indices(tokens, product)
    trace, frobenius, square = walk.traces(product, torch.eye(len(product), dtype=product.dtype))
    deviation = walk.score_variance(i, tokens, frobenius, square).sqrt()
    mean = walk.score_mean(i, tokens, trace)
    return gaussian(mean, deviation, -temperature, (tokens - 1) * temperature)


def limit_argument(t, xi, eta, asymmetry: Any = 1, sqrt=ops.sqrt):
    """Argument (eta + (t - 1/2) xi) / sqrt(v(t)) of the limit, v = walk.limit_variance.

    ``sqrt`` is the square root of the arguments' arithmetic; pass sympy's for sympy symbols.
    """
    return (eta + (2 * t - 1) * xi / 2) / sqrt(walk.limit_variance(t, asymmetry))


def limit(t, xi, eta, asymmetry: Any = 1):
    """Limit of many tokens and normal scores: Phi of :func:`limit_argument`.

    xi = tr(WS)/sqrt(tr(WSW'S)), eta = temperature/(T sqrt(tr(WSW'S))), t in [0, 1];
    asymmetry = 1, for symmetric W, is the theorem of Bao et al. (2024) as read in this book.
    """
    return ops.normal_cdf(limit_argument(t, xi, eta, asymmetry))


def limit_rate(T):
    """Bound 1/(2 sqrt(2 pi e) (T^2 - 1)) on the limit's distance from the normal approximation.

    It holds at the positions of :func:`attnverify.mathematics.walk.position`, apart from the upper
    tail; claim localization.limit.
    """
    one = ops.constant(1, T) + 0 * T
    return one / (2 * ops.sqrt(2 * ops.pi(T) * ops.exp(one)) * (ops.square(T) - 1))


def _limit(product, tokens, temperature) -> Tensor:
    trace, frobenius, square = walk.traces(product, torch.eye(len(product), dtype=product.dtype))
    eta = temperature / (tokens * frobenius.sqrt())
    t = walk.position(walk.indices(tokens, product), tokens)
    return limit(t, trace / frobenius.sqrt(), eta, square / frobenius)


def _simulate(w, root, tokens, temperature, samples, seed) -> Tensor:
    require(isinstance(samples, int) and samples >= 1, "samples", samples, "an integer >= 1")
    random = torch.Generator().manual_seed(seed)
    inside = torch.zeros(tokens, dtype=torch.int64)
    batch = max(1, SIMULATED // (tokens * len(w)))
    for start in range(0, samples, batch):
        walks = walk.sample(root, tokens, min(batch, samples - start), random)
        scores = (walks @ (walks[:, -1] @ w.mT)[..., None])[..., 0]
        scores = scores - scores.mean(-1, keepdim=True)
        passing = (scores > -temperature) & (scores < (tokens - 1) * temperature)
        inside += passing.sum(0)
    return inside.double() / samples


def token_skewness(g, h, shape: Any = 1, sqrt=ops.sqrt):
    """Skewness of a token's score for symmetric M: 2 g (4 g^2 + 3 h^2)/(2 g^2 + h^2)^(3/2) shape.

    shape: tr(M^3)/tr(M^2)^(3/2).

    ``sqrt``: the square root of the arguments' arithmetic; pass sympy's for sympy symbols.
    """
    spread = 2 * g * g + h * h
    return 2 * g * (4 * g * g + 3 * h * h) / (spread * sqrt(spread)) * shape


def third_trace(M, g, h_squared):
    """Sum of cubed weights, tr(B^3) = g^3 tr(S^3) + (3/4) g h^2 tr(S M M'), of a matrix M (d, d).

    S = (M + M')/2.
    """
    S = (M + ops.transpose(M)) / 2
    cubed, mixed = S @ S @ S, S @ M @ ops.transpose(M)
    return g * g * g * walk.trace(cubed) + 3 * g * h_squared * walk.trace(mixed) / 4


# -------------------------------------------------------------- many tokens at a fixed temperature


def window_ends(t, xi, low, high, asymmetry: Any = 1, sqrt=ops.sqrt):
    """Ends (low + s xi)/sqrt(v) and (s xi - high)/sqrt(v) of the window of scores, s = t - 1/2.

    v = walk.limit_variance(t, asymmetry).

    low, high: the thresholds below and above the mean score, in units of T ||M||_F.
    """
    return (
        limit_argument(t, xi, low, asymmetry, sqrt),
        limit_argument(t, xi, -high, asymmetry, sqrt),
    )


def window_probability(t, xi, low, high, asymmetry: Any = 1):
    """Probability that a normal score lies in the window: the difference of Phi at its two ends."""
    first, second = window_ends(t, xi, low, high, asymmetry)
    return ops.normal_cdf(first) - ops.normal_cdf(second)


def fixed_temperature(t, xi, theta, T, asymmetry: Any = 1):
    """Probability rho_T(t) of claim localization.fixed-temperature, theta = temperature/||M||_F."""
    return window_probability(t, xi, theta / T, theta - theta / T, asymmetry)


def fixed_temperature_limit(t, xi, theta, asymmetry: Any = 1):
    """Limit rho_infinity(t) of :func:`fixed_temperature` for many tokens."""
    return window_probability(t, xi, 0 * theta, theta, asymmetry)


def fixed_temperature_rate(theta, T):
    """Bound sqrt(6/pi) theta/T on the distance of :func:`fixed_temperature` from its limit."""
    return ops.sqrt((6 + 0 * T) / ops.pi(T)) * theta / T


def relative_cubes(M, g, h):
    """Relative cubes |sum mu^3|/(sum mu^2)^(3/2) of a score's weights; M (..., d, d) -> (...)."""
    _, frobenius, square = walk.traces(M, ops.eye(M.shape[-1], M))
    squares = ((g * g + h * h) * frobenius + g * g * square) / 2
    return abs(third_trace(M, g, h * h)) / (squares * ops.sqrt(squares))


def relative_cubes_bound(M, g, h):
    """Bound (3/sqrt(2)) (|g|/h) ||M||_2/||M||_F on :func:`relative_cubes`; (...)."""
    size = spectral_norm(M) / ops.sqrt(ops.sum(ops.square(M), (-2, -1)))
    return 3 * abs(g) / h * size / ops.root(2, M)

"""The law of a weighted sum of independent chi-square variables, with derived error bounds.

Centered scores of random-walk tokens have such a law (:mod:`attnverify.mathematics.localization`).
The module computes it to a proven accuracy, and bounds its distance from the normal law, without
and with the first Edgeworth correction for skewness. It serves the claims localization.*.

Q = sum_k mu_k z_k^2 for real weights mu_k and independent standard normal z_k. Its characteristic
function has modulus prod (1 + 4 s^2 mu_k^2)^(-1/4) and argument (1/2) sum atan(2 s mu_k), and

    P(Q <= x)  =  1/2 - sum_{k>=0} |phi(s_k)| sin(arg phi(s_k) - s_k x) / (pi (k + 1/2))  + error,

with s_k = (k + 1/2) step (Davies 1973; the bounds are derived in the chapter on the exact law):

* step: at most max(P(Q < x - 2 pi/step), P(Q > x + 2 pi/step)), each at most e^-level by
  :func:`reach` (Laurent and Massart 2000, Lemma 1, for weights of both signs);
* truncation after K terms: |phi(S)| / (pi e(S)) with S = K step and
  e(S) = sum 2 S^2 mu^2/(1 + 4 S^2 mu^2).

Formulas work on torch tensors and on balls. Scale: weights with 2 sum mu_k^2 = 1.

>>> import torch
>>> import attnverify as av
>>> weights = torch.full((8,), 0.25, dtype=torch.float64)  # 4 Q has 8 degrees of freedom
>>> x = torch.tensor([2.0], dtype=torch.float64)
>>> values, error = av.chisquare.distribution(weights, x)
>>> round(values.item(), 6), error <= 1e-8
(0.56653, True)
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.support.errors import require, require_finite

SMALLEST_ACCURACY = 1e-11  # below, rounding in float64 is no longer small beside it
MOST_TERMS = 1 << 22
MARGIN = 2.0**-20  # of the bounds, for their own rounding
CHUNK = 1 << 23  # entries of the largest temporary array


def log_modulus(weights, s):
    """Logarithm of |phi(s)|; weights (..., 1, m), s (..., K, 1) -> (..., K)."""
    return -ops.sum(ops.log1p(4 * ops.square(s * weights)), -1) / 4


def argument(weights, s):
    """Argument of phi(s), continuous from 0; weights (..., 1, m), s (..., K, 1) -> (..., K)."""
    return ops.sum(ops.atan(2 * s * weights), -1) / 2


def decay(weights, s):
    """Exponent e(s) = sum 2 s^2 mu^2/(1 + 4 s^2 mu^2): |phi| falls at least like s^-e(s)."""
    v = ops.square(s * weights)
    return ops.sum(2 * v / (1 + 4 * v), -1)


def partial_sum(weights, x, step, halves):
    """Sum of |phi| sin(arg phi - s x)/(pi (k + 1/2)) over the given k; shape (..., n).

    s = (k + 1/2) step. weights (..., m), x (..., n), step (...), halves (K,) = k + 1/2.
    """
    s = step[..., None] * halves  # (..., K)
    size = ops.exp(log_modulus(weights[..., None, :], s[..., None])) / halves
    angle = argument(weights[..., None, :], s[..., None])
    waves = ops.sin(angle[..., None, :] - s[..., None, :] * x[..., None])  # (..., n, K)
    return ops.sum(size[..., None, :] * waves, -1) / ops.pi(x)


def truncation(weights, S):
    """Bound on the sum of all terms with s > S; weights (..., m), S (...) -> (...)."""
    one = weights[..., None, :]
    size = ops.exp(log_modulus(one, S[..., None, None]))[..., 0]
    return size / (ops.pi(S) * decay(weights, S[..., None]))


def reach(weights, level):
    """Distances c-, c+ with P(Q < mean - c-) and P(Q > mean + c+) at most e^-level; (...).

    c = 2 sqrt(level sum mu^2) + 2 level m with m the largest weight of that sign (0 if none).
    """
    common, zero = 2 * ops.sqrt(level * ops.sum(ops.square(weights), -1)), 0 * weights[..., 0]
    down, up = (ops.maximum(ops.amax(v, -1), zero) for v in (-weights, weights))
    return common + 2 * level * down, common + 2 * level * up


def distribution(
    weights: Float[Tensor, "*batch m"],
    x: Float[Tensor, "*batch n"],
    accuracy: float = 1e-8,
    together: int = 1,
) -> tuple[Float[Tensor, "*batch n"], float]:
    """Probability P(Q <= x) in float64 and a bound on its error, at most accuracy/together.

    weights: not all zero in any row, taken as exact. x: may be infinite, not NaN. together: how
    many of the values the caller adds or subtracts; the sum then has the accuracy. Raises
    InputError for an accuracy that cannot be met, because it is below what float64 can carry or
    because so few weights matter that the characteristic function decays too slowly.

    The two bounds are evaluated in float64 with a margin of 2^-20 each (level and truncation).
    Their relative rounding error is of the order of (m + 40) 2^-53 for m weights, and that of the
    mean sum(mu) at most m^(3/2) 2^-53, which the margin covers for fewer than 10^5 weights.
    """
    require_finite("weights", weights)
    require(
        SMALLEST_ACCURACY <= accuracy < 1,
        "accuracy",
        accuracy,
        f"a number in [{SMALLEST_ACCURACY:g}, 1)",
    )
    require(not bool(x.isnan().any()), "x", "NaN", "a number")
    weights, x = weights.double(), x.double()
    largest = weights.detach().abs().amax(-1, keepdim=True)
    require(bool((largest > 0).all()), "weights", "a row of zeros", "a weight that is not zero")
    weights, x = weights / largest, x / largest  # squares neither overflow nor vanish
    scale = (2 * weights.square().sum(-1, keepdim=True)).sqrt()
    weights, x = weights / scale, x / scale
    each = accuracy / together
    level = math.log(8 / each) + MARGIN
    mean, (low, high) = weights.sum(-1), reach(weights, level)
    inside = torch.minimum(torch.maximum(x, (mean - low)[..., None]), (mean + high)[..., None])
    period = torch.maximum(mean + high - inside.amin(-1), inside.amax(-1) - mean + low)
    step = 2 * math.pi / period.detach()
    terms = _terms(weights, step, (1 - MARGIN) * each / 2, accuracy)
    probability = 0.5 - _sum_in_chunks(weights, inside, step, terms)
    rounding = _rounding(weights, inside.detach(), step, terms)  # falls as the accuracy grows
    require(
        rounding <= each / 4,
        "accuracy",
        accuracy,
        f"at least {_rounded_up(4 * together * rounding)} for these weights",
    )
    return probability.clamp(0, 1), each / 4 + each / 2 + rounding


def _rounded_up(value: float) -> str:
    """The value rounded up to three digits, so that what an error message asks for is enough."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / unit) * unit:.3g}"


def _terms(weights: Tensor, step: Tensor, error: float, accuracy: float) -> int:
    """Number of terms, a power of two, after which the truncation error is at most ``error``.

    accuracy: what the caller asked for; the error message names it if too many terms are needed.
    """
    count = 8
    while float(truncation(weights.detach(), count * step).max()) > error:
        count *= 2
        require(
            count <= MOST_TERMS,
            "accuracy",
            accuracy,
            f"one that {MOST_TERMS} terms reach: too few weights matter",
        )
    return count


def _sum_in_chunks(weights: Tensor, x: Tensor, step: Tensor, terms: int) -> Tensor:
    """:func:`partial_sum` over all terms without an array larger than CHUNK entries."""
    length = max(1, CHUNK // max(weights.numel(), x.numel()))
    halves = torch.arange(terms, dtype=x.dtype, device=x.device) + 0.5
    parts = [partial_sum(weights, x, step, part) for part in halves.split(length)]
    return torch.stack(parts).sum(0)


def _rounding(weights: Tensor, x: Tensor, step: Tensor, terms: int) -> float:
    """Bound on the rounding error of the sum in float64, u = 2^-53, m weights.

    First order in u; log1p, atan, exp and sin are taken to be good to one unit in the last place,
    2 u. A weight has 2 roundings (largest, scale), s and its product with the weight one each. The
    square doubles these 4 and adds 1, log1p adds 2: 11 for a summand of L = -log|phi|, and m - 1
    for the sum. L enters as e^-L, and L e^-L <= 1/e. A summand of arg phi has 4 + 2, with
    |arg phi| <= m pi/4; s|x| has 4 and is at most S = terms * step * max|x|; their difference has
    1. Exponential, sine, quotients, products and the final subtraction add less than 12 u to a
    term. So it is off by at most u (m + 10) (2 + m pi/4 + S) / (pi (k + 1/2)), because
    (m + 10)/e + 12 <= 2 (m + 10), and sum_{k<K} 1/(k + 1/2) <= 2 + log(2K). Adding K terms of
    modulus at most 1/(pi (k + 1/2)) pairwise or in order costs at most K u (2 + log(2K))/pi again.
    """
    m, u = weights.shape[-1], 2.0**-53
    S = float((terms * step * x.abs().amax(-1)).max())
    return u * ((m + 10) * (2 + m * math.pi / 4 + S) + terms) * (2 + math.log(2 * terms)) / math.pi


def stable_rank(weights):
    """Stable rank r = sum mu^2 / max mu^2, the number of weights that matter; (..., m) -> (...)."""
    return ops.sum(ops.square(weights), -1) / ops.square(ops.amax(abs(weights), -1))


def normal_bound(weights):
    """Bound on the distance of the law of Q from the normal law with its mean and variance.

    sup_x |P(Q <= x) - Phi((x - mean)/sd)| <= sum|mu|^3 B(3/2, r/4 - 3/2) / (12 pi max|mu|^3).
    Needs stable rank r > 6. Derived in the chapter on the exact law; for equal weights the ratio
    of the two sides tends to 1 as r grows. (..., m) -> (...).
    """
    size = abs(weights) / ops.amax(abs(weights), -1, keepdims=True)
    return cubic(ops.sum(size * size * size, -1), weights)


def cubic(cubes, weights):
    """Integral of a cubic term, ``cubes`` B(3/2, r/4 - 3/2)/(12 pi) for stable rank r > 6.

    cubes (...): a sum of third powers of the weights (..., m) over max|mu|^3.
    """
    r, one = stable_rank(weights), ops.constant(1, weights)
    beta = ops.exp(ops.log_beta(one * 3 / 2 + 0 * r, r / 4 - one * 3 / 2))
    return cubes * beta / (12 * ops.pi(weights))


def symmetric_bound(weights):
    """Bound on the same distance for a symmetric law, with weights in pairs +-mu.

    It is (log y - digamma(y))/(2 pi) with y = r/4. At most 1/(pi r) + 2/(3 pi r^2), for every
    stable rank r (which is at least 2). Derived in the chapter on the exact law. Floats are taken
    in float64, as the difference cancels. (..., m) -> (...).
    """
    y = stable_rank(weights.double() if ops.is_torch(weights) else weights) / 4
    return (ops.log(y) - ops.digamma(y)) / (2 * ops.pi(weights))


def cubic_term(weights):
    """Cubic term |sum mu^3| B(3/2, r/4 - 3/2)/(12 pi max|mu|^3) for stable rank r > 6; (...)."""
    size = weights / ops.amax(abs(weights), -1, keepdims=True)
    return cubic(abs(ops.sum(size * size * size, -1)), weights)


def quartic_term(weights):
    """Quartic term sum mu^4/(pi max|mu|^4 (r - 8)(r - 4)) for stable rank r > 8; (...)."""
    size = ops.square(weights / ops.amax(abs(weights), -1, keepdims=True))
    r = stable_rank(weights)
    return ops.sum(size * size, -1) / (ops.pi(weights) * (r - 8) * (r - 4))


# ------------------------------------------------------------------------ the Edgeworth correction


def skewness(weights):
    """Skewness kappa = 8 sum mu^3/(2 sum mu^2)^(3/2) of Q, at most sqrt(8/r) in size; (...)."""
    V = 2 * ops.sum(ops.square(weights), -1)
    return 8 * ops.sum(ops.square(weights) * weights, -1) / (V * ops.sqrt(V))


def edgeworth_correction(score, kappa):
    """First Edgeworth correction -(kappa/6)(y^2 - 1) phi(y), to be added to Phi(y), at y = score.

    score: in standard deviations from the mean.
    """
    square = ops.square(score)
    density = ops.exp(-square / 2) / ops.sqrt(2 * ops.pi(score) + 0 * score)
    return kappa * (1 - square) * density / 6


def unpaired_fifth(weights):
    """Sum of |p_k^5 - n_k^5| over the positive and negative weights, matched by size; (...)."""
    zero = 0 * weights
    up, down = (ops.descending(ops.maximum(v, zero)) for v in (weights, -weights))
    return ops.sum(abs(_fifth_power(up) - _fifth_power(down)), -1)


def _fifth_power(v):
    return ops.square(ops.square(v)) * v


def edgeworth_bound(weights):
    """Bound on sup_x |P(Q <= x) - Phi(y) - correction| for every stable rank; (..., m) -> (...).

    The bound of symmetric laws, kappa^2/(9 pi) and 6/(5 sqrt(pi)) beta/(sum mu^2)^(5/2) with beta
    of :func:`unpaired_fifth`. Derived in the chapter on the skewness of a score.
    """
    V, pi = ops.sum(ops.square(weights), -1), ops.pi(weights)
    tail = unpaired_fifth(weights) / (ops.square(V) * ops.sqrt(V))
    skew = ops.square(skewness(weights)) / (9 * pi)
    return symmetric_bound(weights) + skew + 6 * tail / (5 * ops.sqrt(pi + 0 * V))


def edgeworth_rank_bound(r):
    """Bound on :func:`edgeworth_bound` in the stable rank r alone; shape of r.

    It is 17/(9 pi r) + 2/(3 pi r^2) + 6/(5 sqrt(pi) r^(3/2)).
    """
    pi = ops.pi(r) + 0 * r
    low = (17 / r + 6 / ops.square(r)) / (9 * pi)
    return low + 6 / (5 * r * ops.sqrt(pi * r))

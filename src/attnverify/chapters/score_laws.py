"""Laws of the scores of a random walk, for the checks of several chapters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import sympy as sp
import torch
from flint import arb, fmpq

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import both, certain
from attnverify.chapters.simulation_cases import Case
from attnverify.checking.check import Instance
from attnverify.checking.definition_agreement import Pair, within
from attnverify.mathematics import chisquare, localization, walk
from attnverify.mathematics.quadrature import enclosure
from attnverify.support.verdict import Verdict

FAST, SURE = 1e-7, 1e-9  # accuracy of searched and of certified probabilities
FLOATS = 2.0**-36  # some thousand roundings of numbers up to 100, in float64


def whole_form(M, T: int, i: int):
    """Symmetric (T d, T d) matrix of (x_i - mean(x))' M x_T in the T d steps of a walk.

    M: balls or rationals (d, d); i: a token, 1 to T.
    """
    d = len(M)
    form = ops.full((T, d, T, d), 0, M)
    for s in range(T):
        c = fmpq(int(s < i)) - fmpq(T - s, T)
        form[s] += (c * M)[:, None, :]
    flat = form.reshape(T * d, T * d)
    return (flat + flat.T) / fmpq(2)


def power_trace(A, power: int):
    """Trace of A^power, of balls or rationals (n, n)."""
    out = A
    for _ in range(power - 1):
        out = out @ A
    return np.trace(out)


def found(case: Case, method: localization.Method, **more: Any):
    """What ``localization.probability`` says of every token of a case, balls (tokens,)."""
    given = (case.W, case.tokens, case.temperature, method)
    return ops.balls(localization.probability(*given, covariance=case.covariance, **more))


def close(name: str, found, known, tolerance: float = FLOATS) -> Pair:
    """The pair of a definition which says that two rows of balls are so near, entry by entry."""
    apart = [within(tolerance, a, b) for a, b in zip(found, known, strict=True)]
    return name, apart, [arb(0)] * len(apart)


def moments(case: Case) -> Iterator[tuple[Any, Any]]:
    """Mean tr B and variance 2 tr B^2 of every token's score, balls; B: the form in all steps."""
    for i in range(1, case.tokens + 1):
        form = whole_form(ops.balls(case.product), case.tokens, i)
        yield np.trace(form), 2 * np.sum(form * form.T)


def phi(x):
    """Standard normal distribution function of a ball."""
    return (-x / arb(2).sqrt()).erfc() / 2


def limit_by_form(case: Case, finite: int = 1) -> Iterator[Any]:
    """Phi((temperature + mean)/sd) of every token, ||M||_F^2/12 added to the variance; balls."""
    extra = sum(v * v for v in ops.balls(case.product).flat) / 12
    for mean, variance in moments(case):
        yield phi((case.temperature + mean) / (variance + finite * extra).sqrt())


def in_units(T, t, xi, asymmetry):
    """Mean and deviation of the score at position t, in units of T ||M||_F; all (...)."""
    i = t * T + ops.constant(1, T) / 2
    deviation = ops.sqrt(walk.score_variance(i, T, 1, asymmetry)) / T
    return walk.score_mean(i, T, xi) / T, deviation


def law(weights, y, fast: float = FAST, sure: float = SURE):
    """P(Q <= EQ + y sd) for Q = sum mu_k z_k^2; weights (..., m), y (..., 1) -> (..., 1).

    To the accuracy ``fast`` in floats, and as balls of the radius ``sure``.
    """
    deviation = ops.sqrt(2 * ops.sum(ops.square(weights), -1, keepdims=True))
    x = ops.sum(weights, -1, keepdims=True) + y * deviation
    if ops.is_torch(weights):
        return chisquare.distribution(weights, x, fast)[0]
    out = np.empty(x.shape, dtype=object)
    for index in np.ndindex(*x.shape):
        out[index] = enclosure(weights[index[:-1]], x[index], sure)
    return out


def normal_gap(weights, y, fast: float = FAST, sure: float = SURE):
    """Error |P(Q <= EQ + y sd) - Phi(y)| of the normal law; as of :func:`law`, -> (...)."""
    return abs(law(weights, y, fast, sure) - ops.normal_cdf(y))[..., 0]


def at_most_one(ratios: list[arb], words: str) -> Verdict:
    """Whether all ratios are at most 1 for certain, and the largest; words: what they are of."""
    holds, cases, _ = both(*((certain(ratio <= 1, ratio > 1), 1) for ratio in ratios))
    worst = max(float(ratio.upper()) for ratio in ratios)
    known = None if holds is None else worst
    return Verdict(holds, f"{words}: largest ratio {worst:.8g}", cases, known)


def equal_pairs(count: int) -> Instance:
    """Weights 1 and -1 at sqrt(3 - sqrt(6)) deviations, the largest error for many pairs."""
    ones = torch.ones(count, dtype=torch.float64)
    return {"weights": torch.cat([ones, -ones]), "score": [(3 - 6**0.5) ** 0.5]}


def normal_law(x) -> sp.Expr:
    """Standard normal distribution function in sympy."""
    return (1 + sp.erf(x / sp.sqrt(2))) / 2


def normal_density(x) -> sp.Expr:
    """Standard normal density in sympy."""
    return sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi)


def symbolic_limit(t, xi, eta) -> Any:
    """Limit rho(t) for symmetric W in sympy, from the package's own formula."""
    return normal_law(localization.limit_argument(t, xi, eta, sqrt=sp.sqrt))


def positive(slope: Any, stated: Any, point: dict) -> Verdict:
    """Whether ``slope`` > 0 everywhere: it equals ``stated``, whose sign sympy decides.

    If it does not, a certain value at ``point`` can still say no.
    """
    if stated.is_positive and sp.simplify(slope - stated) == 0:
        return Verdict(True, "the derivative is a sum of positive terms")
    value = slope.subs(point)
    return Verdict(False if value < 0 else None, f"derivative {sp.N(value, 5)} at {point}")

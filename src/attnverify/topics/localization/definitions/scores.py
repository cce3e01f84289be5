"""Definitions of random-walk scores: the form in all steps, its law, and its probabilities."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from flint import arb, fmpq

from attnverify.arithmetic import ops
from attnverify.chapters.simulation_cases import CASES, Case
from attnverify.checking.definition_agreement import Pair, drawn, largest, total, within
from attnverify.mathematics import chisquare, localization, walk
from attnverify.mathematics import eigenspectrum as spectrum

FLOATS = 2.0**-36  # some thousand roundings of numbers up to 100, in float64
ACCURACY = 1e-6  # of the inversion, whose error the package bounds by it


def whole_form(M, T: int, i: int):
    """Symmetric (T d, T d) matrix of (x_i - mean(x))' M x_T in the T d steps of a walk."""
    d = len(M)
    form = ops.full((T, d, T, d), 0, M)
    for s in range(T):
        c = fmpq(int(s < i)) - fmpq(T - s, T)
        form[s] += (c * M)[:, None, :]
    flat = form.reshape(T * d, T * d)
    return (flat + flat.T) / fmpq(2)


def power_trace(A, power: int):
    """Trace of A^power."""
    out = A
    for _ in range(power - 1):
        out = out @ A
    return np.trace(out)


def spectra(power: int = 2) -> Iterator[Pair]:
    """Norm, traces and distance to the multiples of I, for a matrix that is not symmetric."""
    W, R = drawn(0, (3, 3), (3, 3))
    n, S = range(3), R @ R.T
    mean = total(W[i, i] for i in n) / 3
    yield "trace", walk.trace(W), 3 * mean
    yield "norm", spectrum.squared_norm(W), total(abs(v) ** power for v in W.flat)
    yield "tr W^2", spectrum.square_trace(W), total(W[i, j] * W[j, i] for i in n for j in n)
    apart = [(W[i, j] - (mean if i == j else 0)) ** 2 for i in n for j in n]
    yield "distance", spectrum.distance_to_scalar(W), total(apart)
    four = [(i, j, k, m) for i in n for j in n for k in n for m in n]
    yield "tr WS", walk.traces(W, S)[0], total(W[i, j] * S[j, i] for i in n for j in n)
    yield (
        "tr WSW'S",
        walk.traces(W, S)[1],
        total(W[i, j] * S[j, k] * W[m, k] * S[m, i] for i, j, k, m in four),
    )
    yield (
        "tr WSWS",
        walk.traces(W, S)[2],
        total(W[i, j] * S[j, k] * W[k, m] * S[m, i] for i, j, k, m in four),
    )


def weights(scale: int = 1) -> Iterator[Pair]:
    """Power sums of the float weights, and those of the form in all steps.

    Those of powers 1..2d determine 2d weights. No weight exceeds 4 here, so powers up to 4 enlarge
    an error of a few units in the last place by at most 4 * 4^3 = 256: within FLOATS.
    """
    for symmetric in (True, False):
        product = torch.tensor([[1.0, -0.75], [0.5, -1.25]], dtype=torch.float64)
        product = product + product.mT if symmetric else product
        for i, row in enumerate(ops.balls(scale * localization.weights(product, 4)), start=1):
            form = whole_form(ops.balls(product), 4, i)
            for power in range(1, 5):
                found, known = total(v**power for v in row), power_trace(form, power)
                yield f"token {i}, power {power}", within(FLOATS, found, known), arb(0)


def roots(power: int = 2) -> Iterator[Pair]:
    """The root of a covariance, squared, is the covariance, and the root is symmetric."""
    for name, case in CASES.items():
        root = ops.balls(spectrum.covariance_root(case.covariance, len(case.W)))
        squared = root if power == 1 else root @ root
        apart = [*(squared - ops.balls(case.covariance)).flat, *(root - root.T).flat]
        yield name, [within(FLOATS, v, arb(0)) for v in apart], [arb(0)] * len(apart)
    identity = ops.balls(torch.eye(3))
    yield "no covariance", ops.balls(spectrum.covariance_root(None, 3)), identity


def _moments(case: Case) -> Iterator[tuple[arb, arb]]:
    """Mean and variance of every token's score, tr B and 2 tr B^2 of the form B in all steps."""
    M = ops.balls(case.product)
    for i in range(1, case.tokens + 1):
        form = whole_form(M, case.tokens, i)
        yield np.trace(form), 2 * np.sum(form * form.T)


def _phi(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2


def _found(case: Case, method: localization.Method):
    options = {"covariance": case.covariance, "accuracy": ACCURACY}
    return localization.probability(case.W, case.tokens, case.temperature, method, **options)


def normal(tails: int = 1) -> Iterator[Pair]:
    """Method "gaussian", and the normal law with mean and variance of the form in all steps."""
    for name, case in CASES.items():
        low, high = (arb(v) for v in case.thresholds)
        for found, (mean, variance) in zip(_found(case, "gaussian"), _moments(case), strict=True):
            deviation = variance.sqrt()
            known = _phi((high - mean) / deviation) - tails * _phi((low - mean) / deviation)
            yield name, within(FLOATS, arb(float(found)), known), arb(0)


def many_tokens(symmetric: bool, finite: int = 1) -> Iterator[Pair]:
    """Both limits, and Phi((temperature + mean)/sd) with ||M||_F^2/12 added to the variance."""
    for name, case in CASES.items():
        if symmetric and name == "not symmetric":
            continue
        extra = total(v * v for v in ops.balls(case.product).flat) / 12
        for method in ("limit", "limit-general") if symmetric else ("limit-general",):
            for found, (mean, variance) in zip(_found(case, method), _moments(case), strict=True):
                argument = (arb(case.temperature) + mean) / (variance + finite * extra).sqrt()
                yield f"{name}, {method}", within(FLOATS, arb(float(found)), _phi(argument)), arb(0)


def exact(scale: float = 1.0) -> Iterator[Pair]:
    """Method "exact", and the law of the weights that a Cholesky factor of S gives."""
    for name, case in CASES.items():
        known = localization.between(scale * case.weights, *case.thresholds, ACCURACY)
        for a, b in zip(_found(case, "exact"), known, strict=True):
            yield name, within(2 * ACCURACY + FLOATS, arb(float(a)), arb(float(b))), arb(0)


def normal_bounds(shift: int = 0) -> Iterator[Pair]:
    """Normal bounds at unequal weights for which beta and digamma have closed forms."""
    many = np.array([-arb(3) / 4] * 4 + [arb(3) / 8] * 16, dtype=object)
    yield "stable rank", chisquare.stable_rank(many), arb(8)
    # sum|mu|^3/max = 4 + 16/8, B(3/2, 1/2) = pi/2
    yield "normal", chisquare.normal_bound(many), arb(1 + shift) / 4
    pairs = np.array([arb(3) / 4] + [arb(3) / 8] * 8, dtype=object)
    pairs = np.concatenate([pairs, -pairs])  # stable rank 6
    digamma = 2 - arb.const_euler() - 2 * arb(2).log()
    known = ((arb(3) / 2).log() - digamma) / (2 * arb.pi())
    yield "symmetric", chisquare.symmetric_bound(pairs), known
    T = arb(9)
    rate = 1 / (8 * arb.pi() * arb(1).exp()).sqrt() / (T * T - 1)
    yield "limit", localization.limit_rate(np.array([T], dtype=object)), [rate]


def transforms(factor: int = 4) -> Iterator[Pair]:
    """Modulus and argument of the characteristic function, its decay, truncation and tails."""
    mu, (s, y) = drawn(5, (5,), (2,))
    s, y = abs(s), abs(y)
    squares = [factor * s * s * m * m for m in mu]
    size = np.array([[s]], dtype=object)
    log_modulus = -total((1 + v).log() for v in squares) / 4
    yield "modulus", chisquare.log_modulus(mu[None], size), [log_modulus]
    angle = total((2 * s * m).atan() for m in mu) / 2
    yield "argument", chisquare.argument(mu[None], size), [angle]
    decay = total(v / (1 + v) for v in squares) / 2
    yield "decay", chisquare.decay(mu[None], size), [decay]
    S = np.array(s, dtype=object)
    yield "truncation", chisquare.truncation(mu, S), log_modulus.exp() / (arb.pi() * decay)
    common = 2 * (y * total(m * m for m in mu)).sqrt()
    sides = [common + 2 * y * largest([*(sign * mu), arb(0)]) for sign in (-1, 1)]
    yield "reach", chisquare.reach(mu, y), sides
    up = [common + 2 * y * largest(abs(mu)), common]
    yield "one sign", chisquare.reach(-abs(mu), y), up

"""Checks of tokens that a normalized layer leaves in place, and of its derivative there."""

from __future__ import annotations

from functools import partial
from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Decision
from attnverify.mathematics import norms, sphere
from attnverify.support.verdict import Verdict

arb = flint.arb
BALL = ops.balls(torch.zeros(1))


def _moved(X, A, W) -> arb:
    """How far a normalized layer with the scores X A X^T moves a token."""
    new = sphere.unit(ops.softmax(X @ A @ ops.transpose(X)) @ X @ W)
    return ops.amax(ops.amax(abs(new - X), -1), -1)


def _zero(off: arb, words: str, cases: int) -> Verdict:
    """Whether what vanishes by the claim does so at 256 bits, up to 2^-60."""
    known = certain(off < arb(2) ** -60, off > arb(2) ** -60)
    return Verdict(known, f"{words} {off.str(3)}", cases)


def _crosses(shift: float = 0.0) -> Verdict:
    """Whether tokens +-e_1, ..., +-e_k, all with a common part added, are where they were."""
    worst, cases = arb(0), 0
    with ops.precision(256):
        for pairs in (1, 2, 3, 5):
            eye = ops.eye(pairs, BALL)
            X = sphere.unit(np.concatenate([eye, -eye]) + arb(shift))
            worst, cases = worst.max(_moved(X, 2 * eye, eye)), cases + 1
    return _zero(worst, "ranks 1, 2, 3 and 5: moved by", cases)


CROSS = Decision(_crosses, "ranks 1, 2, 3 and 5 with q/sqrt(d_qk) = 2", "certified", 4).but(
    "the same tokens with a common part that puts them into an open hemisphere",
    run=partial(_crosses, shift=1.5),
)


def _groups(sizes: tuple[int, ...], q: float) -> tuple[Any, Any, Any]:
    """Tokens in groups, the map of their scores and the value map."""
    eye = ops.eye(len(sizes), BALL)
    X = np.repeat(eye, sizes, axis=0)
    return X, arb(q) * eye, sphere.grouped_values(sizes, arb(q).exp())


def _grouped(swap: bool = False) -> Verdict:
    """Whether groups of tokens stay, for some numbers and sizes; swap: of two unequal groups."""
    worst, cases = arb(0), (((3,), 1.0), ((1, 1), 2.0), ((1, 2, 4), -0.5), ((2, 1, 1, 3, 1), 3.0))
    with ops.precision(256):
        for sizes, q in cases:
            X, A, W = _groups(sizes, q)
            W = sphere.grouped_values(sizes[::-1], arb(q).exp()) if swap else W
            worst = worst.max(_moved(X, A, W))
    return _zero(worst, "ranks 1, 2, 3 and 5: moved by", len(cases))


GROUPS = Decision(_grouped, "ranks 1, 2, 3 and 5", "certified", 4).but(
    "the value map of the sizes in reverse order", run=partial(_grouped, swap=True)
)


def _tilted(twice: int = 2) -> Verdict:
    """Whether tokens that all lean to their common part do so more by the stated factor."""
    worst, cases = arb(0), ((2, 1, 1.0), (3, 2, -0.75), (5, 1, 3.0))
    with ops.precision(256):
        for k, size, q in cases:
            X, A, W = _groups((size,) * k, q)
            D, E = 1 - X, arb(q).exp()
            factor = 1 + twice * q * E / ((E - 1) * (E + (k - 1)))
            off = sphere.derivative(X, D, A, W) - factor * D
            worst = worst.max(ops.amax(ops.amax(abs(off), -1), -1))
    return _zero(worst, "ranks 2, 3 and 5: off by", len(cases))


TILT = Decision(_tilted, "ranks 2, 3 and 5", "certified", 3).but(
    "half the growth", run=partial(_tilted, twice=1)
)


def _plane(beta: float, gamma: float, h: float) -> tuple[Any, arb]:
    """Derivative of the layer at the tokens +-e_1, +-e_2 in their angles, and how far they move."""
    eye = ops.eye(2, BALL)
    X, turned = np.concatenate([eye, -eye]), np.array([[0, 1], [-1, 0]])
    A, W = (ops.balls(torch.diag(torch.tensor(pair))) for pair in ([-beta, gamma], [-1.0, h]))
    across = X @ turned  # the tangent of each token
    columns = [sphere.derivative(X, row[:, None] * across, A, W) for row in ops.eye(4, BALL)]
    return np.stack([(column * across).sum(-1) for column in columns], -1), _moved(X, A, W)


def _spectrum(one: int = 1) -> Verdict:
    """Whether the stated eigenvalues have the power sums of the derivative's, up to the fourth."""
    worst, found = arb(0), 0
    cases = ((2.0, 1.5, 0.5), (1.0, 3.0, 0.75), (0.5, 0.25, 2.0))
    with ops.precision(256):
        for case in cases:
            J, moved = _plane(*case)
            beta, gamma, h = map(arb, case)
            A, B = gamma / beta.sinh(), beta / gamma.sinh()
            bent = h * (beta.cosh() + gamma) / beta.sinh()
            bowed = (beta - gamma.cosh()) / (h * gamma.sinh())
            trace, det = -(h * (1 - A) + (1 - B) / h), one - A - B
            sums, power = [arb(2), trace], J
            for k in range(1, 5):
                stated = bent**k + bowed**k + sums[k]
                worst = worst.max(abs(sum(np.diag(power)) - stated)).max(moved)
                found += 1
                sums.append(trace * sums[k] - det * sums[k - 1])  # Newton's identities
                power = power @ J
    return _zero(worst, "power sums off by", found)


SPECTRUM = Decision(_spectrum, "three choices of weights", "certified", 3 * 4).but(
    "2 - A - B in place of 1 - A - B", run=partial(_spectrum, one=2)
)


def _stable(h: float = 0.5) -> Verdict:
    """Whether +-e_1, +-e_2 stay and some power of the derivative has row sums below 1."""
    with ops.precision(256):
        J, moved = _plane(2.0, 1.5, h)
        for _ in range(6):
            J = J @ J
        size = norms.max_row_sum(J)
        trace = abs(sum(np.diag(J)))  # at most 4 if no eigenvalue is larger than 1
    words = f"the 64th power of the derivative has row sums up to {size.str(3)}"
    return Verdict(certain(moved < arb(2) ** -60 and size < 1, trace > 4), words, 1)


STABLE = Decision(_stable, "these weights", "certified").but(
    "h = 3/4 in place of 1/2", run=partial(_stable, h=0.75)
)

"""Checks of the law of a whole row of scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import flint
import torch
from torch import Tensor

from attnverify.checking.check import Check, Decision
from attnverify.mathematics import entropy, softmax_row, walk
from attnverify.support.verdict import Verdict
from attnverify.topics.shared.simulation_cases import CASES, Case, within

ERRORS = 4  # standard errors of a simulated mean


def _covariances(bridge: Callable) -> Verdict:
    """Tokens of a walk with unit steps against sqrt(T) (b(i/T) + i/T z), in rationals.

    x_i - (i/T) x_T has coefficient [s <= i] - i/T at step s. It must be independent of x_T and
    have T times the covariance of the bridge.
    """
    cases = 0
    for T in (2, 3, 7, 12):
        rest = [[flint.fmpq(int(s < i)) - flint.fmpq(i, T) for s in range(T)] for i in range(T + 1)]
        for i in range(1, T + 1):
            if sum(rest[i]) != 0:
                return Verdict(False, f"token {i} of {T} is not independent of the last", cases)
            for j in range(1, T + 1):
                found = sum(a * b for a, b in zip(rest[i], rest[j], strict=True))
                if found != T * bridge(flint.fmpq(i, T), flint.fmpq(j, T)):
                    return Verdict(False, f"covariance of {i} and {j} of {T} differs", cases)
                cases += 1
    return Verdict(True, "all covariances are equal rationals", cases)


COVARIANCE_LIMITS = "these numbers of tokens; all of them are derived in the notebook"
COVARIANCES = Decision(
    partial(_covariances, lambda s, t: min(s, t) - s * t), COVARIANCE_LIMITS, "certified"
).but("a free Brownian motion in place of the bridge", run=partial(_covariances, min))


def _statistics(u: Tensor) -> Tensor:
    """Figures of rows of logits (n, T), each (n,): what tells two laws of rows apart."""
    p = torch.softmax(u, -1)
    contrast = softmax_row.contrast(p, p.shape[-1] // 2)
    parts = [entropy.entropy(u), contrast, contrast.square(), p[:, 0] * p[:, -1], p.amax(-1)]
    return torch.stack([*parts, entropy.entropy(u).square()])


def _walk_logits(case: Case, samples: int, random: torch.Generator) -> Tensor:
    x = walk.sample(torch.linalg.cholesky(case.covariance), case.tokens, samples, random)
    return torch.einsum("nia,ab,nb->ni", x, case.W, x[:, -1]) / (case.tokens * case.temperature)


def _whole(product: Tensor, case: Case, samples: int, random: torch.Generator) -> Tensor:
    return softmax_row.sample_logits(product, case.tokens, case.temperature, samples, random)


def _independent(product: Tensor, case: Case, samples: int, random: torch.Generator) -> Tensor:
    """The drift and the size of the bridge from two different z."""
    u, v = (_whole(product, case, samples, random) for _ in range(2))
    t = walk.indices(case.tokens, u) / case.tokens
    return u - u[:, -1:] * t + v[:, -1:] * t


def _same_law(logits: Callable, samples: int = 1 << 18) -> Verdict:
    """Figures of simulated walks against those of the stated law.

    Two means of n values each differ by at most 4 times the root of the sum of their squared
    standard errors; 30 comparisons of equal laws all pass but with probability 30 * 6.4e-5.
    """
    deviations = []
    for seed, case in enumerate(CASES.values()):
        random = torch.Generator().manual_seed(seed)
        found = [
            _statistics(draw(samples, random))
            for draw in (partial(_walk_logits, case), partial(logits, case.product, case))
        ]
        (a, b), errors = (f.mean(-1) for f in found), sum(f.var(-1) / samples for f in found)
        deviations.append(float(((a - b).abs() / errors**0.5).max()))
    holds, worst = within(deviations, ERRORS)
    return Verdict(holds, f"largest deviation {worst:.2f} standard errors", 30)


LAW_LIMITS = "these matrices, six figures of a row; agreement is statistical"
LAW = (
    Decision(partial(_same_law, _whole), LAW_LIMITS, "sampled")
    .but("drift and bridge of independent size", run=partial(_same_law, _independent))
    .but(
        "the symmetric part of M in place of M",
        run=partial(_same_law, lambda M, *rest: _whole((M + M.mT) / 2, *rest)),
    )
)

CHECKS: dict[str, dict[str, Check]] = {"walk.row": {"covariances": COVARIANCES, "law": LAW}}

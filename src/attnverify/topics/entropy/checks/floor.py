"""Checks of the entropy floor by the norm of the logits, and its link to the eigenspectrum."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import flint
import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import eigenspectrum as spectrum
from attnverify.mathematics import entropy
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.entropy import definitions as definitions

arb = flint.arb

# log T - H and log T - floor are compared, not H and the floor: near uniform rows the latter
# agree trivially, the former do not. Both are about sigma^2 / 2T for small sigma, so at 1/16 floats
# keep ten digits of them for T <= 16; balls keep all.
SMALLEST_NORM = 2.0**-4
ROOM = 1 + 2.0**-45  # keeps ||u|| <= sigma after rounding; checked in balls


def _on_sphere(u, s):
    """Instance of a centered row of norm sigma >= 1/16, and sigma."""
    sigma = SMALLEST_NORM + torch.nn.functional.softplus(s)
    size = u.square().sum(-1, keepdim=True).sqrt().clamp_min(1e-300)
    return {"u": u * (sigma / size), "sigma": sigma * ROOM}


def _norm_within(u, sigma):
    return [(ops.sqrt(ops.sum(ops.square(u), -1, keepdims=True)), sigma)]


def _allowed(u, sigma, gap: Callable = entropy.widest_gap, rest: int = 0):
    """Largest deficit log T - floor(sigma); rest: tokens added to T - 1, for a twin."""
    T = u.shape[-1]
    floor = entropy.floor(gap(sigma[..., 0], T), T + rest)
    return ops.log(ops.constant(T, u)) - floor


def _one_large(tokens: int = 5, scale: float = 0.75) -> dict[str, torch.Tensor]:
    """Row scale (T - 1, -1, ..., -1) and its norm, rounded up."""
    u = torch.full((tokens,), -scale, dtype=torch.float64)
    u[0] = scale * (tokens - 1)
    sigma = scale * math.sqrt(tokens * (tokens - 1)) * (1 + 2.0**-50)
    return {"u": u, "sigma": torch.tensor([sigma], dtype=torch.float64)}


FLOOR = (
    Inequality(
        left=lambda u, sigma: entropy.deficit(u),
        right=_allowed,
        sizes=tuple({"u": (T,), "s": (1,)} for T in (2, 4, 16)),
        build=_on_sphere,
        hypotheses=_norm_within,
        extremal=(_one_large, lambda: _one_large(16, 2.0**-8), lambda: _one_large(2, 6.0)),
    )
    .times(0.9999)
    .but("T in place of T - 1 in the floor", right=lambda **p: _allowed(**p, rest=1))
    .but("Delta = sigma", right=lambda **p: _allowed(**p, gap=lambda sigma, T: sigma))
    .but(
        "Delta with 0.999 sigma",
        right=lambda **p: _allowed(
            **p,
            gap=lambda sigma, T: ops.constant(0.999, sigma) * entropy.widest_gap(sigma, T),
        ),
    )
)


def _critical_entropy(k: int, T: int, sigma: arb) -> arb:
    """Entropy of k large and T - k small logits, centered, of norm sigma."""
    gap = sigma * (arb(T) / (k * (T - k))).sqrt()
    rest = (T - k) * (-gap).exp()
    return (k + rest).log() + gap * rest / (k + rest)


def _smallest_at(best: int) -> Verdict:
    """Whether k = ``best`` large logits give the least entropy of all critical rows, k = 1..T-1."""
    cases = 0
    with ops.precision(192):
        for T in (3, 4, 8, 33, 128):
            for sigma in (arb(1) / 8, arb(1), arb(4), arb(32)):
                low = _critical_entropy(best, T, sigma)
                for k in range(1, T):
                    if k == best:
                        continue
                    value, cases = _critical_entropy(k, T, sigma), cases + 1
                    if value < low:
                        return Verdict(False, f"k = {k} is lower at T = {T}", cases)
                    if not value > low:
                        return Verdict(None, f"undecided at T = {T}, k = {k}", cases)
    return Verdict(True, "one large logit is the lowest of all critical rows", cases)


CRITICAL_LIMITS = "these T and sigma; all of them are derived in the notebook"
CRITICAL = Decision(
    partial(_smallest_at, 1), CRITICAL_LIMITS, "certified", 4 * (1 + 2 + 6 + 31 + 126)
).but("two large logits", run=partial(_smallest_at, 2))

LOGIT_NORM = 4.0


def _scaled(W, X):
    """Instance with W rescaled so that the bound on the logits' norm is LOGIT_NORM."""
    size = entropy.logit_norm_bound(W, X, 1)[..., None, None].clamp_min(1e-300)
    return {"W": W * (LOGIT_NORM / size), "X": X}


def _spectral_floor(W, X, size: Callable = spectrum.squared_norm, factor: float = 1.0):
    """Largest deficit log T - floor at sigma = sqrt(size(W)) ||x_T|| ||X||_2."""
    T, d = X.shape[-2:]
    query = ops.sqrt(ops.sum(ops.square(X[..., -1, :]), -1))
    sigma = ops.sqrt(size(W)) * query * spectral_norm(X) * ops.constant(factor, X)
    return ops.log(ops.constant(T, X)) - entropy.floor(entropy.widest_gap(sigma, T), T)


def _rank_one() -> dict[str, torch.Tensor]:
    """Instance X = u e_1', u = (-1, .., -1, T - 1), W = e_1 e_1'/4: one large logit."""
    X = torch.zeros(4, 2, dtype=torch.float64)
    X[:, 0] = torch.tensor([-1.0, -1.0, -1.0, 3.0])
    W = torch.tensor([[0.25, 0.0], [0.0, 0.0]], dtype=torch.float64)
    return {"W": W, "X": X}


SPECTRAL = (
    Inequality(
        left=lambda W, X: entropy.deficit(entropy.logits(W, X, 1)),
        right=lambda W, X: _spectral_floor(W, X),
        sizes=tuple({"W": (d, d), "X": (T, d)} for T, d in ((2, 2), (4, 2), (5, 3))),
        build=_scaled,
        extremal=(_rank_one,),
    )
    .times(0.9999)
    .but("0.999 sigma", right=lambda W, X: _spectral_floor(W, X, factor=0.999))
    .but(
        "tr(W^2) in place of ||W||_F^2 for any W",
        right=lambda W, X: _spectral_floor(W, X, size=lambda A: abs(spectrum.square_trace(A))),
    )
    .but(
        "tr(W)^2/d in place of tr(W^2)",
        right=lambda W, X: _spectral_floor(
            W, X, size=lambda A: spectrum.squared_norm(A) - spectrum.distance_to_scalar(A)
        ),
    )
)

CHECKS: dict[str, dict[str, Check]] = {
    "entropy.lower-bound": {
        "floor": FLOOR,
        "critical rows": CRITICAL,
        "entry by entry": by_definition(definitions.entropies, "T in place of T - 1", rest=0),
    },
    "entropy.eigenspectrum": {
        "floor": SPECTRAL,
        "entry by entry": by_definition(definitions.last_row, "the temperature squared", power=2),
    },
}

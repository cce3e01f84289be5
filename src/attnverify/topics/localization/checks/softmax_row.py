"""Checks of the exponential row near the true softmax row on random walks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import entropy, softmax_row, walk
from attnverify.support.verdict import Verdict
from attnverify.topics.localization.definitions import exponential_row as definitions

ERRORS = 4  # standard errors of a simulated mean

# ------------------------------------------------------------------- near the exponential row


@dataclass(frozen=True)
class Row:
    """Case: a matrix, a number of tokens and eta."""

    product: Tensor
    tokens: int
    eta: float

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Slope a = xi/eta, asymmetry gamma and scale lambda/T."""
        trace, frobenius, square = walk.traces(self.product, torch.eye(len(self.product)).double())
        size = float(frobenius) ** 0.5
        return float(trace) / size / self.eta, float(square / frobenius), self.eta * size

    def figures(self, samples: int, random: torch.Generator) -> dict[str, Tensor]:
        """Statistics of random rows: KL(pi || p), TV, |H - H(pi)| and the error of the contrast."""
        a, _, scale = self.numbers
        near = softmax_row.slope_logits(torch.tensor(a, dtype=torch.float64), self.tokens)
        u = softmax_row.sample_logits(self.product, self.tokens, scale, samples, random)
        p, q, half = torch.softmax(u, -1), torch.softmax(near, -1), self.tokens // 2
        return {
            "divergence": entropy.relative_entropy(near - u, u),
            "variation": (p - q).abs().sum(-1) / 2,
            "entropy": (entropy.entropy(u) - entropy.entropy(near)).abs(),
            "contrast": (softmax_row.contrast(p, half) - softmax_row.contrast(q, half)).abs(),
        }

    def bounds(self) -> dict[str, float]:
        a, asymmetry, _ = self.numbers
        V = softmax_row.variation_bound(self.tokens, self.eta, asymmetry)
        return {
            "divergence": softmax_row.divergence_bound(self.tokens, self.eta, asymmetry),
            "variation": V,
            "entropy": softmax_row.entropy_bound(self.tokens, self.eta, a, asymmetry),
            "contrast": 2 * V,
        }


def _eye(width: int) -> Tensor:
    return torch.eye(width, dtype=torch.float64)


ROWS = {
    "weak": Row(_eye(8), 8, 64.0),
    "concentrated": Row(_eye(256), 8, 4.0),
    "sign-mixed": Row(torch.tensor([1.0, -1.0, 1.0, -1.0]).double().diag(), 16, 0.5),
    "skew": Row(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]).double(), 2, 4.0),
}
SAMPLES = {"weak": 1 << 20, "concentrated": 1 << 15, "sign-mixed": 1 << 16, "skew": 1 << 18}


@functools.cache
def _means(name: str) -> dict[str, tuple[float, float]]:
    """Mean and standard error of every statistic of a case."""
    samples, random = SAMPLES[name], torch.Generator().manual_seed(0)
    found = ROWS[name].figures(samples, random)
    return {k: (float(v.mean()), float(v.std()) / samples**0.5) for k, v in found.items()}


def _below(figure: str, change: Callable = lambda bound, case: bound) -> Verdict:
    """Whether simulated means are within the bound: false beyond 4 standard errors, None for NaN.

    No ratio is reported, since near equality chance alone takes a mean above its bound.
    """
    worst = 0.0
    for name, case in ROWS.items():
        mean, error = _means(name)[figure]
        bound = change(case.bounds()[figure], case)
        least = mean - ERRORS * error
        holds = certain(least <= bound, least > bound)
        if not holds:
            detail = f"{name}: mean {mean:.4g} (error {error:.1g}), bound {bound:.4g}"
            return Verdict(holds, detail, len(ROWS))
        worst = max(worst, mean / bound)
    return Verdict(True, f"largest ratio {worst:.4f}", len(ROWS))


NEAR_LIMITS = "these matrices, tokens and eta; the means are simulated, by the law of walk.row"


def _bound(name: str, title: str, change: Callable) -> Decision:
    return Decision(partial(_below, name), NEAR_LIMITS, "sampled", 4).but(
        title, run=partial(_below, name, change)
    )


DIVERGENCE = _bound("divergence", "0.99 times the bound", lambda v, case: 0.99 * v)
VARIATION = _bound("variation", "0.74 times the bound", lambda v, case: 0.74 * v)
ENTROPY = _bound(
    "entropy",
    "without the term |a|/(4 eta)",
    lambda v, case: softmax_row.entropy_bound(case.tokens, case.eta, 0.0, case.numbers[1]),
)
CONTRAST = _bound("contrast", "0.69 times the bound", lambda v, case: 0.69 * v)

# ------------------------------------------------------------------- the two lemmas


def _most(u, power: int = 2, parts: int = 6):
    """Bound (1 - T^-power)/parts."""
    T = u.shape[-1]
    return (1 - ops.constant(1, u) / T**power) / parts + 0 * u[..., 0]


PAIRS = (
    Inequality(
        left=lambda u: softmax_row.pair_spread(ops.softmax(u)),
        right=_most,
        sizes=tuple({"u": (T,)} for T in (2, 3, 8)),
        extremal=(lambda: {"u": torch.zeros(8, dtype=torch.float64)},),
    )
    .times(0.999)
    .but("1/T in place of 1/T^2", right=partial(_most, power=1))
)


def _slope_variance(a, tokens):
    return softmax_row.position_variance(
        ops.softmax(softmax_row.slope_logits(a[..., 0], tokens.shape[-1]))
    )


def _slope_most(a, tokens, **how):
    return _most(tokens, parts=12, **how)


def _uniform_row() -> dict[str, Tensor]:
    return {"a": torch.zeros(1).double(), "tokens": torch.zeros(8).double()}


POSITIONS = (
    Inequality(
        left=_slope_variance,
        right=_slope_most,
        sizes=tuple({"a": (1,), "tokens": (T,)} for T in (2, 3, 8)),
        extremal=(_uniform_row,),
    )
    .times(0.999)
    .but(
        "any row in place of an exponential one",
        left=lambda a, tokens: softmax_row.position_variance(ops.softmax(tokens)),
    )
)


def _away_from_zero(a):
    """Instance with a slope of size at least 1/4, since both sides are 0 at 0 and A is 0/0."""
    return {"a": a[..., 0] + torch.where(a[..., 0] < 0, -0.25, 0.25)}


def _slope(a: float) -> dict[str, Tensor]:
    return {"a": torch.tensor(a, dtype=torch.float64)}


PROFILE = Inequality(
    left=softmax_row.profile_deficit,
    right=lambda a: ops.square(a) / 24,
    sizes=({"a": (1,)},),
    build=_away_from_zero,
    extremal=(partial(_slope, 0.125), partial(_slope, -0.125)),
).times(0.999)

CHECKS: dict[str, dict[str, Check]] = {
    "localization.softmax-row": {
        "divergence": DIVERGENCE,
        "variation": VARIATION,
        "entropy": ENTROPY,
        "contrast": CONTRAST,
        "pairs": PAIRS,
        "positions": POSITIONS,
        "the entropy lacking": PROFILE,
        "entry by entry": by_definition(definitions.profiles, "without K(a/T)", finite=0),
    },
}

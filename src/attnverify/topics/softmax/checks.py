"""Checks of the softmax lemmas: perturbation, total variation, linearization, piecewise form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flint
import sympy as sp
import torch

from attnverify.arithmetic import interval_cover, ops
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import norms, softmax
from attnverify.support.verdict import Verdict
from attnverify.topics.softmax import definitions as rows

arb = flint.arb

INSIDE = 1 - 2.0**-40  # keeps osc(e) <= x* after rounding; checked in balls


def _bounded(base, e, s, limit: float = softmax.critical_float() * INSIDE):
    """Instance whose e is rescaled to an oscillation below the limit, by the free number s."""
    size = softmax.oscillation(e)[..., None].clamp_min(1e-300)
    return {"base": base, "e": e * (limit * torch.sigmoid(s) / size)}


def _within_critical(base, e):
    return [(softmax.oscillation(e), softmax.critical_oscillation(e))]


ROW_SIZES = tuple({"base": (n,), "e": (n,), "s": (1,)} for n in (2, 3, 8))

UPPER = Inequality(
    left=softmax.upper_deviation,
    right=softmax.upper_deviation_bound,
    sizes=ROW_SIZES,
    build=_bounded,
    hypotheses=_within_critical,
    # a token of weight about e^-30 whose logit rises by just under x*
    extremal=(
        lambda: _row([-30.0, 0.0], [softmax.critical_float() * INSIDE, 0.0]),
        lambda: _row([-30.0, 0.0], [softmax.critical_float() * INSIDE - 0.5, -0.5]),
    ),
)


def _row(base: list[float], e: list[float]) -> dict[str, torch.Tensor]:
    return {
        "base": torch.tensor(base, dtype=torch.float64),
        "e": torch.tensor(e, dtype=torch.float64),
    }


UPPER = UPPER.but(
    "the condition D <= 1.257 in place of D <= x* = 1.25643...",
    build=lambda **i: _bounded(**i, limit=1.257),
    hypotheses=None,
    extremal=(lambda: _row([-30.0, 0.0], [1.257, 0.0]),),
).times(0.9999)

LOWER = Inequality(
    left=lambda base, e: -softmax.upper_deviation(base, e),
    right=softmax.lower_deviation_bound,
    sizes=tuple({"base": (n,), "e": (n,)} for n in (2, 3, 8)),
    extremal=(lambda: _row([-30.0, 0.0], [0.0, 2.0**-20]),),
).times(0.9999)


def _upper_lemma(end: Callable[[], flint.arb]) -> Verdict:
    """Whether e^x <= 1 + 2x on [0, end]: f = 1 + 2x - e^x is concave with f(0) = 0.

    f increases on (0, near], is positive on a cover of [near, end - near] and decreases on
    [end - near, end], where it ends at f(end). At end = x* that is 0 exactly, by the closed form
    derived in the notebook; here its enclosure must hold 0 and be narrow: 2^-200 of 256 bits, as
    NaN and wide balls hold 0 too.
    """
    with ops.precision(256):
        f = lambda x: 1 + 2 * x - x.exp()  # noqa: E731
        slope = lambda x: 2 - x.exp()  # noqa: E731
        near, right = arb(2) ** -10, end()
        rises = interval_cover.positive(slope, arb(0), near)  # f > 0 on (0, near]
        inside = interval_cover.positive(f, near, right - near)
        falls = interval_cover.positive(lambda x: -slope(x), right - near, right)
        last = f(right)
        zero = last.contains(0) and last.rad() < arb(2) ** -200
        at_end = (interval_cover.certain(last >= 0 or zero, last < 0), 1)
        found = interval_cover.both(interval_cover.joined(rises, inside, falls), at_end)
    return found.verdict(f"concave; rises, positive cover, falls to {last.str(3)} at the end")


def _lower_lemma(slope: int, denominator: int = 1) -> Verdict:
    """Whether e^-x >= 1 - (slope/denominator) x for all x >= 0; both sides are equal at 0.

    Its derivative slope/denominator - e^-x is increasing in x, so it is >= 0 everywhere on
    x >= 0 exactly when it is so at 0.
    """
    at_zero = flint.fmpq(slope, denominator) - 1
    return Verdict(bool(at_zero >= 0), f"derivative at 0: {at_zero}, increasing")


LEMMA_LIMITS = "the scalar lemma; the step from rows to scalars is derived in the notebook"

SCALAR_UPPER = Decision(
    partial(_upper_lemma, softmax.critical_oscillation),
    LEMMA_LIMITS,
    over=(((arb(0), softmax.critical_oscillation()),),),
).but("up to 1.257 in place of x*", run=partial(_upper_lemma, lambda: arb("1.257")))
SCALAR_LOWER = Decision(partial(_lower_lemma, 1), LEMMA_LIMITS).but(
    "1 - 0.999 x", run=partial(_lower_lemma, 999, 1000)
)


def _moved(u, e):
    return norms.total_variation(ops.softmax(u), ops.softmax(u + e))


def _variation_bound(u, e):
    return softmax.variation_bound(softmax.oscillation(e))


def _two_and_two() -> dict[str, torch.Tensor]:
    """Instance where two tokens rise by 2 and all by 3 more, so osc(e) is not the largest |e|."""
    u, e = [-1.0, -1.0, 0.0, 0.0], [5.0, 5.0, 3.0, 3.0]
    return {"u": torch.tensor(u).double(), "e": torch.tensor(e).double()}


VARIATION = (
    Inequality(
        left=_moved,
        right=_variation_bound,
        sizes=tuple({"u": (n,), "e": (n,)} for n in (2, 3, 8)),
        extremal=(
            lambda: {"u": torch.tensor([-1.0, 0.0]), "e": torch.tensor([2.0, 0.0])},
            _two_and_two,
        ),
    )
    .times(0.9999)
    .but(
        "the largest entry of |e| in place of its oscillation",
        right=lambda u, e: softmax.variation_bound(ops.amax(abs(e), -1)),
    )
)


def _odds_lemma(factor: Any) -> Verdict:
    """Whether factor (1-q)/(1+q) >= a - a q^2/(a q^2 + 1 - a) for all a in [0,1], q in (0,1].

    With factor 1 the difference is (1-q)/(1+q) times (1 - a(1+q))^2 over 1 - a(1 - q^2) > 0: a
    square, so the sign is settled for all reals at once. Otherwise the value at a = 1/(1+q), where
    the square vanishes, has the sign of factor - 1.
    """
    a, q = sp.symbols("a q", positive=True)
    fall = softmax.mass_lost(a, q)
    square = (1 - q) / (1 + q) * (1 - a * (1 + q)) ** 2 / (1 - a * (1 - q**2))
    difference = factor * (1 - q) / (1 + q) - fall
    rest = sp.simplify(difference - square)  # (factor - 1)(1 - q)/(1 + q)
    if rest == 0:
        return Verdict(True, "a square times positive factors")
    at_best = sp.simplify(difference.subs(a, 1 / (1 + q)).subs(q, sp.Rational(1, 2)))
    return Verdict(None if at_best >= 0 else False, f"value {at_best} at q = 1/2, a = 1/(1+q)")


ODDS = Decision(partial(_odds_lemma, sp.Integer(1)), LEMMA_LIMITS).but(
    "0.999 times the bound", run=partial(_odds_lemma, sp.Rational(999, 1000))
)


def _linearization(bound: Callable, extremal: Callable) -> Inequality:
    return Inequality(
        left=softmax.linearization_error,
        right=lambda u: bound(u)[..., None] * ops.full((u.shape[-1],), 1, u),
        sizes=tuple({"u": (T,)} for T in (2, 8, 64)),
        extremal=(extremal,),
    ).times(0.999)


def one_large_logit(tokens: int, D: float) -> dict[str, torch.Tensor]:
    """Logits u = (D, 0, ..., 0), the extremal row as the number of tokens grows."""
    u = torch.zeros(tokens, dtype=torch.float64)
    u[0] = D
    return {"u": u}


LINEARIZATION = _linearization(
    softmax.linearization_bound,
    lambda: one_large_logit(1 << 14, 2.0**-10),
)
LINEARIZATION_SHARP = _linearization(
    softmax.linearization_bound_sharp,
    lambda: one_large_logit(1 << 14, 1.0),
)


def _weaker(factor: Any) -> Verdict:
    """Whether factor D^2 e^D / 2 >= e^D - 1 - D for all D >= 0.

    k(D) = (1 + D) e^-D - 1 + factor D^2/2 has k(0) = 0 and k'(D) = D (factor - e^-D), which is
    >= 0 for all D >= 0 exactly when factor >= 1.
    """
    D = sp.Symbol("D", nonnegative=True)
    k = (1 + D) * sp.exp(-D) - 1 + factor * D**2 / 2
    same = sp.simplify(sp.diff(k, D) - D * (factor - sp.exp(-D))) == 0
    start = sp.simplify(k.subs(D, 0)) == 0
    holds = bool(same and start and factor >= 1)
    return Verdict(holds, f"k(0) = 0 and k' = D ({factor} - e^-D)")


WEAKER = Decision(partial(_weaker, sp.Integer(1)), LEMMA_LIMITS).but(
    "0.999 D^2 e^D / 2", run=partial(_weaker, sp.Rational(999, 1000))
)


# --------------------------------------------------------------------------------------- piecewise

PIECEWISE = (
    Inequality(
        left=lambda u: abs(ops.softmax(u) - softmax.piecewise_linear(u)),
        right=lambda u: (
            softmax.linearization_bound_sharp(u)[..., None] * ops.full((u.shape[-1],), 1, u)
        ),
        sizes=tuple({"u": (T,)} for T in (2, 8, 64)),
        extremal=(lambda: one_large_logit(1 << 14, 1.0),),
    )
    .times(0.999)
    .but(
        "0.999 times the oscillation in place of D",
        right=lambda u: PIECEWISE.right(ops.constant(0.999, u) * u),
    )
)


def _blocked(u, s, threshold: float = 1.0):
    """Instance whose first logit is at most mean(u) - threshold, with room for rounding."""
    rest, T = u[..., 1:], u.shape[-1]
    gap = threshold * (1 + 2.0**-40) + torch.nn.functional.softplus(s)
    first = rest.mean(-1, keepdim=True) - gap * T / (T - 1)
    return {"u": torch.cat([first, rest], -1)}


def _is_blocked(u):
    T = ops.constant(u.shape[-1], u)
    return [(u[..., 0] + 1, ops.sum(u, -1) / T)]


def _others_equal() -> dict[str, torch.Tensor]:
    tokens = 1 << 14
    u = torch.zeros(tokens, dtype=torch.float64)
    u[0] = -tokens / (tokens - 1) * (1 + 2.0**-40)
    return {"u": u}


def _share(u):
    """Bound 1/(e T) on the weight of one blocked token."""
    return ops.exp(-ops.full(u.shape[:1], 1, u)) / u.shape[-1]


BLOCKED = (
    Inequality(
        left=lambda u: ops.softmax(u)[..., 0],
        right=_share,
        sizes=tuple({"u": (T,), "s": (1,)} for T in (2, 8, 64)),
        build=_blocked,
        hypotheses=_is_blocked,
        extremal=(_others_equal,),
    )
    .times(0.9999)
    .but(
        "blocked from -0.999 on",
        build=lambda u, s: _blocked(u, s, 0.999),
        hypotheses=None,
        extremal=(lambda: {"u": 0.999 * _others_equal()["u"]},),
    )
)


def _blocked_together(rest, s, threshold: float = 1.0):
    """Instance whose logits ``low`` are at most -threshold and all logits sum to 0."""
    low = -threshold * (1 + 2.0**-40) - torch.nn.functional.softplus(s)
    shift = rest.mean(-1, keepdim=True) + low.sum(-1, keepdim=True) / rest.shape[-1]
    return {"low": low, "rest": rest - shift}


def _all_low(low, rest):
    u = ops.join([low, rest], -1)
    mean = ops.sum(u, -1, keepdims=True) / ops.constant(u.shape[-1], u)
    return [(low + 1, mean + 0 * low)]


def _low_mass(low, rest):
    """Attention weight of all tokens with logits ``low`` together; (...)."""
    return ops.sum(ops.softmax(ops.join([low, rest], -1))[..., : low.shape[-1]], -1)


def _largest_loss(low, rest):
    """Bound 1/(1 + e^2) on the weight of all blocked tokens together."""
    one = ops.full(low.shape[:1], 1, low)
    return one / (one + ops.exp(one + one))


def _half_and_half(threshold: float = 1.0, tokens: int = 4) -> dict[str, torch.Tensor]:
    both = torch.full((tokens // 2,), threshold, dtype=torch.float64)
    return {"low": -both, "rest": both}


LOST = (
    Inequality(
        left=_low_mass,
        right=_largest_loss,
        sizes=tuple({"rest": (r,), "s": (b,)} for r, b in ((1, 1), (2, 3), (6, 4), (30, 30))),
        build=_blocked_together,
        hypotheses=_all_low,
        extremal=(
            _half_and_half,
            lambda: _half_and_half(tokens=2),
            lambda: _half_and_half(tokens=14),
        ),
    )
    .times(0.9999)
    .but(
        "blocked from -0.999 on",
        build=lambda rest, s: _blocked_together(rest, s, 0.999),
        hypotheses=None,
        extremal=(lambda: _half_and_half(0.999),),
    )
)


def _mass(u):
    """Sum of the weights of the piecewise linear model; (...)."""
    return ops.sum(softmax.piecewise_linear(u), -1)


def _all_but_one() -> dict[str, torch.Tensor]:
    """Logits of which four are so far above the fifth that each has weight 1 in the model."""
    return {"u": torch.tensor([4.0, 4.0, 4.0, 4.0, -16.0], dtype=torch.float64)}


MASS_SIZES = tuple({"u": (T,)} for T in (3, 8))
ONE_AT_LEAST = Inequality(
    left=lambda u: ops.full(u.shape[:1], 1 - 2.0**-40, u),  # equality for equal logits
    right=_mass,
    sizes=MASS_SIZES,
    extremal=(lambda: {"u": torch.zeros(4, dtype=torch.float64)},),
).times(0.9999)
ALL_BUT_ONE = Inequality(
    left=_mass,
    right=lambda u: ops.full(u.shape[:1], u.shape[-1] - 1, u),
    sizes=MASS_SIZES,
    extremal=(_all_but_one,),
).times(0.9999)


CHECKS: dict[str, dict[str, Check]] = {
    "softmax.perturbation": {
        "upper": UPPER,
        "lower": LOWER,
        "scalar upper": SCALAR_UPPER,
        "scalar lower": SCALAR_LOWER,
        "entry by entry": by_definition(rows.perturbed, "D in place of 2 D", upper=1),
    },
    "softmax.total-variation": {"variation": VARIATION, "odds": ODDS},
    "softmax.linearization": {
        "linearization": LINEARIZATION,
        "weaker": WEAKER,
        "entry by entry": by_definition(rows.linear, "T - 1 in place of T", tokens=4),
    },
    "softmax.linearization-sharp": {"linearization": LINEARIZATION_SHARP},
    "softmax.piecewise-linear": {
        "error": PIECEWISE,
        "blocked": BLOCKED,
        "blocked together": LOST,
        "least mass": ONE_AT_LEAST,
        "largest mass": ALL_BUT_ONE,
    },
}

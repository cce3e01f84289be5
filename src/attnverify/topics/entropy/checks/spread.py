"""Checks of the entropy floors in the spread of the logits and with spectral norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Decision, Inequality
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import eigenspectrum as spectrum
from attnverify.mathematics import entropy, norms
from attnverify.mathematics.softmax import oscillation
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.entropy import definitions as definitions

arb = flint.arb

# ------------------------------------------------------------------- a row of given spread

SMALLEST_SPREAD = 0.25  # below it log T - H and its bound are both about D^2/8 and agree trivially


def _stretched(e, s, **base):
    """Instance with e rescaled to a spread of at least SMALLEST_SPREAD."""
    D = SMALLEST_SPREAD + torch.nn.functional.softplus(s)
    size = oscillation(e)[..., None].clamp_min(1e-300)
    return {"e": e * (D / size), **base}


def _most(e, factor: float = 1.0):
    """Largest deficit of a row whose spread is ``factor`` times that of e."""
    return entropy.widest_deficit(ops.constant(factor, e) * oscillation(e), e.shape[-1])


def two_values(tokens: int, large: int, D: float) -> dict[str, torch.Tensor]:
    """Row with ``large`` logits D and zeros."""
    e = torch.zeros(tokens, dtype=torch.float64)
    e[:large] = D
    return {"e": e}


UNIFORM = (
    Inequality(
        left=lambda e: entropy.deficit(e),
        right=_most,
        sizes=tuple({"e": (T,), "s": (1,)} for T in (2, 5, 16)),
        build=_stretched,
        extremal=(lambda: two_values(5, 1, 2.0), lambda: two_values(16, 3, 2.0)),
    )
    .times(0.999)
    .but("the spread less 1/2 percent", right=partial(_most, factor=0.995))
    .but(
        "one large logit is the worst",
        right=lambda e: entropy.two_levels(ops.constant(1, e) / e.shape[-1], oscillation(e)),
    )
    .but("half of the logits large", right=lambda e: entropy.two_levels(0.5, oscillation(e)))
)


def _constant(e, base):
    return entropy.spread_constant(oscillation(e))


def best_two(D: float) -> dict[str, torch.Tensor]:
    """Instance of two tokens, where the raised one has the best share."""
    s = float(entropy.best_share(torch.tensor(D, dtype=torch.float64)))
    base = torch.tensor([math.log(s), math.log1p(-s)], dtype=torch.float64)
    return {"e": torch.tensor([D, 0.0], dtype=torch.float64), "base": base}


ANY_BASE = (
    Inequality(
        left=entropy.relative_entropy,
        right=_constant,
        sizes=tuple({"e": (T,), "s": (1,), "base": (T,)} for T in (2, 5)),
        build=_stretched,
        extremal=(lambda: best_two(1.0), lambda: best_two(4.0)),
    )
    .times(0.999)
    .but(
        "a - 1 - log a with a = 1 + D/2 + D^2/16, which is right to first order",
        right=lambda e, base: _of_tilt(1 + oscillation(e) / 2 + ops.square(oscillation(e)) / 16),
    )
)


def _of_tilt(a):
    return a - 1 - ops.log(a)


def _sets(e, base):
    return entropy.widest_divergence(base, oscillation(e))


def _singles(e, base):
    """Largest K(q_j, D), for one raised token."""
    return ops.amax(entropy.two_levels(ops.softmax(base), oscillation(e)[..., None]), -1)


def best_pair() -> dict[str, torch.Tensor]:
    """Instance with weights 4, 3, 5, 4 (over 16), D = 1/2: 7/16 is nearest to the best share."""
    base = torch.tensor([4.0, 3.0, 5.0, 4.0], dtype=torch.float64).log()
    return {"e": torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64), "base": base}


SETS = (
    Inequality(
        left=entropy.relative_entropy,
        right=_sets,
        sizes=tuple({"e": (T,), "s": (1,), "base": (T,)} for T in (2, 4)),
        build=_stretched,
        extremal=(best_pair,),
    )
    .times(0.999)
    .but("one raised token is the worst", right=_singles)
)


def _stretch(s):
    """Spread of at least SMALLEST_SPREAD from a free number."""
    return {"D": SMALLEST_SPREAD + torch.nn.functional.softplus(s[..., 0])}


EIGHTH = Inequality(
    left=entropy.spread_constant,
    right=lambda D: ops.square(D) / 8,
    sizes=({"s": (1,)},),
    build=_stretch,
    extremal=(lambda: {"D": torch.tensor(0.125, dtype=torch.float64)},),
).times(0.999)


def _best_count(nearest: bool) -> Verdict:
    """Whether the best k is a neighbor of T s* (for a twin: the whole number nearest to it)."""
    cases = 0
    with ops.precision(192):
        for T in (2, 3, 5, 16, 33, 100):
            for D in (arb(1) / 8, arb(1), arb(5) / 2, arb(6)):
                size = ops.full((1,), 1, np.array([D])) * D
                target = float(T * entropy.best_share(size)[0])
                next_to = {round(target)} if nearest else {math.floor(target), math.ceil(target)}
                allowed = [k for k in next_to if 1 <= k < T]
                values = {k: entropy.two_levels(arb(k) / T, size)[0] for k in range(1, T)}
                rest = [values[k] for k in values if k not in allowed]
                if any(all(v > values[k] for k in allowed) for v in rest):
                    return Verdict(False, f"another k is better at T = {T}, D = {D}", cases)
                if not all(any(values[k] > v for k in allowed) for v in rest):
                    return Verdict(None, f"undecided at T = {T}, D = {D}", cases)
                cases += 1
    return Verdict(True, "the best k is next to T s*", cases)


COUNT_LIMITS = "these T and D; all of them are derived in the notebook"
COUNT = Decision(partial(_best_count, False), COUNT_LIMITS, "certified", 6 * 4).but(
    "the whole number nearest to T s*", run=partial(_best_count, True)
)

# ------------------------------------------------------------------- tokens and a matrix

REACH = 4.0  # of sigma_c in what is drawn


def _scaled(W, X):
    """Instance with W rescaled so that sigma_c is REACH at temperature 1."""
    size = entropy.centered_norm_bound(W, X, 1)[..., None, None].clamp_min(1e-300)
    return {"W": W * (REACH / size), "X": X}


def _deficit(W, X):
    return entropy.deficit(entropy.logits(W, X, 1))


def _by_norm(W, X, size: Callable = entropy.centered_norm_bound, factor: float = 1.0):
    T = X.shape[-2]
    gap = entropy.widest_gap(ops.constant(factor, X) * size(W, X, 1), T)
    return ops.log(ops.constant(T, X)) - entropy.floor(gap, T)


def _by_spread(W, X, size: Callable = entropy.logit_spread_bound, factor: float = 1.0):
    return entropy.widest_deficit(ops.constant(factor, X) * size(W, X, 1), X.shape[-2])


def _times(size: Callable, other: Callable) -> Callable:
    """Bound of a twin, with another quantity in place of one factor: times their quotient."""
    return lambda W, X, temperature: size(W, X, temperature) * other(W, X)


def _root_mean_square(W, X):
    """Quotient ||W||_F/sqrt(d) over ||W||_2."""
    return ops.sqrt(spectrum.squared_norm(W) / W.shape[-1]) / spectral_norm(W)


def _centered_query(W, X):
    """Quotient ||x_T - mean|| over ||x_T||."""
    sizes = (ops.sum(ops.square(V[..., -1, :]), -1) for V in (norms.mean_centered(X), X))
    centered, whole = sizes
    return ops.sqrt(centered / whole)


def two_points(tokens: int, large: int, q: float, D: float) -> dict[str, torch.Tensor]:
    """Instance of tokens q v and q v - (D/q) u, with singular vectors W v = u of W not symmetric.

    The last ``large`` tokens are q v; the logits are q^2 v'u and less by D.
    """
    W = torch.tensor([[0.0, 1.0], [0.5, 0.0]], dtype=torch.float64)
    X = torch.tensor([[0.0, q]], dtype=torch.float64).repeat(tokens, 1)
    X[: tokens - large, 0] = -D / q
    return {"W": W, "X": X}


def _exact(right: Callable, extremal: tuple) -> Inequality:
    check = Inequality(
        left=_deficit,
        right=right,
        sizes=tuple({"W": (d, d), "X": (T, d)} for T, d in ((2, 2), (4, 2), (5, 3))),
        build=_scaled,
        extremal=extremal,
    )
    size = {_by_norm: entropy.centered_norm_bound, _by_spread: entropy.logit_spread_bound}[right]
    return (
        check.times(0.999)
        .but("0.999 times the bound on the logits", right=partial(right, factor=0.999))
        .but(
            "||W||_F/sqrt(d) in place of ||W||_2",
            right=partial(right, size=_times(size, _root_mean_square)),
        )
        .but(
            "the query centered too",
            right=partial(right, size=_times(size, _centered_query)),
        )
    )


NORM = _exact(_by_norm, (lambda: two_points(4, 1, 4.0, 2.0),))
SPREAD = _exact(
    _by_spread, (lambda: two_points(5, 1, 4.0, 2.0), lambda: two_points(16, 3, 4.0, 2.0))
)
NESTED = Inequality(
    left=lambda W, X: entropy.logit_spread_bound(W, X, 1),
    right=lambda W, X: ops.root(2, X) * entropy.centered_norm_bound(W, X, 1),
    sizes=({"W": (2, 2), "X": (3, 2)}, {"W": (3, 3), "X": (5, 3)}),
    extremal=(lambda: two_points(2, 1, 4.0, 2.0),),
).times(0.999)

CHECKS: dict[str, dict[str, Check]] = {
    "entropy.spread": {
        "uniform": UNIFORM,
        "any base": ANY_BASE,
        "any base, sets": SETS,
        "an eighth of the square": EIGHTH,
        "best count": COUNT,
        "entry by entry": by_definition(definitions.floors, "D in place of D/(1 - e^-D)", wrong=1),
    },
    "entropy.spectral": {
        "norm": NORM,
        "spread": SPREAD,
        "spread and norm": NESTED,
        "entry by entry": by_definition(definitions.sizes, "without centering", center=0),
    },
}

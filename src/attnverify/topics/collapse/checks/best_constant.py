"""Checks of the best constant of one head: a column against a row, and the layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import flint
import torch

from attnverify.arithmetic import interval_cover, ops
from attnverify.chapters.layer_instances import (
    LIMIT,
    bounded_layer,
    oscillations_bounded,
    small_scores,
)
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, norms, softmax
from attnverify.mathematics.softmax import oscillation
from attnverify.support.verdict import Verdict
from attnverify.topics.collapse.checks import composite, depth
from attnverify.topics.collapse.definitions import depth as definitions

arb = flint.arb


def bounded(base, E, s, **others):
    """Instance with rows scaled together so that the largest oscillation is a free share of x*."""
    largest = oscillation(E).amax(-1, keepdim=True).clamp_min(1e-6)
    return {"base": base, "E": E * (LIMIT * torch.sigmoid(s) / largest)[..., None], **others}


def within(E, **_):
    """Hypothesis that every row of E has an oscillation of at most x*."""
    D = oscillation(E)
    return [(D, ops.full(tuple(D.shape), 0, D) + softmax.critical_oscillation(D))]


def _square(base, E):
    """Square ||E||_1^2, the right side of the claim."""
    return ops.square(norms.max_column_sum(E))


def one_row(size: float) -> Instance:
    """Instance of two tokens and one row (size, -size), where both factors are tanh(size)/2."""
    zero = torch.zeros(2, dtype=torch.float64)
    return {"base": zero, "E": torch.tensor([[size, -size]], dtype=torch.float64)}


def anchor(rows: int) -> Instance:
    """Instance where one token has half of the weight and each other is raised in one row."""
    base = torch.zeros(rows + 1, dtype=torch.float64)
    base[0] = torch.tensor(float(rows)).double().log()
    E = torch.zeros(rows, rows + 1, dtype=torch.float64)
    E[:, 1:] = torch.eye(rows).double() * torch.tensor(4.0 * rows).double().log()
    return {"base": base, "E": E}


PRODUCT = (
    Inequality(
        left=collapse.column_times_row,
        right=_square,
        sizes=tuple({"base": (m,), "E": (n, m), "s": (1,)} for n, m in ((1, 2), (4, 3), (6, 8))),
        build=bounded,
        hypotheses=within,
        extremal=(lambda: one_row(2.0**-8), lambda: one_row(0.5)),
    )
    .times(0.999)
    .but("without the condition", hypotheses=None, extremal=(lambda: anchor(256),))
)


def _sum(base, E):
    column, row = collapse.column_and_row_changes(base, E)
    return column + row


def _small(base, E, s):
    """Instance with columns of absolute sum at most log 2, which is above 0.6931."""
    largest = norms.max_column_sum(E)[..., None].clamp_min(1e-6)
    return {"base": base, "E": E * (0.6931 * torch.sigmoid(s) / largest)[..., None]}


def _columns(base, E):
    return norms.max_column_sum(E)


SUM = Inequality(
    left=_sum,
    right=_columns,
    sizes=PRODUCT.sizes,
    build=_small,
    hypotheses=lambda base, E: [
        (norms.max_column_sum(E), ops.log(ops.full(tuple(E.shape[:-2]), 2, E)))
    ],
    extremal=(lambda: one_row(2.0**-8),),
).times(0.999)


def _large_columns(D: arb) -> Verdict:
    """Whether the claim holds for B = ||E||_1 >= log 2 and oscillations at most D.

    tau = tanh(D/4).
    On [log 2, 0.77]: tau < B/2 and tau eta < (B/2 - tau)^2 with
    eta = (log 2 - B + e^B/2 - 1)/2. On [0.77, D]: tau (1 + kappa(B)) < B. From D on kappa is at
    most kappa(D), so the end of that range settles the rest.
    """
    with ops.precision(128):
        tau, start, end = (D / 4).tanh(), arb(2).log(), arb("0.77")

        def room(B: arb) -> arb:
            eta = (start - B + B.exp() / 2 - 1) / 2
            return (B / 2 - tau) ** 2 - tau * eta

        near = [interval_cover.positive(f, start, end) for f in (lambda B: B / 2 - tau, room)]
        far = interval_cover.positive(lambda B: B - tau * (1 + B.expm1() / B), end, D)
        found = interval_cover.both(*(interval_cover.joined(part, far) for part in near))
    return found.verdict(f"covers of [log 2, 0.77] and [0.77, {D.str(6)}]")


LARGE = Decision(
    partial(_large_columns, arb("1.25644")),  # x* rounded up, which covers every D <= x*
    "the scalar estimates; the rest is derived in the notebook",
    over=(((arb(2).log(), softmax.critical_oscillation()),),) * 2,
).but("the same proof up to oscillations of 1.45", run=partial(_large_columns, arb("1.45")))


def _layer(name: str, extremal: Callable[[], Instance]) -> Inequality:
    return replace(
        composite.SHARPENED[name],
        right=composite.bound(collapse.best_constant),
        build=bounded_layer,
        hypotheses=oscillations_bounded,
        extremal=(extremal,),
        twins=(),
    )


#: Four tokens at which the center of the proof is the best one (derived for the sharpened claim).
MORE = _layer("more tokens", composite.pulled_apart).times(0.999)

#: Two tokens leave at most 1/sqrt(2) of the bound in a layer, its fourth power in two.
DEPTH = depth.refuted(
    replace(depth.WITHOUT_GAMMA, right=depth.bound(collapse.best_constant), twins=()),
    partial(depth.cubed, collapse.best_constant),
    0.2499,
    lambda: depth.two_layers(2.0**-400),
)

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.row-and-column": {
        "product": PRODUCT,
        "sum": SUM,
        "large columns": LARGE,
        "entry by entry": by_definition(definitions.moved, "a third in place of half", half=3),
    },
    "collapse.single-head-best-constant": {
        "two tokens": _layer("two tokens", small_scores).times(0.7065),
        "more tokens": MORE,
        "depth": DEPTH,
    },
}

"""Checks of the Lipschitz constant of gated MLPs: its decimals, and the bound on a ball."""

from __future__ import annotations

from functools import partial

import torch
from flint import arb

from attnverify.arithmetic import interval_cover, ops
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import gated_mlp, layernorm, norms
from attnverify.support.verdict import Verdict
from attnverify.topics.modern.definitions import layers as definitions

WEIGHT = "0.528706"  # the share w of the proof, near sigma'(a)/K at the maximum
BELOW = "2.0421312"  # the decimals of K without the last rounding up


def _slopes(a: arb) -> tuple[arb, arb]:
    """Slopes sigma'(a) and sigma(a)/a of the SiLU sigma."""
    s = 1 / (1 + (-a).exp())
    return s + a * s * (1 - s), s


def _form(a: arb) -> arb:
    """Form sigma'(a)^2/w + (sigma(a)/a)^2/(1 - w), which bounds the squared constant."""
    alpha, beta = _slopes(a)
    return alpha**2 / arb(WEIGHT) + beta**2 / (1 - arb(WEIGHT))


def _constant(shift: float = 0.0) -> Verdict:
    """Whether K lies between its decimals, by a cover of -40 <= a <= 40, a point and the tails.

    For |a| >= s = 40 the second slope is at most 1 and the first at most 1 + s e^-s in size, which
    falls, so the form is at most (1 + s e^-s)^2/w + 1/(1 - w).
    """
    low, high = (arb(d) - arb(shift) for d in (BELOW, gated_mlp.GATE))
    with ops.precision(128):
        end, w = arb(40), arb(WEIGHT)
        tail = interval_cover.beyond(
            lambda s: high**2 - (1 + s * (-s).exp()) ** 2 / w - 1 / (1 - w), end
        )
        (((low_end, high_end),),) = tail.boxes
        mirrored = tail._replace(cases=0, boxes=(((-high_end, -low_end),),))
        inner = interval_cover.positive(lambda a: high**2 - _form(a), -end, end)
        alpha, beta = _slopes(arb(gated_mlp.GATE_AT[0]))
        above = (interval_cover.certain(alpha + beta > low, alpha + beta < low), 1)
        found = interval_cover.both(interval_cover.joined(inner, tail, mirrored), above)
    return found.verdict(f"K between {low.str(9)} and {high.str(9)}")


CONSTANT = Decision(
    _constant,
    "the scalar function; the step to matrices is derived",
    over=(((arb.neg_inf(), arb.pos_inf()),),),
).but("both decimals 10^-6 lower", run=partial(_constant, 1e-6))

SIZES = (
    {"X": (2, 1), "W_G": (1, 1), "W_U": (1, 1), "W_D": (1, 1)},
    {"X": (2, 2), "W_G": (2, 3), "W_U": (2, 3), "W_D": (3, 2)},
    {"X": (3, 3), "W_G": (3, 4), "W_U": (3, 4), "W_D": (4, 3)},
)


def _ball(X, W_G, W_U, W_D):
    size, radius = norms.diameter(X), layernorm.largest_length(X)
    return size * gated_mlp.gated_lipschitz(radius, W_G, W_U, W_D)


def _at_the_maximum(width: int = 1) -> Instance:
    """Instance of tokens 1 and 1 - 2^-16 along e_1 with the gate weight where the slope is K."""
    along = torch.zeros(width, width, dtype=torch.float64)
    along[0, 0] = 1
    X = torch.zeros(2, width, dtype=torch.float64)
    X[:, 0] = torch.tensor([1.0, 1 - 2.0**-16])
    return {"X": X, "W_G": 3.24365 * along, "W_U": along, "W_D": along}


BALL = (
    Inequality(
        left=lambda X, W_G, W_U, W_D: norms.diameter(gated_mlp.gated(X, W_G, W_U, W_D)),
        right=_ball,
        sizes=SIZES,
        extremal=(_at_the_maximum,),
    )
    .times(0.9999)
    .but("2 in place of K", right=lambda **i: _ball(**i) * 2 / gated_mlp.gate_constant(i["X"]))
)


CHECKS: dict[str, dict[str, Check]] = {
    "modern.gated-mlp": {
        "constant": CONSTANT,
        "on a ball": BALL,
        "entry by entry": by_definition(definitions.gated, "1/(1 + e^a) as the gate", sign=1),
    },
}

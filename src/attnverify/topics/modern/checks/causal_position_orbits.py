"""Checks of a causal mask with positions over depth: limits, a later token that decides, and ties.

A head is a function from tokens to logits (tokens, tokens), in balls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Check, Decision
from attnverify.checking.definition_agreement import largest
from attnverify.mathematics import causal_positions as formulas
from attnverify.mathematics import mask_bounds, norms
from attnverify.support.verdict import Verdict

arb = flint.arb
Head = Callable[[Any], Any]

NEAR = arb(2) ** -20
LIMITS = "these tokens and heads; the limit is derived in the notebook"

# ------------------------------------------------------------------------------------- the limit


def _head(kind: str, n: int, width: int, draw: Callable[..., torch.Tensor]) -> Head:
    """Random head of two planes with positions of one kind; its maps and biases have size 1/4."""
    distance = torch.arange(1 - n, n, dtype=torch.float64)
    bias = {"ALiBi": -distance.abs() / 4, "T5": draw(2 * n - 1)}.get(kind, 0 * distance)
    angles = draw(1, 2) if kind == "rotary" else torch.zeros(1, 2)
    maps = {"W_Q": draw(1, width, 4), "W_K": draw(1, width, 4), "b_Q": draw(1, 4)}
    maps = {key: value / 4 for key, value in {**maps, "b_K": draw(1, 4)}.items()}
    exact = {k: ops.balls(v) for k, v in {**maps, "angles": angles, "bias": bias[None]}.items()}
    places = draw(n, n) / 8
    places[1, 1] += 1  # with m = 1 token 2 gives itself more than later tokens do
    learned = ops.balls(places if kind == "table" else 0 * places)
    return lambda X: formulas.logits(X, **exact) + learned


CASES = (
    ("none", 5, 2),
    ("ALiBi", 5, 2),
    ("ALiBi", 4, 1),
    ("T5", 5, 1),
    ("rotary", 4, 2),
    ("table", 4, 1),
)


def _first(own, m: int):
    return own[m]


def _positions(P, m: int):
    return formulas.shape(P, m)


@cache
def _over_layers(kind: str, n: int, m: int, seed: int, layers: int, bits: int) -> tuple[Any, ...]:
    """Weights of equal tokens, tokens at the start, before and after the last layer, and the sum.

    A check and its twins differ in what they compare with, and look at the same layers.
    """
    random = torch.Generator().manual_seed(seed)
    draw = partial(torch.randn, generator=random, dtype=torch.float64)
    with ops.precision(bits):
        head, X = _head(kind, n, 2, draw), draw(n, 2)
        X[:m] = X[0].clone()
        start, X = ops.balls(X), ops.balls(X)
        equal, S, before = head(start[:1] + 0 * start), arb(0), X
        for _ in range(layers):
            Z, before = head(X), X
            S, X = S + formulas.moved(Z, equal, m), formulas.weights(Z) @ X
        return formulas.weights(equal), start, before, X, S


def in_the_limit(
    cases: tuple[tuple[str, int, int], ...],
    u: Callable = _positions,
    rate: Callable = _first,
    layers: int = 240,
) -> Verdict:
    """Whether the ratio of diameters, the places u_i on a line and lambda tend to the limit.

    The proof lets the deviation fall by g = max(p_i/p_(m+1) over i > m + 1, p_(m+1)) a layer in the
    end. Asked are 2^-20, where g^layers < 2^-36 for certain: 2^16 are left for what it multiplies.
    Balls do not know that tokens move together, which costs less than 8 bits a layer; of 3,000 bits
    more than 1,000 are left.
    """
    off = arb(0)
    with ops.precision(bits := 3000):
        for seed, (kind, n, m) in enumerate(cases):
            P, start, before, X, S = _over_layers(kind, n, m, seed, layers, bits)
            own = formulas.own(P)
            g = largest([own[m], *(p / own[m] for p in own[m + 1 :])])
            ratio = norms.diameter(X) / norms.diameter(before)
            away, first, begin = X - X[0], (X - X[0])[m], (start - start[0])[m]
            wanted = u(P, m)[:, None] * first
            apart = norms.diameter(away - wanted) / (first @ first).sqrt()
            off = off.max(abs(ratio - rate(own, m))).max(apart)
            lam = (first @ begin) / (begin @ begin) / own[m] ** layers
            if not (g**layers < arb(2) ** -36 and -S <= lam.log() <= (1 - own[m]) * S):
                return Verdict(None, f"{kind}: lambda {lam.str(5)}, g {g.str(5)}", seed)
    return Verdict(certain(off < NEAR, off > NEAR), f"off by at most {off.str(3)}", len(cases))


def _binomial(P, m: int):
    return mask_bounds.shape(len(P), m, P)


LIMIT = (
    Decision(partial(in_the_limit, CASES), LIMITS, "certified", 6)
    .but(
        "the rate 1/(m + 1), whatever the positions are",
        run=partial(in_the_limit, CASES, rate=lambda own, m: arb(1) / (m + 1)),
    )
    .but(
        "the second largest eigenvalue, over all i > 1 in place of i > m",
        run=partial(in_the_limit, CASES, rate=lambda own, m: largest(own[1:])),
    )
    .but(
        "binomial coefficients for u, whatever the positions are",
        run=partial(in_the_limit, CASES, u=_binomial),
    )
)

# ------------------------------------------------------------------------- what a later token does


def by_weights(*rows: tuple[int, ...]) -> Head:
    """Head with fixed weights in proportion to whole numbers, in every row up to its own token."""
    n = len(rows)
    table = np.array([[arb(w) for w in (*r, *(1,) * (n - len(r)))] for r in rows], dtype=object)
    return lambda X: ops.log(table) + 0 * X[:1, :1]


def with_scores(head: Head) -> Head:
    """The same head with the product of both tokens added to a logit."""
    return lambda X: head(X) + X @ ops.transpose(X)


LATE = ((1,), (1, 1), (1, 1, 18))  # p_2 = 1/2, p_3 = 9/10


def _column(*values: float):
    return ops.balls(torch.tensor(values, dtype=torch.float64)[:, None])


def _decides(which: Callable, layers: int = 240) -> Verdict:
    """Whether the ratio of diameters tends to which(p) for three tokens, of which the last decides.

    Twice: with fixed weights, and with scores besides. The ratio is off by a multiple of the larger
    of (5/9)^l and (9/10)^l, the second by D_l; the latter is below 2^-36 here.
    """
    off = arb(0)
    with ops.precision(3000):
        own = formulas.own(formulas.weights(by_weights(*LATE)(_column(0.0, 0.0, 0.0))))
        for head, X in (
            (by_weights(*LATE), _column(0.0, 1.0, 1.0)),
            (with_scores(by_weights(*LATE)), _column(1.0, 2.0, 2.0)),
        ):
            before = X
            for _ in range(layers):
                before, X = X, formulas.weights(head(X)) @ X
            ratio = norms.diameter(X) / norms.diameter(before)
            off = off.max(abs(ratio - which(own)))
    return Verdict(certain(off < NEAR, off > NEAR), f"off by at most {off.str(3)}", 2)


LATER = Decision(
    partial(_decides, lambda own: largest(own[1:])), "three tokens, two heads", "certified", 2
).but(
    "the first token that differs, whatever the later ones are",
    run=partial(_decides, lambda p: p[1]),
)


def _settles(head: Head, layers: int = 120) -> Verdict:
    """Whether p^(-l) (x_i - x_1) stands still to 2^-20 from layer 120 to layer 240, p = p_22.

    Tokens are 0, 1/2, 1/2 or fewer. Where there is a limit the deviation falls by 6/7 a layer or
    faster: (6/7)^120 < 2^-26, which leaves 2^6 for what it multiplies.
    """
    with ops.precision(3000):
        n = len(head(_column(0.0)))
        X = _column(0.0, *(0.5,) * (n - 1))
        p, places, layer = formulas.own(formulas.weights(head(0 * X)))[1], [], 0
        for layer in range(1, 2 * layers + 1):
            X = formulas.weights(head(X)) @ X
            places += [X / p**layer] if layer % layers == 0 else []
        off = norms.diameter(places[1] - places[0])
    return Verdict(certain(off < NEAR, off > NEAR), f"moves by {off.str(3)}", layer)


def _slow(X):
    """Logits 0, but -1/(1 - log|x_2|) of token 2 with itself: continuous at 0, and not Lipschitz.

    At 0 the logit is 0.
    """
    own = X[-1, 0]
    value = -1 / (1 - abs(own).log()) if own != 0 else arb(0)
    return np.array([[arb(0), arb(0)], [arb(0), value]], dtype=object)


SETTLED = by_weights((1,), (1, 2), (1, 2, 4))  # ALiBi with slope log 2: p_2 = 2/3, p_3 = 4/7
TIE = by_weights((1,), (1, 1), (1, 1, 2))  # p_2 = p_3 = 1/2
SETTLES = (
    Decision(partial(_settles, with_scores(SETTLED)), "three tokens, one head", "certified", 240)
    .but("a later token that gives itself as much", run=partial(_settles, with_scores(TIE)))
    .but("logits that are continuous, but not Lipschitz", run=partial(_settles, _slow))
)


def _tie(power: int = 1, layers: int = 60) -> Verdict:
    """Whether 2^l (x_3 - x_1) = 1 + l/2 for tokens 0, 1, 1 under a tie; power: of l, for a twin."""
    worst, layer, X = arb(0), 0, _column(0.0, 1.0, 1.0)
    with ops.precision(1000):
        for layer in range(1, layers + 1):
            X = formulas.weights(TIE(X)) @ X
            worst = worst.max(abs(arb(2) ** layer * X[2, 0] - 1 - arb(layer) ** power / 2))
    return Verdict(certain(worst < NEAR, worst > NEAR), f"off by at most {worst.str(3)}", layer)


TIES = Decision(_tie, "three tokens, one head", "certified", 60).but(
    "a constant in place of l", run=partial(_tie, 0)
)

ORBITS: dict[str, Check] = {
    "limit": LIMIT,
    "a later token decides": LATER,
    "stands still": SETTLES,
    "a tie": TIES,
}

"""Checks of rollout as a path sum, of the law of its lengths, and of that law's tails."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from math import comb

from flint import fmpq

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma
from attnverify.checking.check import Check, Decision, Identity, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import rollout
from attnverify.support.verdict import Verdict
from attnverify.topics.rollout import definitions as definitions
from attnverify.topics.rollout.checks.operator import stochastic

ONE = fmpq(1)
LENGTHS = tuple({"P": (L, H, n, n), "a": (L,)} for L, H, n in ((1, 2, 2), (2, 1, 3), (3, 2, 4)))


def _chances(P, a) -> Instance:
    return {**stochastic(P), "a": abs(a) / (1 + abs(a))}


def mean(P):
    """Mean over heads of P (..., depth, heads, n, n)."""
    return ops.sum(P, -3) / P.shape[-3]


def _all_paths(P, a, share: int = 1):
    """Sum over all paths of rho_p A_p; share: the power of 1/H in it."""
    (L, H, n), found = P.shape[-4:-1], 0
    for path in itertools.product(range(H + 1), repeat=L):
        A, rho = ops.eye(n, P), 1
        for layer, h in enumerate(path):
            chance = a[..., layer, None, None]
            rho = rho * (chance / H**share if h else 1 - chance)
            A = P[..., layer, h - 1, :, :] @ A if h else A
        found = found + rho * A
    return found


def chain_roundings(P) -> int:
    """Of one chain: a product, mean and mixing in each layer, rows that add up to 1, all paths."""
    L, H, n = P.shape[-4:-1]
    return L * (2 * n + H + 8) + (1 + H) ** L + n


PATH_SUM = Identity(
    left=_all_paths,
    right=lambda P, a: rollout.product(mean(P), a),
    # all numbers are positive: gamma_m of itself for each side, and the bound is rounded, too
    bound=lambda P, a: 2 * gamma(2 * chain_roundings(P), P) * rollout.product(mean(P), a),
    sizes=LENGTHS,
    build=_chances,
).but("heads added, not averaged", left=partial(_all_paths, share=0))


def _by_row(P, a):
    return ops.sum(rollout.by_length(mean(P), a), -1)


def _over_sets(P, a, at: Callable = lambda a: a):
    """Pr(N = l) for every row, over all sets of layers."""
    a, L = at(a), a.shape[-1]
    found = [0 * a[..., 0] for _ in range(L + 1)]
    for chosen in itertools.product((0, 1), repeat=L):
        chance = 1
        for layer, taken in enumerate(chosen):
            chance = chance * (a[..., layer] if taken else 1 - a[..., layer])
        found[sum(chosen)] = found[sum(chosen)] + chance
    return ops.stack(found, -1)[..., None] + 0 * P[..., 0, 0, :1, :]


def _averaged(a):
    """Every chance replaced by their mean."""
    return ops.sum(a, -1, keepdims=True) / a.shape[-1] + 0 * a


ROW_LAW = Identity(
    left=_by_row,
    right=_over_sets,
    bound=lambda P, a: 2 * gamma(2 * chain_roundings(P), P) * _over_sets(P, a),
    sizes=LENGTHS,
    build=_chances,
).but("one mean chance in all layers", right=partial(_over_sets, at=_averaged))


def _tails(upper: fmpq = ONE, lower: Callable = lambda L: L + 1) -> Verdict:
    """Both bounds of the tail, in whole numbers, for all depths up to 64."""
    wrong, cases = 0, 0
    for L in range(1, 65):
        for length in range(L // 2 + 1):
            bound = fmpq(L**L, 2**L * length**length * (L - length) ** (L - length))
            tail = fmpq(sum(comb(L, k) for k in range(length + 1)), 2**L)
            wrong += not bound / lower(L) <= tail <= upper * bound
            cases += 1
    return Verdict(wrong == 0, f"{cases} tails, {wrong} outside", cases)


TAILS = (
    Decision(
        _tails,
        "depth up to 64; the derivation covers the rest",
        "certified",
        cases=sum(L // 2 + 1 for L in range(1, 65)),
    )
    .but("0.9999 times the upper bound", run=partial(_tails, fmpq(9999, 10000)))
    .but("the lower bound without L + 1", run=partial(_tails, lower=lambda L: 1))
)

CHECKS: dict[str, dict[str, Check]] = {
    "rollout.lengths": {
        "path sum": PATH_SUM,
        "law of a row": ROW_LAW,
        "tails": TAILS,
        "over all sets": by_definition(definitions.laws, "one success more", more=1),
    },
}

"""Checks of relevance propagation: the weights of paths, an order reversed, paths dropped."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from flint import fmpq

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma
from attnverify.checking.check import Check, Decision, Identity
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import rollout
from attnverify.support.verdict import Verdict
from attnverify.topics.rollout import definitions as definitions
from attnverify.topics.rollout.checks.lengths import chain_roundings
from attnverify.topics.rollout.checks.operator import fixed_network


def _terms(G, s, by_length: bool = True):
    """Sum over all paths of their terms times s^length, or all times s."""
    (L, H, n), found, positive = G.shape[-4:-1], 0, (G + abs(G)) / 2
    for path in itertools.product(range(H + 1), repeat=L):
        heads = [(layer, h) for layer, h in enumerate(path) if h]
        A, factor = ops.eye(n, G), 1 + 0 * s
        for layer, h in heads:
            A = positive[..., layer, h - 1, :, :] @ A
        for _ in range(len(heads) if by_length else 1):
            factor = factor * s
        found = found + (factor / H ** len(heads))[..., None] * A
    return found


UNIT = Identity(
    left=lambda G, s: rollout.relevance(s[..., None, None, None] * G),
    right=_terms,
    # all numbers are at least 0: gamma_m of itself for each side, and the bound is rounded, too
    bound=lambda G, s: 2 * gamma(2 * chain_roundings(G), G) * _terms(G, s),
    sizes=tuple({"G": (L, H, n, n), "s": (1,)} for L, H, n in ((1, 2, 2), (2, 1, 3), (3, 2, 2))),
    build=lambda G, s: {"G": G, "s": abs(s) + ops.constant(0.125, s)},
).but("all terms times s", right=partial(_terms, by_length=False))


def _exact(values: list) -> np.ndarray:
    return ops.rationals(np.array(values, dtype=object))


def _two_layers(keys: list[list[int]], X: list, value: int) -> tuple[np.ndarray, np.ndarray]:
    """Parts and flows of the first output token; keys: to which token each attends, by layer."""
    n = len(X)
    P = _exact([[[[int(key == j) for j in range(n)] for key in layer]] for layer in keys])
    W, one = _exact([[[[value]]]] * 2), _exact([[[[1]]]] * 2)
    x, C = _exact([[v] for v in X]), _exact([[int(i == 0)] for i in range(n)])
    fixed = fixed_network(x, P, W, one)
    return rollout.parts(fixed, x, C), rollout.flows(fixed, x, C)


def _reversed(times: fmpq) -> Verdict:
    """Whether relevance orders tokens 3 and 4 as their parts for y, and otherwise for times y."""
    T, G = _two_layers([[2, 3, 2, 3], [1, 1, 2, 3]], [1, 1, fmpq(5, 2), 1], 1)
    R, more = rollout.relevance(G)[0], rollout.relevance(times * G)[0]
    holds = T[2] > T[3] and R[2] > R[3] and more[2] < more[3]
    return Verdict(bool(holds), f"parts {T[2]}, {T[3]}; {R[2]}, {R[3]}; {more[2]}, {more[3]}")


REVERSED = Decision(partial(_reversed, fmpq(2)), "this network", "certified").but(
    "6/5 of y in place of 2 y", run=partial(_reversed, fmpq(6, 5))
)


def _dropped(last: int) -> Verdict:
    """Relevance 1, 0, 0 of tokens whose parts are 0, -3 and ``last``."""
    T, G = _two_layers([[0, 2, 2], [1, 1, 2]], [1, 3, last], -1)
    R = rollout.relevance(G)[0]
    holds = list(T) == [0, -3, last] and list(R) == [1, 0, 0]
    return Verdict(holds, f"parts {', '.join(map(str, T))}; relevance {', '.join(map(str, R))}")


DROPPED = Decision(partial(_dropped, 2), "this network", "certified").but(
    "a third token of 4 in place of 2", run=partial(_dropped, 4)
)

CHECKS: dict[str, dict[str, Check]] = {
    "rollout.relevance": {
        "unit": UNIT,
        "reversed": REVERSED,
        "dropped": DROPPED,
        "entry by entry": by_definition(definitions.relevance, "the negative part", sign=-1),
    },
}

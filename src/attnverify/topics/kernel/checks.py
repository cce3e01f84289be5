"""Checks of attention as a posterior: identity, spheres through keys, and the error otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from flint import arb, fmpq_mat

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import Pair, by_definition, drawn, total
from attnverify.mathematics import kernels, norms
from attnverify.support.verdict import Verdict
from attnverify.topics.softmax.definitions import softmax_row

SIZES = tuple(
    {"q": (d,), "K": (n, d), "c": (d,), "V": (n, m), "s": (1,)}
    for n, d, m in ((2, 3, 2), (5, 2, 3), (3, 4, 1))
)


def densities(double: int = 2) -> Iterator[Pair]:
    """Posterior weights by Bayes' rule from densities, and attention with the priors it needs."""
    q, K, c = (v / 2 for v in drawn(11, (3,), (4, 3), (3,)))
    variance = arb(7) / 4
    apart = [total((x - y) ** 2 for x, y in zip(q + c, k, strict=True)) for k in K]
    norm = (2 * arb.pi() * variance) ** (arb(-3) / 2)
    density = [norm * (-a / (2 * variance)).exp() for a in apart]
    even = kernels.posterior(
        (q + c)[None], K[None], 0 * K[None, :, 0], np.array([variance], dtype=object)
    )
    yield "equal priors", even[0], [f / total(density) for f in density]
    far = [total((x - y) ** 2 for x, y in zip(k, c, strict=True)) for k in K]
    yield "distances", kernels.shell(K, c), far
    prior = [(f / (double * variance)).exp() for f in far]
    joint = [a * f for a, f in zip(prior, density, strict=True)]
    scores = [total(x * y for x, y in zip(q, k, strict=True)) / variance for k in K]
    yield "attention", softmax_row(scores), [f / total(joint) for f in joint]


def _rows(q, K, c, s):
    """Attention and the posterior with equal priors at q + c, variance e^s."""
    variance = ops.exp(s[..., 0])
    scores = ops.sum(q[..., None, :] * K, -1) / variance[..., None]
    return ops.softmax(scores), kernels.posterior(q + c, K, 0 * scores, variance)


def _error(q, K, c, V, s):
    p, other = _rows(q, K, c, s)
    mean = ops.sum((p - other)[..., None] * V, -2)
    return ops.stack([norms.total_variation(p, other), ops.sqrt(ops.sum(mean * mean, -1))], -1)


def _bound(q, K, c, V, s, center: bool = True):
    found = kernels.posterior_bound(K, c if center else 0 * c, ops.exp(s[..., 0]))
    return ops.stack([found, found * norms.diameter(V)], -1)


def two_keys(offset: float) -> Instance:
    """Keys 2 and 1 from c on a line, variance 1, and the query at which the bound is attained."""
    line = lambda *x: torch.tensor(x, dtype=torch.float64)  # noqa: E731
    K = line(2.0, 1.0)[:, None] + offset  # log-odds of attention: q; of the posterior: q - 3/2
    return {"q": line(0.75), "K": K, "c": line(offset), "V": line(1.0, -1.0)[:, None], "s": line(0)}


ERROR = (
    Inequality(
        left=_error,
        right=_bound,
        sizes=SIZES,
        extremal=(partial(two_keys, 0.0), partial(two_keys, 3.0)),
    )
    .times(0.9999)
    .but(
        "norms in place of distances from c",
        right=partial(_bound, center=False),
        extremal=(partial(two_keys, -3.0), partial(two_keys, -1.5)),
    )
)


def _sphere(keys: int) -> Verdict:
    """Whether the first ``keys`` of these points in the plane have one distance from some point."""
    points = [(0, 0), (3, 1), (1, 2), (2, 5)][:keys]
    (x, y), (u, v), *_ = ((2 * a, 2 * b) for a, b in points[1:3])
    right = fmpq_mat(2, 1, [a * a + b * b for a, b in points[1:3]])
    c = fmpq_mat(2, 2, [x, y, u, v]).solve(right)  # the only candidate
    far = {(a - c[0, 0]) ** 2 + (b - c[1, 0]) ** 2 for a, b in points}
    words = f"squared distances {', '.join(sorted(map(str, far)))}"
    return Verdict(len(far) == 1, words, keys)


SPHERE = Decision(partial(_sphere, 3), "no other points", "certified", 3).but(
    "four points in the plane", run=partial(_sphere, 4)
)


def _head(X, keep):
    """A head with the weights T_2(x_i . x_j) of the admitted keys, in rationals."""
    w = kernels.taylor(X @ ops.transpose(X), 2) * np.where(keep, 1, 0)
    return w @ X / ops.sum(w, -1, keepdims=True)


def _orders(masks: list[np.ndarray], every: bool = False, place: int = 0) -> Verdict:
    """Whether those permutations commute with a head that keep its mask, and no others.

    every: whether all permutations do, in its place; place: times i is added to token i.
    """
    wrong, cases = [], 0
    for keep in masks:
        n = len(keep)
        added = place * ops.rationals(np.arange(n))[:, None]
        inputs = [ops.rationals(np.eye(n)[:, [i]]) for i in range(n)]
        inputs.append(ops.rationals(np.random.default_rng(n).integers(-8, 9, (n, 3)) / 4))
        for order in map(list, itertools.permutations(range(n))):
            same = [_head(X[order] + added, keep) == _head(X + added, keep)[order] for X in inputs]
            kept = every or (keep[order][:, order] == keep).all()
            cases += 1
            if all(s.all() for s in same) != kept:
                wrong.append(f"{order} of {n}")
    return Verdict(not wrong, f"wrong: {wrong[:3]}" if wrong else "as the masks say", cases)


FULL, RING = np.ones((3, 3), dtype=bool), (np.eye(4) + np.eye(4, k=1) + np.eye(4, k=-3)) > 0
STAR, CAUSAL = FULL * (np.eye(3) > 0) | (np.arange(3) == 0), np.tri(4) > 0
ORDERS = (
    Decision(
        partial(_orders, [FULL, RING, STAR, CAUSAL]),
        "no other masks and weights",
        "certified",
        6 + 24 + 6 + 24,
    )
    .but("every order under a causal mask", run=partial(_orders, [CAUSAL], every=True))
    .but("every order with positions", run=partial(_orders, [FULL], place=1))
)

CHECKS: dict[str, dict[str, Check]] = {
    "kernel.posterior": {
        "error": ERROR,
        "sphere": SPHERE,
        "entry by entry": by_definition(densities, "the priors' exponent halved", double=4),
    },
    "kernel.permutation": {"orders": ORDERS},
}

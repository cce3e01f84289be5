"""Checks of the spectral gap: totals, eigenvalues, the centered matrix, removal, large weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import KEY_WIDTH, along_first_axis, two_tokens
from attnverify.checking.check import Check, Decision, Identity, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, doubly, norms, smoothing
from attnverify.mathematics import spectral_gap as gap
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.gap import definitions as definitions

U = 2.0**-53
SQUARES = tuple({"S": (n, n)} for n in (2, 3, 4))


def _of(formula: Callable) -> Callable:
    """The formula of the softmax of the scores S."""
    return lambda S: formula(ops.softmax(S))


def scores(*rows: list[float]) -> Instance:
    return {"S": torch.tensor(rows, dtype=torch.float64)}


def one_against_others(n: int, p: float, q: float) -> Instance:
    """Scores p of the first query and q of the others for the first key, 0 for other keys."""
    S = torch.zeros(n, n, dtype=torch.float64)
    S[:, 0] = q
    S[0, 0] = p
    return {"S": S}


# ---------------------------------------------------------------------------- the first value


def _squared(A):
    return ops.square(spectral_norm(A))


EQUAL_ROWS = partial(scores, *[[2.0, 0.0, -1.0]] * 3)
TOTALS = (
    Inequality(
        left=_of(gap.gathered),
        right=_of(_squared),
        sizes=SQUARES,
        extremal=(EQUAL_ROWS, partial(scores, *[[1.0, 0.0]] * 2)),
    )
    .times(0.9999)
    .but("the variance of totals twice", left=_of(lambda A: 2 * gap.gathered(A) - 1))
)
LARGEST = (
    Inequality(
        left=_of(_squared),
        right=_of(lambda A: ops.amax(doubly.totals(A), -1)),
        sizes=SQUARES,
        extremal=(partial(scores, *[[64.0, 0.0, 0.0]] * 3), partial(scores, *[[0.0, 0.0]] * 2)),
    )
    .times(0.9999)
    .but("at most 1, as for doubly stochastic attention", right=_of(lambda A: 1 + 0 * A[..., 0, 0]))
)


def _with_ones(Z):
    """The matrix Z, changed by the same number in each row so that its rows sum to 1."""
    return Z + (1 - ops.sum(Z, -1, keepdims=True)) / Z.shape[-1]


def _moved(Z, u, c, z, start: int = 1):
    A, n = _with_ones(Z), Z.shape[-1]
    rest = gap.removed(A, c * u)
    return (z[..., 0] - start) * gap.determinant(z[..., None] * ops.eye(n, Z) - rest)


def _left(Z, u, c, z):
    A, n = _with_ones(Z), Z.shape[-1]
    factor = z[..., 0] - 1 + c[..., 0] * ops.sum(u, -1)
    return factor * gap.determinant(z[..., None] * ops.eye(n, Z) - A)


def _moved_bound(Z, u, c, z):
    """Rounding bound: each side is a sum of products of n + 1 factors, with signs.

    A factor has at most 2 n + 6 roundings relative to its size with all signs positive, a product
    n + 1 more and the sum n!; all n + 1 factors count.
    """
    n = Z.shape[-1]
    A = abs(Z) + (1 + abs(Z).sum(-1, keepdim=True)) / n
    size = abs(z)[..., None] * ops.eye(n, Z) + A + (abs(c) * abs(u))[..., None, :]
    count = (n + 1) * (2 * n + 6) + n + 1 + (2 if n == 2 else 6)
    ends = abs(z)[..., 0] + 1 + abs(c)[..., 0] * abs(u).sum(-1)
    return 2 * count * U * ends * gap.determinant(size, 1)


EIGENVALUES = Identity(
    left=_moved,
    right=_left,
    bound=_moved_bound,
    sizes=tuple({"Z": (n, n), "u": (n,), "c": (1,), "z": (1,)} for n in (2, 3)),
).but("the eigenvalue 0 in place of 1", left=partial(_moved, start=0))

# ----------------------------------------------------------------------- the centered matrix

BELOW = (
    Inequality(
        left=_of(gap.second),
        right=_of(gap.centered_norm),
        sizes=SQUARES,
        extremal=(
            partial(scores, [1.0, 0.0], [0.0, 1.0]),
            partial(scores, [2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, 2.0]),
        ),
    )
    .times(0.9999)
    .but("s1 s2 in place of s2", left=_of(gap.area))
)
ABOVE = (
    Inequality(
        left=_of(gap.centered_norm),
        right=_of(gap.area),
        sizes=SQUARES,
        extremal=(
            partial(scores, [1.0, 0.0], [3.0, 0.0]),
            partial(one_against_others, 4, 3.0, 1.0),
        ),
    )
    .times(0.9999)
    .but("s2 in place of s1 s2", right=_of(gap.second))
)
TOKENS = tuple({"S": (n, n), "X": (n, d)} for n, d in ((2, 3), (3, 1), (4, 2)))


def _rate(S, X, rate: Callable = gap.centered_norm):
    return rate(ops.softmax(S)) * smoothing.distance(X)


def leaning(S: Instance) -> Instance:
    """Two tokens 1 and -1 under these scores."""
    return {**S, "X": torch.tensor([[1.0], [-1.0]], dtype=torch.float64)}


LEANING = partial(leaning, scores([4.0, 0.0], [1.0, 0.0]))
CENTERED = (
    Inequality(
        left=lambda S, X: smoothing.distance(ops.softmax(S) @ X),
        right=_rate,
        sizes=TOKENS,
        extremal=(LEANING,),
    )
    .times(0.9999)
    .but("the second singular value as the rate", right=partial(_rate, rate=gap.second))
)

# -------------------------------------------------------------------------------- removal


def _layer(X, W_QK, W, b, u):
    A = ops.softmax(collapse.scores(X[..., None, :, :], W_QK, KEY_WIDTH) + b[..., None, :])
    return ops.sum(gap.removed(A, u) @ X[..., None, :, :] @ W, -3)


def _sharp(X, W_QK, W, b, u, share: float = 1.0):
    size, rates = norms.diameter(X), collapse.rate(W_QK, KEY_WIDTH)
    factor = collapse.sharp_factor(size, ops.constant(share, X) * rates, spectral_norm(W))
    return size * factor


def extremal_layer(size: float, heads: int) -> Instance:
    """Two tokens along the singular vectors of all maps, with rows that are removed."""
    W = along_first_axis(2, 1, heads, 1.0)[0]
    number = torch.arange(1, heads + 1, dtype=torch.float64)[:, None, None]
    zero = torch.zeros(heads, 2, dtype=torch.float64)
    maps = {"W_QK": W * number, "W": W / number, "b": zero}
    return {"X": two_tokens(2, size), **maps, "u": zero + number[..., 0]}


REMOVED = (
    Inequality(
        left=lambda X, W_QK, W, b, u: norms.diameter(_layer(X, W_QK, W, b, u)),
        right=_sharp,
        sizes=tuple(
            {"X": (n, d), "W_QK": (H, d, d), "W": (H, d, d), "b": (H, n), "u": (H, n)}
            for n, d, H in ((2, 2, 1), (4, 3, 2), (3, 5, 1))
        ),
        extremal=(partial(extremal_layer, 1.0, 1), partial(extremal_layer, 2.0, 2)),
    )
    .times(0.9999)
    .but("99 % of the rate", right=partial(_sharp, share=0.99))
)


def _product(A, u):
    rest = gap.removed(A, u)
    return ops.transpose(rest) @ rest


def _parts(A, u, keep: Callable = lambda n: n):
    n, centered = A.shape[-1], norms.mean_centered(A)
    off = doubly.totals(A) / n - u
    return ops.transpose(centered) @ centered + keep(n) * off[..., :, None] * off[..., None, :]


def _product_bound(A, u):
    """Rounding bound: 2 n + 8 roundings in each product of entries at most |A| + |u| + mean |A|."""
    n = A.shape[-1]
    size = abs(A) + abs(u)[..., None, :] + abs(A).mean(-2, keepdim=True)
    return 2 * (2 * n + 8) * U * (size.mT @ size)


GRAM = Identity(
    left=_product,
    right=_parts,
    bound=_product_bound,
    sizes=({"A": (2, 2), "u": (2,)}, {"A": (4, 4), "u": (4,)}),
).but("without the factor n", right=partial(_parts, keep=lambda n: 1))


def mean_row(S: Instance) -> Instance:
    """Scores with the mean row of their softmax, rounded."""
    return {**S, "u": torch.softmax(S["S"], -1).mean(-2)}


LEAST = (
    Inequality(
        left=lambda S, u: gap.centered_norm(ops.softmax(S)),
        right=lambda S, u: spectral_norm(gap.removed(ops.softmax(S), u)),
        sizes=tuple({"S": (n, n), "u": (n,)} for n in (2, 3)),
        extremal=(
            partial(mean_row, scores([2.0, 0.0], [1.0, 0.0])),
            partial(mean_row, scores([2.0, 0.0, 1.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0])),
        ),
    )
    .times(0.9999)
    .but(
        "u = 1/n is best",
        left=lambda S, u: spectral_norm(gap.removed(ops.softmax(S), 0 * u + _share(u))),
    )
)


def _share(u):
    return ops.constant(1, u) / u.shape[-1]


def _two(p, q):
    rows = [ops.stack([a[..., 0], 1 - a[..., 0]], -1) for a in (p, q)]
    return ops.stack(rows, -2)


def _halved(p, q, X):
    """Squared norm and inner product of two tokens after 11^T/2 is removed, times 4."""
    rest = 2 * _two(p, q) - 1
    Y = rest @ X
    both = ops.sum(ops.square(rest), (-2, -1))
    return ops.stack([both, ops.sum(Y[..., 0, :] * Y[..., 1, :], -1)], -1)


def _closed(p, q, X, sign: int = 1):
    tau, beta = (p - q)[..., 0], (p + q - 1)[..., 0]
    apart = ops.sum(ops.square(X[..., 0, :] - X[..., 1, :]), -1)
    both = 4 * (ops.square(tau) + ops.square(beta))
    return ops.stack([both, (ops.square(beta) - sign * ops.square(tau)) * apart], -1)


def _closed_bound(p, q, X):
    """Rounding bound: at most 24 roundings in products of entries below 2 (|p| + |q| + 1)."""
    size = 4 * (abs(p) + abs(q) + 1)[..., 0].square()
    tokens = abs(X).sum(-2).square().sum(-1)
    return 24 * U * torch.stack([2 * size, size * tokens], -1)


PAIR = Identity(
    left=_halved,
    right=_closed,
    bound=_closed_bound,
    sizes=({"p": (1,), "q": (1,), "X": (2, 3)}, {"p": (1,), "q": (1,), "X": (2, 4)}),
).but("the sum of squares in the inner product", right=partial(_closed, sign=-1))

# ---------------------------------------------------------------------------- large weights

WEIGHT = (
    Inequality(
        left=_of(gap.excess),
        right=_of(gap.centered_norm),
        sizes=SQUARES,
        extremal=(
            partial(one_against_others, 2, 2.0, 0.5),
            partial(one_against_others, 4, 1.0, 3.0),
        ),
    )
    .times(0.9999)
    .but("s2 in place of the norm of C A", right=_of(gap.second))
    .but("the weight itself", left=_of(lambda A: ops.amax(ops.amax(A, -1), -1)))
)


def _ball(value: float):
    return np.array(ops.balls(np.array([value]))[0], dtype=object)[()]


def _sure(cases: tuple[tuple[str, float, int, float, float, int], ...]) -> Verdict:
    """Whether the bounds show each probability: (side, sigma, edges, margin, level, n)."""
    found: list[bool | None] = []
    with ops.precision(192):
        for side, sigma, edges, margin, level, n in cases:
            s, e, limit = (np.array([_ball(v)]) for v in (sigma, margin, level))
            low, high = (f(s, edges * gap.bulk(s), e, n)[0] for f in (gap.at_least, gap.at_most))
            right, wrong = low > limit[0], high < limit[0]
            if side == "at most":
                right, wrong = high < limit[0], low > limit[0]
            found.append(True if right else False if wrong else None)
    holds = False if False in found else None if None in found else True
    return Verdict(holds, f"{len(found)} probabilities, by both bounds in balls", len(found))


SURE = (
    ("at least", 1.0, 1, 0.078125, 0.85, 10_000),
    ("at most", 1.0, 1, 0.03125, 0.16, 200_000),
    ("at least", 1.5, 2, 0.4375, 0.99, 10_000),
    ("at least", 1.5, 2, 0.28125, 0.99, 1_000_000),
)
NUMBERS = (
    Decision(partial(_sure, SURE), "these lengths and two standard deviations", "certified", 4)
    .but(
        "0.16 at half the length",
        run=partial(_sure, (("at most", 1.0, 1, 0.03515625, 0.16, 10**5),)),
    )
    .but(
        "0.85 at twenty times", run=partial(_sure, (("at least", 1.0, 1, 0.03125, 0.85, 200_000),))
    )
)

RUNS, LENGTH, FALSE_ALARM = 200, 500, 5.0  # Hoeffding: a share is so far off below 4e-6


def _simulated(mean: float = 1.0, places: float = 1.0) -> Verdict:
    """The share of matrices with a large weight against both bounds, sigma = 1.

    mean: of e^s in units of its own; places: share of the n^2 places that are counted.
    """
    draw = torch.Generator().manual_seed(7)
    one, root = torch.ones(1, dtype=torch.float64), LENGTH**0.5
    logits = lambda: torch.randn(LENGTH, LENGTH, generator=draw, dtype=torch.float64)  # noqa: E731
    large = torch.stack([torch.softmax(logits(), -1).amax() for _ in range(RUNS)]) * root
    apart = []
    for theta in (2.0, 2.5, 4.0):
        share, odds = float((large >= theta).double().mean()), mean * theta / (root - theta)
        low = float(gap.at_least(one, root * odds / (1 + odds) * one, 0.3 * one, LENGTH))
        high = places * float(gap.at_most(one, theta * one, 0.4 * one, LENGTH))
        room = FALSE_ALARM * 0.5 / RUNS**0.5
        apart += [low - share - room, share - min(high, 1.0) - room]
    return Verdict(max(apart) <= 0, f"{RUNS} matrices of {LENGTH} tokens", len(large))


SIMULATED = (
    Decision(_simulated, "one length, sigma = 1", "sampled", 200)
    .but("the mean of e^s taken as 1", run=partial(_simulated, mean=0.60653))
    .but("one row in place of n", run=partial(_simulated, places=1 / LENGTH))
)

CHECKS: dict[str, dict[str, Check]] = {
    "gap.perron": {
        "totals": TOTALS,
        "largest total": LARGEST,
        "eigenvalues": EIGENVALUES,
        "entry by entry": by_definition(definitions.entries, "the mean of all weights", others=0),
    },
    "gap.center": {"below": BELOW, "above": ABOVE, "centered output": CENTERED},
    "gap.removal": {"layer": REMOVED, "what is left": GRAM, "least": LEAST, "two tokens": PAIR},
    "gap.second": {"one weight": WEIGHT, "numbers": NUMBERS, "simulation": SIMULATED},
}

"""Checks of what heads can compute."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import both, certain, positive
from attnverify.chapters.layer_instances import KEY_WIDTH
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import copying, layernorm, sphere
from attnverify.support.verdict import Verdict
from attnverify.topics.heads import definitions

softplus = torch.nn.functional.softplus

_tensor = partial(torch.tensor, dtype=torch.float64)


def _length(x):
    return ops.sqrt(layernorm.length_squared(x))


# ----------------------------------------------------------------------------- the best key


def _at(beta, **rest):
    """Instance with a positive inverse temperature."""
    return {"beta": softplus(beta), **rest}


def _best_error(beta, z, s, V, v):
    """Distance of the output from the value v of the key of score s, others z with values V."""
    p = ops.softmax(beta * ops.join([z, s], -1))
    return _length(ops.sum(p[..., :-1, None] * (V - v), -2))


def _best_bound(beta, z, s, V, v, fewer: int = 0, gap: Callable = lambda z: ops.amax(z, -1)):
    odds = copying.rivals(beta[..., 0] * (s[..., 0] - gap(z)), z.shape[-1] - fewer)
    return ops.amax(_length(V - v), -1) * copying.share(odds)


def _tied(rivals: int, last: float = 0.5) -> Instance:
    """Rivals with equal scores, but for the last one, and equal values."""
    return {
        "beta": _tensor([2.0]),
        "z": _tensor([0.5] * (rivals - 1) + [last]),
        "s": _tensor([1.25]),
        "V": _tensor([[0.0, 3.0]] * rivals),
        "v": _tensor([[1.0, 1.0]]),
    }


BEST = (
    Inequality(
        left=_best_error,
        right=_best_bound,
        sizes=tuple(
            {"beta": (1,), "z": (m,), "s": (1,), "V": (m, d), "v": (1, d)}
            for m, d in ((1, 2), (3, 1), (5, 4))
        ),
        build=_at,
        hypotheses=lambda beta, **_: [(0 * beta, beta)],
        extremal=(partial(_tied, 1), partial(_tied, 4)),
    )
    .times(0.9999)
    .but("n - 2 rivals", right=partial(_best_bound, fewer=1), extremal=(partial(_tied, 4),))
    .but(
        "the mean gap in place of the least",
        right=partial(_best_bound, gap=lambda z: ops.sum(z, -1) / z.shape[-1]),
        extremal=(partial(_tied, 4, -8.0),),
    )
)


def _lost(beta, z):
    """Value x e^{1 + x}, x the largest score less the mean score, times beta.

    It increases with x, and is n - 1 at x = W((n - 1)/e).
    """
    short = ops.amax(z, -1, keepdims=True) - z
    x = beta[..., 0] * ops.sum(ops.softmax(beta * z) * short, -1)
    return x * ops.exp(1 + x)


def _rivals(beta, z, fewer: int = 0):
    return z.shape[-1] - 1 - fewer + 0 * z[..., 0]


def _worst_scores(keys: int) -> Instance:
    """One score above equal ones, at the distance that loses most."""
    low = -1 - float(copying.lost_score(keys))
    return {"beta": _tensor([1.0]), "z": _tensor([0.0, *[low] * (keys - 1)])}


LOST = (
    Inequality(
        left=_lost,
        right=_rivals,
        sizes=({"beta": (1,), "z": (2,)}, {"beta": (1,), "z": (3,)}, {"beta": (1,), "z": (7,)}),
        build=_at,
        hypotheses=lambda beta, z: [(0 * beta, beta)],
        extremal=(partial(_worst_scores, 2), partial(_worst_scores, 6)),
    )
    .times(0.9999)
    .but(
        "a key less",
        right=partial(_rivals, fewer=1),
        extremal=(partial(_worst_scores, 6),),
    )
)

# ----------------------------------------------------------------------------- rank


def _pair_error(W, q):
    """Distance of the output from the unit query, whose keys are it and its opposite."""
    q = sphere.unit(q)[..., None, :]
    K = ops.join([q, -q], -2)
    return _length((copying.read(q, K, K, W, ops.root(KEY_WIDTH, W)) - q)[..., 0, :])


def _symmetric(W):
    return copying.least_eigenvalue((W + ops.transpose(W)) / 2)


def _singular(W):
    """Smallest singular value."""
    return ops.sqrt(abs(copying.least_eigenvalue(W @ ops.transpose(W))))


def _pair_bound(W, q, value: Callable = _symmetric):
    return 1 - ops.tanh(value(W) / ops.root(KEY_WIDTH, W))


PAIR = (
    Inequality(
        left=_pair_error,
        right=_pair_bound,
        sizes=tuple({"W": (d, d), "q": (d,)} for d in (2, 3, 5)),
        extremal=(
            lambda: {"W": _tensor([[1.0, 2.0], [-2.0, 3.0]]), "q": _tensor([2.0, 0.0])},
            lambda: {"W": torch.diag(_tensor([4.0, -1.0, 0.0])), "q": _tensor([0.0, 1.0, 0.0])},
        ),
    )
    .times(0.9999)
    .but("the smallest singular value", right=partial(_pair_bound, value=_singular))
)


def _outputs(u, A, B, c, e, V, E, away: int = 1):
    """Outputs for the unit queries u and -u of heads that do not see the direction u.

    A (..., H, d, r) maps queries, less their part along u, and B keys, with biases c and e; the
    keys are u, -u and the rows of E, less their parts along u.
    """
    u = sphere.unit(u)[..., None, :]
    along = ops.transpose(u) @ u
    one = ops.eye(u.shape[-1], u)
    K = ops.join([u, -u, E @ (one - along)], -2)[..., None, :, :]
    q = ops.join([u, -u], -2) @ (one - away * along)
    scores = (q[..., None, :, :] @ A + c[..., None, :]) @ ops.transpose(K @ B + e[..., None, :])
    return ops.sum(ops.softmax(scores) @ K @ V, -3)


def _worse(u, away: int = 1, **heads):
    """The larger error for the queries u and -u."""
    target = sphere.unit(u)[..., None, :]
    return ops.amax(_length(_outputs(u, **heads, away=away) - ops.join([target, -target], -2)), -1)


def _blind_least(u, **heads):
    """sqrt(1 + |f|^2) for the output f for the query u."""
    return ops.sqrt(1 + ops.square(_length(_outputs(u, **heads)[..., 0, :])))


def _across(size: float = 1.0, value: float = 0.5) -> Instance:
    """Two heads with the query u = e_1 and the keys u, -u and e_2."""
    wide, zero = torch.eye(3, dtype=torch.float64).repeat(2, 1, 1), _tensor([[0.0] * 3] * 2)
    return {
        "u": _tensor([1.0, 0.0, 0.0]),
        "A": size * wide,
        "B": wide,
        "c": zero,
        "e": zero,
        "V": value * wide,
        "E": _tensor([[0.0, 1.0, 0.0]]),
    }


BLIND = (
    Inequality(
        left=_blind_least,
        right=_worse,
        sizes=tuple(
            {
                "u": (d,),
                "A": (H, d, r),
                "B": (H, d, r),
                "c": (H, r),
                "e": (H, r),
                "V": (H, d, d),
                "E": (m, d),
            }
            for H, d, r, m in ((1, 2, 1, 1), (2, 3, 1, 2), (1, 5, 4, 3))
        ),
        extremal=(_across, partial(_across, 1.0, 0.0)),
    )
    .times(0.9999)
    .but(
        "heads that see the query",
        right=partial(_worse, away=0),
        extremal=(partial(_across, 8.0),),
    )
)

# ----------------------------------------------------------------------------- a clipped line


def _cells(v, t, u):
    """Instance with t > 0 and u from 0 to 1; only the ends and the number of v matter."""
    return {"v": v, "t": softplus(4 * t), "u": torch.sigmoid(u)}


def _grid(v):
    """Equal steps between the least and the largest entry of v, (..., keys), and the step."""
    low, n = -ops.amax(-v, -1, keepdims=True), v.shape[-1]
    step = (ops.amax(v, -1, keepdims=True) - low) / (n - 1)
    return low + step * ops.counting(n, v), step


def _later_cells(v, t, u, first: int = 1):
    """Largest error m(x) - x over step at the place u of a cell after the first one."""
    grid, step = _grid(v)
    x = grid[..., first:-1] + u * step
    return ops.amax((copying.staircase(x, grid, t / ops.square(step)) - x) / step, -1)


def _first_cell(v, t, u):
    return copying.first_cell(u[..., 0], t[..., 0], v.shape[-1]) - u[..., 0]


def _below_grid(v, t, u, down: int = 1):
    """Error m(x) - a over the step at x = a - r (b - a)/(n - 1), r = -log u."""
    grid, step = _grid(v)
    x = grid[..., :1] + down * ops.log(u) * step
    return ((copying.staircase(x, grid, t / ops.square(step)) - grid[..., :1]) / step)[..., 0]


def _spaced(keys: int, t: float, u: float) -> Instance:
    ends = torch.linspace(0, keys - 1, keys, dtype=torch.float64)
    return {"v": ends, "t": _tensor([t]), "u": _tensor([u])}


GRIDS = tuple({"v": (n,), "t": (1,), "u": (1,)} for n in (3, 4, 8))


def _inside(v, t, u):
    return [(0 * t, t), (0 * u, u), (u, 0 * u + 1), (-ops.amax(-v, -1), ops.amax(v, -1))]


CELLS = (
    Inequality(
        left=_later_cells,
        right=_first_cell,
        sizes=GRIDS,
        build=_cells,
        hypotheses=_inside,
        extremal=(partial(_spaced, 3, 40.0, 0.625), partial(_spaced, 6, 24.0, 0.75)),
    )
    .times(0.9999)
    .but(
        "the opposite place of the first cell",
        right=lambda v, t, u: _first_cell(v, t, 1 - u),
    )
)
OUTSIDE = (
    Inequality(
        left=_below_grid,
        right=lambda v, t, u: _first_cell(v, t, 0 * u),
        sizes=GRIDS,
        build=_cells,
        hypotheses=_inside,
        extremal=(partial(_spaced, 3, 2.0, 1 - 2.0**-20), partial(_spaced, 6, 5.0, 1 - 2.0**-20)),
    )
    .times(0.9999)
    .but("points inside", left=partial(_below_grid, down=-1))
)


def _half_step(v, t, u):
    return copying.half_step(t, v.shape[-1])[..., 0]


HALF = (
    Inequality(
        left=_first_cell,
        right=_half_step,
        sizes=GRIDS,
        build=_cells,
        hypotheses=_inside,
        extremal=(partial(_spaced, 3, 2.0**20, 0.5 + 2.0**-16),),
    )
    .times(0.9999)
    .but(
        "half a step at every temperature",
        extremal=(partial(_spaced, 8, 0.25, 2.0**-6),),
        right=lambda v, t, u: ops.constant(0.5, u) + 0 * u[..., 0],
    )
)
TUNED, BALANCE = arb(136) / 25, arb(5648) / 1000  # t = 5.44, and where both errors of p = 2 agree
LAST = 24  # value after which the weights of the first cell are counted together


def _tuned(most: arb) -> Verdict:
    """Whether S_p at t = 5.44 lies below ``most`` for every p.

    It is if sum_j (j - u - most) w_j < 0 over all j >= 0, with w_j = e^{-t (j - u)^2 / 2}, as S_p
    increases with p. For j = i + 1 > LAST, j w_j <= (i + 1) e^{-2 i^2} <= e^{-i}, whose sum over
    i >= LAST is at most 2 e^{-LAST}.
    """
    rest = 2 * (-arb(LAST)).exp()

    def slack(u: arb) -> arb:
        terms = ((j - u - most) * (-TUNED * (j - u) ** 2 / 2).exp() for j in range(LAST + 1))
        return -sum(terms, rest)

    return positive(slack, arb(0), arb(1)).verdict(f"below {most.str(5, radius=False)}")


def _floor(least: arb) -> Verdict:
    """Whether S_2 is at least ``least`` for every t, from one t on each side of the balance.

    At u = 0 it is 1/(1 + e^{t/2}), which falls with t; the stationary value rises with t.
    """
    root = (1 - 4 / BALANCE).sqrt()
    end, inner = 1 / (1 + (BALANCE / 2).exp()), root / 2 - 2 / BALANCE * root.atanh()
    parts = [(certain(side > least, side < least), 1) for side in (end, inner)]
    text = f"{end.str(5, radius=False)} at an end, {inner.str(5, radius=False)} inside"
    return both(*parts).verdict(text)


ALL_GRIDS = Decision(
    partial(_tuned, arb(619) / 10000), "only t = 5.44", over=(((arb(0), arb(1)),),)
).but("0.0618 in place of 0.0619", run=partial(_tuned, arb(618) / 10000))
NO_BETTER = Decision(
    partial(_floor, arb(56) / 1000), "p = 2, which the derivation shows to be the least", cases=2
).but("0.0562 in place of 0.056", run=partial(_floor, arb(562) / 10000))

# ----------------------------------------------------------------------------- mixtures


def _with_gates(g, **rest):
    return {"g": softplus(g), **rest}


def _entries(X, W, g, V, U):
    return abs(copying.gated(X, W, g, V, U))


def _largest_expert(X, W, g, V, U, total: Callable = lambda g: ops.sum(g, (-3, -1))):
    E = abs(copying.experts(X, V, U))
    most = ops.amax(ops.amax(ops.amax(E, -2), -2), -2)
    return total(g)[..., None] * most[..., None, :]


def _alike(heads: int, tokens: int) -> Instance:
    """Heads whose experts are all 2."""
    X, one = torch.zeros(tokens, 2, dtype=torch.float64), torch.ones(heads, 2, 2).double()
    X[:, 0] = 1
    return {
        "X": X,
        "W": one,
        "g": torch.linspace(0.25, 2, heads * tokens * 2).double().reshape(heads, tokens, 2),
        "V": one,
        "U": 2 * one,
    }


EXPERTS = (
    Inequality(
        left=_entries,
        right=_largest_expert,
        sizes=tuple(
            {"X": (n, d), "W": (H, d, d), "g": (H, n, a), "V": (H, d, a), "U": (H, a, c)}
            for n, d, H, a, c in ((2, 2, 1, 1, 1), (3, 2, 2, 3, 2), (2, 3, 4, 2, 3))
        ),
        build=_with_gates,
        hypotheses=lambda g, **_: [(0 * g, g)],
        extremal=(partial(_alike, 1, 2), partial(_alike, 3, 4)),
    )
    .times(0.9999)
    .but(
        "the largest gate in place of their sum",
        right=partial(_largest_expert, total=lambda g: ops.amax(ops.amax(g, -1), -2)),
    )
)

# ----------------------------------------------------------------------------- two layers


def _sentence(T, at, beta, gamma):
    """One-hot words whose last one stands at a place before, with positive temperatures."""
    words, n = T.shape[-1], T.shape[-2] - 1
    row = torch.nn.functional.one_hot
    T = row(T.argmax(-1), words).double() + 0 * T
    here = row(at.argmax(-1), n).double()[..., None] + 0 * at[..., None]
    earlier = (1 - here) * T[..., :-1, :] + here * T[..., -1:, :]
    return {
        "T": torch.cat([earlier, T[..., -1:, :]], -2),
        "beta": softplus(8 * beta),
        "gamma": softplus(gamma),
    }


def _missing(T, beta, gamma, **wrong: int):
    """Weight of the words other than the right one."""
    return ops.sum(copying.induction(T, beta, gamma, **wrong) * (1 - copying.follower(T)), -1)


def _copying_bound(T, beta, gamma, fewer: int = 0):
    odds = copying.copying_odds(T.shape[-2] - 1 - fewer, beta[..., 0], gamma[..., 0])
    return copying.share(odds)


def _of_words(words: list[int], gamma: float) -> Instance:
    T = torch.eye(4, dtype=torch.float64)[words]
    return {"T": T, "beta": _tensor([60.0]), "gamma": _tensor([gamma])}


WORST = (
    partial(_of_words, [0, 0, 1, 2, 2, 0], 1.0),
    partial(_of_words, [0, 1, 2, 0], 0.5),
    partial(_of_words, [0, 0, 0, 1, 0], 3.0),
)
COPIES = (
    Inequality(
        left=_missing,
        right=_copying_bound,
        sizes=tuple(
            {"T": (n + 1, words), "at": (n,), "beta": (1,), "gamma": (1,)}
            for n, words in ((2, 3), (3, 4), (7, 4))
        ),
        build=_sentence,
        hypotheses=lambda T, beta, gamma: [(0 * beta, beta), (0 * gamma, gamma)],
        extremal=WORST,
    )
    .times(0.9999)
    .but("the matching score n gamma", left=partial(_missing, match=-1))
    .but("a first layer that sees its own position", left=partial(_missing, back=0))
    .but("a key less", right=partial(_copying_bound, fewer=1))
)

CHECKS: dict[str, dict[str, Check]] = {
    "heads.nearest": {
        "error": BEST,
        "lost score": LOST,
        "entry by entry": by_definition(definitions.lost, "n in place of n - 1", less=0),
    },
    "heads.rank": {
        "pair": PAIR,
        "blind": BLIND,
        "entry by entry": by_definition(
            definitions.pairs_of_keys, "d_qk in place of its root", scale=4
        ),
    },
    "heads.truncation": {
        "cells": CELLS,
        "outside": OUTSIDE,
        "half a step": HALF,
        "tuned": ALL_GRIDS,
        "no better": NO_BETTER,
        "entry by entry": by_definition(definitions.staircases, "no half in the scores", half=1),
    },
    "heads.experts": {
        "largest": EXPERTS,
        "entry by entry": by_definition(definitions.mixture, "no log-sum-exp", one=0),
    },
    "heads.induction": {
        "copies": COPIES,
        "entry by entry": by_definition(definitions.copied, "the token before the last", back=2),
    },
}

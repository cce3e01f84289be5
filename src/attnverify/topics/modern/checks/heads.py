"""Checks of heads bounded together: along a direction, stacked, over depth, and near equality.

Layers with one pair of tokens for each head come as near to the joint bound as one likes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.layer_instances import (
    KEY_WIDTH,
    along_first_axis,
    network_sizes,
    power,
    two_tokens,
)
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition, drawn, largest, table
from attnverify.mathematics import collapse, head_bounds, norms
from attnverify.mathematics.softmax import oscillation
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.modern.definitions import heads as definitions

NEAR = 2.0**-30


def orthonormal(rows) -> list[Any]:
    """Rows after Gram-Schmidt: row k of the result is orthogonal to the first k rows."""
    found: list[Any] = []
    for row in rows:
        for n in found:
            row = row - ops.sum(row * n, -1) * n
        found.append(row / ops.sum(row * row, -1).sqrt())
    return found


def labels(u, first: int):
    """Labels: H unit rows at equal angles in the plane of two orthonormal rows.

    The two are numbers first and first + 1 of Gram-Schmidt on u_1, ..., u_H and unit rows: first =
    H makes the labels orthogonal to all u_h.
    """
    H, d = u.shape
    n = orthonormal([*u, *ops.eye(d, u)[: d - H]])[first : first + 2]
    turn = table(lambda h: arb(2 * h) / H, H)
    pairs = [(arb.cos_pi(angle), arb.sin_pi(angle)) for angle in turn]
    return np.stack([c * n[0] + s * n[1] for c, s in pairs])


def pair_layer(V, y, bias: float, lift: float, first: int) -> dict[str, np.ndarray]:
    """Layer for value maps V (heads, width, width) and a direction y, in balls.

    Tokens +-u_h + lift f_h with unit rows u_h along V_h y and the labels f_h; W_QK,h = (h + 1)
    u_1' u_h, b_QK,h = (bias/lift) f_h, which makes head h attend to pair h alone.
    """
    H, d, _ = V.shape
    u = (V @ y[:, None])[..., 0]
    u = u / ops.sqrt(ops.sum(ops.square(u), -1, keepdims=True))
    f = labels(u, first)
    W_QK = np.stack([(h + 1) * u[0][:, None] * u[h] for h in range(H)])
    X = np.concatenate([sign * u + lift * f for sign in (1, -1)])
    return {"X": X, "W_QK": W_QK, "b_QK": arb(bias) / lift * f, "W": V}


def pairs_near_bound(bias: float, first: int = 3) -> Verdict:
    """Whether such layers with three random heads come within 2^-30 of the bound along y.

    Width 5, for two rows orthogonal to all u_h. The lift adds at most 2^-58 to the squared
    diameter 4. With d_qk = 4 the scores of a first pair are at most 3/2 in size, and the labels at
    120 degrees put 3/4 bias = 30 between the pair of a head and the others: these get at most the
    share s = 4 e^(3/2 - 30)/2 < 2^-39 of its weight. A token has at most 1 along u_h (labels
    none), so head h loses at most s (1 + 1/t_h) of its part, and t_h >= tanh(1/2) > 1/3: less than
    2^-37 together.
    """
    shares = []
    with ops.precision(300):
        for seed in range(3):
            V, y = drawn(seed, (3, 5, 5), (5,))
            i = pair_layer(V, y, bias, 2.0**-30, first)
            c = collapse.rate(i["W_QK"], KEY_WIDTH)
            size = norms.diameter(i["X"][None])
            (bound,) = size * head_bounds.along(collapse.falls(size, c), V, y)
            written = collapse.layer(**i, key_width=KEY_WIDTH) @ y
            shares.append((written[0] - written[3]) / bound)
    worst = -largest(-share for share in shares)
    holds = certain(worst > 1 - NEAR, worst < 1 - NEAR)
    return Verdict(holds, f"at least {worst.str(13)} of the bound", len(shares))


# ------------------------------------------------------------------------- layers and their bounds


def _output(X, W_QK, b_QK, W):
    return collapse.network(X, W_QK, b_QK, W, KEY_WIDTH)


def _falls(X, W_QK):
    """Total variations t_h of the first layer, (..., heads)."""
    return collapse.falls(norms.diameter(X), collapse.rate(W_QK[..., 0, :, :, :], KEY_WIDTH))


def reading_along(size: float, written: list[list[float]], signs: list[int]) -> Instance:
    """Layer of tokens +-size/2 e_1 and heads W_h = e_1 r_h', W_QK,h = sign h e_1 e_1'.

    written: the rows r_h'. Each head has a rate of its own, so no two t_h are equal.
    """
    H, d = len(written), len(written[0])
    W = torch.zeros(1, H, d, d, dtype=torch.float64)
    W[0, :, 0] = torch.tensor(written, dtype=torch.float64)
    number = torch.arange(1, H + 1, dtype=torch.float64) * torch.tensor(signs)
    W_QK = along_first_axis(d, 1, H, 1.0) * number[:, None, None]
    b_QK = torch.zeros(1, H, d, dtype=torch.float64)
    return {"X": two_tokens(d, size), "W_QK": W_QK, "b_QK": b_QK, "W": W}


# ------------------------------------------------------------------------------ along a direction


def _written_along(X, W_QK, b_QK, W, y):
    """Distance osc(SA(X) y) of the tokens along y, times the length of y."""
    return oscillation((_output(X, W_QK, b_QK, W) @ y[..., :, None])[..., 0])


def _along(X, W_QK, b_QK, W, y):
    return norms.diameter(X) * head_bounds.along(_falls(X, W_QK), W[..., 0, :, :, :], y)


def _along_norm(X, W_QK, b_QK, W, y, p: float = 1.01):
    """Bound of a twin, with the p-norm over the heads in place of their sum."""
    t, V = _falls(X, W_QK), W[..., 0, :, :, :]
    written = ops.sqrt(ops.sum(ops.square((V @ y[..., None, :, None])[..., 0]), -1))
    parts = ops.exp(ops.constant(p, X) * ops.log(t * written))
    return norms.diameter(X) * power(ops.sum(parts, -1), 1 / p)


def _three_heads() -> Instance:
    """Layer of three heads at nearly 120 degrees that all write along y = (3/4, 1)."""
    made = reading_along(1.5, [[1.0, 0.0], [-0.5, 0.875], [-0.5, -0.875]], [1, 1, -1])
    return {**made, "y": torch.tensor([0.75, 1.0], dtype=torch.float64)}


DIRECTION = (
    Inequality(
        left=_written_along,
        right=_along,
        sizes=(network_sizes(2, 2, 1, 2, y=(2,)), network_sizes(4, 3, 1, 2, y=(3,))),
        extremal=(_three_heads,),
    )
    .times(0.9999)
    .but("the 1.01-norm over the heads in place of their sum", right=_along_norm)
)


# ----------------------------------------------------------------------------------- stacked maps


def _diameter(X, W_QK, b_QK, W, **_):
    return norms.diameter(_output(X, W_QK, b_QK, W))


def _stacked(X, W_QK, b_QK, W, s):
    factor = head_bounds.stacked_factor(_falls(X, W_QK), W[..., 0, :, :, :], s)
    return norms.diameter(X) * factor


def _largest_only(X, W_QK, b_QK, W, s):
    """Bound of a twin with max_h s_h ||W_h||_2, which is right for orthogonal outputs only."""
    size = ops.amax(s * spectral_norm(W[..., 0, :, :, :]), -1)
    return norms.diameter(X) * size * ops.sqrt(ops.sum(ops.square(_falls(X, W_QK) / s), -1))


def _positive(X, W_QK, b_QK, W, s) -> Instance:
    return {"X": X, "W_QK": W_QK, "b_QK": b_QK, "W": W, "s": torch.exp(s)}


def _acute(written: list[list[float]]) -> Instance:
    """Layer of rows r_h at acute angles, with s_h^2 = t_h / (r_h R), R = sum_h t_h r_h."""
    made = reading_along(1.0, written, [1] * len(written))
    t, r = _falls(made["X"][None], made["W_QK"][None])[0], made["W"][0, :, 0]
    return {**made, "s": (t / (r @ (t @ r))).sqrt()}


STACKED = (
    Inequality(
        left=_diameter,
        right=_stacked,
        sizes=(network_sizes(2, 2, 1, 2, s=(2,)), network_sizes(4, 3, 1, 2, s=(2,))),
        build=_positive,
        extremal=(
            lambda: _acute([[0.5, 0.0], [0.0, 1.0]]),
            lambda: _acute([[1.0, 0.0], [0.5, 1.0], [0.5, 0.0]]),
        ),
    )
    .times(0.9999)
    .but("the largest s_h ||W_h|| in place of the norm of the stack", right=_largest_only)
)


def _balanced(X, W_QK, W):
    return head_bounds.balanced_factor(_falls(X, W_QK), W[..., 0, :, :, :])


def _sum(X, W_QK, W):
    return ops.sum(_falls(X, W_QK) * spectral_norm(W[..., 0, :, :, :]), -1)


def _evenly(X, W_QK, W):
    """Factor of a twin, with s_h^2 = t_h in place of t_h / v_h."""
    t = _falls(X, W_QK)
    return head_bounds.stacked_factor(t, W[..., 0, :, :, :], ops.sqrt(t))


def _unbalanced() -> Instance:
    made = reading_along(1.0, [[1.0, 0.0], [2.0, 0.0]], [1, 1])
    return {name: made[name] for name in ("X", "W_QK", "W")}


NEVER_ABOVE = (
    Inequality(
        left=_balanced,
        right=_sum,
        sizes=({"X": (2, 2), "W_QK": (1, 3, 2, 2), "W": (1, 3, 2, 2)},),
        extremal=(_unbalanced,),
    )
    .times(0.9999)
    .but("s_h^2 = t_h in place of t_h/v_h", left=_evenly)
)


def _square() -> Instance:
    """Layer of two heads with equal scores that write unit vectors at a right angle."""
    made = reading_along(1.0, [[1.0, 0.0], [0.0, 1.0]], [1, 1])
    return {"X": made["X"], "W_QK": along_first_axis(2, 1, 2, 1.0), "W": made["W"]}


MOST = Inequality(
    left=_sum,
    right=lambda X, W_QK, W: ops.root(W.shape[-3], X) * _balanced(X, W_QK, W),
    sizes=({"X": (2, 2), "W_QK": (1, 3, 2, 2), "W": (1, 3, 2, 2)},),
    extremal=(_square,),
).times(0.9999)


# --------------------------------------------------------------- what the best stack loses at most


def _dual(r, G):
    """Dual sum_h sqrt(r_h Y r_h'), Y = G G'/|G|^2, below every stacked bound of W_h = e r_h'.

    Its largest value over all Y is the infimum of these bounds (the notebook's minimax step); t_h
    is part of r_h here.
    """
    written = ops.sqrt(ops.sum(ops.square(r @ G), -1))
    return ops.sum(written, -1) / ops.sqrt(ops.sum(ops.square(G), (-2, -1)))


def _fan(lines: int = 8) -> Instance:
    """Instance of unit vectors spread evenly over a half plane, with Y = I/2."""
    angles = torch.arange(lines, dtype=torch.float64) * torch.pi / lines
    r = torch.stack([angles.cos(), angles.sin()], -1)
    return {"r": r, "G": torch.eye(2, dtype=torch.float64)}


# the fan's ratio is 1.1036, that is 0.8805 of sqrt(pi/2): planes have no more than pi/sqrt 8
LOSS = Inequality(
    left=_dual,
    right=lambda r, G: ops.sqrt(ops.square(head_bounds.along_best(r)) * ops.pi(r) / 2),
    sizes=({"r": (3, 2), "G": (2, 2)}, {"r": (4, 3), "G": (3, 3)}),
    extremal=(_fan,),
).times(0.88)


# -------------------------------------------------------------------------------------- over depth


def beta(W_QK, W):
    """Largest beta_2' / (4 sqrt(d_qk)) of all layers."""
    c = collapse.rate(W_QK, KEY_WIDTH)
    return ops.amax(head_bounds.balanced_factor(c, W), -1)


def _cubic(X, W_QK, b_QK, W):
    return collapse.iterate(beta(W_QK, W), norms.diameter(X), W.shape[-4])


def _orthogonal(depth: int) -> Instance:
    """Network of two tokens at 2^-10 and two heads that write e_1 + e_2 and e_1 - e_2."""
    made = reading_along(2.0**-10, [[1.0, 1.0], [1.0, -1.0]], [1, 1])
    made["W_QK"] = along_first_axis(2, 1, 2, 1.0)
    same = {name: made[name].repeat(depth, 1, 1, 1) for name in ("W_QK", "W")}
    return {**made, **same, "b_QK": torch.zeros(depth, 2, 2, dtype=torch.float64)}


def _more(X, W_QK, b_QK, W):
    """Bound of a twin, with the exponent 3^L + 1/1000 in place of 3^L."""
    return _cubic(X, W_QK, b_QK, W) * power(norms.diameter(X), 0.001)


DEPTH = (
    Inequality(
        left=_diameter,
        right=_cubic,
        sizes=(network_sizes(2, 2, 1, 2), network_sizes(4, 2, 2, 3)),
        extremal=(partial(_orthogonal, 1), partial(_orthogonal, 2)),
    )
    .times(0.9999)
    .but("the exponent 3^L + 0.001 in place of 3^L", right=_more)
)


PAIR_LIMITS = "these layers; the limit is derived in the notebook"
PAIRS = (
    Decision(partial(pairs_near_bound, 40.0), PAIR_LIMITS, "certified", 3)
    .but("without the query biases", run=partial(pairs_near_bound, 0.0))
    .but("labels in the plane of u_1 and u_2", run=partial(pairs_near_bound, 40.0, first=0))
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.concatenated-heads": {
        "along a direction": DIRECTION,
        "stacked": STACKED,
        "never above the sum": NEVER_ABOVE,
        "the sum over root H": MOST,
        "loss of the stack": LOSS,
        "over depth": DEPTH,
        "nothing smaller": PAIRS,
        "entry by entry": by_definition(definitions.heads, "s_h in place of 1/s_h", power=-1),
    },
}

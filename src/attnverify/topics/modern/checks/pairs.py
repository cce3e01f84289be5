"""One pair of tokens for each head: layers that come as near to the joint bound as one likes."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.definition_agreement import drawn, largest, table
from attnverify.mathematics import collapse, norms, stacked
from attnverify.support.verdict import Verdict
from attnverify.topics.shared.instances import KEY_WIDTH

NEAR = 2.0**-30


def orthonormal(rows) -> list[Any]:
    """Gram-Schmidt: row k of the result is orthogonal to the first k rows."""
    found: list[Any] = []
    for row in rows:
        for n in found:
            row = row - ops.sum(row * n, -1) * n
        found.append(row / ops.sum(row * row, -1).sqrt())
    return found


def labels(u, first: int):
    """H unit rows at equal angles in the plane of two orthonormal rows.

    Those are numbers first and first + 1 of Gram-Schmidt on u_1, ..., u_H and unit rows: first = H
    makes the labels orthogonal to all u_h.
    """
    H, d = u.shape
    n = orthonormal([*u, *ops.eye(d, u)[: d - H]])[first : first + 2]
    turn = table(lambda h: arb(2 * h) / H, H)
    pairs = [(arb.cos_pi(angle), arb.sin_pi(angle)) for angle in turn]
    return np.stack([c * n[0] + s * n[1] for c, s in pairs])


def layer(V, y, bias: float, lift: float, first: int) -> dict[str, np.ndarray]:
    """The layer for value maps V (heads, width, width) and a direction y, in balls.

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


def reach(bias: float, first: int = 3) -> Verdict:
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
            i = layer(V, y, bias, 2.0**-30, first)
            c = collapse.rate(i["W_QK"], KEY_WIDTH)
            size = norms.diameter(i["X"][None])
            (bound,) = size * stacked.along(collapse.falls(size, c), V, y)
            written = collapse.layer(**i, key_width=KEY_WIDTH) @ y
            shares.append((written[0] - written[3]) / bound)
    worst = -largest(-share for share in shares)
    holds = certain(worst > 1 - NEAR, worst < 1 - NEAR)
    return Verdict(holds, f"at least {worst.str(13)} of the bound", len(shares))

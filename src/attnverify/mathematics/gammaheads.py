"""Many heads with the factor gamma of version 2: the loss of (tokens times width)^(1/4).

Arrays as in :mod:`attnverify.mathematics.collapse`. A layer whose tokens are of few types is given
by one token of each type and how often it stands, as in :mod:`attnverify.mathematics.heads`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from flint import arb
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.mathematics import collapse, heads, norms
from attnverify.mathematics.softmax import oscillation

KEY_WIDTH = 4  # d_qk of the family, whose root is exact


def factor(entries):
    """((nd)^(1/4) + (nd)^(-1/4)) / (2 sqrt 2) for ``entries`` = n d, in any arithmetic."""
    tau = ops.sqrt(ops.sqrt(entries))
    return (tau + 1 / tau) / ops.root(8, entries)


def constant(R, W_QK, W, key_width: int):
    """factor(n d) sum_h gamma_h ||W_QK,h||_1 ||W_h||_{1,inf} / sqrt(d_qk); no E_h may be 0."""
    sizes = norms.max_column_sum(W_QK) * norms.composite(W)
    total = ops.sum(collapse.gamma(R, W_QK, key_width) * sizes, -1)
    entries = ops.constant(R.shape[-2] * W.shape[-1], R)
    return factor(entries + 0 * total) * total / ops.root(key_width, R)


# ---------------------------------------------------------------- the family


def family(d: int, n: int, w: float = 2.0**-10, bias: float = 64.0) -> dict[str, Tensor]:
    """Two heads on the tokens e_1, ..., e_n of width d whose gamma is 1/sqrt(n); n even, d >= n.

    With u = e_1 - e_2 the scores are E_1 = w/2 (1, -1, 1, ...)^T u^T, and E_2 with the rows
    +-w sqrt(n/8) u^T and one row of equal entries, which adds to ||E_2||_1 and moves nothing, so
    that ||E_1||_1 = ||E_2||_1 = w n/2; bias (e_1 + e_2) to both. W_1 = sqrt(d) u e_1^T,
    W_2 = u 1^T; n >= 4, d_qk = 4. Rows of the output come in pairs about one row, so that row is
    the best center. As w -> 0 and bias -> infinity, left over right of the printed bound with
    gamma tends to (y + 1/y) / (8 sqrt 2) with y^4 = n d / 2.
    """
    u, sign = torch.zeros(n).double(), torch.ones(n).double()
    u[0], u[1], sign[1::2] = 1, -1, -1
    E, b = torch.zeros(2, d, d).double(), torch.zeros(2, d).double()
    E[0, :n, :n] = w / 2 * torch.outer(sign, u)
    moved = w * (n / 8) ** 0.5
    E[1, 0, :n], E[1, 1, :n], E[1, 2, :n] = moved * u, -moved * u, w * n / 2 - 2 * moved
    b[:, :2] = bias
    W = torch.zeros(2, d, d).double()
    W[0, :n, 0], W[1, :n] = d**0.5 * u, u[:, None]
    return {"X": torch.eye(n, d).double(), "W_QK": 2 * E, "b_QK": 2 * b, "W": W}


#: The sign of a row of E_1 for tokens e_1, e_2, e_3, those of even place and those of odd place.
SIGNS = (1, -1, 1, -1, 1)


def family_distinct(d: int, n: int, w, bias) -> dict[str, Any]:
    """One token of each type of that layer and two output columns, in balls.

    ``rows``: how many tokens each type stands for; ``columns``: the second column stands for
    d - 1. Tokens of one type give and get the same weights and have the same values, 0 from the
    fourth token on. As a key, one of k such tokens has a logit that is larger by log k.
    """
    counts = [c for c in (1, 1, 1, n // 2 - 1, n // 2 - 2) if c]
    k, w, zero = len(counts), arb(w), arb(0)
    u = np.array([arb(1), arb(-1), *[zero] * (k - 2)], dtype=object)
    moved = w * (arb(n) / 8).sqrt()
    E = np.full((2, k, k), zero, dtype=object)
    E[0] = np.array(SIGNS[:k], dtype=object)[:, None] * u * (w / 2)
    E[1, 0], E[1, 1], E[1, 2] = moved * u, -moved * u, w * n / 2 - 2 * moved
    base = [arb(bias) if i < 2 else arb(c).log() for i, c in enumerate(counts)]
    both = [[[arb(d).sqrt() * x, zero] for x in u], [[x, x] for x in u]]
    return {
        "X": ops.balls(np.eye(k)),
        "W_QK": 2 * E,
        "b_QK": 2 * np.array([base, base], dtype=object),
        "W": np.array(both, dtype=object),
        "rows": np.array([arb(c) for c in counts], dtype=object),
        "columns": np.array([arb(1), arb(d - 1)], dtype=object),
    }


def family_pairs(n: int) -> tuple[tuple[int, int, int], ...]:
    """(type, type, how often): the tokens of that layer in pairs, first e_1 and e_2."""
    return tuple(p for p in ((0, 1, 1), (2, 3, 1), (4, 3, n // 2 - 2)) if p[2])


def score_gamma(E, rows):
    """gamma_h of scores E (heads, k, k), row i of which stands rows[i] times; balls."""
    D = oscillation(E)
    by_column, _ = heads.repeated_sums(E, rows, rows)
    return ops.sqrt(ops.sum(D * rows, -1) * ops.amax(D, -1)) / (2 * by_column)


def paired_residual(Y, pairs, columns) -> arb:
    """A lower bound on ||A - 1 y^T||_{1,inf} over all y, for balls; attained for mirrored pairs.

    Y: the distinct rows of A; pairs: (row, other row, how often), all disjoint in A; columns: how
    often each column stands. For any y, |a - y| + |b - y| >= |a - b| in every entry. Summed over
    the pairs this bounds each column sum; half of it, summed over the columns, the larger of the
    two row sums.
    """
    apart = np.array([abs(Y[i] - Y[j]) for i, j, _ in pairs], dtype=object)
    often = np.array([arb(k) for *_, k in pairs], dtype=object)
    by_column = ops.amax(ops.sum(apart * often[:, None], 0), -1)
    by_row = ops.amax(ops.sum(apart * columns, -1), -1) / 2
    return (by_column * by_row).sqrt()

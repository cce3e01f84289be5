"""Many heads in the composite value: bounds of one layer, and layers that break the printed bound.

The bound of Dong, Cordonnier and Loukas (2021) for many heads fails in wide layers, by a factor of
order width^(1/4), or (tokens times width)^(1/4) with the factor gamma of version 2 of the paper.
This module holds constants that do hold, and families of layers that refute the printed ones. It
serves the claims ``collapse.multi-head-*`` and ``collapse.single-head-*``.

Arrays are those of :mod:`attnverify.mathematics.collapse`; bounds work in any arithmetic of
:mod:`attnverify.arithmetic.ops`, families are float64 tensors or balls. kappa(D) = (e^D - 1)/D for
D > 0. A matrix whose rows and columns repeat is given by its distinct entries and two arrays of
multiplicities, so that layers of any width can be certified.

>>> import torch
>>> import attnverify as av
>>> D = torch.tensor(1.0, dtype=torch.float64)
>>> round(av.heads.kappa(D).item(), 6)  # e - 1
1.718282
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from flint import arb
from torch import Tensor

from attnverify.arithmetic import ops
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.softmax import oscillation, variation_bound

# ---------------------------------------------------------------- column sums


def kappa(D):
    """kappa(D) = (e^D - 1)/D for D > 0, the mean of e^(sD) over 0 <= s <= 1."""
    return ops.expm1(D) / D


def deviations(base, E, v):
    """Sum of |(P_i - p) v| over the rows i, with P_i = softmax(base + E_i) and p = softmax(base).

    base, v: (..., tokens), E: (..., rows, tokens); shape (...).
    """
    moved = ops.softmax(base[..., None, :] + E) - ops.softmax(base)[..., None, :]
    return ops.sum(abs(ops.sum(moved * v[..., None, :], -1)), -1)


def single_factor(k):
    """Factor (1 + k)/4 of ||E||_1 that bounds deviations for a unit vector v; k = kappa(D)."""
    return (1 + k) / ops.constant(4, k)


# ---------------------------------------------------------------- the bounds of one layer


def largest_oscillation(R, W_QK, key_width: int):
    """D = max over heads and rows of osc((E_h)_i), E_h = R W_QK,h R^T / sqrt(d_qk); shape (...)."""
    D = oscillation(collapse.scores_of_residual(R, W_QK, key_width))
    return ops.amax(ops.amax(D, -1), -1)


def sums_constant(R, W_QK, W, key_width: int):
    """Constant sqrt(1 + kappa)/2 sqrt(sum_h q_h ||W_h||_1 sum_h q_h ||W_h||_inf) / sqrt(d_qk)."""
    factor = ops.sqrt(single_factor(kappa(largest_oscillation(R, W_QK, key_width))))
    return factor * collapse.corrected_constant(R, W_QK, W, key_width) / ops.constant(4, R)


def one_head_constant(R, W_QK, W, key_width: int):
    """:func:`sums_constant` of one head, times sqrt(tanh(D/4) / (D/4)); D > 0."""
    D = largest_oscillation(R, W_QK, key_width)
    share = ops.constant(4, D) * variation_bound(D) / D
    return ops.sqrt(share) * sums_constant(R, W_QK, W, key_width)


def dimension_factor(D, d):
    """Factor K(D, d) = (1/4) sqrt(1 + kappa) (tau + 1/tau), tau^4 = 2 kappa d / (1 + kappa).

    D > 0: largest oscillation; d: width, a number in the arithmetic of D.
    """
    k = kappa(D)
    tau = ops.sqrt(ops.sqrt(2 * k * d / (1 + k)))
    return ops.sqrt(1 + k) * (tau + 1 / tau) / ops.constant(4, D)


def dimension_constant(R, W_QK, W, key_width: int):
    """Constant K(D, d) sum_h ||W_QK,h||_1 ||W_h||_{1,inf} / sqrt(d_qk); W_h has d columns."""
    factor = dimension_factor(largest_oscillation(R, W_QK, key_width), W.shape[-1])
    heads = ops.sum(norms.max_column_sum(W_QK) * norms.composite(W), -1)
    return factor * heads / ops.root(key_width, R)


# ---------------------------------------------------------------- a wide layer


#: Key width of the family, whose scores are W_QK and b_QK over its root, 2.
WIDE_KEY_WIDTH = 4


def wide_family(d: int, n: int, w: float = 2.0**-4, bias: float = 64.0) -> dict[str, Tensor]:
    """Layer of n tokens e_1, e_2, 0, ..., 0 and two heads that breaks the printed bound.

    W_QK,h = 2 w e_1 (e_1 - e_2)^T, b_QK,h = 2 bias (e_1 + e_2), W_1 = sqrt(d) (e_1 - e_2) e_1^T,
    W_2 = (e_1 - e_2) 1^T; d >= 2, n >= 3. W_QK and b_QK together have rank 2, so d_qk >= 2 makes a
    layer with these; here d_qk = 4 (:data:`WIDE_KEY_WIDTH`), whose root is exact. Dense float64
    tensors for small sizes; see :func:`wide_family_distinct` for any.
    """
    X, W_QK = torch.zeros(n, d).double(), torch.zeros(2, d, d).double()
    W, b_QK = torch.zeros(2, d, d).double(), torch.zeros(2, d).double()
    X[0, 0] = X[1, 1] = 1
    W_QK[:, 0, 0], W_QK[:, 0, 1], b_QK[:, :2] = 2 * w, -2 * w, 2 * bias
    W[0, 0, 0], W[0, 1, 0] = d**0.5, -(d**0.5)
    W[1, 0], W[1, 1] = 1, -1
    return {"X": X, "W_QK": W_QK, "b_QK": b_QK, "W": W}


def wide_family_distinct(d: int, n: int, w, bias) -> dict[str, Any]:
    """Distinct rows, features and output columns of :func:`wide_family`, in balls.

    Three tokens, two features, two output columns; the third token stands for n - 2 equal ones and
    the second column for d - 1 (``rows``, ``columns``). Equal tokens are one token whose logits are
    larger by log(n - 2); as theirs are 0 here, the two others get log(n - 2) less, by the bias.
    Features that are zero in all tokens are left out.
    """
    one, root, w = arb(1), arb(d).sqrt(), 2 * arb(w)
    shifted = 2 * (arb(bias) - arb(n - 2).log())
    head = [[w, -w], [0 * w, 0 * w]]
    values = [[[root, 0 * root], [-root, 0 * root]], [[one, one], [-one, -one]]]
    return {
        "X": ops.balls(np.array([[1, 0], [0, 1], [0, 0]])),
        "W_QK": np.array([head, head], dtype=object),
        "b_QK": np.full((2, 2), shifted, dtype=object),
        "W": np.array(values, dtype=object),
        "rows": np.array([one, one, arb(n - 2)], dtype=object),
        "columns": np.array([one, arb(d - 1)], dtype=object),
    }


def pair_distinct(d: int, t) -> dict[str, Any]:
    """Distinct entries of :func:`attnverify.mathematics.collapse.many_heads_counterexample`."""
    one, zero, root, half = arb(1), arb(0), arb(d).sqrt(), arb(t) / 2
    return {
        "X": np.array([[half], [-half]], dtype=object),
        "W_QK": np.array([[[one]], [[one]]], dtype=object),
        "b_QK": np.array([[zero], [zero]], dtype=object),
        "W": np.array([[[root, zero]], [[one, one]]], dtype=object),
        "rows": np.array([one, one], dtype=object),
        "columns": np.array([one, arb(d - 1)], dtype=object),
    }


def repeated_sums(A, rows, columns) -> tuple[Any, Any]:
    """Sums (||A||_1, ||A||_inf) where row i stands rows[i] times and column k columns[k] times.

    A: (..., len(rows), len(columns)), balls.
    """
    size = abs(A)
    by_column = ops.amax(ops.sum(size * rows[:, None], -2), -1)
    return by_column, ops.amax(ops.sum(size * columns, -1), -1)


def head_sizes(i: dict[str, Any]) -> Any:
    """Sizes ||W_QK,h||_1 ||W_h||_{1,inf} of the heads of a layer given by its distinct entries.

    ``features``: how often each feature stands, as a row of the weights; once each if missing.
    """
    once = np.full(i["X"].shape[-1], arb(1), dtype=object)
    features = i.get("features", once)
    query_keys, _ = repeated_sums(i["W_QK"], features, features)
    columns, rows = repeated_sums(i["W"], features, i["columns"])
    return query_keys * ops.sqrt(columns * rows)


def repeated_composite(A, rows, columns) -> Any:
    """Composite value of the matrix of :func:`repeated_sums`."""
    by_column, by_row = repeated_sums(A, rows, columns)
    return ops.sqrt(by_column * by_row)


def spike_residual_squared(first, other, d, n):
    """Least ||A - 1 y^T||^2_{1,inf} over all y for A with one nonzero row among n >= 3.

    That row is (first, other, ..., other), d entries, first >= other >= 0. Valid where
    (n - 1) T >= 3 d first, with T the sum of the row, and first - other <= (n - 2) other; without
    the last condition it is a lower bound.
    """
    T = first + (d - 1) * other
    return first * (T - (d * first - T) / (n - 2))


def wide_family_ratio(d, n, w, bias):
    """Left over right side of the printed bound on :func:`wide_family`; H = 2, L = 1, gamma = 1.

    (g/w) (y + 1/y) / (8 sqrt 2) sqrt(1 - (sqrt d - 1)/(n - 2)) with y = d^(1/4) and
    g = sinh(w) / (cosh(w) + (n - 2) e^-bias / 2), for n >= 3 sqrt(d) + 1. One arithmetic for all.
    """
    root = ops.sqrt(d)
    y = ops.sqrt(root)
    up, down, rest = ops.exp(w), ops.exp(-w), (n - 2) * ops.exp(-bias)
    moved = (up - down) / (up + down + rest)
    return moved / w * (y + 1 / y) * ops.sqrt(1 - (root - 1) / (n - 2)) / (8 * ops.root(2, d))


# ---------------------------------------------------------------- the family with large scores


#: Parameters of :func:`large_family`, chosen for width 14,330: the oscillation D, below x*; the
#: score y of e_1 with itself; the lead of the logit of e_1 over a light token; the number m of
#: heavy rows; the size w of W_QK,2.
LARGE_SCORES = {"D": 1.2564312, "y": 0.195, "lead": 9.555, "m": 100, "w": 2.0**-20}


def large_family(
    d: int, zeros: int, key_width: int, D: float, y: float, lead: float, m: int, w: float, bias=64.0
) -> dict[str, Tensor]:
    """Layer of tokens e_1, ..., e_d and ``zeros`` zero tokens whose scores oscillate by at most D.

    Two heads. With N = d - 1 - m light tokens e_j, j > m + 1, the scores are: head 1, D of each
    light token with itself, y of e_1 with itself, (D - y)/m of each heavy token e_2, ..., e_(m+1)
    with e_1; head 2, (w, -w) of e_1 with e_1 and e_2. Biases, as logits: head 1, ``lead`` + bias
    for e_1 and bias for light tokens; head 2, bias for e_1 and e_2. W_1 = w sqrt(2d) e_1 e_1^T, W_2
    = D (e_1 - e_2) 1^T. Dense float64 tensors for small sizes; d_qk >= d makes any W_QK.
    """
    E, b, W = torch.zeros(2, d, d).double(), torch.zeros(2, d).double(), torch.zeros(2, d, d)
    W, light = W.double(), range(m + 1, d)
    E[0, 0, 0], E[0, 1 : m + 1, 0], E[0, light, light] = y, (D - y) / m, D
    E[1, 0, 0], E[1, 0, 1], b[1, :2] = w, -w, bias
    b[0, 0], b[0, m + 1 :] = lead + bias, bias
    W[0, 0, 0], W[1, 0], W[1, 1] = w * (2 * d) ** 0.5, D, -D
    X, root = torch.cat([torch.eye(d), torch.zeros(zeros, d)]).double(), key_width**0.5
    return {"X": X, "W_QK": root * E, "b_QK": root * b, "W": W}


def large_family_distinct(
    d: int, zeros: int, key_width: int, D, y, lead, m: int, w, bias
) -> dict[str, Any]:
    """One token of each type of :func:`large_family` and two output columns, in balls; m >= 2.

    Types: e_1, e_2, a light token, all other light ones as keys, the other heavy tokens, 0. A light
    token meets its own key and N - 1 others, so those are a type of their own, of which only keys
    are used: as rows they are like the one light token, for which ``rows`` counts N. ``features``
    counts the rows of a column of weights.
    """
    N, none = d - 1 - m, arb(0)
    D, y, lead, w, bias = (arb(v) for v in (D, y, lead, w, bias))
    E = np.full((2, 5, 5), none, dtype=object)
    E[0, 0, 0], E[0, 1, 0], E[0, 4, 0], E[0, 2, 2] = y, (D - y) / m, (D - y) / m, D
    E[1, 0, 0], E[1, 0, 1] = w, -w
    b = np.array(
        [[lead + bias, none, bias, bias, none], [bias, bias, none, none, none]], dtype=object
    )
    counts = [arb(c) for c in (1, 1, 1, N - 1, m - 1)]
    b = b + np.array([c.log() - arb(zeros).log() for c in counts], dtype=object)
    W = np.full((2, 5, 2), none, dtype=object)
    W[0, 0, 0], W[1, 0], W[1, 1] = w * arb(2 * d).sqrt(), D, -D
    root = arb(key_width).sqrt()
    return {
        "X": ops.balls(np.eye(6, 5)),
        "W_QK": root * E,
        "b_QK": root * b,
        "W": W,
        "rows": np.array([arb(c) for c in (1, 1, N, 0, m - 1, zeros)], dtype=object),
        "columns": np.array([arb(1), arb(d - 1)], dtype=object),
        "features": np.array(counts, dtype=object),
    }


def pinned_residual_squared(column, row, d, zeros):
    """Lower bound on ||A - 1 y^T||^2_{1,inf} over all y for A with d columns and zero rows.

    column, row: the largest sums of absolute values of A; ``zeros`` rows of A are 0, at least half
    of all. With F the largest column sum of A - 1 y^T: F >= column, and zeros |y_k| <= F for every
    k, so the longest row keeps at least row - d F/zeros; it or a row of zeros keeps row/2. F times
    the larger of the two is least at F = column if row >= 3 d column/zeros; else this is no bound.
    """
    return column * (row - d * column / zeros)


# ------------------------------------------------------------------- the factor gamma of version 2

GAMMA_KEY_WIDTH = 4  # d_qk of the family, whose root is exact


def gamma_factor(entries):
    """Factor ((nd)^(1/4) + (nd)^(-1/4)) / (2 sqrt 2) for ``entries`` = n d, in any arithmetic."""
    tau = ops.sqrt(ops.sqrt(entries))
    return (tau + 1 / tau) / ops.root(8, entries)


def gamma_constant(R, W_QK, W, key_width: int):
    """factor(n d) sum_h gamma_h ||W_QK,h||_1 ||W_h||_{1,inf} / sqrt(d_qk); no E_h may be 0."""
    sizes = norms.max_column_sum(W_QK) * norms.composite(W)
    total = ops.sum(collapse.gamma(R, W_QK, key_width) * sizes, -1)
    entries = ops.constant(R.shape[-2] * W.shape[-1], R)
    return gamma_factor(entries + 0 * total) * total / ops.root(key_width, R)


# ---------------------------------------------------------------- the family


def gamma_family(d: int, n: int, w: float = 2.0**-10, bias: float = 64.0) -> dict[str, Tensor]:
    """Layer of two heads on tokens e_1, ..., e_n of width d with gamma 1/sqrt(n); n even, d >= n.

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
GAMMA_SIGNS = (1, -1, 1, -1, 1)


def gamma_family_distinct(d: int, n: int, w, bias) -> dict[str, Any]:
    """One token of each type of :func:`gamma_family` and two output columns, in balls.

    ``rows``: how many tokens each type stands for; ``columns``: the second column stands for
    d - 1. Tokens of one type give and get the same weights and have the same values, 0 from the
    fourth token on. As a key, one of k such tokens has a logit that is larger by log k.
    """
    counts = [c for c in (1, 1, 1, n // 2 - 1, n // 2 - 2) if c]
    k, w, zero = len(counts), arb(w), arb(0)
    u = np.array([arb(1), arb(-1), *[zero] * (k - 2)], dtype=object)
    moved = w * (arb(n) / 8).sqrt()
    E = np.full((2, k, k), zero, dtype=object)
    E[0] = np.array(GAMMA_SIGNS[:k], dtype=object)[:, None] * u * (w / 2)
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


def gamma_family_pairs(n: int) -> tuple[tuple[int, int, int], ...]:
    """Tokens of :func:`gamma_family` in pairs (type, type, how often), first e_1 and e_2."""
    return tuple(p for p in ((0, 1, 1), (2, 3, 1), (4, 3, n // 2 - 2)) if p[2])


def score_gamma(E, rows):
    """Factor gamma_h of scores E (heads, k, k) whose row i stands rows[i] times, in balls."""
    D = oscillation(E)
    by_column, _ = repeated_sums(E, rows, rows)
    return ops.sqrt(ops.sum(D * rows, -1) * ops.amax(D, -1)) / (2 * by_column)


def paired_residual(Y, pairs, columns) -> arb:
    """Lower bound on ||A - 1 y^T||_{1,inf} over all y, in balls; attained for mirrored pairs.

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


# --------------------------------------------------------------------- families with a closed form


def unconditional_ratio(k: int, exponent: int = 4) -> arb:
    """Left over right side of the bound with constant 4, for 2k + 1 tokens beyond D <= x*.

    One anchor token holds half of the softmax base; k tokens pull weight to themselves by a score
    M = log(2^exponent k); k tokens do nothing. The value map reads the anchor's feature alone. With
    ||R||_1 = ||R||_inf = 1, ||W_QK||_1 / sqrt(d_qk) = M, ||W_V||_{1,inf} = 1 the right side is 4 M.
    The one output column is 1/2 for k + 1 tokens and alpha = 2k / (4k - 1 + e^M) for k; its best
    center is the midpoint, which leaves (1/2 - alpha) sqrt((k + 1/2) / 2).
    """
    M = (arb(2) ** exponent * k).log()
    alpha = arb(2 * k) / (4 * k - 1 + M.exp())
    return (arb(1) / 2 - alpha) * ((arb(k) + arb(1) / 2) / 2).sqrt() / (4 * M)


def printed_ratio(d: int, t: arb | None = None) -> arb:
    """Left over right side of the printed bound for many heads with gamma = 1, in balls."""
    width = np.array([arb(d)], dtype=object)
    distance = np.array([arb(1) / 10 if t is None else t], dtype=object)
    return collapse.many_heads_ratio(width, distance)[0]


def triangle(rho):
    """Corners of an equilateral triangle around 0 with circumradius rho (..., 1); (..., 3, 2)."""
    half, height = rho / 2, rho * ops.root(3, rho) / 2
    zero = 0 * rho
    rows = [
        ops.stack([rho[..., 0], zero[..., 0]], -1),
        ops.stack([-half[..., 0], height[..., 0]], -1),
        ops.stack([-half[..., 0], -height[..., 0]], -1),
    ]
    return ops.stack(rows, -2)


def triangle_factor(a):
    """Share (e^a - e^(-a/2)) / (e^a + 2 e^(-a/2)) of the triangle that one layer leaves.

    It is computed as (1 - z)/(1 + 2 z) with z = e^(-3a/2).
    """
    z = ops.expm1(-3 * a / 2)  # z - 1, which loses no digits for small a
    return -z / (3 + 2 * z)

"""The token x that minimizes the composite value of X - 1 x^T, computed exactly.

Let f_1(x) and f_inf(x) be the largest column and row sum of |X - 1 x^T|, both convex and piecewise
linear. Minimizing sqrt(f_1 f_inf) is not a convex problem, but f_1 f_inf is quasiconcave in
(f_1, f_inf), so its minimum lies at a vertex of the lower left frontier of the convex set
{(a, b): a >= f_1(x), b >= f_inf(x) for some x}. Each vertex is the minimizer of a weighted sum
s f_1 + f_inf / s (the two agree at the best s, by 2 sqrt(ab) = min_s (s a + b / s)), a linear
program. The frontier is walked by bisection: between two known vertices, minimize along the
normal of the line that joins them; stop where nothing lies below the line or where even the
corner of the remaining triangle cannot beat the best vertex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

TOLERANCE = 1e-9  # HiGHS solves to 1e-7 feasibility by default; tightened to this


@dataclass(frozen=True)
class Vertex:
    """A center and the two sums (f_1, f_inf) it gives."""

    center: np.ndarray
    sums: tuple[float, float]

    @property
    def product(self) -> float:
        return self.sums[0] * self.sums[1]


def optimal_center(X: np.ndarray) -> np.ndarray:
    """The minimizer of ||X - 1 x^T||_{1,inf} for finite X (tokens, width); shape (width,)."""
    X = np.asarray(X, dtype=float)
    scale = np.abs(X - X.mean(0)).max()
    if scale == 0:
        return X[0].copy()
    shift = X.mean(0)
    program = _Program((X - shift) / scale)
    best = _best(program)
    return best.center * scale + shift


def _best(program: _Program) -> Vertex:
    # A weight that all but ignores one of the two sums. It cuts off the ends of the frontier where
    # one sum falls by less than 1e-6 of what the other rises. They cannot win: f_inf <= d f_1 and
    # f_1 <= n f_inf, so the product rises along them (for n, d < 1e6).
    small = 1e-6
    left, right = program.minimize(1.0, small), program.minimize(small, 1.0)
    best = min(left, right, key=lambda v: v.product)
    pending = [(left, right)]
    while pending:
        a, b = pending.pop()
        weights = (a.sums[1] - b.sums[1], b.sums[0] - a.sums[0])
        corner = a.sums[0] * b.sums[1]
        if min(weights) <= TOLERANCE or corner >= best.product:
            continue
        middle = program.minimize(*weights)
        below = np.dot(weights, a.sums) - np.dot(weights, middle.sums)
        best = min(best, middle, key=lambda v: v.product)
        if below > TOLERANCE * np.dot(weights, a.sums):
            pending += [(a, middle), (middle, b)]
    return best


class _Program:
    """min w_1 f_1(x) + w_inf f_inf(x), linear in (x, U, f_1, f_inf) with U >= |X - 1x^T|."""

    def __init__(self, X: np.ndarray) -> None:
        self.X = X
        n, d = X.shape
        tokens, entries = sparse.kron(np.ones((n, 1)), sparse.eye(d)), sparse.eye(n * d)
        zero = sparse.csr_matrix((n * d, 2))
        above = sparse.hstack([-tokens, -entries, zero])  # X - x <= U
        under = sparse.hstack([tokens, -entries, zero])  # x - X <= U
        columns = sparse.kron(np.ones((1, n)), sparse.eye(d))
        rows = sparse.kron(sparse.eye(n), np.ones((1, d)))
        first = np.tile([-1.0, 0.0], (d, 1))
        second = np.tile([0.0, -1.0], (n, 1))
        column_sums = sparse.hstack([sparse.csr_matrix((d, d)), columns, first])
        row_sums = sparse.hstack([sparse.csr_matrix((n, d)), rows, second])
        self.matrix = sparse.vstack([above, under, column_sums, row_sums]).tocsr()
        self.limits = np.concatenate([-X.ravel(), X.ravel(), np.zeros(d + n)])

    def minimize(self, w_1: float, w_inf: float) -> Vertex:
        """The frontier's vertex for these weights, its sums recomputed from its center."""
        n, d = self.X.shape
        total = w_1 + w_inf
        cost = np.concatenate([np.zeros(d + n * d), [w_1 / total, w_inf / total]])
        bounds = [(None, None)] * d + [(0, None)] * (n * d + 2)
        options = {
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        }
        found = linprog(
            cost, A_ub=self.matrix, b_ub=self.limits, bounds=bounds, method="highs", options=options
        )
        if found.status != 0:
            raise ArithmeticError(f"linear program for the optimal center failed: {found.message}")
        center = found.x[:d]
        difference = np.abs(self.X - center)
        return Vertex(center, (float(difference.sum(0).max()), float(difference.sum(1).max())))

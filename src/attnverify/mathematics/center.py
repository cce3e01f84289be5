"""The token x that minimizes the composite value of X - 1 x^T, by linear programs in float64.

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
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy import sparse

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
    """Token that minimizes ||X - 1 x^T||_{1,inf} for finite X (tokens, width); shape (width,)."""
    X = np.asarray(X, dtype=float)
    scale = np.abs(X - X.mean(0)).max()
    if scale == 0:
        return X[0].copy()
    shift = X.mean(0)
    program = Program((X - shift) / scale)
    best = _best(program)
    return best.center * scale + shift


def _best(program: Program) -> Vertex:
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


class Program:
    """Linear program that minimizes w_1 f_1(x) + w_inf f_inf(x), with n + 2 d constraints.

    In coordinate j the vector (|X_ij - x|)_i is convex in x with kinks at the X_ij. So x_j may be
    written as a mean of kinks, with the same mean of their vectors in place of its own: that is
    never less, and the same for neighboring kinks. The variables are the weights of these means, of
    a few kinks in every coordinate. For the prices p_i >= 0 of the row sums (total w_inf) and q_j
    of the column sums (total w_1), sum_j min_x sum_i (p_i + q_j) |X_ij - x| is a lower bound on
    the optimum over all x. Its weighted medians are the kinks that are missing, if any are: they
    are added, with their neighbors, until the bound is met (Dantzig and Wolfe 1960). The kinks
    serve all weights of the walk.
    """

    def __init__(self, X: np.ndarray) -> None:
        self.X = X
        n, d = X.shape
        self.order = np.argsort(X, 0, kind="stable")
        self.sorted = np.take_along_axis(X, self.order, 0)
        self.kinks: dict[tuple[int, float], None] = {}  # (coordinate, place), in order
        for rank in {0, (n - 1) // 2, n - 1}:
            self._add(np.full(d, rank))

    def _add(self, ranks: np.ndarray) -> bool:
        """Add the kinks of these ranks, one a coordinate; True if any is new."""
        known = len(self.kinks)
        places = self.sorted[ranks.clip(0, len(self.X) - 1), np.arange(len(ranks))]
        self.kinks |= dict.fromkeys(zip(range(len(ranks)), places.tolist(), strict=True))
        return len(self.kinks) > known

    def minimize(self, w_1: float, w_inf: float) -> Vertex:
        """Vertex of the frontier for these weights, with sums recomputed from its center."""
        weights = np.array([w_1, w_inf]) / (w_1 + w_inf)
        best, value = None, np.inf
        while True:
            center, prices = self._solve(weights)
            difference = np.abs(self.X - center)
            found = Vertex(center, (float(difference.sum(0).max()), float(difference.sum(1).max())))
            if best is None or weights @ found.sums < value:
                best, value = found, weights @ found.sums
            low, ranks = self._bound(prices)
            if value - low <= TOLERANCE * value:
                return best
            # What the program's own tolerances leave open is not closed by kinks it already has.
            if not any([self._add(ranks + offset) for offset in (-1, 0, 1)]):
                return best

    def _solve(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Best center among means of the kinks, and the prices p_i + q_j, (n, d)."""
        from scipy import sparse  # here: half a second, and most who import norms solve no program
        from scipy.optimize import linprog

        n, d = self.X.shape
        coordinate = np.array([j for j, _ in self.kinks])
        place = np.array([x for _, x in self.kinks])
        m = len(place)
        distance = np.abs(self.X[:, coordinate] - place)

        def by_coordinate(values: np.ndarray) -> sparse.csr_matrix:
            return sparse.csr_matrix((values, (coordinate, np.arange(m))), shape=(d, m))

        first, second = np.tile([-1.0, 0.0], (d, 1)), np.tile([0.0, -1.0], (n, 1))
        sums = sparse.vstack(
            [
                sparse.hstack([sparse.csr_matrix(distance), second]),
                sparse.hstack([by_coordinate(distance.sum(0)), first]),
            ]
        )
        one = sparse.hstack([by_coordinate(np.ones(m)), sparse.csr_matrix((d, 2))])
        found = linprog(
            np.concatenate([np.zeros(m), weights]),
            A_ub=sums.tocsc(),
            b_ub=np.zeros(n + d),
            A_eq=one.tocsc(),
            b_eq=np.ones(d),
            method="highs",
            options={
                "primal_feasibility_tolerance": TOLERANCE,
                "dual_feasibility_tolerance": TOLERANCE,
            },
        )
        if found.status != 0:
            raise ArithmeticError(f"linear program for the optimal center failed: {found.message}")
        center = np.bincount(coordinate, weights=found.x[:m] * place, minlength=d)
        prices = np.maximum(-found.ineqlin.marginals, 0)
        rows, columns = prices[:n], prices[n:]
        return center, _of_total(rows, weights[1])[:, None] + _of_total(columns, weights[0])

    def _bound(self, prices: np.ndarray) -> tuple[float, np.ndarray]:
        """Lower bound from these prices, and the ranks of its weighted medians."""
        reached = np.take_along_axis(prices, self.order, 0).cumsum(0)
        ranks = (reached < reached[-1] / 2).sum(0).clip(max=len(self.X) - 1)
        medians = self.sorted[ranks, np.arange(len(ranks))]
        return float((prices * np.abs(self.X - medians)).sum()), ranks


def _of_total(prices: np.ndarray, total: float) -> np.ndarray:
    """Prices scaled to this total, so that the bound holds at any tolerance of the program."""
    size = prices.sum()
    return prices * (total / size) if size > 0 else np.full_like(prices, total / len(prices))

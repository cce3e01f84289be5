"""The linear program of the optimal center written out, 2 n d constraints: the plain way."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from attnverify.mathematics.center import TOLERANCE


def full_program(X: np.ndarray, w_1: float, w_inf: float) -> float:
    """min over x of w_1 f_1(x) + w_inf f_inf(x), the largest column and row sum of |X - 1 x^T|.

    In (x, U, f_1, f_inf) with U >= |X - 1 x^T|; X is (tokens, width).
    """
    n, d = X.shape
    tokens, entries = sparse.kron(np.ones((n, 1)), sparse.eye(d)), sparse.eye(n * d)
    zero = sparse.csr_matrix((n * d, 2))
    columns = sparse.kron(np.ones((1, n)), sparse.eye(d))
    rows = sparse.kron(sparse.eye(n), np.ones((1, d)))
    first, second = np.tile([-1.0, 0.0], (d, 1)), np.tile([0.0, -1.0], (n, 1))
    constraints = [
        sparse.hstack([-tokens, -entries, zero]),  # X - x <= U
        sparse.hstack([tokens, -entries, zero]),  # x - X <= U
        sparse.hstack([sparse.csr_matrix((d, d)), columns, first]),
        sparse.hstack([sparse.csr_matrix((n, d)), rows, second]),
    ]
    found = linprog(
        np.concatenate([np.zeros(d + n * d), [w_1, w_inf]]),
        A_ub=sparse.vstack(constraints).tocsr(),
        b_ub=np.concatenate([-X.ravel(), X.ravel(), np.zeros(d + n)]),
        bounds=[(None, None)] * d + [(0, None)] * (n * d + 2),
        method="highs",
        options={
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        },
    )
    if found.status != 0:
        raise ArithmeticError(f"linear program failed: {found.message}")
    return float(found.fun)

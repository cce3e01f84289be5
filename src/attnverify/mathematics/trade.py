"""What rows of one base move in a column and in a row, by :mod:`attnverify.arithmetic.ops`."""

from __future__ import annotations

from attnverify.arithmetic import ops
from attnverify.mathematics import collapse, norms


def moves(base, E):
    """(max_j sum_i |P_ij - p_j|, max_i TV(P_i, p)), P_i = softmax(base + E_i), p = softmax(base).

    base: (..., tokens), E: (..., rows, tokens); shape (...) each.
    """
    p, rows = ops.softmax(base)[..., None, :], ops.softmax(base[..., None, :] + E)
    return norms.max_column_sum(rows - p), ops.amax(norms.total_variation(rows, p), -1)


def column_times_row(base, E):
    """4 times the product of the two; claim collapse.row-and-column."""
    column, row = moves(base, E)
    return ops.constant(4, E) * column * row


def best_constant(R, W_QK, W, key_width: int):
    """||W_QK||_1 ||W_V||_{1,inf} / sqrt(2 d_qk) of one head; claim single-head-best-constant."""
    return collapse.corrected_constant(R, W_QK, W, key_width) / ops.root(32, R)

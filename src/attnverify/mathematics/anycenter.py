"""What the composite value is at least, whatever the center: a lower bound in any arithmetic.

A proof names one center, so the value there is an upper bound of the least one. To refute a smaller
bound a lower bound is needed. Let f_1 and f_inf be the largest column and row sum of |A - 1 y^T|.

- f_1 >= a, the largest least column sum; a column sum is least at one of its entries;
- f_inf >= b, half the largest 1-norm of a difference of two rows;
- s f_1 + f_inf >= L for s > 0: f_1 is at least the mean column sum, f_inf at least the sum of any
  row i, and s/d sum_m |A_mj - y| + |A_ij - y| is least at an entry of column j.

On {f_1 >= a, f_inf >= b, s f_1 + f_inf >= L} the product f_1 f_inf is at least a b, and if the line
cuts off the corner (a, b) it is least at an end of the cut: it is concave along the line.
"""

from __future__ import annotations

from attnverify.arithmetic import ops


def _least(x, axis: int):
    return -ops.amax(-x, axis)


def least_composite(A):
    """A lower bound of min over y of ||A - 1 y^T||_{1,inf}; A (..., n, d) -> (...).

    Exact for two rows, and where :func:`attnverify.mathematics.heads.spike_residual_squared` is, if
    n is large against d (the tests compare). NaN if all rows are equal.
    """
    n, d = A.shape[-2:]
    apart = abs(A[..., :, None, :] - A[..., None, :, :])  # (..., row, center, column)
    columns = ops.sum(apart, -3)  # (..., center, column)
    a = ops.amax(_least(columns, -2), -1)
    b = ops.amax(ops.amax(ops.sum(apart, -1), -1), -1) / ops.constant(2, A)
    slopes = [b / a]
    if n > 2:  # the slope of the frontier at the best center of one row beside equal ones
        slopes.append(0 * a + ops.constant(d, A) / ops.constant(n - 2, A))
    found = [a * b]
    for s in slopes:
        weight = (s / ops.constant(d, A))[..., None, None, None]
        each = ops.sum(_least(weight * columns[..., None, :, :] + apart, -2), -1)  # (..., row)
        L = ops.amax(each, -1)
        found.append(_least(ops.stack([a * (L - s * a), b * (L - b) / s], -1), -1))
    return ops.sqrt(ops.amax(ops.stack(found, -1), -1))

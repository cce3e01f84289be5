"""Two-sided bounds on the residual with the optimal center, for inputs too large for programs.

:func:`attnverify.mathematics.center.optimal_center` takes half a minute for 200 x 128 entries, and
its cost grows faster than their square. Two-sided bounds cost a sort of every column. With
f_1(x), f_inf(x) the largest column and row sum of |X - 1 x^T|:

- f_1(x) >= its value at the coordinatewise median, which minimizes every column sum;
- f_inf(x) >= sum_i w_i |X_i - x|_1 >= the same sum with, in every column, the w-weighted median in
  place of x, for any weights w >= 0 of sum 1;
- so sqrt(f_1 f_inf) is at least the root of the product of the two, and at most its value at any
  x, of which the mean, the median, the weighted medians and points between are tried.

The weights are improved by multiplicative updates: tokens far from the weighted median get more.
They may be any weights, so the bounds hold wherever the updates stop.

>>> import torch
>>> import attnverify as av
>>> X = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 3.0]], dtype=torch.float64)
>>> low, high = av.centerbounds.optimal_residual_bounds(X)
>>> low <= high
True
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnverify.mathematics import norms
from attnverify.support.errors import require, require_tokens

ROUNDS = 40  # of multiplicative updates; more tighten the bounds, and none are wrong


def optimal_residual_bounds(
    X: Float[Tensor, "tokens width"], rounds: int = ROUNDS
) -> tuple[float, float]:
    """Bounds low <= min_x ||X - 1 x^T||_{1,inf} <= high, up to rounding of the sums.

    X is finite, (tokens, width) in float64, tokens * width numbers are sorted once. Raises
    InputError for a bad X.
    """
    require_tokens("X", X)
    require(X.ndim == 2, "X", f"shape {tuple(X.shape)}", "shape (tokens, width)")
    scale = X.abs().max()
    if scale == 0:
        return 0.0, 0.0
    X = X / scale  # tiny tokens would underflow when two sums are multiplied
    columns, order = X.mT.contiguous().sort(dim=-1)  # along memory, which makes sums fast
    weights = torch.full((len(X),), 1 / len(X), dtype=X.dtype, device=X.device)
    distance = X - _weighted_median(columns, order, weights)  # equal weights: the median
    low_column, low_row = norms.max_column_sum(distance), X.new_zeros(())
    centers = [norms.mean_centered(X), distance]
    for round in range(rounds):
        rows = distance.abs().sum(-1)
        low_row = torch.maximum(low_row, (weights * rows).sum())
        spread = rows.max() - rows.min()
        if spread == 0 or round + 1 == rounds:
            break
        weights = weights * torch.exp(2 / (2 + round) ** 0.5 * (rows - rows.max()) / spread)
        weights = weights / weights.sum()
        distance = X - _weighted_median(columns, order, weights)
        centers.append(distance)
    # between the median, best for the columns, and the average of all, good for the rows
    average = torch.stack(centers[1:]).mean(0)
    centers += [centers[1] + t / 8 * (average - centers[1]) for t in range(1, 9)]
    high = min(float(norms.composite(each)) for each in centers)
    return float((low_column * low_row).sqrt() * scale), high * float(scale)


def _weighted_median(columns: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    """Weighted median of every sorted column, an x that minimizes sum_i w_i |X_i - x|."""
    reached = weights[order].cumsum(-1)
    first = torch.searchsorted(reached, (0.5 * weights.sum()).expand(len(columns), 1).contiguous())
    return columns.gather(-1, first.clamp(max=columns.shape[-1] - 1))[:, 0]

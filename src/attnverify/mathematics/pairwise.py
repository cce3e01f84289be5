"""The largest distance between two rows, without an array of all differences."""

from __future__ import annotations

import math

import torch

from attnverify.arithmetic import ops

CHUNK = 1 << 18  # distances held at once on torch: 2 MiB in float64, which caches hold


def largest_distance(X: ops.Array, power: int) -> ops.Array:
    """max_{i,k} of sum_j |X_ij - X_kj| (power 1) or its Euclidean kind (2); (..., n, m) -> (...).

    Differences are taken entry by entry, so that close rows lose no digits. n^2 m operations. On
    torch at most CHUNK distances are held at once; with gradients all n^2 of them are kept for the
    backward pass. There the gradient is 0 at rows that coincide. The 16-bit floats are computed in
    float32.
    """
    if ops.is_torch(X):
        return _of_tensor(X, power)
    rows = [_from_row(X, i, power) for i in range(X.shape[-2])]
    largest = ops.amax(ops.stack(rows, -1), -1)
    return ops.sqrt(largest) if power == 2 else largest


def _from_row(X, i: int, power: int):
    """The largest sum_j |X_ij - X_kj|^power over k >= i."""
    differences = X[..., i:, :] - X[..., i : i + 1, :]
    entries = ops.square(differences) if power == 2 else abs(differences)
    return ops.amax(ops.sum(entries, -1), -1)


def _of_tensor(X: torch.Tensor, power: int) -> torch.Tensor:
    exact = X.float() if torch.finfo(X.dtype).bits < 32 else X  # cdist has no 16-bit kernel
    rows = max(1, CHUNK // max(1, math.prod(exact.shape[:-1])))
    # The default mode subtracts squared norms and loses the digits of close rows.
    mode = "donot_use_mm_for_euclid_dist"
    parts = [
        torch.cdist(part, exact[..., rows * i :, :], p=power, compute_mode=mode).amax((-2, -1))
        for i, part in enumerate(exact.split(rows, dim=-2))
    ]
    return torch.stack(parts, -1).amax(-1).to(X.dtype)

"""What is measured at one layer of a trace: diameters, residuals, and the sharp bound."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnverify.inspection.columns import LAYERS
from attnverify.inspection.trace import Heads, Layer
from attnverify.mathematics import collapse, norms
from attnverify.mathematics.depth_bounds import layer_threshold
from attnverify.mathematics.spectral import spectral_norm, thin_product

Row = dict[str, Any]

#: Units roundoff, relative to tokens, up to which their differences are rounding: those of equal
#: tokens come to a few, as rows of a product may be summed in different orders. The unit is the
#: coarsest that was worked with so far: float32's behind the norms of Llama, in float64 too.
RESOLVED = 2**10
MASKED = "some attention weights are zero (a mask, or underflow)"
ROTATED = "positions are in the scores (rotary)"
NORMED = "queries and keys are normalized"


def rows(layer: Layer, valid: Tensor, unit: float) -> list[Row]:
    """A row for every text of the batch; unit: the coarsest roundoff so far, this layer's too."""
    c, v = rates(layer.heads)
    threshold = layer_threshold(c, v)
    texts = range(len(valid))
    return [_row(layer, text, valid[text], c, v, threshold, unit) for text in texts]


def residuals(layer: Layer, valid: Tensor) -> list[Row]:
    """The same rows with the relative residual alone; the other columns are none."""
    return [
        {
            **dict.fromkeys(LAYERS),
            "text": text + 1,
            "layer": layer.number,
            "residual": relative_residual(layer.input[text][keep]),
        }
        for text, keep in enumerate(valid)
    ]


def rates(heads: Heads) -> tuple[Tensor, Tensor]:
    """(c_h, v_h) of :func:`attnverify.mathematics.collapse.sharp_factor`, each (heads,).

    c_h = scale ||W_QK,h||_2 / 4 and v_h = ||W_h||_2, by singular values of small matrices.
    """
    c = spectral_norm(thin_product(heads.W_Q, heads.W_K)) * (heads.scale / 4)
    return c, spectral_norm(thin_product(heads.W_V, heads.W_O.mT))


def unmet(heads: Heads, text: int, keep: Tensor) -> str | None:
    """Which hypotheses of the sharp theorem fail; None if all hold.

    Full attention is read off the matrices: every weight between tokens of the text is positive.
    """
    P = heads.P[text][:, keep][:, :, keep]
    failed = {
        MASKED: not bool((P > 0).all()),
        ROTATED: heads.rotation is not None,
        NORMED: heads.norms is not None,
    }
    return "; ".join(reason for reason, fails in failed.items() if fails) or None


def any_attention(v: Tensor) -> float:
    """sum_h v_h, what attention multiplies the diameter by at most, with any mask and any scores.

    Rows of P_h differ by at most 1 in total variation: claim modern.positions-end-cubic for scores
    without limits, and masked ones are limits of those.
    """
    return float(v.sum())


def _row(
    layer: Layer, text: int, keep: Tensor, c: Tensor, v: Tensor, threshold: float, unit: float
) -> Row:
    stream, X = layer.input[text][keep], layer.heads.input[text][keep]
    after = attention_output(layer)[text][keep]
    size, out = float(norms.diameter(X)), float(norms.diameter(after))
    apart = differ(size**2, float(X.square().sum(-1).max()), unit)
    reason = unmet(layer.heads, text, keep)
    row: Row = {
        "text": text + 1,
        "layer": layer.number,
        "residual": relative_residual(stream),
        "stream_diameter": float(norms.diameter(stream)),
        "diameter": size,
        "attention_diameter": out,
        "factor": out / size if apart else None,
        "bound": any_attention(v),
        "threshold": None,
        "over_threshold": None,
        "why_no_threshold": reason,
        **_nearest(stream, unit),
    }
    if reason is None:
        row["bound"] = float(collapse.sharp_factor(c.new_tensor(size), c, v))
        if math.isfinite(threshold):
            row |= {"threshold": threshold, "over_threshold": size / threshold}
    return row


def differ(apart: float, whole: float, unit: float) -> bool:
    """Whether tokens differ by more than rounding: squares of their differences and of them."""
    return apart > (RESOLVED * unit) ** 2 * whole


def attention_output(layer: Layer) -> Tensor:
    """What the attention of the layer adds, (batch, tokens, width), as the model computed it."""
    branches = (branch for block in layer.blocks for branch in block.branches)
    return next(branch for branch in branches if branch.attention).steps[-1].seen


def relative_residual(X: Tensor) -> float | None:
    """||X - 1 mean^T||_F / ||X||_F of tokens (tokens, width)."""
    whole = float(X.norm())
    return float(norms.mean_centered(X).norm()) / whole if whole > 0 else None


def _nearest(X: Tensor, unit: float) -> Row:
    """The two tokens nearest to each other, and their distance over the diameter."""
    if len(X) < 2:
        return {"nearest": None, "nearest_distance": None}
    distance = torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist")
    largest = float(distance.max())
    distance.fill_diagonal_(math.inf)
    i, k = divmod(int(distance.argmin()), len(X))
    apart = differ(largest**2, float(X.square().sum(-1).max()), unit)
    share = float(distance.min()) / largest if apart else None
    return {"nearest": [i + 1, k + 1], "nearest_distance": share}

"""What is measured at one layer of a trace: diameters, the sharp bound, and every head."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attninspect.columns import LAYERS
from attninspect.trace import Heads, Layer
from attnverify.mathematics import collapse, norms, querykey
from attnverify.mathematics.depth_bounds import layer_threshold
from attnverify.mathematics.entropy import spread_constant
from attnverify.mathematics.maps import Norm
from attnverify.mathematics.spectral import spectral_norm, thin_product

Row = dict[str, Any]

#: Units roundoff, relative to tokens, up to which their differences are rounding: those of equal
#: tokens come to a few, as rows of a product may be summed in different orders. The unit is the
#: coarsest that was worked with so far: float32's behind the norms of Llama, in float64 too.
RESOLVED = 2**10
COARSEST = 2.0**-3  # of a token, where so many units are more: 32 units of bfloat16
MASKED = "some attention weights are zero (a mask, or underflow)"
ROTATED = "positions are in the scores (rotary)"
BIASED = "positions are in the scores (a bias)"
GATED = "what heads give is gated, token by token"
SUNK = "rows of attention add up to less than 1 (a sink)"
NORMED = "queries and keys are normalized"
CAPPED = "scores have a soft cap"


def layer_rows(layer: Layer, valid: Tensor, unit: float) -> list[Row]:
    """A row for every text of the batch; unit: the coarsest roundoff so far, this layer's too."""
    c, v = rates(layer.heads)
    threshold = layer_threshold(c, v)
    texts = range(len(valid))
    return [_row(layer, text, valid[text], c, v, threshold, unit) for text in texts]


def residual_rows(layer: Layer, valid: Tensor) -> list[Row]:
    """The same rows with the relative residuals alone; the other columns are none."""
    return [
        {
            **dict.fromkeys(LAYERS),
            "text": text + 1,
            "layer": layer.number,
            **_residuals(layer.input[text][keep]),
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
        BIASED: heads.bias is not None,
        NORMED: heads.norms is not None,
        SUNK: heads.sinks is not None,
        GATED: heads.gates is not None,
        CAPPED: heads.cap is not None,
    }
    return "; ".join(reason for reason, fails in failed.items() if fails) or None


def _row(
    layer: Layer, text: int, keep: Tensor, c: Tensor, v: Tensor, threshold: float, unit: float
) -> Row:
    stream, X = layer.input[text][keep], layer.heads.input[text][keep]
    after = attention_output(layer)[text][keep]
    size, out = float(norms.diameter(X)), float(norms.diameter(after))
    apart = differ(size**2, float(X.square().sum(-1).max()), unit)
    reason = unmet(layer.heads, text, keep)
    # Rows of P_h differ by at most 1 in total variation, so any attention multiplies the diameter
    # by sum_h v_h at most: claim modern.positions-layer for scores without limits, and masked ones
    # are limits of those. Rows of different sums (sinks), and gates, move values that are alike.
    bounded = layer.heads.sinks is layer.heads.gates is None
    row: Row = {
        "text": text + 1,
        "layer": layer.number,
        **_residuals(stream),
        "stream_diameter": float(norms.diameter(stream)),
        "diameter": size,
        "attention_diameter": out,
        "factor": out / size if apart else None,
        "bound": float(v.sum()) if bounded else None,
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
    return apart > resolved(unit) ** 2 * whole


def resolved(unit: float) -> float:
    """The part of a token up to which differences are rounding."""
    return min(RESOLVED * unit, COARSEST)


def attention_output(layer: Layer) -> Tensor:
    """What the heads of the layer add up to, (batch, tokens, width), as the model computed it.

    A norm behind it is not counted.
    """
    branches = (branch for block in layer.blocks for branch in block.branches)
    steps = next(branch for branch in branches if branch.attention).steps
    return next(s for s in reversed(steps) if not isinstance(s.maps[-1], Norm)).seen


def _residuals(stream: Tensor) -> Row:
    """With all tokens, and without the first, which may be so long that it hides the others."""
    rest = relative_residual(stream[1:]) if len(stream) > 2 else None
    return {"residual": relative_residual(stream), "residual_of_rest": rest}


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


NONE = torch.finfo(torch.float64).tiny  # of a row whose sink takes all
FAR = 2.0**10  # a spread beyond what float64 resolves: a weight that underflows; the floor is 0


def head_rows(layer: Layer, valid: Tensor, unit: float) -> list[Row]:
    """A row for every head; what depends on tokens is the mean over those of all texts.

    unit: the coarsest roundoff that was worked with so far.
    """
    heads = layer.heads
    values = {**weights(heads), **attention(heads, valid), **parts(layer, valid, unit)}
    values["gate"] = _mean_gates(heads, valid)
    lists = {name: value.tolist() for name, value in values.items()}
    return [
        {
            "layer": layer.number,
            "head": head + 1,
            **{name: _number(values[head]) for name, values in lists.items()},
        }
        for head in range(heads.count)
    ]


def _mean_gates(heads: Heads, valid: Tensor) -> Tensor:
    """Over tokens and entries, (heads,); nan without gates."""
    if heads.gates is None:
        return heads.P.new_full((heads.count,), torch.nan)
    return heads.gates.movedim(1, -1)[valid].mean((0, 1))


def weights(heads: Heads) -> dict[str, Tensor]:
    """Figures of W_QK = W_Q W_K^T and of W = W_V W_O, each (heads,); nan where undefined."""
    Q, K = heads.W_Q, heads.W_K
    c, v = rates(heads)
    return {
        "xi": querykey.xi(Q, K),
        "xi_frobenius": querykey.xi_general(Q, K),
        "symmetry": querykey.symmetry(Q, K),
        "asymmetry": querykey.skew_share(Q, K),
        "rank": _rank(thin_product(Q, K), Q.shape[-2]),
        "query_key_norm": 4 * c / heads.scale,
        "value_norm": v,
    }


def _rank(small: Tensor, width: int) -> Tensor:
    """Singular values above width u times the largest, which rounding alone does not reach."""
    values = torch.linalg.svdvals(small)
    limit = values[..., :1] * width * torch.finfo(values.dtype).eps
    return (values > limit).sum(-1).double()


def attention(heads: Heads, valid: Tensor) -> dict[str, Tensor]:
    """Entropy, its floor, and where attention goes, (heads,): means over rows with two keys.

    The keys of a row are the tokens that some head gives weight to: what a mask or a window hides
    no head sees, and a weight that underflows in one head alone is one of zero. Entropy is that of
    a row over its sum, which is less than 1 with a sink.
    """
    sunk = heads.sinks is not None
    found = [_attention_of(heads.P[t][:, keep][:, :, keep], sunk) for t, keep in enumerate(valid)]
    joined = {name: torch.cat([each[name] for each in found], -1) for name in found[0]}
    return {name: value.nanmean(-1) for name, value in joined.items()}


def _attention_of(P: Tensor, sunk: bool) -> dict[str, Tensor]:
    """For every head and token of one text, P (heads, tokens, tokens); nan for rows of one key."""
    seen = (P > 0).any(0)
    keys = seen.sum(-1)
    Q = P / P.sum(-1, keepdim=True).clamp_min(NONE) if sunk else P
    logs = torch.where(Q > 0, Q, 1.0).log()
    entropy = -(Q * logs).sum(-1)
    D = P.amax(-1).log() - torch.where(seen, P, torch.inf).amin(-1).log()
    D = D.clamp_max(FAR)
    most = keys.double().log()
    lack = torch.where(D > 0, spread_constant(torch.where(D > 0, D, 1.0)), 0.0)
    several = keys > 1
    first = seen[:, 0].clone()
    first[0] = False
    return {
        "entropy": torch.where(several, entropy / most, torch.nan),
        "entropy_floor": torch.where(several, ((most - lack) / most).clamp_min(0), torch.nan),
        "sink": torch.where(first, P[..., 0], torch.nan),
        "itself": torch.where(several, P.diagonal(dim1=-2, dim2=-1), torch.nan),
    }


def parts(layer: Layer, valid: Tensor, unit: float) -> dict[str, Tensor]:
    """What each head adds to the attention's output, tokens' mean removed, (heads,).

    part: its projection on the whole, over the whole's square (all heads add up to 1: biases of
    values are the same for all tokens, and count where rows of attention do not add up to 1 or
    heads are gated);
    moves: its norm over that of the whole. nan where the whole has equal tokens, up to rounding.
    """
    heads, whole = layer.heads, attention_output(layer)
    bias = heads.W_V.new_zeros(heads.count) if heads.b_V is None else heads.b_V
    inner, square, total, kept = [], [], 0.0, 0.0
    for text, keep in enumerate(valid):
        X, out = heads.input[text][keep], norms.mean_centered(whole[text][keep])
        P = heads.P[text][:, keep][:, :, keep]
        gates = [1.0] * heads.count if heads.gates is None else heads.gates[text][:, keep]
        own = [
            norms.mean_centered((p @ (X @ V + b) * gate) @ W)
            for p, V, b, gate, W in zip(P, heads.W_V, bias, gates, heads.W_O, strict=True)
        ]
        inner.append(torch.stack([(each * out).sum() for each in own]))
        square.append(torch.stack([each.square().sum() for each in own]))
        total += float(out.square().sum())
        kept += float(whole[text][keep].square().sum())
    total = total if differ(total, kept, unit) else 0.0
    whole_size = torch.tensor(total, dtype=torch.float64)
    return {
        "part": _over(torch.stack(inner).sum(0), whole_size),
        "moves": _over(torch.stack(square).sum(0), whole_size).sqrt(),
    }


def _over(a: Tensor, b: Tensor) -> Tensor:
    """a / b; nan where b is 0."""
    return a / torch.where(b == 0, torch.nan, b)


def _number(value: float) -> float | None:
    return value if value == value else None

"""Checks of pre-norm residual streams: share and size of a new layer's update."""

from __future__ import annotations

from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import KEY_WIDTH, along_first_axis
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.mathematics import collapse, gated_mlp, layernorm
from attnverify.mathematics.spectral import spectral_norm
from attnverify.topics.modern.checks.gated_mlp import SIZES as MLP_SIZES


def _length(x):
    return ops.sqrt(ops.sum(ops.square(x), -1))


def _stream(x, F):
    """Stream x_L after all updates F (..., L + 1, d) but the last, from x_0 = x (..., d)."""
    for i in range(F.shape[-2] - 1):
        x = x + F[..., i, :]
    return x


def along(x, F):
    """Sum of <F_l, x_l> over l < L, (...)."""
    total = 0 * x[..., 0]
    for i in range(F.shape[-2] - 1):
        total = total + ops.sum(F[..., i, :] * _stream(x, F[..., : i + 1, :]), -1)
    return total


def not_against(x, F) -> Instance:
    """Instance with x_0 moved along the sum of updates until they do not oppose the stream."""
    whole = F[..., :-1, :].sum(-2)
    less = torch.relu(-along(x, F)) / whole.square().sum(-1).clamp_min(1e-300)
    return {"x": x + (less * (1 + 2.0**-20))[..., None] * whole, "F": F}


def _not_against(x, F):
    total = along(x, F)
    return [(0 * total, total)]


def _share(x, F):
    return _length(F[..., -1, :]) / _length(_stream(x, F))


def _most(x, F, power: int = 1):
    """Upper bound M / sqrt(|x_0|^2 + L^power m^2) on the share of a new layer."""
    size = _length(F)
    least, depth = -ops.amax(-size, -1), (F.shape[-2] - 1) ** power
    grown = layernorm.length_squared(x) + ops.constant(depth, x) * ops.square(least)
    return ops.amax(size, -1) / ops.sqrt(grown)


def _least(x, F):
    """Lower bound m / (|x_0| + L M) on the share of a new layer."""
    size = _length(F)
    grown = _length(x) + ops.constant(F.shape[-2] - 1, x) * ops.amax(size, -1)
    return -ops.amax(-size, -1) / grown


def _updates(rows: list[list[float]], x: list[float]) -> Instance:
    return {"x": torch.tensor(x).double(), "F": torch.tensor(rows).double()}


STREAM_SIZES = ({"x": (2,), "F": (2, 2)}, {"x": (3,), "F": (4, 3)}, {"x": (4,), "F": (3, 4)})

ABOVE = (
    Inequality(
        left=_share,
        right=_most,
        sizes=STREAM_SIZES,
        build=not_against,
        hypotheses=_not_against,
        extremal=(
            lambda: _updates([[0.0, 5.0, 0.0], [0.0, 0.0, 5.0], [4.0, -3.0, 0.0]], [7.5, 0.0, 0.0]),
        ),
    )
    .times(0.9999)
    .but(
        "updates that point against the stream",
        build=lambda x, F: {"x": x, "F": F},
        hypotheses=None,
        extremal=(lambda: _updates([[-0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], [1.0, 0.0, 0.0]),),
    )
    .but("L^2 in place of L", right=partial(_most, power=2))
)

BELOW = Inequality(
    left=_least,
    right=_share,
    sizes=STREAM_SIZES,
    extremal=(lambda: _updates([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]], [1.0, 0.0]),),
).times(0.9999)


# ------------------------------------------------------------------------------ what a layer adds

ADDED_SIZES = tuple(
    {"X": (n, d), "W_QK": (H, d, d), "b_QK": (H, d), "W": (H, d, d), "g": (d,)}
    for n, d, H in ((2, 2, 1), (4, 3, 2), (3, 4, 2))
)


def normalized(X, g):
    """Tokens behind RMS norm with scale g, epsilon = 0."""
    return layernorm.rms_norm(X, g, ops.constant(0, X))


def _radius(g):
    return ops.root(g.shape[-1], g) * ops.amax(abs(g), -1)


def _attention_adds(X, W_QK, b_QK, W, g):
    return layernorm.largest_length(collapse.layer(normalized(X, g), W_QK, b_QK, W, KEY_WIDTH))


def _equal_tokens() -> Instance:
    one = along_first_axis(2, 1, 1, 1.0)[0]
    X = torch.tensor([[3.0, 0.0], [5.0, 0.0]]).double()
    zero = torch.zeros(1, 2).double()
    return {"X": X, "W_QK": one, "b_QK": zero, "W": 2 * one, "g": torch.tensor([1.5, 0.5]).double()}


ATTENTION = (
    Inequality(
        left=_attention_adds,
        right=lambda X, W_QK, b_QK, W, g: _radius(g) * ops.sum(spectral_norm(W), -1),
        sizes=ADDED_SIZES,
        extremal=(_equal_tokens,),
    )
    .times(0.9999)
    .but(
        "the mean of |g_k| in place of the largest",
        right=lambda X, W_QK, b_QK, W, g: (
            ops.root(g.shape[-1], g)
            * ops.sum(abs(g), -1)
            / ops.constant(g.shape[-1], g)
            * ops.sum(spectral_norm(W), -1)
        ),
    )
)


def _gated_adds(X, W_G, W_U, W_D, g):
    return layernorm.largest_length(gated_mlp.gated(normalized(X, g), W_G, W_U, W_D))


def _gated_most(X, W_G, W_U, W_D, g):
    size = spectral_norm(W_G) * spectral_norm(W_U) * spectral_norm(W_D)
    return ops.square(_radius(g)) * size


def _open_gate() -> Instance:
    one = along_first_axis(2, 1, 1, 1.0)[0, 0]
    maps = torch.cat([one, torch.zeros(2, 1).double()], 1)
    X = torch.tensor([[3.0, 0.0], [5.0, 0.0]]).double()
    g = torch.tensor([1.5, 0.5]).double()
    return {"X": X, "W_G": 32 * maps, "W_U": maps, "W_D": maps.mT.contiguous(), "g": g}


#: Sizes of gated MLPs, and one more with fewer tokens than features and fewer hidden units.
GATED_SIZES = (*MLP_SIZES[1:], {"X": (2, 4), "W_G": (4, 1), "W_U": (4, 1), "W_D": (1, 4)})

GATED = Inequality(
    left=_gated_adds,
    right=_gated_most,
    sizes=tuple({**size, "g": (size["X"][1],)} for size in GATED_SIZES),
    extremal=(_open_gate,),
).times(0.9999)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.layer-share": {
        "share above": ABOVE,
        "share below": BELOW,
        "attention adds": ATTENTION,
        "gate adds": GATED,
    },
}

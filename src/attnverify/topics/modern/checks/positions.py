"""Checks of positions in the logits: the bound of a layer.

Maps by planes have an axis for the two features that a rotation turns together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch

from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import two_tokens
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import norms, position_bounds
from attnverify.mathematics.spectral import spectral_norm
from attnverify.topics.modern.definitions import positions as definitions


def in_plane(
    size: float, middle: float, heads: int = 1, angle: float = 1.0, bias: float = 0.0
) -> Instance:
    """Instance of tokens (middle, -+size/2) and weights that are multiples of a plane's identity.

    Head h = 1, 2, ... turns by angle / h, has h times the scores and 1/h of the value map; bias:
    added to a token's own score. Maps have an axis for the two features of a plane, see
    :func:`flat`.
    """
    h = torch.arange(1, heads + 1, dtype=torch.float64)
    eye, zero = torch.eye(2, dtype=torch.float64), torch.zeros(heads, 2, 1, dtype=torch.float64)
    places = torch.zeros(heads, 3, dtype=torch.float64)
    places[:, 1] = bias
    return {
        "X": torch.tensor([[middle, -size / 2], [middle, size / 2]], dtype=torch.float64),
        "W_Q": h[:, None, None, None] * eye[..., None],
        "W_K": eye[..., None].repeat(heads, 1, 1, 1),
        "b_Q": zero,
        "b_K": zero,
        "angles": (angle / h)[:, None],
        "bias": places,
        "W": eye / h[:, None, None],
    }


def by_bias(size: float, bias: float) -> Instance:
    """Instance of tokens -+size/2 on a line, without rotation, ``bias`` on a token's own score."""
    return {**in_plane(size, 0.0, angle=0.0, bias=bias), "X": two_tokens(2, size)}


def flat(instance: Instance) -> Instance:
    """Instance with maps (..., 2, planes) as they are stored, (..., key_width).

    Plane p has the features p and p + planes. By these shapes the key width is even and there are
    as many planes as angles.
    """
    split = {"W_Q", "W_K", "b_Q", "b_K", "Q", "K"} & instance.keys()
    return {**instance, **{k: instance[k].reshape(*instance[k].shape[:-2], -1) for k in split}}


def by_planes(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Formula of maps by planes, from one of stored maps."""

    @wraps(formula)
    def of(**instance: Any) -> Any:
        return formula(**flat(instance))

    return of


def sizes(tokens: int, width: int, heads: int, planes: int, **more: tuple[int, ...]):
    """Shapes of one layer's free parameters, with maps by planes."""
    n, d, H, p = tokens, width, heads, planes
    maps = {"W_Q": (H, d, 2, p), "W_K": (H, d, 2, p), "b_Q": (H, 2, p), "b_K": (H, 2, p)}
    places = {"angles": (H, p), "bias": (H, 2 * n - 1)}
    return {"X": (n, d), **maps, **places, **more}


@by_planes
def output_diameter(X, W, **maps):
    return norms.diameter(position_bounds.layer(X, W, **maps))


@by_planes
def _bound(X, W, W_Q, W_K, omega: float = 1, kappa: float = 1, **rest):
    """Right side of the claim; omega, kappa: multiples of these, for twins."""
    A = position_bounds.score_map(W_Q, W_K)
    places, tokens = position_bounds.parts(X, A, W_Q=W_Q, W_K=W_K, **rest)
    places, tokens = ops.constant(omega, X) * places, ops.constant(kappa, X) * tokens
    return norms.diameter(X) * position_bounds.factor(places, tokens, W)


@by_planes
def _sharp(X, W, W_Q, W_K, **_):
    return norms.diameter(X) * position_bounds.sharp_layer_factor(X, W, W_Q, W_K)


LAYER_SIZES = tuple(
    sizes(*size, W=(size[2], size[1], size[1]))
    for size in ((2, 2, 1, 1), (3, 2, 2, 1), (4, 3, 1, 3))
)
LAYER = (
    Inequality(
        left=output_diameter,
        right=_bound,
        sizes=LAYER_SIZES,
        extremal=(
            lambda: in_plane(1.0, 1.0),
            lambda: in_plane(2.0**-8, 1.0),
            lambda: in_plane(0.5, 1.0, heads=3),
            lambda: by_bias(1.0, 0.5),
        ),
    )
    .times(0.9999)
    .but("the bound of the sharp theorem, unchanged", right=_sharp)
    .but("0.999 omega in place of omega", right=partial(_bound, omega=0.999))
    .but("0.999 kappa in place of kappa", right=partial(_bound, kappa=0.999))
)


@by_planes
def _any_bound(X, A, W, **maps):
    """Right side with any matrix A for every head, in both e and kappa."""
    return norms.diameter(X) * position_bounds.layer_factor(X, A, W, **maps)


@by_planes
def _kappa_alone(X, A, W, W_Q, W_K, **rest):
    """Right side of a twin, with A in kappa but W_QK in e."""
    own = position_bounds.score_map(W_Q, W_K)
    omega, _ = position_bounds.parts(X, own, W_Q=W_Q, W_K=W_K, **rest)
    _, kappa = position_bounds.parts(X, A, W_Q=W_Q, W_K=W_K, **rest)
    return norms.diameter(X) * position_bounds.factor(omega, kappa, W)


def _without_map(instance: Instance) -> Instance:
    """Instance with A = 0, so that omega holds the whole difference of two rows."""
    return {**instance, "A": 0 * instance["W"]}


ANY_MAP = (
    Inequality(
        left=lambda A, **i: output_diameter(**i),
        right=_any_bound,
        sizes=tuple({**s, "A": s["W"]} for s in LAYER_SIZES),
        extremal=(
            lambda: {**in_plane(1.0, 1.0), "A": torch.eye(2, dtype=torch.float64)[None]},
            lambda: _without_map(by_bias(1.0, 0.5)),
        ),
    )
    .times(0.9999)
    .but(
        "the matrix in kappa alone",
        right=_kappa_alone,
        extremal=(lambda: _without_map(in_plane(1.0, 1.0)),),
    )
)


def _mixed_by(X, Z, A, W):
    """Diameter after a layer whose logits are Z (..., heads, tokens, tokens)."""
    return norms.diameter(ops.sum(ops.softmax(Z) @ X[..., None, :, :] @ W, -3))


def _bound_of(X, Z, A, W, width: float = 1):
    """Bound with e = Z - x_i A_h x_j^T, d_qk = 1; width: a multiple of omega, for a twin."""
    Y = X[..., None, :, :]
    omega = ops.constant(width, X) * position_bounds.between_rows(Z - Y @ A @ ops.transpose(Y))
    kappa = spectral_norm(A) * ops.square(norms.diameter(Y))
    return norms.diameter(X) * position_bounds.factor(omega, kappa, W)


def _given_logits(own: float) -> Instance:
    """Instance of tokens -+1/2, A = 1, own logits 1/4 + ``own`` and other logits -1/4."""
    X = torch.tensor([[-0.5], [0.5]], dtype=torch.float64)
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    return {"X": X, "Z": (X @ X.T + own * torch.eye(2))[None], "A": one, "W": one}


ANY_LOGITS = (
    Inequality(
        left=_mixed_by,
        right=_bound_of,
        sizes=tuple(
            {"X": (n, d), "Z": (H, n, n), "A": (H, d, d), "W": (H, d, d)}
            for n, d, H in ((2, 1, 1), (3, 2, 2), (4, 2, 1))
        ),
        extremal=(lambda: _given_logits(0.5), lambda: _given_logits(2.0)),
    )
    .times(0.9999)
    .but("0.999 omega in place of omega", right=partial(_bound_of, width=0.999))
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.positions-layer": {
        "one layer": LAYER,
        "any matrix": ANY_MAP,
        "any logits": ANY_LOGITS,
        "entry by entry": by_definition(
            definitions.positions, "the distance j - i in place of i - j", sign=-1
        ),
    },
}

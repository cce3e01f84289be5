"""Checks of positions in the logits: the bound of a layer, and layers on nearly equal tokens."""

from __future__ import annotations

from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import norms, position_bounds, softmax
from attnverify.mathematics.spectral import spectral_norm
from attnverify.topics.modern.checks import orbits
from attnverify.topics.modern.checks.plane import by_bias, by_planes, in_plane, mixed
from attnverify.topics.modern.definitions import positions as definitions

# ------------------------------------------------------------------------------------- one layer


def _sizes(tokens: int, width: int, heads: int, planes: int, **more: tuple[int, ...]):
    n, d, H, p = tokens, width, heads, planes
    maps = {"W_Q": (H, d, 2, p), "W_K": (H, d, 2, p), "b_Q": (H, 2, p), "b_K": (H, 2, p)}
    places = {"angles": (H, p), "bias": (H, 2 * n - 1)}
    return {"X": (n, d), **maps, **places, **more}


@by_planes
def output_diameter(X, W, **maps):
    return norms.diameter(position_bounds.layer(X, W, **maps))


@by_planes
def _bound(X, W, W_Q, W_K, omega: float = 1, kappa: float = 1, **rest):
    """The claim's right side; omega, kappa: multiples of these, for twins."""
    A = position_bounds.score_map(W_Q, W_K)
    places, tokens = position_bounds.parts(X, A, W_Q=W_Q, W_K=W_K, **rest)
    places, tokens = ops.constant(omega, X) * places, ops.constant(kappa, X) * tokens
    return norms.diameter(X) * position_bounds.factor(places, tokens, W)


@by_planes
def _sharp(X, W, W_Q, W_K, **_):
    return norms.diameter(X) * position_bounds.sharp_layer_factor(X, W, W_Q, W_K)


LAYER_SIZES = tuple(
    _sizes(*size, W=(size[2], size[1], size[1]))
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
    """The right side with any matrix A of every head, in e and kappa alike."""
    return norms.diameter(X) * position_bounds.layer_factor(X, A, W, **maps)


@by_planes
def _kappa_alone(X, A, W, W_Q, W_K, **rest):
    """The same with A in kappa, and W_QK in e: what is taken off is not put back."""
    own = position_bounds.score_map(W_Q, W_K)
    omega, _ = position_bounds.parts(X, own, W_Q=W_Q, W_K=W_K, **rest)
    _, kappa = position_bounds.parts(X, A, W_Q=W_Q, W_K=W_K, **rest)
    return norms.diameter(X) * position_bounds.factor(omega, kappa, W)


def _without_map(instance: Instance) -> Instance:
    """A = 0: all that two rows differ by is in omega."""
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
    """The diameter after a layer whose logits are Z (..., heads, tokens, tokens)."""
    return norms.diameter(ops.sum(ops.softmax(Z) @ X[..., None, :, :] @ W, -3))


def _bound_of(X, Z, A, W, width: float = 1):
    """The bound with e = Z - x_i A_h x_j^T, d_qk = 1; width: a multiple of omega, for a twin."""
    Y = X[..., None, :, :]
    omega = ops.constant(width, X) * position_bounds.between_rows(Z - Y @ A @ ops.transpose(Y))
    kappa = spectral_norm(A) * ops.square(norms.diameter(Y))
    return norms.diameter(X) * position_bounds.factor(omega, kappa, W)


def _given_logits(own: float) -> Instance:
    """Tokens -+1/2 and A = 1; a token's own logit is 1/4 + own, the other one -1/4."""
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


# ------------------------------------------------------------------------- nearly equal tokens


@by_planes
def _from_alone(X, c, **maps):
    """|diam(SA(X)) - diam(P_c X)| for one head with W = I."""
    alone = (
        ops.softmax(position_bounds.logits(position_bounds.alone(X, c), **maps))[..., 0, :, :] @ X
    )
    return abs(norms.diameter(mixed(X, **maps)) - norms.diameter(alone))


@by_planes
def _allowed(X, c, half: int = 2, **maps):
    """tanh(zeta/2) diam(X); tanh(D/4) is the total variation bound."""
    zeta = position_bounds.moved(X, c, **maps)[..., 0]
    return softmax.variation_bound(half * zeta) * norms.diameter(X)


def _around_zero(size: float) -> Instance:
    instance = in_plane(size, 0.0)
    del instance["W"]
    return {**instance, "c": torch.zeros(1, 2, dtype=torch.float64)}


NEAR = (
    Inequality(
        left=_from_alone,
        right=_allowed,
        sizes=tuple(_sizes(*s, c=(1, s[1])) for s in ((2, 2, 1, 1), (3, 2, 1, 2), (4, 3, 1, 1))),
        extremal=(lambda: _around_zero(1.0), lambda: _around_zero(2.0**-6)),
    )
    .times(0.9999)
    .but("tanh(zeta/4), enough for a single row", right=partial(_allowed, half=1))
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.positions-end-cubic": {
        "one layer": LAYER,
        "any matrix": ANY_MAP,
        "any logits": ANY_LOGITS,
        "nearly equal tokens": NEAR,
        "two tokens, layer after layer": orbits.ATTAINED,
        "not below the limit": orbits.GEOMETRIC,
        "a difference that no score sees": orbits.UNSEEN,
        "the fastest decay": orbits.FASTEST,
        "four tokens": orbits.RATE,
        "entry by entry": by_definition(
            definitions.positions, "the distance j - i in place of i - j", sign=-1
        ),
    },
}

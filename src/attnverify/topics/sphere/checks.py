"""Checks of tokens on the sphere: caps, common weights, inner products, and what fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.layer_instances import KEY_WIDTH
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, layernorm, mask_graphs, norms, sphere
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.sphere import definitions as definitions
from attnverify.topics.sphere import equilibria

arb = flint.arb

# ------------------------------------------------------------------------------ the ball, the cap


def _ahead(X, **others):
    """Instance whose tokens have a positive first feature: an open hemisphere."""
    first = torch.exp(X[..., :1].clamp(-6, 6))
    return {"X": torch.cat([first, X[..., 1:]], -1), **others}


def _first_positive(X, **_) -> list[tuple[Any, Any]]:
    return [(0 * X[..., 0], X[..., 0])]


def _radius_right(X, Z, m):
    return norms.contraction(ops.softmax(Z)) * ops.sqrt(ops.amax(layernorm.length_squared(X), -1))


def corners(tokens: int, score: float) -> Instance:
    """Corners of a simplex about 0, as rows of I - 11^T/n; equal shares."""
    eye = torch.eye(tokens, dtype=torch.float64)
    zeros = torch.zeros(tokens, dtype=torch.float64)
    return {"X": eye - 1 / tokens, "Z": score * eye, "m": zeros}


SIZES = tuple({"X": (n, d), "Z": (n, n), "m": (n,)} for n, d in ((2, 2), (4, 3), (3, 4), (6, 2)))
RADIUS = (
    Inequality(
        left=lambda X, Z, m: sphere.dual_radius(ops.softmax(Z) @ X, ops.softmax(m)),
        right=_radius_right,
        sizes=SIZES,
        extremal=(partial(corners, 2, 1.0), partial(corners, 3, 1.0), partial(corners, 5, 2.0)),
    )
    .times(0.9999)
    .but(
        "half the diameter in place of the radius",
        right=lambda X, Z, m: norms.contraction(ops.softmax(Z)) * norms.diameter(X) / 2,
    )
)


def _layer_radius(X, W_QK, b, W, m):
    scores = collapse.scores(X, W_QK, KEY_WIDTH) + b[..., None, :]
    return sphere.dual_radius(ops.softmax(scores) @ X @ W, ops.softmax(m))


def _layer_bound(X, W_QK, b, W, m, of: Callable = ops.tanh):
    """||W_V|| tanh(||W_QK|| r^2/sqrt(d_qk)) r for tokens in the ball of radius r about 0."""
    r_squared = ops.amax(layernorm.length_squared(X), -1)
    falls = of(4 * collapse.rate(W_QK, KEY_WIDTH) * r_squared)
    return spectral_norm(W) * falls * ops.sqrt(r_squared)


def apart(size: float, q: float, value: float) -> Instance:
    """Tokens +-size, W_QK = q and W_V = value."""
    one = torch.ones(1, 1, dtype=torch.float64)
    X = torch.tensor([[size], [-size]], dtype=torch.float64)
    zeros = torch.zeros(2, dtype=torch.float64)
    return {"X": X, "W_QK": q * one, "b": zeros, "W": value * one, "m": zeros}


LAYER = (
    Inequality(
        left=_layer_radius,
        right=_layer_bound,
        sizes=tuple(
            {"X": (n, d), "W_QK": (d, d), "b": (n,), "W": (d, d), "m": (n,)}
            for n, d in ((2, 1), (5, 2), (3, 4))
        ),
        extremal=(partial(apart, 1.0, 1.0, 2.0), partial(apart, 0.5, 8.0, 1.0)),
    )
    .times(0.9999)
    .but(
        "1 - exp(-a) in place of tanh(a)",
        right=partial(_layer_bound, of=lambda a: 1 - ops.exp(-a)),
    )
)


def _cap_left(X, Z, m):
    return sphere.dual_tangent(sphere.attended(X, ops.softmax(Z)), ops.softmax(m))


def _cap_right(X, Z, m):
    return norms.contraction(ops.softmax(Z)) * sphere.cap(X)


def _sine_right(X, Z, m):
    """Tangent of the radius whose sine is tau times that of the cap."""
    t_squared = ops.square(sphere.cap(X))
    sine_squared = ops.square(norms.contraction(ops.softmax(Z))) * t_squared / (1 + t_squared)
    return ops.sqrt(sine_squared / (1 - sine_squared))


def crossed(half: float, score: float, pairs: int) -> Instance:
    """Tokens (1, +-half, 0, ...), (1, 0, +-half, ...) with the score ``score`` for themselves."""
    eye = half * torch.eye(pairs, dtype=torch.float64)
    X = torch.cat([torch.ones(2 * pairs, 1, dtype=torch.float64), torch.cat([eye, -eye])], 1)
    zeros = torch.zeros(2 * pairs, dtype=torch.float64)
    return {"X": X, "Z": score * torch.eye(2 * pairs, dtype=torch.float64), "m": zeros}


CAP = (
    Inequality(
        left=_cap_left,
        right=_cap_right,
        sizes=SIZES,
        build=_ahead,
        hypotheses=_first_positive,
        extremal=(partial(crossed, 2.0, 1.0, 1), partial(crossed, 1.0, 2.0, 3)),
    )
    .times(0.9999)
    .but("the sine in place of the tangent", right=_sine_right)
)


def _window(Z) -> Any:
    n = Z.shape[-1]
    keep = np.tri(n, dtype=bool) & ~np.tri(n, k=-2, dtype=bool)
    return torch.from_numpy(keep) if ops.is_torch(Z) else keep


def _masked_after(X, Z, e):
    """Tangent of half the largest angle after layers under a causal window of two tokens."""
    P = mask_graphs.weights(Z, e[..., None, None], _window(Z))
    for layer in range(Z.shape[-3]):
        X = sphere.attended(X, P[..., layer, :, :])
    return sphere.half_largest_angle(X)


def _masked_bound(X, Z, e, less: int = 0):
    t = sphere.cap(X)
    rho, missed = 1 / ops.sqrt(1 + ops.square(t)), mask_graphs.missed(e[..., 0], Z.shape[-3] - less)
    return (1 - rho * (1 - missed)) * t


def _allowed(X, Z, e) -> list[tuple[Any, Any]]:
    return [*_first_positive(X), (0 * e, e), (2 * e, 1 + 0 * e)]


def stubborn(half: float, least: float, tokens: int) -> Instance:
    """A first token (1, half), the others (1, -half), which keep what they may."""
    X = torch.tensor([[1.0, half]] + [[1.0, -half]] * (tokens - 1), dtype=torch.float64)
    Z = 64 * torch.eye(tokens, dtype=torch.float64).repeat(tokens - 1, 1, 1)
    return {"X": X, "Z": Z, "e": torch.tensor([least], dtype=torch.float64)}


MASKED = (
    Inequality(
        left=_masked_after,
        right=_masked_bound,
        sizes=tuple(  # more layers than n - 1 count as a larger pair radius
            {"X": (n, d), "Z": (L, n, n), "e": (1,)}
            for n, d, L in ((3, 4, 2), (4, 2, 3), (2, 3, 2))
        ),
        build=lambda X, Z, e: _ahead(X, Z=Z, e=torch.sigmoid(e.clamp(-12, 12)) / 2),
        hypotheses=_allowed,
        extremal=(partial(stubborn, 2.0**-12, 0.25, 3), partial(stubborn, 2.0**-12, 0.25, 4)),
    )
    .times(0.9999)
    .but("exponent s - 1", right=partial(_masked_bound, less=1))
)

# -------------------------------------------------------------------------------------- collapse


def _deep(X, W_QK):
    """Tangent of half the largest angle after layers of softmax attention."""
    X = sphere.unit(X)
    for layer in range(W_QK.shape[-3]):
        scores = collapse.scores(X, W_QK[..., layer, :, :], KEY_WIDTH)
        X = sphere.attended(X, ops.softmax(scores))
    return sphere.half_largest_angle(X)


def _deep_bound(X, W_QK, more: int = 0):
    kappa = ops.amax(4 * collapse.rate(W_QK, KEY_WIDTH), -1)
    return sphere.collapse_bound(sphere.cap(X), kappa, W_QK.shape[-3] + more)


def mirrored(half: float, q: float, layers: int) -> Instance:
    """Tokens (1, +-half) and W_QK = q I in every layer."""
    X = torch.tensor([[1.0, half], [1.0, -half]], dtype=torch.float64)
    return {"X": X, "W_QK": q * torch.eye(2, dtype=torch.float64).repeat(layers, 1, 1)}


DEPTH = (
    Inequality(
        left=_deep,
        right=_deep_bound,
        sizes=tuple(
            {"X": (n, d), "W_QK": (L, d, d)} for n, d, L in ((2, 2, 1), (4, 3, 2), (3, 4, 3))
        ),
        build=_ahead,
        hypotheses=_first_positive,
        extremal=(partial(mirrored, 4.0, 4.0, 3), partial(mirrored, 0.5, 2.0, 1)),
    )
    .times(0.9999)
    .but("a layer more", right=partial(_deep_bound, more=1))
)


# ------------------------------------------------------------------------------- inner products


def _acute(X, **others):
    """Instance with positive features, so that no inner product is negative."""
    return {"X": torch.exp(X.clamp(-6, 6)), **others}


def _no_negative(X, **_) -> list[tuple[Any, Any]]:
    products = X @ ops.transpose(X)
    return [(0 * products, products)]


def _overlaps(X, Z, times: int = 1):
    """Bounds m + (1 - m) sum_j P_ij P_kj for all pairs of tokens."""
    m, P = sphere.least_product(X)[..., None, None], ops.softmax(Z)
    return m + times * (1 - m) * (P @ ops.transpose(P))


def _products(X, Z):
    new = sphere.attended(X, ops.softmax(Z))
    return new @ ops.transpose(new)


ACUTE = tuple({"X": (n, d), "Z": (n, n)} for n, d in ((2, 3), (4, 2), (3, 4)))
PAIRS = (
    Inequality(
        left=_overlaps,
        right=_products,
        sizes=ACUTE,
        build=_acute,
        hypotheses=_no_negative,
        extremal=tuple(
            lambda k=k: {
                "X": torch.eye(2, 3, dtype=torch.float64),
                "Z": 2.0**k * torch.eye(2, dtype=torch.float64),
            }
            for k in (2, 5)
        ),
    )
    .times(0.9999)
    .but("the overlap counted twice", left=partial(_overlaps, times=2))
)


def _angle_after(X, Z):
    return sphere.half_largest_angle(ops.softmax(Z) @ sphere.unit(X))


def _angle_bound(X, Z, spread: int = 1):
    """tau tan/sqrt(1 - (1 - 2/n) tan^2) at half the largest angle."""
    n, t = X.shape[-2], sphere.half_largest_angle(X)
    least = 1 - spread * (n - 2) * ops.square(t) / n
    return norms.contraction(ops.softmax(Z)) * t / ops.sqrt(least)


def exchanged(tokens: int, side: float, tau: float) -> Instance:
    """Tokens (1, side e_a); two rows lean to tokens 1 and 2, the others have equal weights."""
    first = torch.ones(tokens, 1, dtype=torch.float64)
    X = torch.cat([first, side * torch.eye(tokens, dtype=torch.float64)], 1)
    P = torch.full((tokens, tokens), 1 / tokens, dtype=torch.float64)
    lean = torch.tensor([tau / 2, -tau / 2], dtype=torch.float64)
    P[0, :2] += lean
    P[1, :2] -= lean
    return {"X": X, "Z": torch.log(P)}


ANGLE = (
    Inequality(
        left=_angle_after,
        right=_angle_bound,
        sizes=ACUTE,
        build=_acute,
        hypotheses=_no_negative,
        extremal=(partial(exchanged, 4, 4.0, 0.25), partial(exchanged, 3, 1.0, 0.5)),
    )
    .times(0.9999)
    .but("tau tan without the root", right=partial(_angle_bound, spread=0))
)


def spectator(half: float, score: float) -> Instance:
    """Tokens (1, +-half) and a copy of the first, to which nobody attends."""
    X = torch.tensor([[1.0, half], [1.0, -half], [1.0, half]], dtype=torch.float64)
    Z = torch.tensor([[score, 0, -64], [0, score, -64], [score, 0, -64]], dtype=torch.float64)
    return {"X": X, "Z": Z}


_HALF = partial(
    Inequality,
    left=_angle_after,
    right=partial(_angle_bound, spread=0),
    build=_ahead,
    hypotheses=_first_positive,
)
PLANE = _HALF(
    sizes=({"X": (2, 3), "Z": (2, 2)}, {"X": (2, 2), "Z": (2, 2)}),
    extremal=(lambda: {k: v for k, v in crossed(4.0, 1.0, 1).items() if k != "m"},),
).times(0.9999)
HALF_PLANE = _HALF(
    sizes=({"X": (3, 2), "Z": (3, 3)}, {"X": (5, 2), "Z": (5, 5)}),
    extremal=(partial(spectator, 4.0, 1.0), partial(spectator, 0.5, 2.0)),
).times(0.9999)

# ------------------------------------------------------------------------------------ hemisphere


def _fall(tokens: int, height: float, score: int, acute: bool = False) -> tuple[arb, arb, arb]:
    """Least inner products of the simplex tokens before and after one softmax layer, the limit."""
    like = ops.balls(torch.zeros(1))
    rho = arb(1) / tokens * (arb(2) if acute else arb(height))
    X = sphere.simplex(tokens, rho, like)
    first = X[0, 1:]  # W_QK = score f f^T with the direction f of token 1
    along = X[:, 1:] @ first
    new = sphere.attended(X, ops.softmax(score * along[:, None] * along[None, :]))
    before, others = sphere.least_product(X), rho + (1 - rho) / (tokens - 1) ** 2
    return before, sphere.least_product(new), before / others.sqrt()


# score sigma^4 n/(n-1)^2 >= 80: weights within e^-80 < 2^-115 of the limit's, products within 2^-90
CASES = ((3, 0.5, 160), (4, 0.5, 320), (8, 2.0**-6, 4000), (24, 2.0**-12, 100_000))


def _falls(acute: bool = False) -> Verdict:
    """Whether the least inner product, negative at first, falls in all cases."""
    with ops.precision(512):
        found = [_fall(*case, acute) for case in CASES]
    before, after, _ = found[-1]
    fell = all(b < 0 and a < b and abs(a - to) < arb(2) ** -60 for b, a, to in found)
    words = f"n = {CASES[-1][0]}: from {before.str(4)} to {after.str(4)}"
    fell, rose = fell and after < -0.99, any(a >= b for b, a, _ in found)
    return Verdict(certain(fell, rose), words, len(found))


FALL = Decision(_falls, "four numbers of tokens", "certified", 4).but(
    "inner products that are not negative (rho^2 = 2/n)", run=partial(_falls, acute=True)
)

CHECKS: dict[str, dict[str, Check]] = {
    "sphere.radius": {"ball": RADIUS, "layer": LAYER},
    "sphere.cap": {
        "cap": CAP,
        "mask": MASKED,
        "entry by entry": by_definition(definitions.sizes, "no square", power=1),
    },
    "sphere.collapse": {"over depth": DEPTH, "no hemisphere": equilibria.CROSS},
    "sphere.monotone": {
        "pairs": PAIRS,
        "largest angle": ANGLE,
        "two tokens": PLANE,
        "in the plane": HALF_PLANE,
    },
    "sphere.hemisphere": {"simplex": FALL},
    "sphere.equilibria": {
        "every rank": equilibria.GROUPS,
        "unstable": equilibria.TILT,
        "eigenvalues": equilibria.SPECTRUM,
        "stable": equilibria.STABLE,
    },
}

"""Checks of smoothing: a layer with a skip connection, post-normalization, fused layers."""

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
from attnverify.checking.check import Check, Decision, Identity, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, norms, smoothing, sphere
from attnverify.mathematics.softmax import variation_bound
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.smoothing import definitions as definitions

# ------------------------------------------------------------------------------------- one layer


def _left(X, Z, W, size: Callable = smoothing.distance, of: Callable = smoothing.layer):
    return size(smoothing.normalized(of(X, ops.softmax(Z), W)))


def _right(
    X,
    Z,
    W,
    size: Callable = smoothing.distance,
    mixing: Callable = smoothing.mixing,
    of: Callable = smoothing.layer,
):
    P = ops.softmax(Z)
    return smoothing.factor(mixing(P), W) / smoothing.scale(of(X, P, W)) * size(X)


def _deviations(X, P, W):
    """Output tokens less the means of their features, as layer normalization takes them."""
    return ops.transpose(norms.mean_centered(ops.transpose(smoothing.layer(X, P, W))))


def mirrored(score: float, value: float) -> Instance:
    """Tokens (2, 1) and (2, -1), each with the score ``score`` for itself, and W = value I."""
    X = torch.tensor([[2.0, 1.0], [2.0, -1.0]], dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64)
    return {"X": X, "Z": (score * eye)[None], "W": (value * eye)[None]}


def leveled(score: float, value: float) -> Instance:
    """Tokens as in ``mirrored`` whose features have the mean 0."""
    X = torch.tensor([[2.0, 2.0, -4.0], [2.0, -4.0, 2.0]], dtype=torch.float64)
    return {**mirrored(score, value), "X": X, "W": value * torch.eye(3, dtype=torch.float64)[None]}


def two_groups(value: float) -> Instance:
    """Half of the tokens copy the first one, half the second: s(P) is larger than 1."""
    Z = torch.zeros(1, 4, 4, dtype=torch.float64)
    Z[0, :2, 0], Z[0, 2:, 1] = 64, 64
    X = torch.tensor([[1.0, 2.0**12], [-1.0, 2.0**12], [0.0, 2.0**12], [0.0, 2.0**12]])
    return {"X": X.double(), "Z": Z, "W": value * torch.eye(2, dtype=torch.float64)[None]}


SHAPES = tuple(
    {"X": (n, d), "Z": (H, n, n), "W": (H, d, d)} for n, d, H in ((2, 2, 1), (4, 3, 2), (3, 5, 1))
)
DISTANCE = (
    Inequality(
        left=_left,
        right=_right,
        sizes=SHAPES,
        extremal=(partial(mirrored, 1.0, 1.0), partial(mirrored, 0.25, 3.0)),
    )
    .times(0.9999)
    .but(
        "tau(P) in place of s(P)",
        right=partial(_right, mixing=norms.contraction),
        extremal=(partial(two_groups, 8.0),),
    )
)
DIAMETER = Inequality(
    left=partial(_left, size=norms.diameter),
    right=partial(_right, size=norms.diameter, mixing=norms.contraction),
    sizes=SHAPES,
    extremal=(partial(mirrored, 1.0, 1.0), partial(mirrored, 0.25, 3.0)),
).times(0.9999)
LAYER_NORM = Inequality(
    left=partial(_left, size=norms.diameter, of=_deviations),
    right=partial(_right, size=norms.diameter, mixing=norms.contraction, of=_deviations),
    sizes=SHAPES[1:],
    extremal=(partial(leveled, 1.0, 1.0), partial(leveled, 0.25, 3.0)),
).times(0.9999)


def _mixing_bound(Z):
    return smoothing.largest_mixing(Z.shape[-1], Z) * norms.contraction(ops.softmax(Z))


def _smaller_half_twice(Z):
    half = Z.shape[-1] // 2
    return _mixing_bound(Z) * ops.sqrt(ops.full((), half, Z) / (Z.shape[-1] - half))


def in_parts(tokens: int) -> Instance:
    """Half of the tokens copy the first one, the others the second."""
    Z = torch.zeros(tokens, tokens, dtype=torch.float64)
    Z[: tokens // 2, 0], Z[tokens // 2 :, 1] = 64, 64
    return {"Z": Z}


MIXING = (
    Inequality(
        left=lambda Z: smoothing.mixing(ops.softmax(Z)),
        right=_mixing_bound,
        sizes=({"Z": (2, 2)}, {"Z": (3, 3)}, {"Z": (6, 6)}),
        extremal=(partial(in_parts, 2), partial(in_parts, 3), partial(in_parts, 6)),
    )
    .times(0.9999)
    .but("the smaller half twice in the root", right=_smaller_half_twice)
)

# -------------------------------------------------------------------------------------- post-norm


def _near(X, w, **others):
    """Instance with w > 0 and tokens of length about 1, at distances below sqrt(2)."""
    middle = torch.zeros_like(X)
    middle[..., 0] = 1
    size = X.square().sum(-1, keepdim=True).sqrt().clamp_min(1e-300)
    return {"X": middle + 0.4 * X / (1 + size), "w": torch.exp(w.clamp(-3, 3)), **others}


def _close(X, w, **_) -> list[tuple[Any, Any]]:
    delta = norms.diameter(sphere.unit(X))
    return [(ops.square(delta), 2 + 0 * delta), (0 * w, w)]


def _attended(X, Z, w):
    """Tokens of length 1 after a layer with values w I, and normalization."""
    tokens = sphere.unit(X)
    return sphere.unit(tokens + w[..., None] * (ops.softmax(Z) @ tokens))


def _post_bound(X, Z, w, twice: int = 2):
    w, tau, delta = w[..., 0], norms.contraction(ops.softmax(Z)), norms.diameter(sphere.unit(X))
    least = (1 + w) * (1 + w) - w * (2 + w) * delta * delta / twice
    return (1 + w * tau) / ops.sqrt(least) * delta


def opposite(half: float, score: float, w: float) -> Instance:
    """Tokens along (1, +-half), each with the score ``score`` for itself."""
    X = torch.tensor([[1.0, half], [1.0, -half]], dtype=torch.float64)
    Z = score * torch.eye(2, dtype=torch.float64)
    return {"X": X, "Z": Z, "w": torch.tensor([w], dtype=torch.float64)}


def simplex(tokens: int, apart: float, w: float) -> Instance:
    """Two tokens apart, seen by one of the others, which are apart too, in many directions."""
    X = torch.zeros(tokens, tokens + 1, dtype=torch.float64)
    X[:, 0] = 1
    X[:, 1:] = apart * torch.eye(tokens, dtype=torch.float64)
    Z = torch.zeros(tokens, tokens, dtype=torch.float64)
    return {"X": X, "Z": Z, "w": torch.tensor([w], dtype=torch.float64)}


POST = (
    Inequality(
        left=lambda X, Z, w: norms.diameter(_attended(X, Z, w)),
        right=_post_bound,
        sizes=tuple({"X": (n, d), "Z": (n, n), "w": (1,)} for n, d in ((2, 2), (4, 3), (3, 5))),
        build=_near,
        hypotheses=_close,
        extremal=(partial(opposite, 2.0**-12, 0.0, 1.0), partial(opposite, 2.0**-12, 1.0, 4.0)),
    )
    .times(0.9999)
    .but(
        "1 + w without the loss of length",
        right=partial(_post_bound, twice=2**40),
        extremal=(partial(simplex, 12, 0.5, 1.0),),
    )
)


def _post_below(X, Z, w, sign: int = -1):
    """Bound from below on the squared diameter; negative where w tau > 1."""
    w, tau, delta = w[..., 0], norms.contraction(ops.softmax(Z)), norms.diameter(sphere.unit(X))
    less = w * (2 + w) * delta / (2 * (1 + w))
    kept = (1 + sign * w * tau) * abs(1 + sign * w * tau) - less * less
    return ops.square(delta / (1 + w)) * kept


BELOW = (
    Inequality(
        left=_post_below,
        right=lambda X, Z, w: ops.square(norms.diameter(_attended(X, Z, w))),
        sizes=POST.sizes,
        build=_near,
        hypotheses=_close,
        extremal=(partial(opposite, 2.0**-12, 0.0, 1.0), partial(opposite, 2.0**-12, -64.0, 0.5)),
    )
    .times(0.9999)
    .but("1 + w tau in place of 1 - w tau", left=partial(_post_below, sign=1))
)


def _tangent(X):
    """Tangent of half the angle of two tokens (c, s) and (c, -s)."""
    return X[..., 0, 1] / X[..., 0, 0]


def _angle_after(t, z, w):
    X = ops.stack([ops.join([1 + 0 * t, side * t], -1) for side in (1, -1)], -2)
    Z = ops.stack([ops.join([z, 0 * z], -1), ops.join([0 * z, z], -1)], -2)
    return abs(_tangent(X + w[..., None] * (ops.softmax(Z) @ X)))


def _angle(t, z, w, twice: int = 2):
    share = 1 / (1 + ops.exp(-z))
    return abs((1 + w * (twice * share - 1)) / (1 + w) * t)[..., 0]


def _angle_bound(t, z, w):
    """Rounding bound: a share is off by few units and (|z| + 1) u, the rest takes 16 roundings.

    The denominator is 1 + w with w >= 0, and all terms of the numerator are at most (1 + w) |t|.
    """
    return (32 + 4 * abs(z[..., 0])) * 2.0**-52 * abs(t[..., 0])


ANGLE = Identity(
    left=_angle_after,
    right=_angle,
    bound=_angle_bound,
    sizes=({"t": (1,), "z": (1,), "w": (1,)},),
    build=lambda t, z, w: {"t": t, "z": z, "w": ops.square(w)},
    arithmetic="ball",
).but("the tangent falls by 1 + w alone", right=lambda t, z, w: abs(t / (1 + w))[..., 0])


def _post_depth(X, W_QK, w, layers: int = 3):
    """Output diameter of layers of softmax attention with this query-key map."""
    for _ in range(layers):
        X = _attended(X, collapse.scores(sphere.unit(X), W_QK, KEY_WIDTH), w)
    return norms.diameter(X)


def _post_rate(X, W_QK, w, layers: int = 3, growth: float = 1.0):
    """Bound on it, layer by layer, by the diameter alone."""
    delta, rate, w = norms.diameter(sphere.unit(X)), collapse.rate(W_QK, KEY_WIDTH), w[..., 0]
    for _ in range(layers):
        T = variation_bound(4 * ops.constant(growth, X) * rate * delta * delta)
        least = (1 + w) * (1 + w) - w * (2 + w) * delta * delta / 2
        delta = (1 + w * T) / ops.sqrt(least) * delta
    return delta


def _falls(X, W_QK, w):
    """Instance of _near with a W_QK whose rate is at most 1/4."""
    size: Any = spectral_norm(W_QK)
    return _near(X, w, W_QK=W_QK / size.clamp_min(1.0)[..., None, None])


def _below_one(X, W_QK, w) -> list[tuple[Any, Any]]:
    first = _post_rate(X, W_QK, w, 1)
    return [*_close(X, w), (first, norms.diameter(sphere.unit(X)))]


POST_DEPTH = Inequality(
    left=_post_depth,
    right=_post_rate,
    sizes=tuple({"X": (n, d), "W_QK": (d, d), "w": (1,)} for n, d in ((2, 2), (4, 3))),
    build=_falls,
    hypotheses=_below_one,
    extremal=(
        lambda: {
            "X": torch.tensor([[1.0, 2.0**-9], [1.0, -(2.0**-9)]], dtype=torch.float64),
            "W_QK": torch.tensor([[0.0, 0.0], [0.0, 2.0**16]], dtype=torch.float64),
            "w": torch.ones(1, dtype=torch.float64),
        },
    ),
).times(0.9999)

# ----------------------------------------------------------------------------------------- fusion


def _sizes_of(X, size: Callable):
    return ops.stack([size(X[..., layer, :, :]) for layer in range(X.shape[-3])], -1)


def _kept(X, a, size: Callable = norms.diameter):
    return smoothing.kept(_sizes_of(X, size), ops.softmax(a))


def _of_fused(X, a, size: Callable = norms.diameter):
    return size(smoothing.fused(X, ops.softmax(a)))


def against(sizes: tuple[float, ...]) -> Instance:
    """Outputs +-1 of two tokens times these numbers, with equal weights."""
    X = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    layers = torch.tensor(sizes, dtype=torch.float64)[:, None, None] * X
    return {"X": layers, "a": torch.zeros(len(sizes), dtype=torch.float64)}


def _fusion(size: Callable) -> Inequality:
    return Inequality(
        left=partial(_kept, size=size),
        right=partial(_of_fused, size=size),
        sizes=({"X": (2, 2, 1), "a": (2,)}, {"X": (4, 3, 2), "a": (4,)}),
        extremal=(partial(against, (1.0, -0.5, -0.25)), partial(against, (2.0, -1.0))),
    ).times(0.9999)


FUSED_DIAMETER = _fusion(norms.diameter).but(
    "the distance of the last layer", left=lambda X, a: norms.diameter(X[..., -1, :, :])
)
FUSED_DISTANCE = _fusion(smoothing.distance)


def _outputs(X, Z, W):
    """Input and outputs of all layers of attention alone, one head, Z (..., layers, n, n)."""
    found = [X]
    for layer in range(Z.shape[-3]):
        found.append(ops.softmax(Z[..., layer, :, :]) @ found[-1] @ W[..., layer, :, :])
    return ops.stack(found, -3)


def _rates(Z, W):
    return norms.contraction(ops.softmax(Z)) * spectral_norm(W)


def _shares(first, a):
    """Weights of the input and of the layers."""
    return ops.softmax(ops.join([first, a], -1))


def _network_fused(X, Z, W, first, a):
    return norms.diameter(smoothing.fused(_outputs(X, Z, W), _shares(first, a)))


def _network_kept(X, Z, W, first, a, more: int = 0):
    """(alpha_0 - sum alpha_l v^l) diam(X), with v the largest rate of a layer."""
    v, shares = ops.amax(_rates(Z, W), -1), _shares(first, a)
    kept = shares[..., 0] * norms.diameter(X)
    size = norms.diameter(X) * (v if more else 1)
    for layer in range(1, shares.shape[-1]):
        size = size * v
        kept = kept - shares[..., layer] * size
    return kept


def alternating(layers: int, value: float) -> Instance:
    """Two tokens that keep the weight 3/4 or so, with W_V = -value I and then value I."""
    X = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    Z = torch.eye(2, dtype=torch.float64).repeat(layers, 1, 1)
    W = torch.full((layers, 1, 1), value, dtype=torch.float64)
    W[0] = -value
    zeros = torch.zeros(layers, dtype=torch.float64)
    return {"X": X, "Z": Z, "W": W, "first": zeros[:1], "a": zeros}


FUSED_NETWORK = (
    Inequality(
        left=_network_kept,
        right=_network_fused,
        sizes=tuple(
            {"X": (n, d), "Z": (L, n, n), "W": (L, d, d), "first": (1,), "a": (L,)}
            for n, d, L in ((2, 3, 2), (4, 2, 3), (3, 1, 1))
        ),
        extremal=(partial(alternating, 2, 1.0), partial(alternating, 4, 0.5)),
    )
    .times(0.9999)
    .but("v^(l + 1) in place of v^l", left=partial(_network_kept, more=1))
)


def _harm(fused: float = 0.0) -> Verdict:
    """Whether two tokens cancel in a fusion while the last layer keeps half of their distance."""
    with ops.precision(256):
        X = ops.balls(torch.tensor([[1.0], [-1.0]]))
        Z = ops.balls(torch.eye(2).repeat(1, 1, 1))
        value = -1 / (2 * (flint.arb(1) / 2).tanh())  # softmax takes the tokens times tanh(1/2)
        outputs = _outputs(X, Z, np.full((1, 1, 1), value, dtype=object))
        shares = np.array([flint.arb(1) / 3, flint.arb(2) / 3], dtype=object)
        whole, last = norms.diameter(smoothing.fused(outputs, shares)), norms.diameter(outputs[-1])
    off = abs(whole - fused) + abs(last - 1)
    words = f"fused {whole.str(3)}, last layer {last.str(5)}, input 2"
    return Verdict(certain(off < flint.arb(2) ** -60, off > flint.arb(2) ** -60), words, 1)


HARM = Decision(_harm, "this network", "certified").but(
    "the fusion keeps half of the last layer", run=partial(_harm, fused=0.5)
)

CHECKS: dict[str, dict[str, Check]] = {
    "smoothing.contraction": {
        "distance": DISTANCE,
        "diameter": DIAMETER,
        "layer normalization": LAYER_NORM,
        "s against tau": MIXING,
        "entry by entry": by_definition(definitions.sizes, "n - 1 tokens", less=1),
    },
    "smoothing.post-norm": {
        "diameter": POST,
        "from below": BELOW,
        "two tokens": ANGLE,
        "over depth": POST_DEPTH,
    },
    "smoothing.fusion": {
        "diameter": FUSED_DIAMETER,
        "distance": FUSED_DISTANCE,
        "network": FUSED_NETWORK,
        "harm": HARM,
    },
}

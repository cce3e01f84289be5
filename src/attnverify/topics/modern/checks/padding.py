"""Checks of padding: equal attention, equal layers, the bound of the real tokens, finite masks."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import flint
import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.arithmetic.rounding import gamma, softmax_error
from attnverify.chapters.layer_instances import KEY_WIDTH, extremal_network
from attnverify.checking.check import Check, Decision, Identity, Inequality, Instance, Twin
from attnverify.mathematics import attention, collapse, norms
from attnverify.mathematics.masks import without_padding
from attnverify.mathematics.softmax import oscillation
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict

arb = flint.arb
NONE = arb(2) ** -100  # bound on the radius of a difference of balls of 256 bits that is 0


def _seen(like: Any, padding: int, keep: Any) -> Any:
    """Mask ``keep`` (tokens, tokens) without the first ``padding`` keys."""
    real = np.arange(keep.shape[-1]) >= padding
    return without_padding(
        keep, torch.from_numpy(real).to(like.device) if ops.is_torch(like) else real
    )


def _all(tokens: int, like: Any) -> Any:
    """Mask in which every query sees every key."""
    causal = ops.causal(tokens, like)
    return causal | ops.transpose(causal)


# ---------------------------------------------------------------------------- one attention matrix


def _padded(X, Z, masked: bool = True, window: int | None = None, **weights):
    """Attention rows of the real tokens X among [Z; X], with all columns."""
    both, k = ops.join([Z, X], -2), Z.shape[-2]
    n = both.shape[-2]
    keep = _all(n, X) if window is None else ops.causal(n, X, window)
    keep = _seen(X, k, keep) if masked else keep
    return ops.softmax(attention.logits(both, **weights), keep)[..., k:, :]


def _alone(X, Z, window: int | None = None, **weights):
    """Attention of X alone, beside columns of zeros for the padding."""
    n = X.shape[-2]
    keep = None if window is None else ops.causal(n, X, window)
    P = ops.softmax(attention.logits(X, **weights), keep)
    return ops.join([ops.full((*P.shape[:-1], Z.shape[-2]), 0, X), P], -1)


def _bound(X, Z, window: int | None = None, **weights):
    """Rounding bound, as for attention.qk-reduction: at most m roundings in a chain.

    m: inner products of length width (twice) and key_width, two biases, a root and a division. The
    two sides may add in another order, so each is off by gamma_m of the sums of absolute values.
    """
    m = 2 * X.shape[-1] + weights["W_Q"].shape[-1] + 6
    size = attention.logits(*map(abs, (X, *weights.values())))
    P = _alone(X, Z, window, **weights)
    return softmax_error(P, gamma(m, X) * size.amax(-1), size.amax(-1))


NAMES = ("W_Q", "b_Q", "W_K", "b_K")


def _sizes(n: int, k: int, d: int, heads: int) -> dict[str, tuple[int, ...]]:
    maps = {"W_Q": (heads, d, 3), "b_Q": (heads, 3), "W_K": (heads, d, 3), "b_K": (heads, 3)}
    return {"X": (n, d), "Z": (k, d), **maps}


def _matrix(window: int | None, masked: bool = True) -> Identity:
    twins = (Twin("padding that is seen", _matrix(window, False)),) if masked else ()
    return Identity(
        left=partial(_padded, masked=masked, window=window),
        right=partial(_alone, window=window),
        bound=partial(_bound, window=window),
        sizes=(_sizes(1, 1, 1, 1), _sizes(3, 2, 4, 2), _sizes(5, 4, 2, 3)),
        shared=NAMES,
        arithmetic="ball",
        twins=twins,
    )


# ------------------------------------------------------------------------------------- all layers


def _network(X, maps: list, keep: Any, subtract: Any = 0):
    """Output of layers of two heads with skip connections, and tanh of each token after a layer.

    subtract: what is taken from the logits before the softmax over ``keep``.
    """
    for Q, b, W in maps:
        P = ops.softmax(_scores(X, Q, b) - subtract, keep)
        X = X + ops.sum(P @ X[None] @ W, 0)
        X = X + ops.tanh(X @ W[0])
    return X


def _scores(X, Q, b):
    return (X[None] @ Q + b[:, None]) @ ops.transpose(X) / ops.root(KEY_WIDTH, X)


def _agrees(drop: str = "") -> Verdict:
    """Whether real tokens among padding and alone agree after three layers.

    Padding is on the left, on the right and between.

    The masks: none, causal, a window of 2; between real tokens they are those of the tokens alone,
    so with a window the padding is left or right of all. drop: "mask", no mask of padding; "30",
    30 is subtracted from its logits in place of the mask; "right", no mask of padding on the right.
    """
    random, worst, cases = np.random.default_rng(5), arb(0), 0
    draw = lambda *shape: ops.balls(random.integers(-8, 9, shape) / 16)  # noqa: E731
    maps = [(draw(2, 2, 2), draw(2, 2), draw(2, 2, 2)) for _ in range(3)]
    places = {"left": [2, 3, 4, 5], "right": [0, 1, 2, 3], "between": [0, 2, 3, 5]}
    for window, (side, rows) in itertools.product((None, 6, 2), places.items()):
        if (window == 2 and side == "between") or (drop == "right") > (side == "right"):
            continue
        X, own, cases = draw(6, 2), np.zeros(6, dtype=bool), cases + 1
        own[rows] = True
        with ops.precision(256):
            free = [_all(n, X) if window is None else ops.causal(n, X, window) for n in (6, 4)]
            keep = free[0] if drop else without_padding(free[0], own)
            less = ops.balls(30.0 * ~own) if drop == "30" else arb(0)
            off = _network(X, maps, keep, less)[rows] - _network(X[rows], maps, free[1])
            worst = worst.max(norms.max_row_sum(off))
    near = certain(worst < NONE, worst > NONE)
    return Verdict(near, f"off by at most {worst.str(3)}", cases)


LAYERS = (
    Decision(
        _agrees, "these networks; any network is derived in the notebook", "certified", 3 + 3 + 2
    )
    .but("padding that is seen", run=partial(_agrees, "mask"))
    .but("30 subtracted in place of the mask", run=partial(_agrees, "30"))
    .but("padding on the right unmasked, whatever the mask", run=partial(_agrees, "right"))
)


def _right_alone() -> Verdict:
    """Whether real tokens on the left need no mask of padding, under causal masks and windows."""
    random, worst = np.random.default_rng(6), arb(0)
    draw = lambda *shape: ops.balls(random.integers(-8, 9, shape) / 16)  # noqa: E731
    maps = [(draw(2, 2, 2), draw(2, 2), draw(2, 2, 2)) for _ in range(3)]
    for window in (6, 3, 2):
        X = draw(6, 2)
        keep = [ops.causal(n, X, window) for n in (6, 4)]
        with ops.precision(256):
            off = _network(X, maps, keep[0])[:4] - _network(X[:4], maps, keep[1])
            worst = worst.max(norms.max_row_sum(off))
    near = certain(worst < NONE, worst > NONE)
    return Verdict(near, f"off by at most {worst.str(3)}", 3)


# ------------------------------------------------------------------------------------- bounds


def _real_diameter(X, Z, W_QK, b_QK, W, masked: bool = True):
    """Diameter of the real tokens after one layer of [Z; X]."""
    both, k = ops.join([Z, X], -2), Z.shape[-2]
    Y = both[..., None, :, :]
    scores = (Y @ W_QK + b_QK[..., None, :]) @ ops.transpose(Y) / ops.root(KEY_WIDTH, X)
    keep = _all(both.shape[-2], X)
    P = ops.softmax(scores, _seen(X, k, keep) if masked else keep)
    return norms.diameter(ops.sum(P @ Y @ W, -3)[..., k:, :])


def _real_bound(X, Z, W_QK, b_QK, W):
    """Sharp bound of one layer with the diameter of the real tokens."""
    size = norms.diameter(X)
    return size * collapse.sharp_factor(size, collapse.rate(W_QK, KEY_WIDTH), spectral_norm(W))


def _far_padding(size: float) -> Instance:
    """Instance of two real tokens at equality in the sharp bound, with padding far away."""
    one = {k: v if k == "X" else v[0] for k, v in extremal_network(size, 1, 1.0).items()}
    return {**one, "Z": torch.tensor([[8.0, 1.0]], dtype=torch.float64)}


BOUND = (
    Inequality(
        left=_real_diameter,
        right=_real_bound,
        sizes=tuple(
            {"X": (n, d), "Z": (k, d), "W_QK": (H, d, d), "b_QK": (H, d), "W": (H, d, d)}
            for n, k, d, H in ((2, 1, 2, 1), (2, 3, 1, 2), (4, 2, 3, 2))
        ),
        extremal=(lambda: _far_padding(1.0), lambda: _far_padding(2.0)),
    )
    .times(0.999)
    .but("padding that is seen", left=partial(_real_diameter, masked=False))
)


def _weight_of_padding(real, pad, c):
    """Weight that a row gives to padding whose logits are lowered by c."""
    P = ops.softmax(ops.join([real, pad - c], -1))
    return ops.sum(P[..., real.shape[-1] :], -1)


def _weight_bound(real, pad, c, share: float = 1.0):
    """Bound k/(k + s e^(c - D)) on that weight."""
    D = ops.constant(share, c) * oscillation(ops.join([real, pad], -1))
    k, s = pad.shape[-1], real.shape[-1]
    return k / (k + s * ops.exp(c[..., 0] - D))


def _flat(s: int, k: int, D: float, c: float) -> Instance:
    """Instance of real logits 0 and padding logits D, lowered by c."""
    one = partial(torch.ones, dtype=torch.float64)
    return {"real": 0 * one(s), "pad": D * one(k), "c": c * one(1)}


WEIGHT = (
    Inequality(
        left=_weight_of_padding,
        right=_weight_bound,
        sizes=tuple({"real": (s,), "pad": (k,), "c": (1,)} for s, k in ((1, 1), (3, 2), (2, 5))),
        extremal=(
            lambda: _flat(2, 3, 1.0, 2.25),
            lambda: _flat(1, 1, 0.0, 9.0),
            lambda: _flat(3, 2, 0.5, -1.0),
        ),
    )
    .times(0.999)
    .but("99 % of the oscillation", right=partial(_weight_bound, share=0.99))
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.padding": {
        "attention": _matrix(None),
        "attention, causal": _matrix(64),
        "all layers": LAYERS,
        "on the right": Decision(_right_alone, "these networks", "certified", 3),
        "bound of the real tokens": BOUND,
        "finite mask": WEIGHT,
    },
}

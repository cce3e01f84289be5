"""Checks of masks as graphs: contraction of several layers, least weights, exact rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma
from attnverify.chapters.layer_instances import INSIDE, KEY_WIDTH, unit_value_map
from attnverify.checking.check import Check, Identity, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, mask_graphs, norms
from attnverify.mathematics.softmax import oscillation
from attnverify.mathematics.spectral import spectral_norm
from attnverify.topics.masks import definitions as definitions

# ------------------------------------------------------------------ contraction of several layers


def window(size: int) -> Callable:
    """Mask of a causal window, a function of the number of tokens."""
    return lambda n: np.tri(n, dtype=bool) & ~np.tri(n, k=-size, dtype=bool)


def line(n: int) -> np.ndarray:
    """Mask in which a token sees itself and its neighbors on either side."""
    far = np.subtract.outer(np.arange(n), np.arange(n))
    return abs(far) <= 1


def tree(n: int) -> np.ndarray:
    """Mask in which token i sees itself and token i/2, rounded down (counted from 1)."""
    keep = np.eye(n, dtype=bool)
    keep[np.arange(1, n), (np.arange(1, n) + 1) // 2 - 1] = True
    return keep


def circle(n: int) -> np.ndarray:
    """Mask in which a token sees itself and its neighbors on either side of a ring."""
    far = abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return np.minimum(far, n - far) <= 1


def halves(n: int) -> np.ndarray:
    """Mask of two parts that do not see one another: no center."""
    part = np.arange(n) < n // 2
    return part[:, None] == part


def _mask(keep: Callable, Z: Any) -> Any:
    """The mask for the tokens of scores Z, as a tensor for tensors."""
    mask = keep(Z.shape[-1])
    return torch.from_numpy(mask) if ops.is_torch(Z) else mask


@dataclass(frozen=True)
class Graph:
    """Contraction of layers whose allowed weights are at least epsilon, under the mask keep."""

    keep: Callable

    def attention(self, Z, e):
        """Attention matrices (..., layers, n, n)."""
        return mask_graphs.weights(Z, e[..., None, None], _mask(self.keep, Z))

    def left(self, Z, e):
        return norms.contraction(mask_graphs.product(self.attention(Z, e)))

    def missed(self, Z, e, less: int = 0):
        radius = mask_graphs.pair_radius(self.keep(Z.shape[-1]))
        return mask_graphs.missed(e[..., 0], radius - less)

    def unreached(self, Z, e):
        radius = mask_graphs.center(self.keep(Z.shape[-1]))[1]
        return mask_graphs.unreached(e[..., 0], radius, Z.shape[-3])

    def build(self, Z, e):
        """Instance with 0 < epsilon < 1 over the number of keys."""
        return {"Z": Z, "e": torch.sigmoid(e.clamp(-12, 12)) * INSIDE / self.keys(Z)}

    def allowed(self, Z, e) -> list[tuple[Any, Any]]:
        return [(0 * e, e), (e * self.keys(Z), 1 + 0 * e)]

    def keys(self, Z) -> int:
        return int(self.keep(Z.shape[-1]).sum(-1).max())

    def check(self, right: Callable, sizes: tuple[tuple[int, int], ...], *at: tuple) -> Inequality:
        """Check of a bound; sizes: tokens and layers; at: those of extremal instances, epsilon."""
        return Inequality(
            left=self.left,
            right=right,
            sizes=tuple({"Z": (L, n, n), "e": (1,)} for n, L in sizes),
            build=self.build,
            hypotheses=self.allowed,
            extremal=tuple(partial(stubborn, *case) for case in at),
        ).times(0.9999)


def stubborn(tokens: int, layers: int, least: float) -> Instance:
    """Scores that leave all that a token need not give away to itself."""
    Z = 64 * torch.eye(tokens, dtype=torch.float64).repeat(layers, 1, 1)
    return {"Z": Z, "e": torch.tensor([least], dtype=torch.float64)}


def outward(layers: int, least: float) -> Instance:
    """Five tokens on a line that look away from the middle as far as they may."""
    Z = torch.zeros(5, 5, dtype=torch.float64)
    for query, key in enumerate((0, 0, 2, 4, 4)):
        Z[query, key] = 64
    return {"Z": Z.repeat(layers, 1, 1), "e": torch.tensor([least], dtype=torch.float64)}


TWO, THREE, LINE, TREE, CIRCLE = map(Graph, (window(2), window(3), line, tree, circle))
WINDOW = (
    TWO.check(TWO.missed, ((3, 2), (4, 3), (6, 5), (3, 4)), (3, 2, 0.5), (4, 3, 0.25), (6, 5, 0.5))
    .but("exponent r - 1", right=partial(TWO.missed, less=1))
    .but(
        "two parts without a center",
        left=Graph(halves).left,
        build=lambda Z, e: {"Z": Z, "e": torch.sigmoid(e) / 4},
    )
)
BOTH_WAYS = LINE.check(LINE.missed, ((3, 1), (5, 2), (7, 3)), (5, 2, 0.25))
AROUND = CIRCLE.check(CIRCLE.missed, ((5, 1), (8, 2)), (5, 1, 0.25), (5, 1, 0.125)).but(
    "exponent s - 1",
    right=partial(CIRCLE.missed, less=1),
    extremal=(partial(stubborn, 8, 2, 0.25),),
)
ROOTED = TREE.check(TREE.missed, ((3, 1), (7, 2)), (7, 2, 0.5), (7, 2, 0.25))
ONE_WAY = TWO.check(
    TWO.unreached, ((3, 2), (3, 5), (5, 7)), (3, 4, 0.5), (4, 9, 0.25), (5, 3, 0.5)
).but("rate (1 - epsilon)^L whatever r is", right=lambda Z, e: (1 - e[..., 0]) ** Z.shape[-3])
WIDER = THREE.check(THREE.unreached, ((4, 5), (5, 12)), (5, 2, 2.0**-12)).but(
    "tokens that see some farther from the center",
    left=LINE.left,
    extremal=(lambda: outward(12, 0.125),),
)


def _heads_after(Z, e, X, W):
    """Output diameter of layers with heads; Z (..., layers, heads, n, n)."""
    P = mask_graphs.weights(Z, e[..., None, None, None], _mask(window(2), Z))
    for layer in range(W.shape[-4]):
        X = ops.sum(P[..., layer, :, :, :] @ X[..., None, :, :] @ W[..., layer, :, :, :], -3)
    return norms.diameter(X)


def _heads_bound(Z, e, X, W, blocks: Callable = lambda layers, radius: layers // radius):
    sizes, bound = ops.sum(spectral_norm(W), -1), norms.diameter(X)
    for layer in range(W.shape[-4]):
        bound = bound * sizes[..., layer]
    for _ in range(blocks(W.shape[-4], Z.shape[-1] - 1)):
        bound = bound * mask_graphs.missed(e[..., 0], Z.shape[-1] - 1)
    return bound


def _with_values(Z, e, X, W):
    return {"Z": Z, **TWO.build(Z, e), "X": X, "W": W}


def ends(layers: int, heads: int, tokens: int) -> Instance:
    """Tokens 0, 1, ..., 1 and aligned value maps of unequal sizes."""
    Z = torch.zeros(layers, heads, tokens, tokens, dtype=torch.float64)
    X = torch.ones(tokens, 2, dtype=torch.float64)
    X[0] = 0
    sizes = torch.arange(1, heads + 1, dtype=torch.float64)[:, None, None]
    W = torch.full((layers, heads, 2, 2), 1.0, dtype=torch.float64) * sizes
    return {"Z": Z, "e": torch.tensor([0.5], dtype=torch.float64), "X": X, "W": W}


VALUES = (
    Inequality(
        left=_heads_after,
        right=_heads_bound,
        sizes=tuple(
            {"Z": (L, H, n, n), "e": (1,), "X": (n, d), "W": (L, H, d, d)}
            for n, L, H, d in ((3, 2, 2, 1), (3, 4, 1, 2), (2, 3, 3, 2))
        ),
        build=_with_values,
        hypotheses=lambda Z, e, X, W: TWO.allowed(Z, e),
        extremal=(partial(ends, 2, 2, 3), partial(ends, 3, 1, 2)),
    )
    .times(0.9999)
    .but("a block more", right=partial(_heads_bound, blocks=lambda L, r: L // r + 1))
)

# ------------------------------------------------------------------------------- weights from norms


def _least(P, keep: Any = None):
    """Least weight of a key that the mask allows, (...)."""
    kept = P if keep is None else ops.where(keep, P, 1 + 0 * P)
    return -ops.amax(ops.amax(-kept, -1), -1)


ROW = Inequality(
    left=lambda z: mask_graphs.least_weight(oscillation(z), z.shape[-1]),
    right=lambda z: -ops.amax(-ops.softmax(z), -1),
    sizes=({"z": (2,)}, {"z": (5,)}),
    extremal=(lambda: {"z": torch.tensor([-1.0, 1.0, 1.0, 1.0], dtype=torch.float64)},),
).times(0.9999)


def _bound(X, W_QK, share: float = 1.0, keys: int = 3):
    return _from_norm(X, spectral_norm(W_QK), share, keys)


def _from_norm(X, q, share: float = 1.0, keys: int = 3):
    spread = mask_graphs.score_spread(X, q, KEY_WIDTH)
    return mask_graphs.least_weight(ops.constant(share, X) * spread, min(keys, X.shape[-2]))


def _smallest(X, W_QK):
    Z = collapse.scores(X, W_QK, KEY_WIDTH)
    keep = _mask(window(3), Z)
    return _least(ops.softmax(Z, keep), keep)


def on_a_line(*places: float) -> Instance:
    """Tokens of width 1 and W_QK = 1."""
    X = torch.tensor(places, dtype=torch.float64)[:, None]
    return {"X": X, "W_QK": torch.ones(1, 1, dtype=torch.float64)}


NORMS = (
    Inequality(
        left=_bound,
        right=_smallest,
        sizes=({"X": (2, 1), "W_QK": (1, 1)}, {"X": (5, 2), "W_QK": (2, 2)}),
        extremal=(partial(on_a_line, -1.0, 1.0, 1.0), partial(on_a_line, 1.0, 3.0, 3.0)),
    )
    .times(0.9999)
    .but("99 % of the oscillation", left=partial(_bound, share=0.99))
    .but("one key less", left=partial(_bound, keys=2))
)


def _after(X, W_QK, W_V):
    """Output diameter of masked layers, window 3."""
    for layer in range(W_V.shape[-3]):
        X = collapse.masked_layer(X, W_QK[..., layer, :, :], KEY_WIDTH, window=3)
        X = X @ W_V[..., layer, :, :]
    return norms.diameter(X)


def _over_depth(X, W_QK, W_V, less: int = 0):
    """(1 - epsilon^r) diam(X) for r layers, with the least weight at the input."""
    q = ops.amax(spectral_norm(W_QK), -1)
    radius = mask_graphs.center(window(3)(X.shape[-2]))[1]
    return mask_graphs.missed(_from_norm(X, q), radius - less) * norms.diameter(X)


def _small_values(X, W_QK, W_V):
    return {"X": X, "W_QK": W_QK, "W_V": unit_value_map(W_V, 1.0)}


def _values_small(X, W_QK, W_V) -> list[tuple[Any, Any]]:
    size = spectral_norm(W_V)
    return [(size, 1 + 0 * size)]


def faint(*places: float) -> Instance:
    """Two layers on tokens of width 1, with scores of size 2^-20 and W_V just below 1."""
    ones = torch.ones(2, 1, 1, dtype=torch.float64)
    X = torch.tensor(places, dtype=torch.float64)[:, None]
    return {"X": X, "W_QK": 2.0**-20 * ones, "W_V": INSIDE * ones}


FROM_NORMS = (
    Inequality(
        left=_after,
        right=_over_depth,
        sizes=tuple({"X": (5, d), "W_QK": (2, d, d), "W_V": (2, d, d)} for d in (1, 3)),
        build=_small_values,
        hypotheses=_values_small,
        extremal=(partial(faint, 0.0, 1.0, 1.0, 1.0, 1.0),),
    )
    .times(0.9999)
    .but("exponent r - 1", right=partial(_over_depth, less=1))
)

# ------------------------------------------------------------------------------------ exact rates


def everybody(n: int) -> np.ndarray:
    """Mask in which every token sees every other."""
    return np.ones((n, n), dtype=bool)


ALL = Graph(everybody)
FULL = ALL.check(
    lambda Z, e: 1 - Z.shape[-1] * e[..., 0], ((2, 1), (4, 1)), (3, 1, 0.25), (2, 1, 0.25)
).but("2 n in place of n", right=lambda Z, e: 1 - 2 * Z.shape[-1] * e[..., 0])


def _window_bound(Z, e, size: int = 3):
    return mask_graphs.window_unreached(e[..., 0], Z.shape[-1], size, Z.shape[-3])


SLIDING = THREE.check(
    _window_bound, ((3, 1), (4, 2), (6, 5)), (4, 2, 0.25), (6, 5, 0.25), (5, 7, 0.125)
).but("a window of four tokens", right=partial(_window_bound, size=4))


def _reach(c) -> tuple[int, int]:
    """Tokens and neighbors, from the shape of an array of zeros."""
    return c.shape[-2], c.shape[-1]


def _turned(e, Y, c):
    """Ring attention on the points of a polygon, mapped by Y (2, width)."""
    n, reach = _reach(c)
    X = mask_graphs.ring_points(n, Y) @ Y
    return mask_graphs.ring(e[..., None], n, reach, Y) @ X


def _scaled(e, Y, c, less: int = 0):
    n, reach = _reach(c)
    factor = mask_graphs.ring_factor(e, n, reach - less, Y)
    return factor[..., None] * (mask_graphs.ring_points(n, Y) @ Y)


def _ring_bound(e, Y, c):
    """Rounding bound: sums of n + 2 products; 2 b + 3 operations in a weight; errors of cosines.

    Angles 2 pi i/n are off by 3 roundings, so cosines and sines by at most 3 * 7 + 1 units of 1.
    """
    n, reach = _reach(c)
    size = ops.sum(abs(Y), -2, keepdims=True) * (1 + 4 * reach * abs(e))[..., None]
    return gamma(2 * (n + 2 * reach + 5) + 60, Y) * size + 0 * _scaled(e, Y, c)


RING = Identity(
    left=_turned,
    right=_scaled,
    bound=_ring_bound,
    sizes=(
        {"e": (1,), "Y": (2, 1), "c": (3, 1)},
        {"e": (1,), "Y": (2, 3), "c": (7, 2)},
    ),
    arithmetic="ball",
).but("a neighbor less", right=partial(_scaled, less=1))


def _ring_below(e, tokens: int, reach: int):
    ring = mask_graphs.ring_factor(e, tokens, reach, e)
    return ring[..., 0]


def _slow(e, c):
    """The part that a layer of the ring removes, per unit of epsilon."""
    n, reach = _reach(c)
    return (1 - _ring_below(e, n, reach)) / e[..., 0]


def _slow_bound(e, c):
    n, b = _reach(c)
    square = ops.pi(e) * ops.pi(e)
    return 2 * square * (b * (b + 1) * (2 * b + 1)) / (3 * n * n) + 0 * e[..., 0]


SLOW = Inequality(
    left=_slow,
    right=_slow_bound,
    sizes=({"e": (1,), "c": (3, 1)}, {"e": (1,), "c": (12, 3)}),
    build=lambda e, c: {"e": torch.sigmoid(e) / 8, "c": c},
    hypotheses=lambda e, c: [(0 * e, e)],
    extremal=(
        lambda: {
            "e": torch.tensor([0.25], dtype=torch.float64),
            "c": torch.zeros(512, 1, dtype=torch.float64),
        },
    ),
).times(0.9999)

CHECKS: dict[str, dict[str, Check]] = {
    "masks.collapse-rate": {
        "window of two": WINDOW,
        "line": BOTH_WAYS,
        "tree": ROOTED,
        "ring": AROUND,
        "one way": ONE_WAY,
        "window of three": WIDER,
        "value maps": VALUES,
        "entry by entry": by_definition(definitions.graphs, "one toss more", more=1),
    },
    "masks.weights-from-norms": {"row": ROW, "norms": NORMS, "over depth": FROM_NORMS},
    "masks.local-slows": {
        "all keys": FULL,
        "window": SLIDING,
        "ring": RING,
        "ring, slow": SLOW,
        "entry by entry": by_definition(definitions.walks, "one layer more", more=1),
    },
}

"""Checks of what random value maps do to the tokens, averaged over finitely many maps exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma, unit
from attnverify.chapters.permutations import mixture, second
from attnverify.checking.check import Check, Identity, Inequality, Instance
from attnverify.mathematics import initialization

# ------------------------------------------------------------------ one layer
#
# Expectations are averages over all maps with entries +-1 over the root of d H: they have the
# mean, the variances and the missing correlations of the statement. There are 2^(H d^2) of them.


def _maps(values: tuple[int, ...], shape: tuple[int, ...], like: Any) -> Iterator[tuple[int, Any]]:
    """All arrays with entries from ``values``, with the number of entries that are 0."""
    size = 1
    for length in shape:
        size *= length
    for entries in itertools.product(values, repeat=size):
        array = ops.stack([ops.constant(v, like) for v in entries], 0).reshape(shape)
        yield entries.count(0), array


def _moved(X, A, c, W):
    """Tokens after a layer, X + c sum_h A_h X W_h / sqrt(d H), where d H is a square number."""
    root = math.isqrt(X.shape[-1] * A.shape[-3])  # so that rationals have it
    return X + c[..., None] / root * ops.sum(A @ X[..., None, :, :] @ W, -3)


def _mean_gram(X, A, c):
    """Average over all sign maps of the Gram matrix after the layer."""
    heads, d = A.shape[-3], X.shape[-1]
    total, count = 0, 0
    for _, signs in _maps((1, -1), (heads, d, d), X):
        Y = _moved(X, A, c, signs)
        total, count = total + Y @ ops.transpose(Y), count + 1
    return total / count


def _gram(X):
    return X @ ops.transpose(X)


def _step(X, A, c, heads: Callable[[Any], int] = lambda A: 1):
    gain = heads(A) * ops.square(c)[..., 0]
    return initialization.gram_step(_gram(X), A, gain)


def _one_sided(X, A, c):
    """Right side of a twin, with A_h G in place of A_h G A_h'."""
    G = _gram(X)
    mixed = ops.sum(A @ G[..., None, :, :], -3) / A.shape[-3]
    return G + ops.square(c)[..., None] * mixed


def _gram_bound(X, A, c):
    """Rounding bound of either side.

    Entries of the moved tokens are sums of products of absolute values at most B, off by gamma of
    n + d + H + 4 roundings; two of them are multiplied and summed over d, then over N maps, so
    2 (n + d + H + 4) + d + N + 2 roundings in all, of terms that add up to at most B B'. The other
    side has fewer, and its terms add up to no more. Twice gamma covers both.
    """
    heads, n, d = A.shape[-3], X.shape[-2], X.shape[-1]
    roundings = 2 * (n + d + heads + 4) + d + 2 ** (heads * d * d) + 2
    B = _moved(abs(X), abs(A), abs(c), torch.ones(heads, d, d, dtype=X.dtype, device=X.device))
    return 2 * gamma(roundings, X) * _gram(B)


GRAM = (
    Identity(
        left=_mean_gram,
        right=_step,
        bound=_gram_bound,
        sizes=tuple(
            {"X": (n, d), "A": (H, n, n), "c": (1,)}
            for n, d, H in ((3, 1, 1), (2, 1, 4), (3, 2, 2))
        ),
        exact_draws=1,
    )
    .but(
        "the sum over the heads in place of their mean",
        right=partial(_step, heads=lambda A: A.shape[-3]),
    )
    .but("A G in place of A G A'", right=_one_sided)
)

# ------------------------------------------------------------------ uniform attention

LAYERS = 3


def _uniform(n: int, like: Any, heads: int = 1) -> Any:
    return ops.full((heads, n, n), 1, like) / n


def _iterated(X, c):
    G = _gram(X)
    for _ in range(LAYERS):
        G = initialization.gram_step(G, _uniform(G.shape[-1], G), ops.square(c)[..., 0])
    return G


def _closed(X, c):
    return initialization.uniform_gram(_gram(X), ops.square(c)[..., 0], LAYERS)


def _linear(X, c):
    """Right side of a twin, with 1 + L gain in place of (1 + gain)^L."""
    gain = LAYERS * ops.square(c)[..., 0]
    return initialization.gram_step(_gram(X), _uniform(X.shape[-2], X), gain)


def _uniform_bound(X, c):
    """Rounding bound of either side.

    With the absolute values of X in place of X all terms are positive and add up to the result.
    A layer has 2 n + 6 roundings, the Gram matrix d, the closed form fewer.
    """
    n, d = X.shape[-2], X.shape[-1]
    return 2 * gamma(LAYERS * (2 * n + 6) + d + 8, X) * _closed(abs(X), c)


CLOSED = Identity(
    left=_iterated,
    right=_closed,
    bound=_uniform_bound,
    sizes=({"X": (2, 3), "c": (1,)}, {"X": (5, 2), "c": (1,)}),
).but("1 + L gain in place of (1 + gain)^L", right=_linear)


def _differences(X, W, first: int = 0):
    """Tokens less the first one, after a layer of attention that is uniform from a token on."""
    A = _uniform(X.shape[-2], X)
    Y = X + A[0] @ X @ W
    if first:  # for a twin: the last query sees itself alone
        Y = ops.join([Y[..., :-1, :], X[..., -1:, :] + X[..., -1:, :] @ W], -2)
    return Y - Y[..., :1, :]


def _differences_bound(X, W):
    """Rounding bound: n + d + 3 roundings of terms that add up to |X| + |A| |X| |W|, twice."""
    n, d = X.shape[-2], X.shape[-1]
    size = abs(X) + _uniform(n, X)[0] @ abs(X) @ abs(W)
    return 2 * gamma(n + d + 6, X) * (size + size[..., :1, :])


DIFFERENCES = Identity(
    left=_differences,
    right=lambda X, W: X - X[..., :1, :],
    bound=_differences_bound,
    sizes=({"X": (2, 3), "W": (3, 3)}, {"X": (5, 2), "W": (2, 2)}),
).but("the last query sees itself alone", left=partial(_differences, first=1))


TOKENS = 5


def _orthogonal_cosine(c):
    """Expected inner product over expected squared length, from orthogonal tokens of length 1."""
    G = ops.eye(TOKENS, c)[None] + 0 * c[..., None]
    for _ in range(LAYERS):
        G = initialization.gram_step(G, _uniform(TOKENS, G), ops.square(c)[..., 0])
    return (G[..., 0, 1] / G[..., 0, 0]).reshape(c.shape)


def _cosine(c, tokens: int = TOKENS):
    grown = initialization.added(ops.square(c), LAYERS)
    return grown / (grown + tokens)


def _cosine_bound(c):
    """Rounding bound: L (2 n + 6) + 8 roundings of positive terms in each of two quotients."""
    return 4 * gamma(LAYERS * (2 * TOKENS + 6) + 8, c) * _cosine(c)


COSINE = Identity(
    left=_orthogonal_cosine, right=_cosine, bound=_cosine_bound, sizes=({"c": (1,)},)
).but("n - 1 in place of n", right=partial(_cosine, tokens=TOKENS - 1))


# ------------------------------------------------------------------ fluctuation
#
# Entries with the values 0 (twice in three), c and -c (once in six each) have the moments of a
# Gaussian of variance c^2/3 up to the fifth, and a fourth moment asks for no more.


def _fourth(m, c, values: tuple[int, ...] = (0, 1, -1)):
    """Average of |m + m W|^4 over all maps with entries c times one of ``values``."""
    d = m.shape[-1]
    total, weights = 0, 0
    for zeros, W in _maps(values, (d, d), m):
        weight = 4**zeros  # a zero is four times as likely as either other value
        y = m + c * (m[..., None, :] @ W)[..., 0, :]
        total, weights = total + weight * ops.square(ops.sum(ops.square(y), -1)), weights + weight
    return total / weights


def _gain(m, c, third: int = 3):
    return m.shape[-1] * ops.square(c)[..., 0] / third


def _fourth_factor(m, c, third: int = 3):
    factor = initialization.fourth_moment(_gain(m, c, third), m.shape[-1])
    return factor * ops.square(ops.sum(ops.square(m), -1))


def _fourth_bound(m, c):
    """Rounding bound: 4 (2 d + 4) + 2 d + 3^(d d) + 4 roundings of terms that add up to B^4.

    The right side's terms are positive and add up to the average, so to no more, with fewer.
    """
    d = m.shape[-1]
    B = abs(m) + abs(c) * ops.sum(abs(m), -1, keepdims=True)
    size = ops.square(ops.sum(ops.square(B), -1))
    return 2 * gamma(4 * (2 * d + 4) + 2 * d + 3 ** (d * d) + 4, m) * size


FOURTH = (
    Identity(
        left=_fourth,
        right=_fourth_factor,
        bound=_fourth_bound,
        sizes=({"m": (1,), "c": (1,)}, {"m": (2,), "c": (1,)}),
        exact_draws=1,
    )
    .but(
        "entries +-c, which are not Gaussian",
        left=partial(_fourth, values=(1, -1)),
        right=partial(_fourth_factor, third=1),
    )
    .but("the squared mean, (1 + gain)^2", right=lambda m, c: _squared_mean(m, c))
)


def _squared_mean(m, c):
    return ops.square(1 + _gain(m, c)) * ops.square(ops.sum(ops.square(m), -1))


# ------------------------------------------------------------------ doubly stochastic attention


def _heads_mean(values):
    return ops.sum(values, -1) / values.shape[-1]


def _centered_after(X, w, c):
    G = initialization.gram_step(_gram(X), mixture(w, X.shape[-2]), ops.square(c)[..., 0])
    return initialization.centered_square(G)


def _centered_bound(X, w, c, over_heads: Callable = _heads_mean):
    factor = 1 + ops.square(c)[..., 0] * over_heads(ops.square(second(mixture(w, X.shape[-2]))))
    return factor * initialization.centered_square(_gram(X))


def two_by_two() -> Instance:
    """Two tokens and two heads that mix them to different degrees."""
    X = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    w = torch.tensor([[1.0, 0.0], [0.25, 0.0]], dtype=torch.float64)
    return {"X": X, "w": w, "c": torch.ones(1, dtype=torch.float64)}


KEPT = (
    Inequality(
        left=lambda X, A, c: initialization.centered_square(_gram(X)),
        right=lambda X, A, c: initialization.centered_square(_step(X, A, c)),
        sizes=({"X": (2, 3), "A": (2, 2, 2), "c": (1,)}, {"X": (3, 5), "A": (1, 3, 3), "c": (1,)}),
        extremal=(
            lambda: {
                "X": torch.eye(2, dtype=torch.float64),
                "A": torch.full((1, 2, 2), 0.5, dtype=torch.float64),
                "c": torch.ones(1, dtype=torch.float64),
            },
        ),
    )
    .times(0.9999)
    .but(
        "differences grow like the mean",
        left=lambda X, A, c: (1 + ops.square(c)[..., 0]) * initialization.centered_square(_gram(X)),
    )
)
SHAPES = tuple(
    {"X": (n, d), "w": (H, math.factorial(n)), "c": (1,)}
    for n, d, H in ((2, 1, 2), (3, 4, 2), (4, 2, 1))
)
CENTERED = (
    Inequality(left=_centered_after, right=_centered_bound, sizes=SHAPES, extremal=(two_by_two,))
    .times(0.9999)
    .but(
        "the square of the heads' mean in place of the mean of squares",
        right=partial(
            _centered_bound,
            over_heads=lambda squares: ops.square(_heads_mean(ops.sqrt(squares))),
        ),
    )
)


def _mean_after(X, w, c):
    G = initialization.gram_step(_gram(X), mixture(w, X.shape[-2]), ops.square(c)[..., 0])
    return initialization.mean_square(G)


def _mean_grown(X, w, c):
    return (1 + ops.square(c)[..., 0]) * initialization.mean_square(_gram(X))


def _mean_bound(X, w, c):
    """Rounding bound, with absolute values in place of all terms.

    A softmax weight is off by 2.02 (exp(4 u L) - 1 + (n! + 9) u) of itself, with L the largest
    logit (:func:`~attnverify.arithmetic.rounding.softmax_error`), and every term has two of them.
    The rest are n! + 4 n + d + H + 12 roundings.
    """
    n, d, heads, u = X.shape[-2], X.shape[-1], w.shape[-2], unit(X)
    largest = abs(w).amax((-1, -2))
    weights = 2 * 2.02 * (torch.expm1(4 * u * largest) + (w.shape[-1] + 9) * u)
    return (weights + 2 * gamma(w.shape[-1] + 4 * n + d + heads + 12, X)) * _mean_after(
        abs(X), w, c
    )


MEAN = Identity(
    left=_mean_after, right=_mean_grown, bound=_mean_bound, sizes=SHAPES, arithmetic="ball"
).but(
    "1 + c in place of 1 + c^2",
    right=lambda X, w, c: (1 + c[..., 0]) * initialization.mean_square(_gram(X)),
)


def _parts(G):
    """Sum of squares of the centered tokens, and of n copies of the mean."""
    return initialization.centered_square(G), G.shape[-1] * initialization.mean_square(G)


def _share_after(X, w, c):
    """The share after as many layers as ``w`` has rows, one head each."""
    G = _gram(X)
    for layer in range(w.shape[-2]):
        A = mixture(w[..., layer : layer + 1, :], X.shape[-2])
        G = initialization.gram_step(G, A, ops.square(c)[..., 0])
    return initialization.share(*_parts(G))


def _least_share(X, w, c, added: Callable = initialization.added):
    centered, common = _parts(_gram(X))
    grown = 1 + added(ops.square(c)[..., 0], w.shape[-2])
    return initialization.share(centered, grown * common)


def uniform_layers() -> Instance:
    """Two layers of uniform attention."""
    return {**two_by_two(), "w": torch.zeros(2, 2, dtype=torch.float64)}


SHARE = (
    Inequality(left=_least_share, right=_share_after, sizes=SHAPES, extremal=(uniform_layers,))
    .times(0.9999)
    .but(
        "1 + L gain in place of (1 + gain)^L",
        left=partial(_least_share, added=lambda gain, layers: layers * gain),
    )
)

CHECKS: dict[str, dict[str, Check]] = {
    "training.gram-recursion": {"average over all signs": GRAM},
    "training.uniform-attention": {
        "expected Gram matrix": CLOSED,
        "orthogonal tokens": COSINE,
        "differences": DIFFERENCES,
    },
    "training.mean-fluctuation": {"fourth moment": FOURTH},
    "training.doubly-stochastic": {"centered": CENTERED, "any attention": KEPT, "mean": MEAN},
    "training.relative-share": {"share": SHARE},
}

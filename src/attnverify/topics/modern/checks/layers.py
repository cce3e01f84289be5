"""Checks of norms in front of a layer: their Lipschitz constants, and the bound of attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.layer_instances import KEY_WIDTH, along_first_axis
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, layernorm, norms
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.modern.definitions import layers as definitions

SIZES = ({"X": (2, 2), "g": (2,), "e": (1, 1)}, {"X": (4, 3), "g": (3,), "e": (1, 1)})


def with_epsilon(X, g, e, **more: Any) -> Instance:
    """Instance with a positive epsilon."""
    return {"X": X, "g": g, "e": torch.exp(2 * e), **more}


def _flat(e):
    return e[..., 0, 0]


def epsilon_allowed(X, g, e, **more: Any):
    """Hypothesis epsilon >= 0."""
    return [(0 * e, e)]


def shortest(X, deviations: Callable = lambda X: X):
    """Smallest squared length of a token (of its deviations, for layer norm)."""
    return -ops.amax(-layernorm.length_squared(deviations(X)), -1)


def _rms_bound(X, g, e, squared: Callable = shortest):
    size = ops.amax(abs(g), -1)
    return norms.diameter(X) * layernorm.lipschitz(size, squared(X), X.shape[-1], _flat(e))


def _mean_square(X):
    """Mean squared length of the tokens, for a twin."""
    return ops.sum(layernorm.length_squared(X), -1) / ops.constant(X.shape[-2], X)


def _layer_bound(X, g, e, deviations: Callable = layernorm.deviations):
    factor = layernorm.lipschitz(
        layernorm.centered_size(g), shortest(X, deviations), X.shape[-1], _flat(e)
    )
    return norms.diameter(X) * factor


def _tokens(rows: list[list[float]], g: list[float], epsilon: float = 1.0) -> Instance:
    return {
        "X": torch.tensor(rows, dtype=torch.float64),
        "g": torch.tensor(g, dtype=torch.float64),
        "e": torch.full((1, 1), epsilon, dtype=torch.float64),
    }


RMS = (
    Inequality(
        left=lambda X, g, e: norms.diameter(layernorm.rms_norm(X, g, e)),
        right=_rms_bound,
        sizes=SIZES,
        build=with_epsilon,
        hypotheses=epsilon_allowed,
        extremal=(
            lambda: _tokens([[3.0, 4.0], [3.0, -4.0]], [0.5, -2.0]),
            lambda: _tokens([[3.0, 4.0], [-3.0, 4.0]], [2.0, 0.5], 0.0),
        ),
    )
    .times(0.9999)
    .but(
        "the mean squared length in place of the smallest",
        right=partial(_rms_bound, squared=_mean_square),
        extremal=(lambda: _tokens([[3.0, 0.0], [-1.0, 0.0]], [1.0, 1.0], 2.0**-20),),
    )
)

LAYER_NORM = (
    Inequality(
        left=lambda X, g, e: norms.diameter(layernorm.layer_norm(X, g, e)),
        right=_layer_bound,
        sizes=SIZES,
        build=with_epsilon,
        hypotheses=epsilon_allowed,
        extremal=(lambda: _tokens([[3.0, 1.0, 2.0], [1.0, 3.0, 2.0]], [2.0, 2.0, 0.5]),),
    )
    .times(0.9999)
    .but(
        "lengths without the mean taken off",
        right=partial(_layer_bound, deviations=lambda X: X),
    )
)


# ---------------------------------------------------------------------- in front of attention

SA_SIZES = tuple(
    {"X": (n, d), "W_QK": (H, d, d), "b_QK": (H, d), "W": (H, d, d), "g": (d,), "e": (1, 1)}
    for n, d, H in ((2, 2, 1), (4, 3, 2), (3, 4, 2))
)


def _behind(X, W_QK, b_QK, W, g, e):
    N = layernorm.rms_norm(X, g, e)
    return norms.diameter(collapse.layer(N, W_QK, b_QK, W, KEY_WIDTH))


def _attention_bound(X, W_QK, b_QK, W, g, e, power: int = 2):
    """Bound lambda diam sum_h v_h tanh(c_h lambda^power diam^2)."""
    size = _rms_bound(X, g, e)
    c, v = collapse.rate(W_QK, KEY_WIDTH), spectral_norm(W)
    if power == 1:
        c = c * (norms.diameter(X) / size)[..., None]
    return size * collapse.sharp_factor(size, c, v)


def _reading(offset: float, half: float) -> Instance:
    """Instance of tokens (+-half, offset), g = (2, 1) and one head that reads feature 1 alone."""
    made = _tokens([[half, offset], [-half, offset]], [2.0, 1.0], 0.5)
    W_QK, W = along_first_axis(2, 1, 1, 1.0)[0], along_first_axis(2, 1, 1, 1.5)[0]
    return {**made, "W_QK": W_QK, "b_QK": torch.zeros(1, 2, dtype=torch.float64), "W": W}


ATTENTION = (
    Inequality(
        left=_behind,
        right=_attention_bound,
        sizes=SA_SIZES,
        build=with_epsilon,
        hypotheses=epsilon_allowed,
        extremal=(lambda: _reading(1.0, 0.5), lambda: _reading(0.25, 0.125)),
    )
    .times(0.9999)
    .but("lambda in place of its square", right=partial(_attention_bound, power=1))
)

ORBIT_LAYERS = 300


def _orbit(start: tuple[int, int]) -> Verdict:
    """Whether two tokens near the threshold, v = 2, rho = 1/2, stay there for 300 layers.

    start: their distance over the threshold, as a fraction. RMS norm with d = 2, epsilon = 1,
    g = (3/2, 3/2), so lambda = 3/2 / sqrt(1/8 + 1) = sqrt 2.
    W_QK = 16 e_1 e_1' with d_qk = 4, so c = 2; W_V = v e_1 e_1' + e_2 e_2'/lambda. The map's slope
    is below 8 a layer, a ball's radius grows by less than 2^5: 4,000 bits leave 2,000.
    """
    with ops.precision(4000):
        lam, v, rho = arb(2).sqrt(), arb(2), arb(1) / 2
        star = ((1 / (lam * v)).atanh() / (2 * lam * lam)).sqrt()
        half = star / 2 * start[0] / start[1]
        across = (rho * rho - half * half).sqrt()
        X = np.array([[half, across], [-half, across]], dtype=object)
        own = 2 * half
        zero, g = arb(0), ops.balls(np.array([1.5, 1.5]))
        W = np.array([[[v, zero], [zero, 1 / lam]]], dtype=object)
        W_QK = np.array([[[arb(16), zero], [zero, zero]]], dtype=object)
        worst, cases = arb(0), 0
        for _ in range(ORBIT_LAYERS):
            N = layernorm.rms_norm(X, g, arb(1))
            X = collapse.layer(N, W_QK, 0 * W_QK[..., 0], W, KEY_WIDTH)
            worst, cases = worst.max(abs(norms.diameter(X) / own - 1)), cases + 1
        holds = certain(worst < arb(2) ** -1000, worst > arb("1e-3"))
        words = f"relative distance from the start at most {worst.str(3)}"
    return Verdict(holds, words, cases)


ORBIT = Decision(partial(_orbit, (1, 1)), "this orbit, for 300 layers", "certified", 300).but(
    "a start at 0.999 of the threshold stays too", run=partial(_orbit, (999, 1000))
)

CHECKS: dict[str, dict[str, Check]] = {
    "modern.rms-lipschitz": {
        "RMS norm": RMS,
        "layer norm": LAYER_NORM,
        "before attention": ATTENTION,
        "threshold": ORBIT,
        "entry by entry": by_definition(
            definitions.norms, "the sum of squares in place of their mean", mean=False
        ),
    },
}

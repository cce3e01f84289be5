"""Checks of MLPs: their Lipschitz constants, the corollary as printed, the bounds over depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.chapters.layer_instances import KEY_WIDTH, two_token_layer
from attnverify.checking.check import Check, Decision, Inequality, Instance
from attnverify.mathematics import collapse, heads, norms
from attnverify.mathematics.norms import least_composite
from attnverify.mathematics.softmax import critical_oscillation
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.verdict import Verdict
from attnverify.topics.collapse.checks import depth, distinct_entries


def relu(x):
    return ops.maximum(x, 0 * x)


def unequal(x):
    """Activation x for x >= 0 and -x/2 below: 1-Lipschitz and not monotone."""
    return ops.maximum(x, -x / ops.constant(2, x))


#: Activations with Lipschitz constant 1: kinked, bounded, with slopes of both signs, smooth.
ACTIVATIONS: dict[str, Callable] = {
    "relu": relu,
    "tanh": ops.tanh,
    "hyperbola": lambda x: ops.sqrt(1 + ops.square(x)),
    "unequal slopes": unequal,
    "softplus": lambda x: ops.log1p(ops.exp(x)),
}


def mlp(X, W_1, b_1, W_2, b_2: Any = 0, activation: Callable = relu):
    """MLP activation(X W_1 + b_1) W_2 + b_2, token by token."""
    return activation(X @ W_1 + b_1) @ W_2 + b_2


def _lipschitz(X, W_1, b_1, W_2, b_2):
    return spectral_norm(W_1) * spectral_norm(W_2) * norms.diameter(X)


MLP_SIZES = (
    {"X": (2, 2), "W_1": (2, 2), "b_1": (1, 2), "W_2": (2, 2), "b_2": (1, 2)},
    {"X": (4, 3), "W_1": (3, 5), "b_1": (1, 5), "W_2": (5, 3), "b_2": (1, 3)},
)


def _pass_through(size: float, start: float) -> dict[str, torch.Tensor]:
    """Two tokens through identity maps, at inputs of the activation near ``start``."""
    eye, zero = torch.eye(2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)
    X = torch.tensor([[size, size], [2 * size, size]], dtype=torch.float64)
    return {"X": X, "W_1": eye, "b_1": zero + start, "W_2": eye, "b_2": zero + 1}


#: Where each activation has slope 1, nearly.
STEEPEST = {"tanh": (2.0**-12, 0.0), "hyperbola": (1.0, 2.0**12), "softplus": (1.0, 32.0)}


def _at_full_slope(name: str) -> dict[str, torch.Tensor]:
    return _pass_through(*STEEPEST.get(name, (1.0, 0.0)))


def _diameter(name: str) -> Inequality:
    return Inequality(
        left=lambda **i: norms.diameter(mlp(**i, activation=ACTIVATIONS[name])),
        right=_lipschitz,
        sizes=MLP_SIZES,
        extremal=(partial(_at_full_slope, name),),
    ).times(0.9999)


def _entrywise(X, x, W_1, b_1, W_2, b_2):
    return norms.composite(abs(W_1) @ abs(W_2)) * norms.composite(X - x)


def _spectral_composite(X, x, W_1, b_1, W_2, b_2):
    return spectral_norm(W_1) * spectral_norm(W_2) * norms.composite(X - x)


def hadamard(d: int) -> torch.Tensor:
    """Sylvester's Hadamard matrix of width d, a power of two: entries +-1, H H^T = d I."""
    H = torch.ones(1, 1, dtype=torch.float64)
    while len(H) < d:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    return H


def _every_center(bound: Callable, d: int = 8) -> Verdict:
    """Whether ``bound`` holds for f(x) = relu(x + 1) H, tokens +-e_1, ..., +-e_d, any center.

    For any center y, |f(e_i) - y| + |f(-e_i) - y| >= |f(e_i) - f(-e_i)|. These differences bound
    every column sum, and half of their mean row sum the largest row sum, from below. The entrywise
    bound is attained, so it is compared up to 2^-40.
    """
    eye = torch.eye(d, dtype=torch.float64)
    X = ops.balls(torch.cat([eye, -eye]))
    maps = {"W_1": ops.balls(eye), "b_1": ops.full((1, d), 1, X), "W_2": ops.balls(hadamard(d))}
    maps["b_2"] = 0 * maps["b_1"]
    Y = mlp(X, **maps)
    apart = abs(Y[:d] - Y[d:])
    least = ops.sqrt(norms.max_column_sum(apart) * (np.sum(apart) / (2 * d)))
    allowed = bound(X, 0 * X[:1], **maps)
    room = allowed * (1 + 2.0**-40)
    holds = certain(least <= room, least > room)
    return Verdict(holds, f"at least {least.str(6)} with any center, allowed {allowed.str(6)}")


def _between(name: str) -> dict[str, torch.Tensor]:
    """Instance of two tokens, between which every x is a best center of X and of f(X)."""
    tokens = _at_full_slope(name)
    return {**tokens, "x": tokens["X"].mean(0, keepdim=True)}


def _composite(name: str) -> Inequality:
    """Check whose left side takes the center f(x), which is stronger than the best center."""

    def moved(X, x, **maps):
        return mlp(X, **maps, activation=ACTIVATIONS[name]) - mlp(
            x, **maps, activation=ACTIVATIONS[name]
        )

    return Inequality(
        left=lambda **i: norms.composite(moved(**i)),
        lower=lambda **i: least_composite(moved(**i)),
        right=_entrywise,
        sizes=tuple({**size, "x": (1, size["X"][1])} for size in MLP_SIZES),
        extremal=(partial(_between, name),),
    ).times(0.9999)


MLP_BEST_CENTER = Decision(
    partial(_every_center, _entrywise), "one instance, the Hadamard matrix of width 8", "certified"
).but(
    "the l2-Lipschitz constant in place of the entrywise matrix",
    run=partial(_every_center, _spectral_composite),
)


def _named(form: str, activation: str) -> str:
    return form if activation == "relu" else f"{form}, {activation}"


# ----------------------------------------------------------------------------------------- printed


def identity(Y: np.ndarray) -> np.ndarray:
    """MLP relu(Y W_1 + b_1) W_2 + b_2 with W_1 = W_2 = I, b_1 = 1 + max|Y| and b_2 = -b_1.

    |f(x) - f(y)| = |x - y| for the rows seen, in every norm: the Lipschitz constant is 1.
    """
    eye = ops.eye(Y.shape[-1], Y)
    room = ops.full((1, Y.shape[-1]), 1, Y) * (1 + ops.amax(ops.amax(abs(Y), -1), -1))
    return mlp(Y, eye, room, eye) - room


def _violates(d: int, n: int, w: float, lipschitz: float = 1.0) -> Verdict:
    """Whether the printed corollary with this lambda fails for the family behind the identity."""
    with ops.precision(distinct_entries.BITS):
        layer = distinct_entries.family(d, n, w, after=identity)
        ratio = layer.printed / arb(lipschitz)
        met = layer.D <= critical_oscillation()
        holds = certain(met and ratio > 1 and ratio / layer.gamma > 1, ratio < 1)
    words = f"d = {d}, n = {n}, lambda = {lipschitz:g}: left/right = {ratio.str(15)}"
    return Verdict(holds, words, ratio=float(ratio.mid()))


def _certified(title: str, first: tuple, second: tuple) -> Decision:
    run, other = partial(_violates, *first), partial(_violates, *second)
    return distinct_entries.certified(run, title, other)


LARGE = (20_000, 10_000, 2.0**-6)


# ------------------------------------------------------------------------------------------- depth

MAPS = ("W_1", "b_1", "W_2")


def _split(instance: Instance) -> tuple[Instance, Callable[[int, Any], Any]]:
    """Attention weights of an instance, and a function that applies the MLP of layer i."""
    maps = {name: instance[name] for name in MAPS}
    network = {name: value for name, value in instance.items() if name not in MAPS}

    def after(i: int, X: Any) -> Any:
        return mlp(X, *(maps[name][..., i, :, :] for name in MAPS), activation=ops.tanh)

    return network, after


def _sizes(depth_: int, width: int, heads_: int, hidden: int) -> dict[str, tuple[int, ...]]:
    L, d, m = depth_, width, hidden
    maps = {"W_1": (L, d, m), "b_1": (L, 1, m), "W_2": (L, m, d)}
    return {**depth.sizes(L, d, heads_), **maps}


def _build(**parameters: Any) -> Instance:
    network, after = _split(parameters)
    made = depth.bounded_network(**network, limit=depth.WIDE, after=after)
    return {**made, **{name: parameters[name] for name in MAPS}}


def _layers(**instance: Any) -> list[tuple[Any, ...]]:
    """Tuples (R, W_QK, W, W_1, W_2) of the layers, where R is the residual at the input."""
    network, after = _split(instance)
    states = list(depth.states(**network, after=after))[:-1]
    W_1, W_2 = instance["W_1"], instance["W_2"]
    return [(*s, W_1[..., i, :, :], W_2[..., i, :, :]) for i, s in enumerate(states)]


def _output(**instance: Any) -> Any:
    """Output of the network less its mean token."""
    network, after = _split(instance)
    return list(depth.states(**network, after=after))[-1][0]


def _mlp_entry_by_entry(R, Q, V, W_1, W_2):
    """Constant sqrt(1 + kappa(D))/2 B ||Lambda||_{1,inf} / sqrt(d_qk), Lambda = |W_1| |W_2|."""
    return heads.sums_constant(R, Q, V, KEY_WIDTH) * norms.composite(abs(W_1) @ abs(W_2))


def _singular(R, Q, V, W_1, W_2):
    """Constant with ||W_1||_2 ||W_2||_2 in place of ||Lambda||_{1,inf}, for a twin."""
    lipschitz = spectral_norm(W_1) * spectral_norm(W_2)
    return heads.sums_constant(R, Q, V, KEY_WIDTH) * lipschitz


def _sharp(R, Q, V, W_1, W_2):
    """Constant lambda beta_2 / (4 sqrt(d_qk)) with lambda = ||W_1||_2 ||W_2||_2."""
    lipschitz = spectral_norm(W_1) * spectral_norm(W_2)
    return ops.sum(collapse.rate(Q, KEY_WIDTH) * spectral_norm(V), -1) * lipschitz


def _bound(size: Callable, constant: Callable, iterate: Callable = collapse.iterate) -> Callable:
    """Bound C^((3^L - 1)/2) size(X)^(3^L) with the largest constant C of the layers."""

    def right(**instance: Any) -> Any:
        C = depth.largest(constant, _layers(**instance))
        return iterate(C, size(instance["X"]), instance["W"].shape[-4])

    return right


def _residual(X: Any) -> Any:
    return norms.composite(norms.mean_centered(X))


def _with_map(network: Instance, W_2: torch.Tensor) -> Instance:
    """Network with tanh(x) W_2 after every layer, which is nearly x W_2 for small tokens."""
    L, d = len(network["W"]), len(W_2)
    maps = (torch.eye(d).double(), torch.zeros(1, d).double(), W_2.double())
    return {**network, **{n: m.repeat(L, 1, 1) for n, m in zip(MAPS, maps, strict=True)}}


def pass_through(value: float = 1.0) -> Instance:
    """Two layers on two tokens; the MLPs are nearly identities."""
    return _with_map(depth.two_layers(value), torch.eye(2))


def one_layer() -> Instance:
    """One layer on two tokens, which leaves 1/sqrt(2) of the bound; the MLP is nearly x."""
    return _with_map(depth.one_layer(), torch.eye(2))


def spread(width: int = 16) -> Instance:
    """One layer that leaves +-s e_1, and a reflection of e_1 to (sqrt d, 1, ..., 1)/norm.

    It keeps every length, and raises the composite value of these tokens by sqrt((1 + sqrt d)/2).
    """
    layer = two_token_layer(2.0**-4)
    network = {name: torch.zeros(1, 1, width, width).double() for name in ("W_QK", "W")}
    network["W_QK"][..., 0, 0] = layer["W_QK"][0, 0, 0]
    network["W"][..., 0, 0] = 1.0
    X = torch.zeros(2, width).double()
    X[:, 0] = layer["R"][:, 0]
    target = torch.ones(width).double()
    target[0] = width**0.5
    v = target / target.norm() - torch.eye(width)[0].double()
    turn = torch.eye(width).double() - 2 * torch.outer(v, v) / (v @ v)
    network |= {"X": X, "b_QK": torch.zeros(1, 1, width).double()}
    return _with_map(network, turn)


def extremal_diameter(value: float = 1.0) -> Instance:
    """Two layers that attain the sharp bound but for tanh y < y, with MLPs that are nearly x."""
    network = {name: torch.zeros(2, 1, 2, 2).double() for name in ("W_QK", "W")}
    network["W_QK"][..., 0, 0], network["W"][..., 0, 0] = 1.0, value
    X = torch.tensor([[2.0**-6, 0.0], [-(2.0**-6), 0.0]], dtype=torch.float64)
    network |= {"X": X, "b_QK": torch.zeros(2, 1, 2).double()}
    return _with_map(network, torch.eye(2))


SIZES = (_sizes(2, 2, 1, 3), _sizes(3, 1, 3, 2))
COMPOSITE = Inequality(
    left=lambda **i: norms.composite(_output(**i)),
    right=_bound(_residual, _mlp_entry_by_entry),
    sizes=SIZES,
    build=_build,
    extremal=(one_layer, pass_through, spread),
)
COMPOSITE = (
    COMPOSITE.times(0.7065)
    .but(
        depth.MORE,
        right=_bound(_residual, _mlp_entry_by_entry, depth.more),
        extremal=(lambda: pass_through(2.0**-64),),
    )
    .but(
        "the l2-Lipschitz constant in place of the entrywise matrix",
        right=_bound(_residual, _singular),
    )
)
DIAMETER = replace(
    COMPOSITE,
    left=lambda **i: norms.diameter(_output(**i)),
    right=_bound(norms.diameter, _sharp),
    extremal=(extremal_diameter,),
    twins=(),
)
DIAMETER = DIAMETER.times(0.999).but(
    depth.MORE,
    right=_bound(norms.diameter, _sharp, depth.more),
    extremal=(lambda: extremal_diameter(2.0**-16),),
)


CHECKS: dict[str, dict[str, Check]] = {
    "mlp.lipschitz": {
        **{_named("diameter", name): _diameter(name) for name in ACTIVATIONS},
        **{_named("composite", name): _composite(name) for name in ("relu", "hyperbola")},
        "best center": MLP_BEST_CENTER,
    },
    "mlp.as-printed": {
        "identity, d = 20000": _certified("lambda = 1.06 does it too", LARGE, (*LARGE, 1.06)),
        "identity, d = 15874": _certified(
            "d = 15873 does it too",
            (15_874, 10**13, distinct_entries.TINY),
            (15_873, 10**13, distinct_entries.TINY),
        ),
    },
    "mlp.depth": {"composite": COMPOSITE, "diameter": DIAMETER},
}

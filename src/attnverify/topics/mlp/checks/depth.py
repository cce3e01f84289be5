"""Checks of the cubic bounds with an MLP behind every layer, in both sizes; two tokens.

The activation is tanh, whose slope is 1 at 0: a rectifier would make many drawn networks constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.mathematics import collapse, heads, norms
from attnverify.mathematics.spectral import spectral_norm
from attnverify.topics.collapse.checks import depth
from attnverify.topics.mlp.checks.lipschitz import mlp
from attnverify.topics.shared.layer_instances import KEY_WIDTH, two_token_layer

MAPS = ("W_1", "b_1", "W_2")


def _split(instance: Instance) -> tuple[Instance, Callable[[int, Any], Any]]:
    """The attention's part of an instance, and what follows layer i: its MLP."""
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
    """(R, W_QK, W, W_1, W_2) of every layer, R the residual at its input."""
    network, after = _split(instance)
    states = list(depth.states(**network, after=after))[:-1]
    W_1, W_2 = instance["W_1"], instance["W_2"]
    return [(*s, W_1[..., i, :, :], W_2[..., i, :, :]) for i, s in enumerate(states)]


def _output(**instance: Any) -> Any:
    """The output less its mean."""
    network, after = _split(instance)
    return list(depth.states(**network, after=after))[-1][0]


def _entrywise(R, Q, V, W_1, W_2):
    """(1/2) sqrt(1 + kappa(D)) B ||Lambda||_{1,inf} / sqrt(d_qk), Lambda = |W_1| |W_2|."""
    return heads.sums_constant(R, Q, V, KEY_WIDTH) * norms.composite(abs(W_1) @ abs(W_2))


def _singular(R, Q, V, W_1, W_2):
    """The same with ||W_1||_2 ||W_2||_2 in place of ||Lambda||_{1,inf}."""
    lipschitz = spectral_norm(W_1) * spectral_norm(W_2)
    return heads.sums_constant(R, Q, V, KEY_WIDTH) * lipschitz


def _sharp(R, Q, V, W_1, W_2):
    """lambda beta_2 / (4 sqrt(d_qk)), lambda = ||W_1||_2 ||W_2||_2."""
    lipschitz = spectral_norm(W_1) * spectral_norm(W_2)
    return ops.sum(collapse.rate(Q, KEY_WIDTH) * spectral_norm(V), -1) * lipschitz


def _bound(size: Callable, constant: Callable, iterate: Callable = collapse.iterate) -> Callable:
    """C^((3^L - 1)/2) size(X)^(3^L), C the largest constant of the layers."""

    def right(**instance: Any) -> Any:
        C = depth.largest(constant, _layers(**instance))
        return iterate(C, size(instance["X"]), instance["W"].shape[-4])

    return right


def _residual(X: Any) -> Any:
    return norms.composite(norms.mean_centered(X))


def _with_map(network: Instance, W_2: torch.Tensor) -> Instance:
    """tanh(x) W_2 behind every layer, which is nearly x W_2 for small tokens x."""
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
    right=_bound(_residual, _entrywise),
    sizes=SIZES,
    build=_build,
    extremal=(one_layer, pass_through, spread),
)
COMPOSITE = (
    COMPOSITE.times(0.7065)
    .but(
        depth.MORE,
        right=_bound(_residual, _entrywise, depth.more),
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

CHECKS: dict[str, dict[str, Check]] = {"mlp.depth": {"composite": COMPOSITE, "diameter": DIAMETER}}

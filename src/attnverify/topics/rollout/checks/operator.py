"""Checks of the parts of tokens, of row sums and of what flows through a step."""

from __future__ import annotations

import itertools

from attnverify.arithmetic import ops
from attnverify.arithmetic.rounding import gamma
from attnverify.checking.check import Check, Identity, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import rollout
from attnverify.mathematics.paths import FixedAttention
from attnverify.topics.rollout import definitions as definitions

STACKS = ((1, 1, 2, 2, 1), (2, 2, 3, 2, 1), (3, 1, 2, 3, 2), (2, 3, 4, 3, 2))  # L, H, n, d, v
SIZES = tuple(
    {"X": (n, d), "C": (n, d), "P": (L, H, n, n), "W_V": (L, H, d, v), "W_O": (L, H, v, d)}
    for L, H, n, d, v in STACKS
)


def stochastic(P, **rest) -> Instance:
    """Row-stochastic matrices from any arrays."""
    weights = abs(P) + ops.constant(0.125, P)
    return {"P": weights / ops.sum(weights, -1, keepdims=True), **rest}


def fixed_network(X, P, W_V, W_O) -> FixedAttention:
    """The held network without biases; P gets the axis of a batch that X has."""
    P = P[:, :, None] if X.ndim == 3 else P
    b = ops.full((W_V.shape[0], X.shape[-1]), 0, X)
    return FixedAttention(P, W_V, W_O, b, skip=True)


def _path_parts(X, C, **maps):
    """<C, sum over paths of the term of one token alone>, for each token."""
    fixed, n = fixed_network(X, **maps), X.shape[-2]
    paths = list(itertools.product(fixed.indices(), repeat=fixed.depth))
    one, found = ops.eye(n, X), []
    for j in range(n):
        alone = one[:, j : j + 1] * X
        found.append(ops.sum(C * sum(fixed.term(alone, p) for p in paths), (-2, -1)))
    return ops.stack(found, -1)


def _parts(X, C, **maps):
    return rollout.parts(fixed_network(X, **maps), X, C)


def _turned(X, C, P, **maps):
    """Parts with attention matrices not transposed on the way back."""
    return _parts(X, C, P=ops.transpose(P), **maps)


def _roundings(P, W_V) -> int:
    """Of one chain: products of a layer, sums over heads, paths, tokens and width."""
    (L, H, n), (d, v) = P.shape[:-1], W_V.shape[-2:]
    return L * (d + n + H * v + v + 3) + (1 + H) ** L + n * d


def _parts_bound(X, C, P, W_V, W_O):
    """Both sides are sums of products: gamma_m times themselves in absolute values, each.

    The bound is computed in floats, so it is taken with 2 m and twice.
    """
    absolute = _parts(abs(X), abs(C), P=P, W_V=abs(W_V), W_O=abs(W_O))
    return 2 * gamma(2 * _roundings(P, W_V), X) * absolute


PARTS = Identity(
    left=_path_parts,
    right=_parts,
    bound=_parts_bound,
    sizes=SIZES,
    build=stochastic,
    shared=("P", "W_V", "W_O"),
).but("attention not transposed on the way back", right=_turned)


def _equal_tokens(X, **maps):
    return fixed_network(X, **maps).forward(X)


def _without_attention(X, P, W_V, W_O):
    for layer in range(len(W_V)):
        X = X + X @ ops.sum(W_V[layer] @ W_O[layer], 0)
    return X


def _as_equal(X, **rest) -> Instance:
    """Tokens that are all the first one."""
    return {"X": X[..., :1, :] + 0 * X, **stochastic(**rest)}


def _forward_bound(X, **maps):
    """The bound of the forward pass, which counts the sums of the rows of P and more products."""
    fixed = fixed_network(X, **maps)
    return fixed.rounding_bound(X, (1 + fixed.heads) ** fixed.depth)


ROW_SUMS = Identity(
    left=_equal_tokens,
    right=_without_attention,
    bound=_forward_bound,
    sizes=tuple({k: v for k, v in size.items() if k != "C"} for size in SIZES),
    build=_as_equal,
    shared=("P", "W_V", "W_O"),
).but("tokens that differ", build=lambda X, **rest: {"X": X, **stochastic(**rest)})

CHECKS: dict[str, dict[str, Check]] = {
    "rollout.operator": {
        "parts": PARTS,
        "row sums": ROW_SUMS,
        "steps": by_definition(definitions.flows, "squares of what is lost", power=2),
    },
}

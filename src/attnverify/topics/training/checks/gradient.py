"""Checks of what reaches the query-key matrix: covariances, gradients, their bounds over depth."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import (
    KEY_WIDTH,
    extremal_network,
    network_sizes,
    power,
)
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, entropy, gradients, norms
from attnverify.mathematics.spectral import spectral_norm
from attnverify.topics.training import definitions

_tensor = partial(torch.tensor, dtype=torch.float64)

# ------------------------------------------------------------------ the covariance under a row

ROWS = tuple({"logits": (n,), "X": (n, d)} for n, d in ((2, 1), (3, 2), (5, 4)))


def two_tokens() -> Instance:
    """Two tokens at distance 5 with weights of odds e."""
    return {"logits": _tensor([1.0, 0.0]), "X": _tensor([[0.0, 0.0], [3.0, 4.0]])}


def two_places() -> Instance:
    """Four tokens of equal weight in two places: the entropy is log 4, the variance the largest."""
    return {"logits": _tensor([0.0] * 4), "X": _tensor([[0.0, 1.0]] * 2 + [[1.0, 1.0]] * 2)}


def _variance(logits, X):
    return spectral_norm(gradients.covariance(logits, X))


def _squared_size(X):
    return ops.square(norms.diameter(X))


def _of_log_tokens(logits):
    """Entropy as a share of its largest value, times log 2."""
    n = ops.constant(logits.shape[-1], logits)
    return entropy.entropy(logits) * ops.log(ops.constant(2, logits)) / ops.log(n)


def _largest_step(logits, X):
    """Largest squared distance of a token from the mean."""
    a = ops.softmax(logits)[..., None]
    return ops.amax(ops.sum(ops.square(X - ops.sum(a * X, -2, keepdims=True)), -1), -1)


def _other_weight(logits, X):
    """(1 - P)/2 diam^2 in place of P (1 - P) diam^2."""
    return (1 - ops.amax(ops.softmax(logits), -1)) / 2 * _squared_size(X)


BY_WEIGHT = (
    Inequality(
        left=_variance,
        right=lambda logits, X: gradients.weight_variance(logits) * _squared_size(X),
        sizes=ROWS,
        extremal=(two_tokens, two_places),
    )
    .times(0.9999)
    .but("(1 - P)/2 in place of P (1 - P)", right=_other_weight)
)
BY_ENTROPY = (
    Inequality(left=_variance, right=gradients.gauge, sizes=ROWS, extremal=(two_tokens, two_places))
    .times(0.9999)
    .but(
        "the entropy as a share of log n, times log 2",
        right=lambda logits, X: (
            gradients.entropy_variance(_of_log_tokens(logits)) * _squared_size(X)
        ),
    )
    .but(
        "the largest distance from the mean in place of the diameter",
        right=lambda logits, X: (
            gradients.entropy_variance(entropy.entropy(logits)) * _largest_step(logits, X)
        ),
    )
)
LEAST_ENTROPY = (
    Inequality(
        left=lambda logits: gradients.binary_entropy(gradients.lesser_weight(logits)),
        right=entropy.entropy,
        sizes=({"logits": (2,)}, {"logits": (5,)}),
        extremal=(lambda: {"logits": _tensor([1.0, 0.0])},),
    )
    .times(0.9999)
    .but("the entropy as a share of log n, times log 2", right=_of_log_tokens)
)
CHORD = Inequality(
    left=lambda logits: gradients.entropy_variance(entropy.entropy(logits)),
    right=lambda logits: entropy.entropy(logits) / (4 * ops.log(ops.constant(2, logits))),
    sizes=({"logits": (2,)}, {"logits": (3,)}),
    extremal=(lambda: {"logits": _tensor([0.0, 0.0])},),
).times(0.9999)


def triangle() -> Instance:
    """Three tokens at equal distances with weights of odds e^2 : e : 1."""
    return {"logits": _tensor([2.0, 1.0, 0.0]), "X": torch.eye(3, dtype=torch.float64)}


TRACE = (
    Inequality(
        left=lambda logits, X: ops.sum(_diagonal(gradients.covariance(logits, X)), -1),
        right=gradients.trace_bound,
        sizes=ROWS,
        extremal=(two_tokens, triangle),
    )
    .times(0.9999)
    .but(
        "the largest weight in place of the sum of squares",
        right=lambda logits, X: (1 - ops.amax(ops.softmax(logits), -1)) * _squared_size(X) / 2,
    )
)


def _diagonal(C):
    return ops.stack([C[..., k, k] for k in range(C.shape[-1])], -1)


# ------------------------------------------------------------------ logits


def _two_odds(logits):
    m = ops.amax(ops.softmax(logits), -1)
    return m * (1 - m)


JACOBIAN = (
    Inequality(
        left=lambda logits: spectral_norm(gradients.softmax_jacobian(logits)),
        right=lambda logits: 2 * _two_odds(logits),
        sizes=({"logits": (2,)}, {"logits": (5,)}),
        extremal=(lambda: {"logits": _tensor([1.0, 0.0])},),
    )
    .times(0.9999)
    .but(
        "2 (1 - m)^2 in place of 2 m (1 - m)",
        right=lambda logits: 2 * ops.square(1 - ops.amax(ops.softmax(logits), -1)),
    )
)
VALUES = tuple({"logits": (n,), "X": (n, d), "g": (d,)} for n, d in ((2, 1), (3, 2), (5, 4)))


def _logit_gradient(logits, X, g):
    z = X @ g[..., None]
    return gradients.length((gradients.softmax_jacobian(logits) @ z)[..., 0])


def _logit_bound(logits, X, g):
    size = norms.diameter(X) * gradients.length(g)
    return ops.root(2, X) * gradients.weight_variance(logits) * size


LOGITS = (
    Inequality(
        left=_logit_gradient,
        right=_logit_bound,
        sizes=VALUES,
        extremal=(lambda: {**two_tokens(), "g": _tensor([3.0, 4.0])},),
    )
    .times(0.9999)
    .but(
        "1.4 in place of the root of 2",
        right=lambda logits, X, g: (
            ops.constant(1.4, X) / ops.root(2, X) * _logit_bound(logits, X, g)
        ),
    )
)

# ------------------------------------------------------------------ one query


def _change(x, X, W_QK, D):
    return gradients.length(gradients.output_change(x, X, W_QK, D, KEY_WIDTH))


def _change_bound(x, X, W_QK, D, query: Callable = lambda x, X: gradients.length(x)):
    P = gradients.weight_variance(gradients.query_logits(x, X, W_QK, KEY_WIDTH))
    return query(x, X) * spectral_norm(D) * P * _squared_size(X) / ops.root(KEY_WIDTH, X)


def _centered(x, X):
    """Distance of the query's token from the mean token."""
    return gradients.length(x - ops.sum(X, -2) / X.shape[-2])


def one_query() -> Instance:
    """A query (2, 0) that sees the tokens (1, 0) and (0, 0), and the direction of the maximum."""
    unit = _tensor([[1.0, 0.0], [0.0, 0.0]])
    return {"x": _tensor([2.0, 0.0]), "X": unit.clone(), "W_QK": unit.clone(), "D": unit.clone()}


QUERY = (
    Inequality(
        left=_change,
        right=_change_bound,
        sizes=tuple(
            {"x": (d,), "X": (n, d), "W_QK": (d, d), "D": (d, d)} for n, d in ((2, 2), (4, 3))
        ),
        extremal=(one_query,),
    )
    .times(0.9999)
    .but("the query centered", right=partial(_change_bound, query=_centered))
    .but(
        "d_qk in place of its root",
        right=lambda **i: _change_bound(**i) / ops.root(KEY_WIDTH, i["X"]),
    )
)

# ------------------------------------------------------------------ a loss


def _along(gradient, D):
    """Size of the derivative of a loss in the direction D."""
    return abs(ops.sum(ops.sum(gradient * D, -1), -1))


def _loss_change(X, W_QK, W, g, D, causal: bool):
    scores = collapse.scores(X, W_QK, KEY_WIDTH)
    return _along(gradients.loss_gradient(scores, X, W, g, KEY_WIDTH, causal), D)


def _loss_bound(X, W_QK, W, g, D, causal: bool):
    scores, back = collapse.scores(X, W_QK, KEY_WIDTH), g @ ops.transpose(W)
    bound = gradients.gradient_bound(scores, X, X, X, back, KEY_WIDTH, causal)
    return spectral_norm(D) * bound


def _largest_row(X, W_QK, W, g, D, causal: bool):
    """Bound of a twin, with the largest of the rows' terms in place of their sum."""
    scores, back = collapse.scores(X, W_QK, KEY_WIDTH), g @ ops.transpose(W)
    parts = [
        gradients.gradient_bound(
            row[..., None, :], X[..., i : i + 1, :], X[..., seen, :], X[..., seen, :],
            back[..., i : i + 1, :], KEY_WIDTH,
        )
        for i, seen, row in gradients.rows(scores, causal)
    ]  # fmt: skip
    return spectral_norm(D) * ops.amax(ops.stack(parts, 0), 0)


def on_a_line(tokens: int = 2) -> Instance:
    """Tokens (1, 0), (2, 0), ... with equal gradients along the line, and W = 1."""
    X, unit = torch.zeros(tokens, 2), torch.zeros(2, 2)
    X[:, 0], unit[0, 0] = torch.arange(1, tokens + 1), 1
    g = torch.zeros(tokens, 2)
    g[:, 0] = 1
    found = {"X": X, "W_QK": unit, "W": torch.eye(2), "g": g, "D": unit.clone()}
    return {name: value.double() for name, value in found.items()}


def _loss_check(causal: bool) -> Inequality:
    return Inequality(
        left=partial(_loss_change, causal=causal),
        right=partial(_loss_bound, causal=causal),
        sizes=tuple(
            {"X": (n, d), "W_QK": (d, d), "W": (d, d), "g": (n, d), "D": (d, d)}
            for n, d in ((2, 2), (4, 3))
        ),
        extremal=(on_a_line,),
    ).times(0.9999)


LOSS = _loss_check(False).but(
    "the largest term in place of the sum", right=partial(_largest_row, causal=False)
)
CAUSAL_LOSS = _loss_check(True).but(
    "d_qk in place of its root",
    right=lambda **i: _loss_bound(**i, causal=True) / ops.root(KEY_WIDTH, i["X"]),
)

# ------------------------------------------------------------------ queries and keys apart


def _cross(logits, K, V):
    return spectral_norm(gradients.cross_covariance(logits, K, V))


def _cross_bound(logits, K, V):
    return gradients.weight_variance(logits) * norms.diameter(K) * norms.diameter(V)


CROSS = (
    Inequality(
        left=_cross,
        right=_cross_bound,
        sizes=tuple(
            {"logits": (n,), "K": (n, k), "V": (n, d)} for n, k, d in ((2, 1, 2), (5, 3, 1))
        ),
        extremal=(
            lambda: {
                "logits": _tensor([1.0, 0.0]),
                "K": _tensor([[1.0], [-1.0]]),
                "V": _tensor([[3.0, 4.0], [0.0, 0.0]]),
            },
        ),
    )
    .times(0.9999)
    .but(
        "the largest distance of a key from the mean key in place of the diameter of the keys",
        right=lambda logits, K, V: (
            gradients.weight_variance(logits)
            * ops.sqrt(_largest_step(logits, K))
            * norms.diameter(V)
        ),
    )
)


def _scores(Q, K):
    return Q @ ops.transpose(K) / ops.root(KEY_WIDTH, Q)


def _map_check(gradient: Callable, bound: Callable, extremal: Callable) -> Inequality:
    """The derivative of a loss in a direction D of the query map or the key map."""
    check = Inequality(
        left=lambda X, Q, K, V, g, D: _along(gradient(_scores(Q, K), X, Q, K, V, g), D),
        right=lambda X, Q, K, V, g, D: spectral_norm(D) * bound(_scores(Q, K), X, Q, K, V, g),
        sizes=tuple(
            {"X": (n, d), "Q": (n, k), "K": (n, k), "V": (n, v), "g": (n, v), "D": (d, k)}
            for n, d, k, v in ((2, 2, 1, 2), (5, 6, 2, 1))
        ),
        extremal=(extremal,),
    )
    return check.times(0.9999)


def one_dimension() -> Instance:
    """Two tokens, queries, keys and values that are numbers."""
    found = {"X": [1, 2], "Q": [1, 2], "K": [1, -1], "V": [0, 3], "g": [1, 1], "D": [1]}
    return {name: _tensor(value)[:, None] for name, value in found.items()}


QUERY_MAP = _map_check(
    lambda logits, X, Q, K, V, g: gradients.query_gradient(logits, X, K, V, g, KEY_WIDTH),
    lambda logits, X, Q, K, V, g: gradients.gradient_bound(logits, X, K, V, g, KEY_WIDTH),
    one_dimension,
).but(
    "the diameter of the tokens in place of that of the keys",
    right=lambda X, Q, K, V, g, D: (
        spectral_norm(D) * gradients.gradient_bound(_scores(Q, K), X, X, V, g, KEY_WIDTH)
    ),
)
KEY_MAP = _map_check(
    lambda logits, X, Q, K, V, g: gradients.key_gradient(logits, X, Q, V, g, KEY_WIDTH),
    lambda logits, X, Q, K, V, g: gradients.gradient_bound(logits, Q, X, V, g, KEY_WIDTH),
    lambda: {**one_dimension(), "K": _tensor([[0.25], [-0.25]])},
).but(
    "the diameter of the keys in place of that of the tokens",
    right=lambda X, Q, K, V, g, D: (
        spectral_norm(D) * gradients.gradient_bound(_scores(Q, K), Q, K, V, g, KEY_WIDTH)
    ),
)

# ------------------------------------------------------------------ depth


def _below(X, W_QK, b_QK, W):
    """Input of the last layer."""
    parts = (M[..., :-1, :, :, :] for M in (W_QK, W))
    return collapse.network(X, next(parts), b_QK[..., :-1, :, :], next(parts), KEY_WIDTH)


def _last_change(X, W_QK, b_QK, W, D):
    """Change of the last layer's output in the direction D of its first head's W_QK; (..., n)."""
    Y = _below(X, W_QK, b_QK, W)
    scores = collapse.scores(Y, W_QK[..., -1, 0, :, :], KEY_WIDTH)
    shift = Y @ b_QK[..., -1, 0, :, None] / ops.root(KEY_WIDTH, Y)
    C = gradients.covariance(scores + ops.transpose(shift), Y[..., None, :, :])
    moved = (Y @ D)[..., None, :] @ C @ W[..., -1, :1, :, :]
    return gradients.length(moved[..., 0, :]) / ops.root(KEY_WIDTH, Y)


def _last_bound(X, W_QK, b_QK, W, D, extra: float = 0.0):
    tokens = gradients.length(_below(X, W_QK, b_QK, W))
    sums = ops.sum(spectral_norm(W_QK) * spectral_norm(W), -1)
    beta, size = (v[..., None] for v in (ops.amax(sums, -1), norms.diameter(X)))
    value = (spectral_norm(D) * spectral_norm(W[..., -1, 0, :, :]))[..., None]
    layers = W.shape[-4] - 1
    bound = gradients.depth_bound(size, beta, tokens, value, layers, KEY_WIDTH)
    r = beta * ops.square(size) / (4 * ops.root(KEY_WIDTH, size))
    return bound * power(r, extra) if extra else bound


def deep_pair(depth: int) -> Instance:
    """Two near tokens along the singular vectors of all maps, and of D."""
    D = torch.zeros(2, 2, dtype=torch.float64)
    D[0, 0] = 1
    return {**extremal_network(2.0**-10, depth, 1.0), "D": D}


DEPTH = (
    Inequality(
        left=_last_change,
        right=_last_bound,
        sizes=(
            network_sizes(2, 2, 1, 1, D=(2, 2)),
            network_sizes(3, 2, 2, 3, D=(2, 2)),
        ),
        extremal=(partial(deep_pair, 1), partial(deep_pair, 2)),
    )
    .times(0.9999)
    .but("an exponent larger by 0.001", right=partial(_last_bound, extra=0.001))
)

CHECKS: dict[str, dict[str, Check]] = {
    "training.covariance": {
        "by the entropy": BY_ENTROPY,
        "by the largest weight": BY_WEIGHT,
        "entropy and largest weight": LEAST_ENTROPY,
        "at most linear": CHORD,
        "entry by entry": by_definition(
            definitions.covariances, "every pair counted twice", counted=1
        ),
    },
    "training.covariance-trace": {"trace": TRACE},
    "training.query-key-gradient": {
        "one direction": QUERY,
        "difference quotients": by_definition(
            definitions.output, "d_qk in place of its root", power=2
        ),
    },
    "training.softmax-jacobian": {"Jacobian": JACOBIAN, "logits": LOGITS},
    "training.loss-gradient": {
        "all keys": LOSS,
        "causal": CAUSAL_LOSS,
        "difference quotients": by_definition(
            definitions.losses, "a mask that hides the query's own token", seen=0
        ),
    },
    "training.queries-and-keys": {
        "keys and values": CROSS,
        "query map": QUERY_MAP,
        "key map": KEY_MAP,
        "difference quotients": by_definition(
            definitions.maps, "the queries' rotation not undone", back=0
        ),
    },
    "training.gradient-over-depth": {"depth": DEPTH},
}

"""Checks of the many-heads bounds without a condition: column sums, both norms, the width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from attnverify.arithmetic import ops
from attnverify.chapters.layer_instances import layer_sizes
from attnverify.checking.check import Check, Inequality, Instance
from attnverify.checking.definition_agreement import by_definition
from attnverify.mathematics import collapse, heads, norms
from attnverify.mathematics.softmax import oscillation
from attnverify.topics.collapse.checks import composite, distinct_entries, gamma_factor
from attnverify.topics.collapse.definitions import layers as definitions

# ------------------------------------------------------------------------------- column sums


def _bound(factor: Callable, E, kappa: Callable = heads.kappa):
    """Bound of a column sum: the factor at D = max_i osc(E_i), times ||E||_1."""
    return factor(kappa(ops.amax(oscillation(E), -1))) * norms.max_column_sum(E)


def _any_vector(base, E, v, **how):
    return _bound(heads.oscillation_factor, E, **how) * oscillation(v)


def _one_token(base, E, **how):
    return _bound(heads.single_factor, E, **how)


def _first_token(base, E):
    """Deviations for the vector e_1, in the shape of base."""
    v = 0 * base
    v[..., 0] = v[..., 0] + 1
    return heads.deviations(base, E, v)


def each_its_own(tokens: int, D: float) -> Instance:
    """Instance near equality for many tokens: equal weights, E = D I, v = (1, -1, 1, ...)."""
    v = torch.ones(tokens, dtype=torch.float64)
    v[1::2] = -1
    E = D * torch.eye(tokens, dtype=torch.float64)
    return {"base": torch.zeros(tokens, dtype=torch.float64), "E": E, "v": v}


def one_heavy(light: int, D: float) -> Instance:
    """Instance where token 1 has half of the weight and each light token is raised once."""
    base = torch.zeros(light + 1, dtype=torch.float64)
    base[0] = torch.tensor(float(light)).double().log()
    E = torch.zeros(2 * light, light + 1, dtype=torch.float64)
    E[:light, 1:] = D * torch.eye(light, dtype=torch.float64)
    E[light:, 0] = D / light
    return {"base": base, "E": E}


def _with_neighbors(check: Inequality) -> Inequality:
    return check.times(0.995).but(
        "e^(D/2) in place of kappa(D)",
        right=partial(check.right, kappa=lambda D: ops.exp(D / ops.constant(2, D))),
    )


COLUMN_SIZES = ((2, 2), (4, 3), (6, 6))  # rows and tokens
ANY_VECTOR = _with_neighbors(
    Inequality(
        left=heads.deviations,
        right=_any_vector,
        sizes=tuple({"base": (m,), "E": (n, m), "v": (m,)} for n, m in COLUMN_SIZES),
        extremal=(lambda: each_its_own(64, 0.25), lambda: each_its_own(128, 1.0)),
    )
)
ONE_TOKEN = _with_neighbors(
    Inequality(
        left=_first_token,
        right=_one_token,
        sizes=tuple({"base": (m,), "E": (n, m)} for n, m in COLUMN_SIZES),
        extremal=(lambda: one_heavy(64, 0.25), lambda: one_heavy(64, 1.0)),
    )
)


# ------------------------------------------------------------------------------- one layer


def _scaled(layer: Instance, key_width: int) -> Instance:
    """Layer for ``key_width`` rescaled to the key width of the checks, so its logits are equal."""
    factor = (composite.KEY_WIDTH / key_width) ** 0.5
    X = layer["X"]
    return {
        "R": X,
        "x": torch.zeros(1, X.shape[-1], dtype=torch.float64),
        "W_QK": factor * layer["W_QK"],
        "b_QK": factor * layer["b_QK"],
        "W": layer["W"],
    }


def two_tokens(width: int, t: float = 2.0**-4) -> Instance:
    return _scaled(collapse.many_heads_counterexample(width, t), 1)


def family(width: int, tokens: int) -> Instance:
    return _scaled(heads.wide_family(width, tokens, 2.0**-10), heads.WIDE_KEY_WIDTH)


def one_layer(
    constant: Callable, two: tuple[Callable, ...], more: tuple[Callable, ...]
) -> dict[str, Inequality]:
    """Checks of two tokens with the best center, and of more with the center of the proof."""
    made = {}
    for name, tokens, instances in (("two tokens", 2, two), ("more tokens", 4, more)):
        known = composite.MANY_HEADS[name]
        made[name] = replace(
            known,
            right=composite.bound(constant),
            build=composite.unconditional_layer,
            hypotheses=None,
            sizes=(*known.sizes, layer_sizes(tokens, 6, 3)),
            extremal=instances,
            twins=(),
        )
    return made


ONE_HEAD = replace(
    composite.SHARPENED["more tokens"], right=composite.bound(heads.one_head_constant), twins=()
)
# The factors: two tokens leave at most 1/sqrt(2) of either bound.
SHARPENED = composite.refuted_at(
    {
        **one_layer(
            heads.sums_constant, (lambda: two_tokens(16),), (composite.pulled_apart_twice,)
        ),
        "one head": ONE_HEAD,
    },
    0.7065,
    0.999,
    0.999,
)
DIMENSION = composite.refuted_at(
    one_layer(
        heads.dimension_constant,
        (lambda: two_tokens(16), lambda: two_tokens(49)),
        (lambda: family(2, 40), lambda: family(4, 10), lambda: family(9, 12)),
    ),
    0.7065,
    0.99,
)


def paired(width: int, tokens: int) -> Instance:
    """Layer of the family for the bound with gamma, at the key width of the checks."""
    return _scaled(heads.gamma_family(width, tokens), heads.GAMMA_KEY_WIDTH)


GAMMA = composite.refuted_at(
    one_layer(
        heads.gamma_constant,
        (lambda: two_tokens(1), lambda: two_tokens(16)),
        (lambda: paired(4, 4), lambda: paired(6, 4)),
    ),
    0.98,
    0.91,
)

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.column-sums": {"any vector": ANY_VECTOR, "one token": ONE_TOKEN},
    "collapse.multi-head-sharpened": {**SHARPENED},
    "collapse.multi-head-dimension": {
        **DIMENSION,
        "the constant is reached": distinct_entries.REACHED,
    },
    "collapse.multi-head-small-width": {**distinct_entries.SMALL_WIDTH},
    "collapse.multi-head-gamma": {
        **GAMMA,
        **gamma_factor.CERTIFIED,
        "constant": by_definition(definitions.with_gamma, "the fifth root", root=5),
    },
}

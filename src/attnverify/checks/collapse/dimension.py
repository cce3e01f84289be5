"""Checks of the many-heads bounds without a condition: column sums, both norms, the width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from attnverify import ops
from attnverify.checks.collapse import composite, wide
from attnverify.checks.instances import bounded_layer, layer_sizes
from attnverify.evidence.forms import Check, Inequality, Instance, Twin
from attnverify.formulas import collapse, heads, norms
from attnverify.formulas.softmax import oscillation

# ------------------------------------------------------------------------------- column sums


def _largest(E):
    return ops.amax(oscillation(E), -1)


def _oscillation_right(kappa: Callable) -> Callable:
    def right(base, E, v):
        return kappa(_largest(E)) / ops.constant(2, E) * norms.max_column_sum(E) * oscillation(v)

    return right


def _first_token(base, E):
    """The vector e_1, of the shape of base."""
    v = 0 * base
    v[..., 0] = v[..., 0] + 1
    return heads.deviations(base, E, v)


def _single_right(kappa: Callable) -> Callable:
    def right(base, E):
        return (1 + kappa(_largest(E))) / ops.constant(4, E) * norms.max_column_sum(E)

    return right


def each_its_own(tokens: int, D: float) -> Instance:
    """Equal weights, E = D I, v = (1, -1, 1, ...): near equality for many tokens."""
    v = torch.ones(tokens, dtype=torch.float64)
    v[1::2] = -1
    E = D * torch.eye(tokens, dtype=torch.float64)
    return {"base": torch.zeros(tokens, dtype=torch.float64), "E": E, "v": v}


def one_heavy(light: int, D: float) -> Instance:
    """Token 1 holds half of the weight; each light token is raised once, token 1 a little often."""
    base = torch.zeros(light + 1, dtype=torch.float64)
    base[0] = torch.tensor(float(light)).double().log()
    E = torch.zeros(2 * light, light + 1, dtype=torch.float64)
    E[:light, 1:] = D * torch.eye(light, dtype=torch.float64)
    E[light:, 0] = D / light
    return {"base": base, "E": E}


def _column_sums() -> dict[str, Check]:
    any_vector = Inequality(
        left=heads.deviations,
        right=_oscillation_right(heads.kappa),
        sizes=tuple({"base": (m,), "E": (n, m), "v": (m,)} for n, m in ((2, 2), (4, 3), (6, 6))),
        extremal=(lambda: each_its_own(64, 0.25), lambda: each_its_own(64, 1.0)),
    )
    one_token = Inequality(
        left=_first_token,
        right=_single_right(heads.kappa),
        sizes=tuple({"base": (m,), "E": (n, m)} for n, m in ((2, 2), (4, 3), (6, 6))),
        extremal=(lambda: one_heavy(64, 0.25), lambda: one_heavy(64, 1.0)),
    )
    neighbors: dict[str, Callable] = {
        "0.99 kappa(D) in place of kappa(D)": lambda D: 0.99 * heads.kappa(D),
        "e^(D/2) in place of kappa(D)": lambda D: ops.exp(D / ops.constant(2, D)),
    }
    return {
        name: replace(
            check,
            twins=tuple(Twin(t, replace(check, right=right(k))) for t, k in neighbors.items()),
        )
        for name, check, right in (
            ("any vector", any_vector, _oscillation_right),
            ("one token", one_token, _single_right),
        )
    }


# ------------------------------------------------------------------------------- one layer

WIDE = 8.0  # oscillations drawn; the bounds have no condition


def _free(**parameters) -> Instance:
    return bounded_layer(**parameters, limit=WIDE)


def _scaled(layer: Instance, key_width: int) -> Instance:
    """A layer made for ``key_width`` under the checks' own: logits are divided by its root."""
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
    return _scaled(heads.wide_family(width, tokens, 2.0**-6), heads.WIDE_KEY_WIDTH)


def _right(constant: Callable) -> Callable:
    def right(R, x, W_QK, b_QK, W):
        return collapse.cubic(constant(R, W_QK, W, composite.KEY_WIDTH), norms.composite(R))

    return right


def _checks(constant: Callable, two: tuple[Callable, ...], more: tuple[Callable, ...]) -> dict:
    """Two tokens with the best center; more tokens with the center of the proof."""
    made = {}
    for name, tokens, instances in (("two tokens", 2, two), ("more tokens", 4, more)):
        known = composite.MANY_HEADS[name]
        made[name] = replace(
            known,
            right=_right(constant),
            build=_free,
            hypotheses=None,
            sizes=(*known.sizes, layer_sizes(tokens, 6, 3)),
            extremal=instances,
            twins=(),
        )
    return made


def _with(check: Inequality, title: str, constant: Callable) -> Inequality:
    return replace(check, twins=(Twin(title, replace(check, right=_right(constant))),))


def _times(constant: Callable, share: float) -> Callable:
    return lambda R, W_QK, W, k: ops.constant(share, R) * constant(R, W_QK, W, k)


def _without_width(R, W_QK, W, key_width):
    """K(D, 1) in place of K(D, d)."""
    d = heads.dimension_factor(heads.largest_oscillation(R, W_QK, key_width), W.shape[-1])
    one = heads.dimension_factor(heads.largest_oscillation(R, W_QK, key_width), 1)
    return heads.dimension_constant(R, W_QK, W, key_width) * one / d


SHARPENED = _checks(heads.sums_constant, (lambda: two_tokens(16),), (composite.pulled_apart_twice,))
ONE_HEAD = replace(
    composite.SHARPENED["more tokens"], right=_right(heads.one_head_constant), twins=()
)
DIMENSION = _checks(
    heads.dimension_constant,
    (lambda: two_tokens(16), lambda: two_tokens(49)),
    (lambda: family(4, 10), lambda: family(9, 12)),
)

SMALL = replace(
    composite.MANY_HEADS["more tokens"],
    right=_right(collapse.published_constant),
    extremal=(),
    twins=(),
)

CHECKS: dict[str, dict[str, Check]] = {
    "collapse.column-sums": _column_sums(),
    "collapse.multi-head-sharpened": {
        **SHARPENED,
        "more tokens": _with(
            SHARPENED["more tokens"],
            "0.99 times the constant",
            _times(heads.sums_constant, 0.99),
        ),
        "one head": _with(
            ONE_HEAD, "0.99 times the constant", _times(heads.one_head_constant, 0.99)
        ),
    },
    "collapse.multi-head-dimension": {
        **DIMENSION,
        "two tokens": _with(
            DIMENSION["two tokens"], "the factor of width 1 at every width", _without_width
        ),
        "the constant is reached": wide.REACHED,
    },
    "collapse.multi-head-small-width": {"small layers": SMALL, **wide.SMALL_WIDTH},
}

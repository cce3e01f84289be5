"""Checks of the piecewise linear softmax: its error, blocked tokens, its mass."""

from __future__ import annotations

import torch

from attnverify.arithmetic import ops
from attnverify.checking.check import Check, Inequality
from attnverify.mathematics import softmax
from attnverify.topics.softmax.checks.perturbation import one_large_logit

PIECEWISE = (
    Inequality(
        left=lambda u: abs(ops.softmax(u) - softmax.piecewise_linear(u)),
        right=lambda u: (
            softmax.linearization_bound_sharp(u)[..., None] * ops.full((u.shape[-1],), 1, u)
        ),
        sizes=tuple({"u": (T,)} for T in (2, 8, 64)),
        extremal=(lambda: one_large_logit(1 << 14, 1.0),),
    )
    .times(0.999)
    .but(
        "0.999 times the oscillation in place of D",
        right=lambda u: PIECEWISE.right(ops.constant(0.999, u) * u),
    )
)


def _blocked(u, s, threshold: float = 1.0):
    """The first logit lowered until u_1 <= mean(u) - threshold, with a little room for rounding."""
    rest, T = u[..., 1:], u.shape[-1]
    gap = threshold * (1 + 2.0**-40) + torch.nn.functional.softplus(s)
    first = rest.mean(-1, keepdim=True) - gap * T / (T - 1)
    return {"u": torch.cat([first, rest], -1)}


def _is_blocked(u):
    T = ops.constant(u.shape[-1], u)
    return [(u[..., 0] + 1, ops.sum(u, -1) / T)]


def _others_equal() -> dict[str, torch.Tensor]:
    tokens = 1 << 14
    u = torch.zeros(tokens, dtype=torch.float64)
    u[0] = -tokens / (tokens - 1) * (1 + 2.0**-40)
    return {"u": u}


def _share(u):
    """1/(e T)."""
    return ops.exp(-ops.full(u.shape[:1], 1, u)) / u.shape[-1]


BLOCKED = (
    Inequality(
        left=lambda u: ops.softmax(u)[..., 0],
        right=_share,
        sizes=tuple({"u": (T,), "s": (1,)} for T in (2, 8, 64)),
        build=_blocked,
        hypotheses=_is_blocked,
        extremal=(_others_equal,),
    )
    .times(0.9999)
    .but(
        "blocked from -0.999 on",
        build=lambda u, s: _blocked(u, s, 0.999),
        hypotheses=None,
        extremal=(lambda: {"u": 0.999 * _others_equal()["u"]},),
    )
)


def _blocked_together(rest, s, threshold: float = 1.0):
    """Logits ``low`` at most mean - threshold, the other logits shifted so that all sum to 0."""
    low = -threshold * (1 + 2.0**-40) - torch.nn.functional.softplus(s)
    shift = rest.mean(-1, keepdim=True) + low.sum(-1, keepdim=True) / rest.shape[-1]
    return {"low": low, "rest": rest - shift}


def _all_low(low, rest):
    u = ops.join([low, rest], -1)
    mean = ops.sum(u, -1, keepdims=True) / ops.constant(u.shape[-1], u)
    return [(low + 1, mean + 0 * low)]


def _low_mass(low, rest):
    """The attention that the tokens with logits ``low`` have together; (...)."""
    return ops.sum(ops.softmax(ops.join([low, rest], -1))[..., : low.shape[-1]], -1)


def _largest_loss(low, rest):
    """1/(1 + e^2)."""
    one = ops.full(low.shape[:1], 1, low)
    return one / (one + ops.exp(one + one))


def _half_and_half(threshold: float = 1.0, tokens: int = 4) -> dict[str, torch.Tensor]:
    both = torch.full((tokens // 2,), threshold, dtype=torch.float64)
    return {"low": -both, "rest": both}


LOST = (
    Inequality(
        left=_low_mass,
        right=_largest_loss,
        sizes=tuple({"rest": (r,), "s": (b,)} for r, b in ((1, 1), (2, 3), (6, 4), (30, 30))),
        build=_blocked_together,
        hypotheses=_all_low,
        extremal=(
            _half_and_half,
            lambda: _half_and_half(tokens=2),
            lambda: _half_and_half(tokens=14),
        ),
    )
    .times(0.9999)
    .but(
        "blocked from -0.999 on",
        build=lambda rest, s: _blocked_together(rest, s, 0.999),
        hypotheses=None,
        extremal=(lambda: _half_and_half(0.999),),
    )
)


def _mass(u):
    """The sum of the model's weights; (...)."""
    return ops.sum(softmax.piecewise_linear(u), -1)


def _all_but_one() -> dict[str, torch.Tensor]:
    """Four logits so far above the fifth that each has weight 1 in the model."""
    return {"u": torch.tensor([4.0, 4.0, 4.0, 4.0, -16.0], dtype=torch.float64)}


MASS_SIZES = tuple({"u": (T,)} for T in (3, 8))
ONE_AT_LEAST = Inequality(
    left=lambda u: ops.full(u.shape[:1], 1 - 2.0**-40, u),  # equality for equal logits
    right=_mass,
    sizes=MASS_SIZES,
    extremal=(lambda: {"u": torch.zeros(4, dtype=torch.float64)},),
).times(0.9999)
ALL_BUT_ONE = Inequality(
    left=_mass,
    right=lambda u: ops.full(u.shape[:1], u.shape[-1] - 1, u),
    sizes=MASS_SIZES,
    extremal=(_all_but_one,),
).times(0.9999)

CHECKS: dict[str, dict[str, Check]] = {
    "softmax.piecewise-linear": {
        "error": PIECEWISE,
        "blocked": BLOCKED,
        "blocked together": LOST,
        "least mass": ONE_AT_LEAST,
        "largest mass": ALL_BUT_ONE,
    },
}

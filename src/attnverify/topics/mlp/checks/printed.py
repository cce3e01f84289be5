"""Certified counterexamples to the corollary on MLPs as printed: the MLP does nothing."""

from __future__ import annotations

from functools import partial

import numpy as np
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import certain
from attnverify.checking.check import Check, Decision
from attnverify.mathematics.softmax import critical_oscillation
from attnverify.support.verdict import Verdict
from attnverify.topics.collapse.checks import wide
from attnverify.topics.mlp.checks.lipschitz import mlp


def identity(Y: np.ndarray) -> np.ndarray:
    """relu(Y W_1 + b_1) W_2 + b_2 with W_1 = W_2 = I, b_1 = 1 + max|Y| and b_2 = -b_1.

    |f(x) - f(y)| = |x - y| for the rows seen, in every norm: the Lipschitz constant is 1.
    """
    eye = ops.eye(Y.shape[-1], Y)
    room = ops.full((1, Y.shape[-1]), 1, Y) * (1 + ops.amax(ops.amax(abs(Y), -1), -1))
    return mlp(Y, eye, room, eye) - room


def _violates(d: int, n: int, w: float, lipschitz: float = 1.0) -> Verdict:
    """The printed corollary with this lambda is false for the family followed by the identity."""
    with ops.precision(wide.BITS):
        layer = wide.family(d, n, w, after=identity)
        ratio = layer.printed / arb(lipschitz)
        met = layer.D <= critical_oscillation()
        holds = certain(met and ratio > 1 and ratio / layer.gamma > 1, ratio < 1)
    words = f"d = {d}, n = {n}, lambda = {lipschitz:g}: left/right = {ratio.str(15)}"
    return Verdict(holds, words, ratio=float(ratio.mid()))


def _certified(title: str, first: tuple, second: tuple) -> Decision:
    run = partial(_violates, *first)
    return Decision(run, wide.LIMITS, "certified").but(title, run=partial(_violates, *second))


LARGE = (20_000, 10_000, 2.0**-6)
CHECKS: dict[str, dict[str, Check]] = {
    "mlp.as-printed": {
        "identity, d = 20000": _certified("lambda = 1.06 does it too", LARGE, (*LARGE, 1.06)),
        "identity, d = 15874": _certified(
            "d = 15873 does it too", (15_874, 10**13, wide.TINY), (15_873, 10**13, wide.TINY)
        ),
    }
}

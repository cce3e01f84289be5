"""The criterion of the experiment on random attention, at its limits."""

from __future__ import annotations

import math

import pytest

from attnverify.experiments import random_attention
from attnverify.experiments.random_attention import SIGMAS, edge


def rows(tokens=500, low=1.0, high=1.06, weight=1.0, centered=1.0):
    """Two matrices for each sigma, with s_2 in units of the edge, at the limits unless told."""
    found = []
    for sigma in SIGMAS:
        second = edge(sigma) * (low if sigma == 0.5 else high)
        large = edge(sigma) * (weight if sigma == 1.5 else 0.5)
        figures = {"second": second, "weight": min(large, second), "centered": second * centered}
        lists = {k: [v, v] for k, v in figures.items()} | {"product": [2 * second] * 2}
        found.append({"sigma": sigma, "tokens": tokens, **lists})
    return found


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, True),
        ({"low": 1.06}, False),
        ({"low": 0.94}, False),
        ({"high": 1.04}, False),
        ({"weight": 0.99}, False),
        ({"centered": 0.99}, False),
        ({"centered": 2.01}, False),
        ({"tokens": 250}, None),
        ({"low": math.nan}, None),
    ],
)
def test_at_the_limits(changed, holds):
    assert random_attention.judge(rows(**changed)).holds is holds


def test_a_figure_that_is_missing_decides_nothing():
    found = rows()
    found[0]["product"] = [None, 1.0]
    assert random_attention.judge(found).holds is None


def test_two_tokens_by_hand():
    """Equal logits have equal rows: s_2, the norm of C A and the excess are 0."""
    found = random_attention.measured(0.0, 2, 0)
    assert all(abs(v) < 1e-12 for v in found.values())
    assert edge(math.sqrt(math.log(2))) == pytest.approx(2)

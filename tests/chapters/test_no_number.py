"""What is no number is no agreement: decisions that are fed NaN stay unknown.

Nor is it a rejection: a twin of such a decision must not come out false.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from flint import arb

from attnverify.chapters.cells import declared
from attnverify.chapters.lookup import checks_of
from attnverify.chapters.simulation_cases import within
from attnverify.mathematics import head_bounds, localization, mask_bounds
from attnverify.mathematics.softmax import critical_oscillation

NAN = math.nan
FIGURES = ("divergence", "variation", "entropy", "contrast")
NEAR = declared("softmax-row")["localization.softmax-row"]
CELLS = NEAR["divergence"].function.__globals__  # what the check cells of that chapter define


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_deviation_that_is_no_number_leaves_all_unknown(place):
    """Wherever it stands, beside one that is too large also."""
    for other in (0.5, 9.0):
        values = [other] * 3
        values[place] = NAN
        holds, largest = within(values, 4)
        assert holds is None and math.isnan(largest)
    assert within([0.5, 4.0], 4) == (True, 4.0)
    assert within([0.5, math.inf, 1.0], 4) == (False, math.inf)


def only_once(real, nothing, place: int):
    """A function whose call of this number, from 0, gives nothing in place of its result."""
    calls = iter(range(1_000_000))
    return lambda *given, **named: nothing if next(calls) == place else real(*given, **named)


@pytest.mark.parametrize("place", [0, 1, 4])
def test_a_row_of_scores_that_is_no_number(place):
    """In one of the five cases."""
    no_row = torch.full((64, 8), NAN, dtype=torch.float64)
    law = declared("softmax-row")["walk.row"]["law"]
    verdict = law(logits=only_once(CELLS["by_the_law"], no_row, place), samples=64)
    assert verdict.holds is None and "nan" in verdict.argument


@pytest.mark.parametrize("place", [0, 1, 4])
def test_a_probability_that_is_no_number(monkeypatch, place):
    nothing = torch.full((8,), NAN, dtype=torch.float64)
    between = only_once(localization.between, nothing, place)
    monkeypatch.setattr(localization, "between", between)
    verdict = declared("localization")["localization.exact"]["simulation"](samples=200)
    assert verdict.holds is None and verdict.ratio is None


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("found", [(NAN, 0.0), (0.0, NAN)])
def test_a_mean_or_an_error_that_is_no_number(monkeypatch, place, found):
    """In one of the four cases; the others are far below their bounds."""
    name = list(CELLS["ROWS"])[place]
    means = lambda case: dict.fromkeys(FIGURES, found if case == name else (0.0, 0.0))  # noqa: E731
    monkeypatch.setitem(CELLS, "means", means)
    for figure in FIGURES:
        verdict = NEAR[figure]()
        assert verdict.holds is None and verdict.argument.startswith(f"{name}: ")


@pytest.mark.parametrize("place", range(4))
def test_a_bound_that_is_no_number(monkeypatch, place):
    monkeypatch.setitem(CELLS, "means", lambda case: {"divergence": (0.0, 0.0)})
    bound = only_once(lambda *given: 1.0, NAN, place)
    assert NEAR["divergence"](bound=bound).holds is None


def test_figures_that_are_numbers_are_decided(monkeypatch):
    """Beyond four standard errors above its bound a mean says no, up to that yes."""
    for error, holds in ((0.0, False), (1e9, True)):
        means = lambda case, e=error: {"variation": (1e3, e)}  # noqa: E731
        monkeypatch.setitem(CELLS, "means", means)
        assert NEAR["variation"]().holds is holds


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("ball", [arb("nan"), arb(4, 8)])
def test_a_share_that_is_not_known(monkeypatch, place, ball):
    """Of one of three layers; a wide ball around 1, too, says nothing."""
    size = np.array([ball], dtype=object)
    nothing_smaller = checks_of("modern.concatenated-heads")["nothing smaller"]
    monkeypatch.setattr(head_bounds, "along", only_once(head_bounds.along, size, place))
    assert nothing_smaller.run().holds is None


@pytest.mark.parametrize("place", [1, 3, 6])
def test_a_ratio_of_distances_that_is_not_known(monkeypatch, place):
    check = declared("decoder-positions")["modern.positions-end-cubic"]["not below the limit"]
    real = check.function.__globals__["plane_orbit"]

    def broken(middle, layers):
        states = real(middle, layers)
        states[place] = states[place] + arb("nan")
        return states

    monkeypatch.setitem(check.function.__globals__, "plane_orbit", broken)
    assert check().holds is None


@pytest.mark.parametrize("ball", [arb("nan"), arb(0.5, 0.5)])
def test_an_enclosure_that_shows_nothing(ball):
    """It holds every probability, and so the right one."""
    bounds = declared("localization")["localization.inversion"]["bounds"]
    assert bounds(ball=lambda found: ball).holds is None


def test_a_wide_zero_is_not_a_zero():
    """An end known to 2^-12 may lie beyond the right one."""
    exact, lemma = critical_oscillation, declared("softmax")["softmax.perturbation"]["scalar upper"]
    assert lemma(end=exact).holds is True
    assert lemma(end=lambda: exact() + arb(0, 2.0**-12)).holds is None


def test_a_growth_that_is_no_number(monkeypatch):
    monkeypatch.setattr(mask_bounds, "growth", lambda *given: arb("nan"))
    assert declared("decoder-masks")["modern.window-rate"]["what it costs"]().holds is None

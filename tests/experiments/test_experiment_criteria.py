"""The criteria of the experiments on rows made by hand: which errors change a verdict.

A table that comes with the package is far from most boundaries, so any for all, a wrong sign of a
quantile or an empty comparison would not show there.
"""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from attnverify.experiments import (
    EXPERIMENTS,
    circle,
    locater,
    pathcounts,
    phase_diagram,
    random_attention,
)
from attnverify.experiments import shortpaths as short
from attnverify.experiments.engine.model import (
    above,
    all_of,
    any_of,
    at_least,
    at_most,
    below,
)
from attnverify.experiments.trained_encoder import silent_heads, spectra
from attnverify.experiments.trained_models import lengths, looked


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_empty_table_meets_nothing_and_refutes_nothing(name):
    assert EXPERIMENTS[name].judge([]).holds is None


@pytest.mark.parametrize(
    ("answers", "every", "some"),
    [
        ([], None, None),
        ([True, True], True, True),
        ([True, False], False, True),
        ([True, None], None, True),
        ([False, None], False, None),
    ],
)
def test_answers_that_are_not_known(answers, every, some):
    assert all_of(iter(answers)) is every and any_of(iter(answers)) is some


def test_nothing_is_decided_by_what_overflowed():
    for value in (None, math.nan, math.inf, -math.inf):
        assert {test(value, 1.0) for test in (above, below, at_least)} == {None}
    assert at_most(math.nan, 1.0) is above(1.0, math.inf) is None
    assert at_most(math.inf, 1.0) is False
    around = (0.5, 1.0, 1.5)
    for test, expected in (
        (above, [False, False, True]),
        (below, [True, False, False]),
        (at_least, [False, True, True]),
        (at_most, [True, True, False]),
    ):
        found = [test(value, 1.0) for value in around]
        assert all(a is b for a, b in zip(found, expected, strict=True)), test.__name__


def path_rows(gains=(0.2, 0.21, 0.19, 0.2), alone=(0.1, 0.11, 0.09, 0.1), share=0.5, off=0.0):
    """Networks whose short paths are better by the gains, and drawn scores that are off by so
    many standard deviations of one draw at the longest paths of the last network."""
    rows = []
    for network, (gain, single) in enumerate(zip(gains, alone, strict=True)):
        place = {"steps": 9, "network": network}
        rows.append({**place, "sum_share": share if network == len(gains) - 1 else 0.1})
        for length in (0, 1, short.DEPTH):
            mine = length == 1
            wrong = off if length == short.DEPTH and network == len(gains) - 1 else 0.0
            rows.append(
                {
                    **place,
                    "length": length,
                    "paths": 1 if length == 0 else 64,
                    "sampled": 1 if length == 0 else 100,
                    "accuracy": 0.3 + gain * mine,
                    "alone": 0.1 + single * mine,
                    "score": 1.0,
                    "sampled_score": 1.0 + wrong,
                    "spread": 1.0,
                    "farthest": 2.0,
                }
            )
    return rows


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        ({}, True),
        # mean 0.1 and standard error 0.1: above zero, not by the quantile t_3(0.99) = 4.54
        ({"gains": (-0.1, 0.3, -0.1, 0.3)}, False),
        ({"alone": (-0.1, 0.3, -0.1, 0.3)}, False),
        ({"share": 1.01}, False),
        ({"share": math.nan}, None),
        # Bernstein allows (2/3 l + sqrt((2/3 l)^2 + 200 l))/100 = 0.55, l = log(2 * 8/10^-3)
        ({"off": 0.5}, True),
        ({"off": -0.6}, False),
        ({"gains": (0.2,), "alone": (0.1,)}, None),
    ],
)
def test_short_paths(options, holds):
    assert short.judge(path_rows(**options)).holds is holds


def test_only_the_longest_training_counts():
    other = [{**row, "steps": 3, "accuracy": 0.0, "sum_share": 9.0} for row in path_rows()]
    assert short.judge([*path_rows(), *other]).holds is True


def runs(falls=(1e-5, 1e-4), stays=(0.9, 0.8), start=0.9):
    both = ((circle.FALLS, falls), (circle.STAYS, stays))
    return [{"variant": v, "start": start, "ratio": r} for v, found in both for r in found]


@pytest.mark.parametrize(
    ("rows", "holds"),
    [
        (runs(), True),
        (runs(falls=(1e-3, 1e-5)), False),  # at the boundary neither counts
        (runs(falls=(1e-5, None)), False),
        (runs(stays=(0.9, 0.5)), False),
        (runs(stays=(0.9, None)), False),  # a run that left the plane did not stay
        (runs(falls=(0.0, 0.999e-3), stays=(0.501,)), True),
        (runs(falls=()), None),
        (runs(start=1.0), None),
    ],
)
def test_circle(rows, holds):
    assert circle.EXPERIMENT.judge(rows).holds is holds


def cells(**last):
    """Spectra of radius 3 around one sign and around zero; ``last`` changes the last of each."""
    common = {"residual": 0.6, "residual_error": 0.01, "entropy_error": 0.01}
    tight = common | {"mean": 3.0, "deviation": 0.0, "entropy": 0.5, "contrast": 0.4}
    wide = common | {"mean": 0.0, "deviation": 3.0, "entropy": 0.9, "contrast": 0.1}
    tight, wide = (cell | {"contrast_error": 0.01} for cell in (tight, wide))
    changed = [tight | last.get("tight", {}), wide | last.get("wide", {})]
    return [tight, wide, *changed]


@pytest.mark.parametrize(
    ("rows", "holds"),
    [
        (cells(), True),
        (cells(tight={"entropy": 0.28}), False),  # 0.25 by 3 standard errors, not by 4
        (cells(tight={"residual": 0.28}), False),
        (cells(wide={"residual": 0.28}), False),
        (cells(tight={"contrast": 0.15}), False),  # above 0.1 by 3.5 standard errors
        (cells(tight={"contrast": -0.4}), True),  # its absolute value counts
        (cells(wide={"entropy": 0.55}), False),  # above 0.5 by 3.5 standard errors
        ([cells()[0], cells(wide={"deviation": 3.19})[3]], True),
        ([cells()[0], cells(wide={"deviation": 3.21})[3]], False),  # no two of nearly one radius
        (cells(tight={"mean": 4.1, "entropy": 0.28}), True),  # no moderate size
        (cells(tight={"mean": -0.9, "entropy": 0.28}), True),
        (cells(tight={"mean": 4.1, "deviation": 1.1, "entropy": 0.28}), True),
        (cells(wide={"deviation": 2.75, "residual": 0.2}), True),  # not spread enough for part 3
        (cells(tight={"mean": 8.1, "contrast": 0.1}, wide={"deviation": 8.1}), True),
    ],
)
def test_phase_diagram(rows, holds):
    assert phase_diagram.judge(rows).holds is holds


def test_a_cell_has_means_and_standard_errors_over_its_sequences():
    """By the definitions, sequence after sequence, to half a unit of the last stored digit."""
    X = phase_diagram.walks(7, seed=2)
    row = phase_diagram.cell(X, 1.0, 2.0)
    eigenvalues = 1.0 + 2.0 * phase_diagram.spectrum_shape(phase_diagram.WIDTH)
    quantiles = [statistics.NormalDist().inv_cdf((k + 0.5) / 16) for k in range(16)]
    own = [1 + 2 * q / statistics.pstdev(quantiles) for q in quantiles]
    assert eigenvalues.tolist() == pytest.approx(own) and row["sequences"] == 7
    assert float((eigenvalues - 1).square().mean()) == pytest.approx(4)
    each = {name: [] for name in phase_diagram.FIGURES}
    for tokens in X:
        P = (tokens @ eigenvalues.diag() @ tokens.mT / (32 * 4)).softmax(-1)
        rest = lambda Y: Y - Y.mean(0)  # noqa: E731
        value = lambda Y: (Y.abs().sum(0).max() * Y.abs().sum(1).max()).sqrt()  # noqa: E731
        share = [value(rest(Y)) / value(Y) for Y in (P @ tokens, tokens)]
        contrast = float(P[-1, 24:].sum() - P[-1, :8].sum())
        each["entropy"].append(float(-(P * P.log()).sum(-1).mean()) / math.log(32))
        each["residual"].append(float(share[0] / share[1]))
        each["contrast"].append(contrast)
        each["strength"].append(abs(contrast))
    for name, values in each.items():
        assert row[name] == pytest.approx(statistics.mean(values), abs=0.6e-6), name
        error = statistics.stdev(values) / math.sqrt(7)
        assert row[f"{name}_error"] == pytest.approx(error, abs=0.6e-6), name


def test_counts_of_an_architecture():
    """3 layers of 2 heads: (1 + 2)^3 = 27 paths, of lengths 0 to 3: 1, 3 * 2, 3 * 4, 8."""
    row = pathcounts.row("small", "nobody2020", 3, 2)
    assert row == {
        "architecture": "small",
        "source": "nobody2020",
        "depth": 3,
        "heads": 2,
        "mean": 2.0,
        "short": 7 / 27,
        "longest": 8 / 27,
        "counts": [1, 6, 12, 8],
    }
    assert pathcounts.row("even", "nobody2020", 4, 1)["short"] == 5 / 16  # half is not shorter
    wrong = row | {"counts": [1, 6, 12, 9]}
    assert pathcounts.judge([row], 3).holds and not pathcounts.judge([row], 4).holds
    assert not pathcounts.judge([row, wrong], 3).holds
    half, most = ({"counts": [1, 0, last]} for last in (1, 2))
    assert [pathcounts.half_are_longest([row]).holds for row in (half, most)] == [False, True]


def test_a_difference_of_seeds_has_its_upper_bound_above_its_mean():
    """Differences 0, 2, 0, 2, 1: mean 1, standard error (4/4/5)^(1/2), t_4(1 - 0.05/2) = 2.776.

    The standard error is taken to three digits, 0.447, so half a unit is 0.0014 here.
    """
    row, other = {"loss": [1.0, 3.0, 1.0, 3.0, 2.0]}, {"loss": [1.0] * 5}
    mean, high = locater.bound(row, other, "loss", 2)
    assert mean == 1 and high == pytest.approx(1 + 2.776 * 0.2**0.5, abs=1.4e-3)
    mean, high = locater.bound(other, row, "loss", 2)
    assert mean == -1 and high == pytest.approx(-1 + 2.776 * 0.2**0.5, abs=1.4e-3)


def test_long_paths_are_longer_than_half_the_depth():
    row = {"shares": [0.5, 0.3, 0.1, 0.06, 0.04], "paths": [1, 8, 24, 32, 16]}
    assert looked.long_paths(row) == pytest.approx((0.1, 48 / 81))


def test_the_error_of_a_perplexity_is_that_of_the_loss_to_first_order():
    assert locater.perplexity(1.0, 0.1) == (2.71828, 0.272)  # e and 0.1 e
    assert locater.perplexity(0.0, 0.1) == (1.0, 0.1)


def heads(first, second, random=True):
    """Those of the judged model, and others beside them."""
    found = [
        {"kind": "trained", "judged": True, "xi_frobenius": a, "skew_share": b}
        for a, b in zip(first, second, strict=True)
    ]
    ends = {"kind": "random", "judged": True, "xi_frobenius": [-1.0, 1.0], "skew_share": [0.6, 0.8]}
    other = [{**row, "judged": False, "xi_frobenius": 0.0} for row in found]
    return [*other, *found, ends] if random else found


@pytest.mark.parametrize(
    ("rows", "holds"),
    [
        (heads([2.0, -2.0, 0.0], [0.9, 0.1, 0.7]), True),
        (heads([2.0, 0.0], [0.9, 0.1]), False),  # half is not more than half
        (heads([2.0, -2.0, 0.0], [0.9, 0.7, 0.7]), False),
        (heads([1.0, -1.0], [0.9, 0.1]), False),  # the ends are inside
        (heads([None, None, 2.0], [0.9, 0.1, 0.1]), False),
        (heads([2.0], [0.9], random=False), None),
    ],
)
def test_spectra(rows, holds):
    assert spectra.judge(rows).holds is holds


def test_heads_outside_of_a_model_that_is_not_judged():
    of_two = [row | {"model": str(row["judged"])} for row in heads([2.0, 2.0], [0.9, 0.9])]
    of_two.append(of_two[-1] | {"model": "False", "judged": False})
    assert spectra.outside(of_two, "xi_frobenius", "False") == (0, 2)
    assert spectra.outside(of_two, "xi_frobenius") == (2, 2)


def sink_rows(layer=2, sink=0, length=0.15, quiet=0.5, excess=1.0, bad=0):
    """Ten heads at one passage, at the limits of the criterion; ``bad`` of them without excess."""
    figures = {
        "sink": [sink],
        "length": [length],
        "quiet": [quiet],
        "needed": [1.0],
        "share": [0.3],
    }
    none = lambda h: None if h < bad else excess  # noqa: E731
    return [{"layer": layer, "head": h, **figures, "excess": [none(h)]} for h in range(10)]


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, True),
        ({"bad": 1}, True),
        ({"bad": 2}, False),
        ({"sink": 1}, False),
        ({"length": 0.1501}, False),
        ({"quiet": 0.501}, False),
        ({"excess": 1.01}, False),
        ({"excess": -2e-6}, False),
        ({"layer": 6}, None),
    ],
)
def test_sinks_at_the_limits(changed, holds):
    assert silent_heads.judge(sink_rows(**changed)).holds is holds


def test_a_sink_and_its_direction_by_hand():
    """Values (2, +-1) and a sink at (-1, 0): u is the first axis, a = 2, b = 1."""
    V = np.array([[-1.0, 0.0], [2.0, 1.0], [2.0, -1.0]])
    P = np.array([[0.6, 0.2, 0.2], [0.7, 0.3, 0.0]])
    head = silent_heads.measured(P, V)
    assert (head.position, head.share) == (0, pytest.approx(0.65))
    assert head.length == pytest.approx(1 / math.sqrt(5)) and head.quiet == pytest.approx(0.05)
    assert head.needed == pytest.approx(math.log(7 / 3)) and abs(head.excess) < 1e-12
    around = np.array([[5.0, 5.0], [1.0, 0.0], [-1.0, 0.0]])
    assert silent_heads.measured(P, around)[3:6] == (None, None, None)


@pytest.mark.parametrize(
    ("shares", "sizes", "holds"),
    [
        ([0.5, 0.3, 0.2], [1.0, 0.0, 0.0], True),
        ([0.5, 0.29, 0.21], [1.0, 0.0, 0.0], False),
        ([0.5, 0.3, 0.2], [1.0, 2.0, 1.0], False),  # rollout's own law
        ([0.5, 0.3, 0.2], [0.0, 0.0, 1.0], False),  # far from it, but too long
    ],
)
def test_lengths_at_the_limits(shares, sizes, holds):
    assert lengths.judge([{"shares": shares, "norms": sizes}]).holds is holds


def test_lengths_by_hand():
    row = {"norms": [2.0, 1.0, 1.0]}
    assert lengths.mean_length(row) == pytest.approx(0.75)
    assert lengths.apart(row) == pytest.approx(0.25)  # from 1/4, 1/2, 1/4


def gap_rows(tokens=500, low=1.0, high=1.06, weight=1.0, centered=1.0):
    """Two matrices for each sigma, with s_2 in units of the edge, at the limits unless told."""
    found = []
    for sigma in random_attention.SIGMAS:
        second = random_attention.edge(sigma) * (low if sigma == 0.5 else high)
        large = random_attention.edge(sigma) * (weight if sigma == 1.5 else 0.5)
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
def test_random_attention_at_the_limits(changed, holds):
    assert random_attention.judge(gap_rows(**changed)).holds is holds


def test_a_figure_that_is_missing_decides_nothing():
    found = gap_rows()
    found[0]["product"] = [None, 1.0]
    assert random_attention.judge(found).holds is None


def test_two_tokens_by_hand():
    """Equal logits have equal rows: s_2, the norm of C A and the excess are 0."""
    found = random_attention.measured(0.0, 2, 0)
    assert all(abs(v) < 1e-12 for v in found.values())
    assert random_attention.edge(math.sqrt(math.log(2))) == pytest.approx(2)

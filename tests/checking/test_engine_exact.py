"""The comparison in balls: only what is certain passes or fails, and a maximum loses no ball."""

import math
from dataclasses import replace

import flint
import numpy as np
import pytest
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.arithmetic.interval_cover import both
from attnverify.checking import sampling
from attnverify.checking.ball_comparison import compare, compare_identity
from attnverify.checking.certify import certify, certify_identity, random_instances
from attnverify.checking.check import Identity, Inequality
from attnverify.checking.definition_agreement import agree
from attnverify.checking.gather import reject
from attnverify.checking.search import Settings, attack, sample
from attnverify.support.errors import InputError

QUICK = Settings(samples=40, restarts=4, steps=10)
SIZES = ({"x": (1,)},)
ONE = {"x": torch.tensor([1.0], dtype=torch.float64)}


def entries(*pairs, hypotheses=None) -> Inequality:
    """left <= right for given balls (left, right), whatever x is; 0 <= 1 in floats."""
    left, right = (np.array([list(side)], dtype=object) for side in zip(*pairs, strict=True))

    def side(balls, number):
        return lambda x: 0 * x + number if ops.is_torch(x) else balls

    return Inequality(side(left, 0.0), side(right, 1.0), SIZES, hypotheses=hypotheses)


@pytest.mark.parametrize(
    ("left", "right", "outcome"),
    [
        (arb(1), arb(1), "pass"),
        (arb(2), arb(1), "fail"),
        (arb(1) + arb(2) ** -50, arb(1), "fail"),
        (arb(1, 0.25), arb(1), "unknown"),
        (arb(1), arb(1, 0.25), "unknown"),
        (arb(1, 0.25), arb(2, 0.25), "pass"),
        (arb(2, 0.25), arb(1, 0.25), "fail"),
        (arb("nan"), arb(1), "unknown"),
        (arb(-1), arb(-2), "fail"),
        (arb(-2), arb(-1), "pass"),
        (arb(0), arb(0), "pass"),
    ],
)
def test_only_a_certain_comparison_is_settled(left, right, outcome):
    assert compare(entries((left, right)), ONE).outcome == outcome


def test_one_entry_decides_for_all():
    low, high, wide = (arb(1), arb(2)), (arb(2), arb(1)), (arb(1, 0.5), arb(1))
    for pairs, outcome in [
        ((low, low), "pass"),
        ((low, high), "fail"),
        ((high, low), "fail"),
        ((low, wide), "unknown"),
        ((wide, low), "unknown"),
        ((wide, high), "fail"),
    ]:
        assert compare(entries(*pairs), ONE).outcome == outcome


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_the_largest_ratio_is_an_enclosure_wherever_the_wide_ball_stands(order):
    """Ratios 1/2, [1/4, 5/4] and 3/4: the largest is somewhere in [3/4, 5/4]."""
    pairs = [(arb(1) / 2, arb(1)), (arb(0.75, 0.5), arb(1)), (arb(0.75), arb(1))]
    ratio = compare(entries(*(pairs[i] for i in order)), ONE).ratio
    for inside in (0.76, 1.0, 1.24):
        assert ratio.contains(arb(inside))
    assert ratio > 0.2 and ratio < 1.3


def test_the_ratio_that_is_reported_is_certain():
    """A ball from -0.9 to 0.9 is below 1, and its middle is no ratio that was found."""
    wide, narrow = (arb(0, 0.9), arb(1)), (arb(1) / 3, arb(1))
    assert compare(entries(wide), ONE).certain_ratio == 0
    assert compare(entries(wide, narrow), ONE).certain_ratio == pytest.approx(1 / 3, abs=1e-8)
    equal = compare(entries((ops.square(ops.sqrt(arb(2))), arb(2))), ONE)
    assert equal.attained and equal.certain_ratio == pytest.approx(1, abs=2.0**-40)
    assert math.isnan(compare(entries((arb(1), arb(0, 1))), ONE).certain_ratio)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_the_largest_of_balls_is_an_enclosure_wherever_the_wide_ball_stands(order):
    balls = [arb(0.5), arb(0.75, 0.5), arb(0.75)]
    x = np.array([balls[i] for i in order], dtype=object)
    for top in (ops.amax(x, -1), ops.maximum(ops.maximum(x[0], x[1]), x[2])):
        for inside in (0.76, 1.0, 1.24):
            assert top.contains(arb(inside))
        assert top > 0.2 and top < 1.3


def test_a_right_side_of_open_sign_is_not_dropped_from_the_ratio():
    """Beside an entry at equality: the other one may exceed its right side by any factor."""
    equal = (ops.square(ops.sqrt(arb(2))), arb(2))
    assert compare(entries(equal), ONE).attained
    for other in [(arb(0.25), arb(0, 0.5)), (arb(0, 1e-9), arb(0, 1e-9)), (arb(0, 0.1), arb(0))]:
        for pairs in ((equal, other), (other, equal)):
            seen = compare(entries(*pairs), ONE)
            assert seen.outcome == "unknown" and seen.ratio.is_nan() and not seen.attained
            assert seen.told(4) == "no ratio, as right is not certainly positive"
    assert compare(entries((arb(1), arb(4))), ONE).told(4).startswith("left/right = 0.25")
    harmless = (arb(-1), arb(0, 0.5))  # certainly below: no ratio there is positive
    assert compare(entries(equal, harmless), ONE).attained


def test_an_entry_whose_sides_are_both_0_has_no_part_in_the_ratio():
    zero, half = (arb(0), arb(0)), (arb(1), arb(2))
    for pairs in ((zero, half), (half, zero)):
        seen = compare(entries(*pairs), ONE)
        assert seen.outcome == "pass" and seen.ratio == 0.5
    assert compare(entries(zero), ONE).ratio == 0


@pytest.mark.parametrize(
    ("radius", "attained"), [(0.0, False), (2.0**-50, True), (2.0**-39, False), (2.0**-20, False)]
)
def test_attained_is_within_2_to_the_minus_40(radius, attained):
    check = entries((arb(1, radius), arb(1)))
    seen = compare(check, ONE)
    assert (seen.outcome == "unknown" and seen.attained) is attained
    expected = "pass" if attained or radius == 0 else "unknown"
    check = replace(check, extremal=(lambda: ONE,))
    found = certify(check, QUICK, "t", [])
    assert found.outcome == expected
    assert found.decided == (found.instances if expected == "pass" else 0)


@pytest.mark.parametrize(
    ("smaller", "larger", "hypotheses"),
    [
        (arb(1), arb(1), "pass"),
        (arb(1, 0.5), arb(1), "unknown"),
        (arb("nan"), arb(1), "unknown"),
        (arb(2), arb(1), "fail"),
    ],
)
@pytest.mark.parametrize("left", [0.5, 1.0, 2.0])
def test_a_hypothesis_that_is_not_certain_settles_nothing(smaller, larger, hypotheses, left):
    ask = lambda x: [(np.array([arb(0), smaller]), np.array([arb(1), larger]))]  # noqa: E731
    seen = compare(entries((arb(left), arb(1)), hypotheses=ask), ONE)
    assert seen.hypotheses == hypotheses
    if hypotheses != "pass":
        assert seen.outcome == "unknown" and not seen.attained
        check = entries((arb(left), arb(1)), hypotheses=ask)
        assert certify(check, QUICK, "t", [ONE]).outcome == "unknown"
        assert not reject(replace(check, extremal=(lambda: ONE,)), QUICK, "t")[0]
    else:
        assert seen.outcome == ("fail" if left == 2 else "pass")


def test_every_pair_of_hypotheses_counts():
    good, bad = (np.array([arb(0)]), np.array([arb(1)])), (np.array([arb(1)]), np.array([arb(0)]))
    for pairs in ([good, bad], [bad, good]):
        check = entries((arb(0), arb(1)), hypotheses=lambda x, pairs=pairs: pairs)
        assert compare(check, ONE).hypotheses == "fail"


def test_precision_rises_until_it_is_settled():
    """1 against 1 + 2^-200: no 128 bits tell them apart, 256 do."""
    tiny = lambda x: ops.constant(2.0**-200, x)  # noqa: E731
    root = lambda x: ops.square(ops.sqrt(2 * x))  # noqa: E731
    check = Inequality(root, lambda x: 2 * x + tiny(x), SIZES)
    seen = compare(replace(check, left=lambda x: root(x) - 1, right=lambda x: x + tiny(x)), ONE)
    assert seen.attained  # near enough to 1 at the first precision
    far = compare(
        replace(check, left=lambda x: root(x) - 2 * x, right=lambda x: tiny(x) + 0 * x), ONE
    )
    assert far.outcome == "pass" and far.bits == 256


@pytest.mark.parametrize("blurred_at", ["extremal", "found", "random"])
@pytest.mark.parametrize("blur", [2.0**-20, 2.0**-4])
def test_unknown_never_passes(blurred_at, blur):
    """One instance of each kind that no precision settles, all others clearly below."""
    at = {"extremal": 1.0, "found": 3.0}

    def left(x):
        if ops.is_torch(x):
            return 0 * x
        entry = x.flat[0]
        fuzzy = entry == at[blurred_at] if blurred_at in at else entry not in (1.0, 3.0)
        return 0 * x + (arb(1, blur) if fuzzy else arb(0))

    check = Inequality(left, lambda x: 0 * x + 1, SIZES, extremal=(lambda: ONE,))
    found = certify(check, QUICK, "t", [{"x": 3 * ONE["x"]}])
    assert found.outcome == "unknown" and 0 < found.decided < found.instances
    assert "unknown" in found.detail
    assert certify(replace(check, left=lambda x: 0 * x), QUICK, "t", []).outcome == "pass"


@pytest.mark.parametrize("fails_at", ["extremal", "found", "random"])
def test_one_failure_among_any_instances_fails(fails_at):
    at = {"extremal": 1.0, "found": 3.0}

    def left(x):
        entry = x.flat[0]
        wrong = entry == at[fails_at] if fails_at in at else entry not in (1.0, 3.0)
        return 0 * x + (2 if wrong else 0)

    check = Inequality(left, lambda x: 0 * x + 1, SIZES, extremal=(lambda: ONE,))
    assert certify(check, QUICK, "t", [{"x": 3 * ONE["x"]}]).outcome == "fail"


def test_certificates_report_the_largest_ratio():
    check = Inequality(
        lambda x: abs(x), lambda x: 0 * x + 64, SIZES, extremal=(lambda: {"x": 8 * ONE["x"]},)
    )
    found = certify(check, QUICK, "t", [{"x": 48 * ONE["x"]}, {"x": 16 * ONE["x"]}])
    assert found.outcome == "pass" and found.ratio == 0.75
    assert "largest ratio 0.75" in found.detail and "1 extremal" in found.detail


def test_nothing_to_certify_is_unknown(monkeypatch):
    monkeypatch.setattr("attnverify.checking.certify.SAMPLED_INSTANCES", 0)
    check = Inequality(lambda x: 0 * x, lambda x: 0 * x + 1, SIZES)
    assert certify(check, QUICK, "t", []).outcome == "unknown"


def test_the_root_of_a_negative_ball_is_no_number():
    """A formula's bug must not certify: sqrt(-1) = 0 would make 0 <= 1 of it."""
    negative = np.array([arb(-1), arb(-1, 0.5), arb(-1, 1), arb(0, 1), arb(4)], dtype=object)
    roots = ops.sqrt(negative)
    assert roots[0].is_nan() and roots[1].is_nan()
    assert roots[2].contains(0) and roots[3].contains(0) and roots[3].contains(1) and roots[4] == 2
    check = Inequality(lambda x: ops.sqrt(-x), lambda x: 0 * x + 1, SIZES)
    assert compare(check, ONE).outcome == "unknown"


def identity(right, arithmetic="rational"):
    return Identity(lambda x: (x + 1) * (x - 1), right, ({"x": (3,)},), arithmetic=arithmetic)


@pytest.mark.parametrize("arithmetic", ["rational", "ball"])
def test_identities_are_decided_exactly(arithmetic):
    true = identity(lambda x: x * x - 1, arithmetic)
    assert certify_identity(true, QUICK, "t").outcome == "pass"
    assert not reject(true, QUICK, "t")[0]
    off = identity(lambda x: x * x - 1 + ops.constant(2.0**-90, x), arithmetic)
    for wrong in (off, identity(lambda x: x * x, arithmetic)):
        assert certify_identity(wrong, QUICK, "t").outcome == "fail"
        assert reject(wrong, QUICK, "t")[0]


def test_one_entry_that_differs_is_enough():
    for arithmetic in ("rational", "ball"):
        check = identity(lambda x: x * x - 1, arithmetic)
        given = sampling.exact_parameters(check, {"x": (3,)}, seed=1)
        last = np.array([0, 0, 1], dtype=object)
        for sign in (1, -1):
            wrong = replace(check, right=lambda x, e=sign * last: x * x - 1 + e)
            assert compare_identity(check, given)[0] == "pass"
            assert compare_identity(wrong, given)[0] == "fail"


@pytest.mark.parametrize(("radius", "outcome"), [(2.0**-130, "pass"), (2.0**-100, "unknown")])
def test_balls_that_agree_to_half_the_precision_pass_and_wider_ones_do_not(radius, outcome):
    check = identity(lambda x: x * x - 1 + arb(0, radius), "ball")
    assert certify_identity(check, QUICK, "t").outcome == outcome
    assert not reject(check, QUICK, "t")[0]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("blur", [arb(0, 1), arb("nan")])
def test_the_widest_difference_of_an_identity_counts(place, blur):
    """NaN, too, wherever it stands among entries that agree."""
    blurs = [blur if i == place else arb(0) for i in range(3)]
    check = identity(lambda x: x * x - 1 + np.array(blurs, dtype=object), "ball")
    found = certify_identity(check, QUICK, "t")
    assert found.outcome == "unknown" and found.decided == 0
    assert ("nan" in found.detail) is blur.is_nan()


def test_a_single_bad_draw_decides_for_an_identity():
    """Draws that pass come first, or last: the worst of all is the outcome."""
    for middle, outcome in ((arb(1), "fail"), (arb(0, 1), "unknown")):
        for place in (0, 5, 31):
            calls = iter(range(32))
            error = lambda x, c=calls, p=place, m=middle: m if next(c) == p else arb(0)  # noqa: E731
            check = identity(lambda x, e=error: x * x - 1 + e(x), "ball")
            assert certify_identity(check, QUICK, "t").outcome == outcome


def test_exact_draws_differ_and_are_small_rationals():
    check = identity(lambda x: x)
    one, other = (sampling.exact_parameters(check, {"x": (40,)}, seed)["x"] for seed in (1, 2))
    assert list(one) != list(other)
    for x in (*one, *other):
        assert isinstance(x, flint.fmpq) and 8 % int(x.q) == 0 and abs(x) <= 3


def test_no_exact_instance_is_looked_at_twice():
    """Every draw of every size has a seed of its own; equal ones would count as evidence."""
    seen: list[tuple] = []

    def build(**free):
        seen.append(tuple(str(v) for value in free.values() for v in value.flat))
        return free

    check = replace(identity(lambda x: x * x - 1), build=build)
    check = replace(check, sizes=({"x": (7,)}, {"x": (7,)}))
    certify_identity(check, QUICK, "t")
    assert len(seen) == len(set(seen)) == 64
    unequal = Inequality(lambda x: x[..., 0], lambda x: x[..., 0] + 1, ({"x": (7,)}, {"x": (7,)}))
    found = random_instances(unequal, QUICK, "t")
    assert len({tuple(one["x"].tolist()) for one in found}) == len(found) == 8


@pytest.mark.parametrize("search", [sample, attack])
def test_a_violation_that_only_balls_see_fails(search):
    """Floats put every instance far below 1; balls look at the largest ones all the same."""
    check = Inequality(
        lambda x: abs(x) if ops.is_torch(x) else 0 * x + 2,
        lambda x: 0 * x + (1e9 if ops.is_torch(x) else 1),
        SIZES,
    )
    assert search(check, QUICK, "t").outcome == "fail"


def test_nothing_to_compare_is_no_agreement():
    """Sides without entries, a decision without parts or cases."""
    none = Inequality(lambda x: x[..., 5:], lambda x: 0 * x[..., 5:] - 1, ({"x": (2,)},))
    with pytest.raises(InputError, match="left: got no entries, expected one value or more"):
        compare(none, {"x": torch.ones(2, dtype=torch.float64)})
    for arithmetic in ("rational", "ball"):
        check = Identity(
            lambda x: x[..., 5:],
            lambda x: x[..., 5:],
            ({"x": (2,)},),
            arithmetic=arithmetic,
        )
        with pytest.raises(InputError, match="left: got no entries, expected one value or more"):
            compare_identity(check, {"x": ops.balls(np.ones(2))})
    assert both()[:2] == (None, 0)
    assert agree(lambda: []).holds is None
    assert agree(lambda: [("nothing", np.empty((0, 2)), np.empty((0, 2)))]).holds is None

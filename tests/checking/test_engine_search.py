"""The searches: what they reach, what floats cannot decide, and settings that are no search."""

import math
import re
from dataclasses import replace

import pytest
import torch
from flint import arb

from attnverify.arithmetic import ops
from attnverify.chapters import registry
from attnverify.checking import sampling
from attnverify.checking.ascent import ascend, farther
from attnverify.checking.check import Inequality
from attnverify.checking.gather import reject
from attnverify.checking.records import KINDS, Record, require_kinds
from attnverify.checking.search import BEST, SPREAD, Settings, attack, sample
from attnverify.support.errors import InputError
from attnverify.support.seeds import generator
from attnverify.verification.verify import verify

QUICK = Settings(samples=200, restarts=12, steps=200)
SIZES = ({"x": (1,)},)


def peak(at: float, height: float = 1.0) -> Inequality:
    """height / (1 + (x - at)^2) <= 1."""
    one = lambda x: ops.constant(1, x)  # noqa: E731
    return Inequality(
        lambda x: ops.constant(height, x) / (one(x) + ops.square(x - ops.constant(at, x))),
        lambda x: 0 * x + 1,
        SIZES,
    )


@pytest.mark.parametrize("at", [60.0, -60.0])
def test_attack_climbs_where_no_start_is(at):
    """Starts lie within about 40 of 0, where the ratio is below 1/300."""
    starts = attack(peak(at), replace(QUICK, steps=1), "t")
    found = attack(peak(at), QUICK, "t")
    assert starts.ratio < 1 / 100 and found.ratio == pytest.approx(1, abs=1e-6)
    assert attack(peak(at, 1.001), QUICK, "t").outcome == "fail"
    assert found.instance is not None and abs(float(found.instance["x"]) - at) < 1e-2


def test_attack_climbs_from_ratios_below_zero():
    """left = 1 - (x - 60)^2 is below -1000 at every start."""
    check = Inequality(
        lambda x: ops.constant(1, x) - ops.square(x - ops.constant(60, x)),
        lambda x: 0 * x + 1,
        SIZES,
    )
    assert attack(check, QUICK, "t").ratio == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("left", [lambda x, y: abs(x) + abs(y), lambda x, y: 0 * x + 0 * y + 1])
@pytest.mark.parametrize("gap", [1e-5, 1e-9, 1e-11])
def test_attack_looks_beyond_its_own_scales(left, gap):
    """(|x| + |y|)/(1 + |x| + |y|) and 1/(1 + |x| + |y|): 1 is best, at infinity and at zero."""
    right = lambda x, y: ops.constant(1 - gap, x) * (1 + abs(x) + abs(y))  # noqa: E731
    check = Inequality(left, right, ({"x": (1,), "y": (1,)},))
    assert attack(check, QUICK, "t").outcome == "fail"
    true = replace(check, right=lambda x, y: 1 + abs(x) + abs(y))
    assert attack(true, QUICK, "t").outcome == "pass"


def test_what_is_not_better_farther_out_is_not_looked_at():
    found, *_ = ascend(peak(3.0), SIZES[0], 8, 50, generator(0, "t"), "cpu")
    assert not len(farther(peak(3.0), found)["x"])
    assert attack(peak(3.0), replace(QUICK, steps=50), "t").instances < 12 * 2 + 1


def test_a_ratio_that_only_rounding_makes_large_hides_no_other():
    """Every start has a float ratio near 10^50 that balls do not confirm, and climbs to 1."""
    honest = peak(60.0)

    def left(x):
        wrong = isinstance(x, torch.Tensor) and (x < 50).to(x.dtype) * 1e50
        return honest.left(x) * (1 + wrong)

    found = attack(replace(honest, left=left), QUICK, "t")
    assert found.outcome == "pass" and found.ratio == pytest.approx(1, abs=1e-4)


def test_a_violation_that_only_floats_see_beyond_their_scales_is_counted_and_no_more():
    """|x|/(1 + |x|), which floats put above 1 from 2^20 on, where no ball decides."""

    def left(x):
        share, far = abs(x) / (1 + abs(x)), abs(x) > 2.0**20
        if isinstance(x, torch.Tensor):
            return torch.where(far, 2.0, share)
        return share + arb(0, 1) if far.all() else share

    check = Inequality(left, lambda x: 0 * x + 1, SIZES)
    found = attack(check, QUICK, "t")
    assert found.outcome == "pass" and found.decided < found.instances
    assert re.search(r"[1-9]\d* of \d+ instances undecided", found.detail)


@pytest.mark.parametrize("height", [1.0, 1e6])
def test_an_ascent_goes_on_in_small_steps_when_its_best_ratio_stops_growing(height):
    """A peak is reached within some hundred steps; the bar of progress is filled all the same."""
    looked, told = [], []
    check = peak(60.0, height)
    counted = replace(check, left=lambda x: (looked.append(len(x)), check.left(x))[1])
    ascend(counted, SIZES[0], 8, 2000, generator(0, "t"), "cpu", told.append)
    assert sum(told) == 2001 and max(told) > 100
    assert len(told) == sum(n == 8 for n in looked) < 1500


def test_an_ascent_takes_every_step_while_its_best_ratio_grows():
    """|x| grows until its scale is as large as it may be."""
    told: list[int] = []
    check = Inequality(lambda x: abs(x), lambda x: 0 * x + 1, SIZES)
    ascend(check, SIZES[0], 8, 60, generator(0, "t"), "cpu", told.append)
    assert told == [1] * 61


def test_scales_stay_where_floats_have_digits():
    check = Inequality(lambda x: abs(x), lambda x: ops.constant(1e9, x) + 0 * x, SIZES)
    best, *_ = ascend(check, SIZES[0], 8, 200, generator(0, "t"), "cpu")
    assert 2.0**12 < best["x"].abs().max() < 2.0**12 * 100


@pytest.mark.parametrize(
    "right", [lambda x, y: 0 * x + 1, lambda x, y: ops.full(tuple(x.shape), 1, x)]
)
def test_a_parameter_that_moves_no_side_is_no_obstacle(right):
    check = Inequality(
        lambda x, y: abs(x) / (ops.constant(1, x) + abs(x)), right, ({"x": (1,), "y": (2,)},)
    )
    assert attack(check, QUICK, "t").outcome == "pass"
    still = replace(check, left=lambda x, y: ops.full(tuple(x.shape), 0.5, x))
    found = attack(still, QUICK, "t")  # which nothing moves: no attack
    assert (found.outcome, found.ratio) == ("unknown", 0.5)


def overflowing(x):
    big = ops.exp(ops.constant(400, x) * x)
    return big / big


def late_violation(x):
    """1/2 + max(0, tanh(x - 2))."""
    rise = ops.tanh(x - ops.constant(2, x))
    return ops.constant(0.5, x) + ops.maximum(0 * rise, rise)


@pytest.mark.parametrize("search", [sample, attack])
def test_a_violation_where_floats_overflow_is_found(search):
    """left <= right = exp(400 x)/exp(400 x) = 1 fails from x = 2.6 on, where floats give NaN."""
    check = Inequality(late_violation, overflowing, SIZES)
    found = search(check, QUICK, "t")
    assert found.outcome == "fail" and float(found.instance["x"]) > 2.5


def test_a_violation_beyond_every_start_where_floats_fail_is_found():
    """x / (1 + x) <= 1 for x < 999; beyond, left is 2 and floats have a NaN. No start is there."""

    def left(x):
        value = abs(x) / (ops.constant(1, x) + abs(x))
        if ops.is_torch(x):
            return torch.where(abs(x) < 999, value, torch.nan)
        return value if abs(x.flat[0]) < 999 else 0 * x + 2

    check = Inequality(left, lambda x: 0 * x + 1, SIZES)
    assert sample(check, QUICK, "t").outcome == "pass"
    assert attack(check, QUICK, "t").outcome == "fail"


def in_floats(value):
    """1/2 <= 1 in balls; in floats the right side is ``value`` where x > 1/2."""

    def right(x):
        if not ops.is_torch(x):
            return 0 * x + 1
        return torch.where(x > 0.5, torch.as_tensor(value, dtype=x.dtype), 1.0) + 0 * x

    return right


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-300])
@pytest.mark.parametrize("side", ["left", "right"])
def test_what_floats_leave_open_is_decided_in_balls(value, side):
    if side == "left" and not math.isnan(value) and abs(value) < 2:
        pytest.fail("not a case") if value > 0.5 else None
    half = lambda x: ops.full(tuple(x.shape), 0.5, x)  # noqa: E731
    right = in_floats(value) if side == "right" else lambda x: 0 * x + 1
    left = half if side == "right" else lambda x: in_floats(value)(x) * half(x)
    found = sample(Inequality(left, right, SIZES), QUICK, "t")
    assert (found.outcome, found.decided) == ("pass", found.instances) and found.ratio == 0.5
    wrong = Inequality(lambda x: left(x) if ops.is_torch(x) else 0 * x + 2, right, SIZES)
    assert sample(wrong, QUICK, "t").outcome == "fail"


def test_floats_that_decide_need_a_right_side_above_underflow():
    x = torch.tensor([[1.0], [0.0], [-1.0], [2.0**-1000], [torch.nan], [torch.inf]]).double()
    check = Inequality(lambda x: 0 * x + 2.0**-1000, lambda x: x, SIZES)
    seen = sampling.ratios(check, {"x": x})
    assert seen.decided.tolist() == [True] + 5 * [False]
    seen = sampling.ratios(replace(check, left=lambda x: x, right=lambda x: 0 * x + 1), {"x": x})
    assert seen.decided.tolist() == 4 * [True] + 2 * [False]
    assert seen.lost.tolist() == [False, True, False, True, False, False]
    assert seen.open.tolist() == [False, True, False, True, True, True]
    two = Inequality(lambda x: x, lambda x: 0 * x + 1, ({"x": (2,)},))
    assert sampling.ratios(two, {"x": torch.tensor([[0.0, 0.5]]).double()}).open.tolist() == [True]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        # true at 0 alone, to balls; to floats a left side of 0 wherever 1 + x is 1
        (lambda x: ((1 + x) - 1) / x, lambda x: 0 * x + 0.5),
        # exp(-800) is 0 in floats, before it is multiplied by exp(801)
        (lambda x: ops.exp(0 * x - 800) * ops.exp(0 * x + 400) * ops.exp(0 * x + 401), None),
    ],
)
def test_what_cancels_or_underflows_to_nothing_is_decided_in_balls(left, right):
    right = right or (lambda x: 0 * x + 1)
    tiny = lambda x: {"x": abs(x) * 2.0**-80}  # noqa: E731
    check = Inequality(left, right, SIZES, build=tiny)
    free = sampling.parameters(SIZES[0], 200, generator(0, "t", "sampled", "0"), True)
    assert (sampling.ratios(check, tiny(**free)).value == 0).all()
    assert sample(check, QUICK, "t").outcome == "fail"


def test_what_cancels_beside_another_summand_is_met_over_the_whole_range_of_ratios():
    """False for |x| > 5.6; from 4.6 on floats see 0.1 on the left, no zero, and all is below."""

    def left(x):
        e = ops.exp(8 * abs(x))
        return abs(x) * ((e + 1) - e) / 4 + 0 * x + 0.1

    check = Inequality(left, lambda x: 0 * x + 1.5, SIZES)
    free = sampling.parameters(SIZES[0], 2000, generator(0, "t", "sampled", "0"), True)
    false = (free["x"].abs() > 5.6).flatten()
    assert false.sum() > 20 and not sampling.ratios(check, free).open[false].any()
    assert sample(check, Settings(samples=2000, restarts=1, steps=1), "t").outcome == "fail"


def test_zeros_beyond_what_balls_look_at_stay_decided(monkeypatch):
    """A zero is a number that floats decide; only where one was lost it is wrong."""
    monkeypatch.setattr("attnverify.checking.search.RECHECKED", 20)
    check = Inequality(lambda x: 0 * x, lambda x: 0 * x + 1, SIZES)
    found = sample(check, QUICK, "t")
    assert (found.outcome, found.decided) == ("pass", 200)


@pytest.mark.parametrize("sides", [(1, 2), (2, 1), (2, 2), (1, 1)])
def test_sides_of_a_hypothesis_are_compared_by_instance(sides):
    """Of shape (batch,) and (batch, 1): each instance with itself and with no other."""
    shaped = {1: lambda v: v[..., 0], 2: lambda v: v}
    smaller, larger = (shaped[k] for k in sides)
    check = Inequality(
        lambda x: 0 * x + 0.5,
        lambda x: 0 * x + 1,
        SIZES,
        hypotheses=lambda x: [(smaller(x), larger(x + 1))],
    )
    free = sampling.parameters(SIZES[0], 200, generator(0, "t", "sampled", "0"), True)
    assert sampling.ratios(check, free).decided.all()


def test_instances_that_miss_the_hypotheses_are_not_counted():
    """They are no instances, and a search that has no others shows nothing."""
    never = Inequality(
        lambda x: 0 * x + 0.5,
        lambda x: 0 * x + 1,
        SIZES,
        hypotheses=lambda x: [(0 * x, x), (x, 0 * x - 1)],
    )
    found = sample(never, QUICK, "t")
    assert (found.outcome, found.decided) == ("unknown", 0)
    half = replace(never, hypotheses=lambda x: [(0 * x, x)])
    free = sampling.parameters(SIZES[0], 200, generator(0, "t", "sampled", "0"), True)
    assert sample(half, QUICK, "t").decided == int((free["x"] >= 0).sum())
    one = replace(never, hypotheses=lambda x: [(ops.constant(1, x), ops.constant(2, x))])
    assert sample(one, QUICK, "t").decided == 200


def test_a_hypothesis_that_floats_miss_by_rounding_is_decided_in_balls():
    check = Inequality(
        lambda x: 0 * x + 0.5,
        lambda x: 0 * x + 1,
        SIZES,
        # equal in balls; floats round 0.1 + 0.2 up
        hypotheses=lambda x: [(0 * x + 0.1 + 0.2, 0 * x + (0.3 if ops.is_torch(x) else 0.5))],
    )
    assert sample(check, QUICK, "t").decided == 200


def test_one_entry_that_floats_leave_open_leaves_the_instance_open():
    check = Inequality(lambda x: 0 * x, lambda x: x, ({"x": (2,)},))
    rows = torch.tensor([[1.0, 1.0], [1.0, -1.0], [torch.nan, 1.0]]).double()
    assert sampling.ratios(check, {"x": rows}).decided.tolist() == [True, False, False]
    check = replace(check, left=lambda x: 0 * x + torch.tensor([0.5, 2.0]).double())
    assert sampling.ratios(check, {"x": rows[:1]}).value.tolist() == [2.0]


def test_a_hypothesis_that_one_entry_misses_is_not_met():
    check = Inequality(lambda x: 0 * x, lambda x: 0 * x + 1, ({"x": (2,)},))
    check = replace(check, hypotheses=lambda x: [(0 * x, x)])
    rows = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]]).double()
    assert sampling.ratios(check, {"x": rows}).decided.tolist() == [True, False, False]


def undecidable(share: float) -> Inequality:
    """1/2 <= 1, but neither floats nor balls can say so where |x| exceeds a quantile."""
    border = math.sqrt(2) * float(torch.erfinv(torch.tensor(1 - share)))

    def right(x):
        if ops.is_torch(x):
            return torch.where(abs(x) > border, torch.nan, 1.0) + 0 * x
        return 0 * x + (arb(1, 1) if abs(x.flat[0]) > border else arb(1))

    # a scale of 1 for every instance: build undoes the drawn one
    return Inequality(lambda x: ops.full(tuple(x.shape), 0.5, x), right, SIZES)


def test_what_balls_leave_open_too_is_counted_and_not_passed():
    none, all_of_it = undecidable(0.0), undecidable(1.0)
    assert sample(none, QUICK, "t").decided == 200
    found = sample(all_of_it, QUICK, "t")
    assert (found.outcome, found.decided, found.ratio) == ("unknown", 0, None)
    assert "200 of 200 instances undecided" in found.detail
    attacked = attack(all_of_it, QUICK, "t")
    assert (attacked.outcome, attacked.decided) == ("unknown", 0)


def test_a_few_undecided_instances_are_reported_beside_the_decided_ones():
    found = sample(undecidable(0.02), QUICK, "t")
    assert found.outcome == "pass" and 100 < found.decided < 200
    assert found.detail == f"{200 - found.decided} of 200 instances undecided"


def test_an_overflow_of_build_is_no_instance():
    """build divides by zero for half of the draws, which are then undecided."""
    build = lambda x: {"x": abs(x) / (x > 0)}  # noqa: E731
    check = Inequality(lambda x: 0 * x + 0.5, lambda x: 0 * x + 1, SIZES, build=build)
    found = sample(check, QUICK, "t")
    assert found.instances == 200 and 60 < found.decided < 140
    assert found.outcome == ("pass" if found.decided >= 100 else "unknown")


def test_a_search_that_decides_less_than_half_is_unknown():
    share = 0.9995  # of a standard normal; most drawn scales are below 1 and still beyond
    found = sample(undecidable(share), QUICK, "t")
    assert found.outcome == "unknown" and 0 < found.decided < 100


def test_what_floats_see_violated_and_balls_leave_open_is_unknown():
    """One instance above 1 in floats is enough, whatever the others say."""
    top = float(
        sampling.parameters(SIZES[0], 200, generator(0, "t", "sampled", "0"), True)["x"].max()
    )
    check = Inequality(
        lambda x: torch.where(x >= top, 2.0, 0.5) + 0 * x if ops.is_torch(x) else 0 * x + arb(1, 1),
        lambda x: 0 * x + 1,
        SIZES,
    )
    found = sample(check, QUICK, "t")
    # balls that are looked at are [0, 2] here and leave their instance open: BEST twice and SPREAD
    assert found.outcome == "unknown" and found.decided >= 200 - (1 + 2 * BEST + SPREAD)


def test_more_than_can_be_rechecked_is_undecided(monkeypatch):
    monkeypatch.setattr("attnverify.checking.search.RECHECKED", 20)
    check = Inequality(lambda x: 0 * x + 0.5, in_floats(math.nan), SIZES)
    beyond = int(
        (
            sampling.parameters(SIZES[0], 200, generator(0, "t", "sampled", "0"), True)["x"] > 0.5
        ).sum()
    )
    found = sample(replace(check, left=lambda x: ops.full(tuple(x.shape), 0.5, x)), QUICK, "t")
    assert beyond > 25 and found.decided == 200 - (beyond - 20)
    # all of them above 1 in floats: noise as far as anyone looked, unknown all the same
    noisy = Inequality(
        lambda x: 0 * x + (1.5 if ops.is_torch(x) else 0.5), lambda x: 0 * x + 1, SIZES
    )
    found = sample(noisy, QUICK, "t")
    assert (found.outcome, found.decided) == ("unknown", 20)


def test_the_open_instances_are_looked_at_before_the_largest_ratios(monkeypatch):
    """The only violation is where floats give NaN; every other ratio is the same."""
    monkeypatch.setattr("attnverify.checking.search.BEST", 1)
    top = float(
        sampling.parameters(SIZES[0], 200, generator(0, "t", "sampled", "0"), True)["x"].max()
    )
    check = Inequality(
        lambda x: 0 * x + (0.5 if ops.is_torch(x) else 2 if x.flat[0] >= top else 0.5),
        lambda x: torch.where(x >= top, torch.nan, 1.0) + 0 * x if ops.is_torch(x) else 0 * x + 1,
        SIZES,
    )
    assert sample(check, QUICK, "t").outcome == "fail"


def test_what_floats_do_not_decide_is_looked_at_before_what_they_lost(monkeypatch):
    """One instance can be looked at; the violation is where floats give NaN beside zeros."""
    monkeypatch.setattr("attnverify.checking.search.RECHECKED", 1)
    top = float(
        sampling.parameters(SIZES[0], 200, generator(0, "t", "sampled", "0"), True)["x"].max()
    )
    check = Inequality(
        lambda x: 0 * x + (0 if ops.is_torch(x) else 2 if x.flat[0] >= top else 0.5),
        lambda x: torch.where(x >= top, torch.nan, 1.0) + 0 * x if ops.is_torch(x) else 0 * x + 1,
        SIZES,
    )
    assert sample(check, QUICK, "t").outcome == "fail"


def test_every_size_is_searched_and_the_worst_outcome_counts():
    for order in (((1,), (2,)), ((2,), (1,))):
        check = Inequality(
            lambda x: 0 * x + (2 if x.shape[-1] == 2 else 0.5),
            lambda x: 0 * x + 1,
            tuple({"x": size} for size in order),
        )
        for search in (sample, attack):
            found = search(check, QUICK, "t")
            assert found.outcome == "fail" and found.ratio == 2
    both = tuple({"x": size} for size in ((1,), (2,)))
    true = Inequality(lambda x: 0 * x + x.shape[-1] / 4, lambda x: 0 * x + 1, both)
    assert sample(true, QUICK, "t").ratio == 0.5 and sample(true, QUICK, "t").instances == 200


def test_equal_settings_give_equal_evidence_and_other_seeds_other():
    for search in (sample, attack):
        runs = [search(peak(3.0), replace(QUICK, steps=20), "t") for _ in range(2)]
        assert runs[0].ratio == runs[1].ratio
        assert torch.equal(runs[0].instance["x"], runs[1].instance["x"])
        other = search(peak(3.0), replace(QUICK, steps=20, seed=1), "t")
        assert not torch.equal(runs[0].instance["x"], other.instance["x"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"samples": 0},
        {"samples": True},
        {"restarts": 0},
        {"steps": -1},
        {"seed": -1},
        {"device": "gpu"},
    ],
)
def test_settings_that_are_no_search_are_refused(wrong):
    with pytest.raises(InputError, match=f"^{next(iter(wrong))}: got .*expected"):
        Settings(**wrong)


def test_a_missing_device_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match="device: got 'cuda'"):
        Settings(device="cuda")


@pytest.mark.parametrize("kinds", [["sampeld"], ["sampled", "proved"], [], [""]])
def test_a_misspelled_kind_of_evidence_is_refused(kinds):
    for ask in (
        lambda: require_kinds(kinds),
        lambda: registry.home.gather("paths.count", QUICK, kinds),
        lambda: verify(registry, ["paths.count"], QUICK, kinds),
    ):
        with pytest.raises(InputError, match="^evidence: got .*expected"):
            ask()
    require_kinds(KINDS)


def test_a_record_counts_its_decided_instances():
    """Records of searches carry the number; others have decided all they looked at."""
    evidence = registry.home.gather("softmax.total-variation", replace(QUICK, steps=5), KINDS)
    by_kind = {r.kind: r for r in evidence.records}
    assert by_kind["sampled"].decided == by_kind["sampled"].instances > 0
    assert by_kind["sampled"].as_json()["decided"] == by_kind["sampled"].decided
    assert Record("derived", "x", "pass", None, 7, 0.0, "").decided == 7
    assert Record("sampled", "x", "unknown", None, 7, 0.0, "", "", 3).decided == 3


def test_a_twin_is_rejected_only_by_a_certain_violation():
    true = Inequality(lambda x: 0 * x + 0.5, lambda x: 0 * x + 1, SIZES)
    assert not reject(true, QUICK, "t")[0]
    assert not reject(undecidable(1.0), QUICK, "t")[0]
    noise = replace(true, left=lambda x: 0 * x + (1.5 if ops.is_torch(x) else arb(1, 0.5)))
    assert not reject(noise, QUICK, "t")[0]
    assert reject(replace(true, left=lambda x: 0 * x + 1.5), QUICK, "t")[0]
    at = {"x": torch.tensor([0.25], dtype=torch.float64)}
    rare = lambda x: 0 * x + (0.5 if ops.is_torch(x) or x.flat[0] != 0.25 else 1.5)  # noqa: E731
    assert reject(replace(true, left=rare, extremal=(lambda: at,)), QUICK, "t")[0]

"""The engine: every kind of evidence of every claim, and nothing believed too easily."""

import dataclasses
from dataclasses import replace
from itertools import pairwise
from math import inf

import flint
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnverify.arithmetic import interval_cover, ops
from attnverify.chapters import registry
from attnverify.checking import sampling
from attnverify.checking.ball_comparison import compare
from attnverify.checking.check import Decision, Inequality, Twin
from attnverify.checking.definition_agreement import LIMITS
from attnverify.checking.gather import evidence, reject
from attnverify.checking.records import KINDS, Record, TwinRecord
from attnverify.checking.search import Settings, attack, sample
from attnverify.support.seeds import generator
from attnverify.support.verdict import Verdict
from attnverify.verification import formal
from attnverify.verification.status import Standing, own, standings
from tiers import in_tiers

CHECKS = {id: registry.checks_of(id) for id in registry}

QUICK = Settings(samples=400, restarts=12, steps=200)
FEW = Settings(samples=100, restarts=24, steps=10)
#: Quick claims that have every form of check and every kind of evidence.
GATHERED = (
    "eigenspectrum.xi-bound",
    "experiment.real-spectra",
    "localization.midpoint",
    "mlp.lipschitz",
    "norms.submultiplicative",
    "paths.count",
    "softmax.total-variation",
    "walk.row",
)


@pytest.mark.parametrize("id", in_tiers(registry, GATHERED))
def test_every_kind_of_evidence_is_gathered(id):
    """With shapes and types enforced, and few instances: test_book_evidence looks at the many."""
    found = registry.home.gather(id, FEW, KINDS)
    assert [r for r in found.records if r.outcome != "pass"] == []
    assert {(r.kind, r.check) for r in found.records} == {
        (kind, name) for name, check in CHECKS[id].items() for kind in check.kinds
    }
    for record in found.records:  # drawn instances and covers promise no number
        check = CHECKS[id][record.check]
        if isinstance(check, Decision) and not check.over and check.limits != LIMITS:
            assert record.instances == check.cases, record.check


def test_the_first_tier_gathers_every_form_and_kind():
    def found(ids) -> set:
        return {(type(c), kind) for id in ids for c in CHECKS[id].values() for kind in c.kinds}

    assert found(GATHERED) == found(registry)


@pytest.mark.parametrize("id", in_tiers(registry, GATHERED))
def test_a_twin_made_true_is_reported(id):
    """The claim itself in place of its twins: the checker must not reject it."""
    for name, check in CHECKS[id].items():
        if check.twins:
            rejected, _, _ = reject(check, replace(FEW, restarts=2, steps=5, samples=20), "t")
            assert not rejected, name


def test_an_unrejected_twin_fails_the_claim():
    claim = registry["norms.submultiplicative"]
    passing = [
        Record(k, n, "pass", None, 1, 0.0, "") for n, c in CHECKS[claim.id].items() for k in c.kinds
    ]
    passing.append(Record("derived", claim.notebook, "pass", None, 1, 0.0, ""))
    passing += formal.evidence_of(claim.id)[0]
    good = [TwinRecord(n, "t", True, None, "") for n in CHECKS[claim.id]]
    assert own(registry, claim, passing, good).status == "verified"
    bad = [*good, TwinRecord("product", "made true", False, None, "")]
    standing = own(registry, claim, passing, bad)
    assert standing.status == "failed" and "made true" in standing.reasons[0]


def inequality(factor: float) -> Inequality:
    """|x + y| <= factor (|x| + |y|): true from factor 1 on."""
    return Inequality(
        left=lambda x, y: abs(x + y),
        right=lambda x, y: ops.constant(factor, x) * (abs(x) + abs(y)),
        sizes=({"x": (1,), "y": (1,)},),
    )


def test_search_finds_and_certifies_a_violation():
    found = attack(inequality(0.5), QUICK, "t")
    assert found.outcome == "fail" and found.ratio > 1.9
    seen = compare(inequality(0.5), found.instance)
    assert seen.outcome == "fail" and seen.ratio > 1


def test_rounding_noise_above_one_is_not_believed():
    """(x + 1) - 1 <= x holds with equality; in floats the ratio is noise around 1."""
    check = Inequality(
        left=lambda x: (abs(x) + 1) - 1, right=lambda x: abs(x), sizes=({"x": (1,)},)
    )
    assert sample(check, replace(QUICK, samples=40), "t").outcome == "pass"
    instance = {"x": torch.tensor([0.3], dtype=torch.float64)}
    assert compare(check, instance).outcome == "pass"


def test_equality_is_attained_and_not_proved():
    one = {"x": torch.tensor([1.0], dtype=torch.float64)}
    check = Inequality(lambda x: ops.square(ops.sqrt(x * 2)), lambda x: x * 2, ({"x": (1,)},))
    seen = compare(check, one)
    assert seen.outcome == "unknown" and seen.attained


def test_a_violated_hypothesis_is_never_a_pass_or_a_counterexample():
    check = replace(inequality(0.5), hypotheses=lambda x, y: [(x, -abs(x) - 1)])
    instance = {k: torch.tensor([1.0], dtype=torch.float64) for k in ("x", "y")}
    seen = compare(check, instance)
    assert seen.outcome == "unknown" and seen.hypotheses == "fail"


@pytest.mark.parametrize(("holds", "rejected"), [(True, False), (None, False), (False, True)])
def test_only_a_certain_no_rejects(holds, rejected):
    decision = Decision(lambda: Verdict(holds, "because"), limits="")
    assert reject(decision, QUICK, "t")[0] is rejected


def test_seeds_decide_everything():
    check = inequality(1.0)
    same = [attack(check, QUICK, "t").ratio for _ in range(2)]
    assert same[0] == same[1]
    a, b = (sample(check, replace(QUICK, seed=s), "t").instance for s in (0, 1))
    assert not torch.equal(a["x"], b["x"])


def test_status_is_transitive():
    ids = ["paths.stochastic-product", "paths.decomposition"]
    full = {}
    for id in ids:
        claim = registry[id]
        records = [
            Record(k, n, "pass", None, 1, 0.0, "") for n, c in CHECKS[id].items() for k in c.kinds
        ]
        records.append(Record("derived", claim.notebook, "pass", None, 1, 0.0, ""))
        records += formal.evidence_of(id)[0]
        twins = [TwinRecord(n, "t", True, None, "") for n, c in CHECKS[id].items()]
        full[id] = own(registry, claim, records, twins)
    assert standings(registry, full)["paths.decomposition"].status == "verified"
    full[ids[0]] = replace(full[ids[0]], status="partial")
    after = standings(registry, full)["paths.decomposition"]
    assert after.status == "partial" and "rests on paths.stochastic-product" in after.reasons[0]


def test_what_rests_on_a_refuted_claim_rests_on_its_counterexample():
    """A refutation is established by its evidence; one without it is not."""
    ids = ["collapse.multi-head-as-printed", "collapse.multi-head-small-width"]
    alone = {id: Standing("verified") for id in [*ids, *registry.ancestors(ids[1])]}
    for status, expected in (
        ("refuted", "verified"),
        ("partial", "partial"),
        ("failed", "partial"),
    ):
        alone[ids[0]] = Standing(status)
        assert standings(registry, alone)[ids[1]].status == expected


def test_missing_evidence_is_partial():
    claim = registry["paths.count"]
    standing = own(
        registry, claim, [Record("certified", "enumeration", "pass", None, 1, 0.0, "")], []
    )
    assert standing.status == "partial"
    assert any("derived" in reason for reason in standing.reasons)


def test_cover_decides_signs():
    assert interval_cover.positive(lambda x: x * x + 1, flint.arb(-3), flint.arb(3))[0] is True
    assert interval_cover.positive(lambda x: x - 1, flint.arb(0), flint.arb(3))[0] is False
    assert interval_cover.positive(lambda x: x * x, flint.arb(-1), flint.arb(2.5))[0] is not True
    sides = (flint.arb(0), flint.arb(1)), (flint.arb(-3), flint.arb(3))
    assert interval_cover.positive_on(lambda x, y: x + y * y + 0.01, *sides)[0] is True
    assert interval_cover.positive_on(lambda x, y: x + y * y - 1, *sides)[0] is False
    assert interval_cover.positive_on(lambda x, y: x + y * y, *sides)[0] is not True


@given(st.integers(0, 255), st.integers(1, 8), st.sets(st.integers(1, 255), max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_violation_anywhere_in_a_range_is_seen(place, width, cuts):
    """On [0, 8], cut at random: a random dip is seen, and a part that is left out."""
    ends = [flint.arb(k) / 32 for k in sorted({0, 256, *cuts})]
    middle, radius = flint.arb(place) / 32, flint.arb(width) / 512
    dips = [
        interval_cover.positive(lambda x: abs(x - middle) - radius, *side)
        for side in pairwise(ends)
    ]
    parts = [interval_cover.positive(lambda x: 1 + x, *side) for side in pairwise(ends)]
    parts.append(interval_cover.beyond(lambda x: x, ends[-1]))
    assert interval_cover.joined(*dips)[0] is False
    assert outcome(*parts) == "pass"
    for k in range(len(parts)):
        assert outcome(*parts[:k], *parts[k + 1 :]) == "unknown"
    late = interval_cover.beyond(lambda x: x, ends[-1] * 10)
    assert outcome(*parts[:-1], late) == "unknown"


def outcome(*parts):
    """Of a decision that says that it covers x >= 0."""
    holds, cases, boxes = interval_cover.joined(*parts)
    over = (((flint.arb(0), flint.arb.pos_inf()),),)
    check = Decision(lambda: Verdict(holds, "x", cases, over=boxes), "x", over=over)
    ((_, (step, limits)),) = evidence(check, FEW, "t").items()
    assert limits == "x; it covers [0, inf]"
    return step().outcome


#: What the covers of the book are to cover, by the statement or the argument of each.
SAID = {
    "collapse.row-and-column": [[0.69314718, 1.25643121]],  # log 2 to x*, for two inequalities
    "collapse.signed-columns": [[0.125, 1, 0, 1], [0, 1, 0, 1]],  # m (one of each: m >= 1/8) and V
    "heads.truncation": [[0, 1]],
    "modern.gated-mlp": [[-inf, inf]],
    "skip.polynomial-rate": [[0, inf]],
    "skip.polynomial-rate-heads": [[0, inf]],
    "softmax.perturbation": [[0, 1.25643121]],
}


def test_covers_are_of_what_is_said_and_of_no_less():
    """And what is covered is not said to end earlier: 1/1000 more is unknown."""
    found = [(id, c) for id, checks in CHECKS.items() for c in checks.values() if says(c)]
    assert sorted(id for id, _ in found) == list(SAID)
    for id, check in found:
        boxes = [[float(end) for side in box for end in side] for box in check.over]
        assert all(any(box == pytest.approx(said) for said in SAID[id]) for box in boxes)
        more = tuple(((low, high + 0.001), *others) for (low, high), *others in check.over)
        verdict = check.run()
        assert interval_cover.cover(verdict.over, check.over)
        assert not interval_cover.cover(verdict.over, more) or "inf" in str(more)
        assert not interval_cover.cover(verdict.over, (*check.over, check.over[0]))


def says(check):
    return isinstance(check, Decision) and bool(check.over)


def test_fewer_cases_than_a_decision_says_are_unknown():
    """Depths to 8 where the limits say 64."""
    for cases, outcome in ((64, "pass"), (63, "unknown"), (8, "unknown")):
        check = Decision(lambda n=cases: Verdict(True, "n", n), "n to 64", "certified", cases=64)
        ((_, (step, _)),) = evidence(check, FEW, "t").items()
        assert step().outcome == outcome


def one_side_agrees(check, twin) -> bool:
    """Whether a side of both, each computed by one function, is the same at drawn instances."""
    random = generator(0, "sides")
    batch = check.build(**sampling.parameters(check.sizes[0], 4, random, spread=False))
    sides = zip(check.tight.sides(**batch), twin.sides(**batch), strict=True)
    return any(torch.equal(a, b) for a, b in sides)


def one_part_differs(side, other) -> bool:
    """Whether both sides use a formula that one field of their dataclass names."""
    own, new = getattr(side, "__self__", None), getattr(other, "__self__", None)
    if not dataclasses.is_dataclass(own) or type(own) is not type(new):
        return False
    fields = (field.name for field in dataclasses.fields(own))
    return sum(getattr(own, name) != getattr(new, name) for name in fields) == 1


def test_twin_of_every_inequality_keeps_one_side():
    """A real neighbor: only one of bound, hypothesis or formula differs from the claim."""
    for checks in CHECKS.values():
        for check in checks.values():
            for twin in check.twins:
                assert isinstance(twin, Twin) and type(twin.check) is type(check)
                if isinstance(check, Inequality):
                    left = twin.check.left in (check.left, check.tight.left)
                    kept = left or twin.check.right is check.right
                    kept |= one_part_differs(check.left, twin.check.left)
                    kept = kept or one_side_agrees(check, twin.check)
                    assert kept and twin.check.sizes == check.sizes


def test_object_arrays_stay_exact():
    assert isinstance(ops.balls(np.array([[1, 2]]))[0, 0], flint.arb)

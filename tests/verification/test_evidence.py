"""The engine: every kind of evidence of every claim, and nothing believed too easily."""

import dataclasses
from dataclasses import replace
from itertools import pairwise
from math import inf

import flint
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
from attnverify.checking.records import KINDS
from attnverify.checking.search import Settings, attack
from attnverify.support.seeds import generator
from attnverify.support.verdict import Verdict
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

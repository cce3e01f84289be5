"""From evidence to exit code: nothing but passing evidence and rejected twins is as claimed."""

import pytest

from attnverify.chapters import registry
from attnverify.checking.check import Decision, Measured
from attnverify.checking.gather import evidence, reject
from attnverify.checking.records import Record, TwinRecord
from attnverify.checking.search import Settings
from attnverify.support.verdict import Verdict
from attnverify.verification.status import own, required, standings
from evidence_files import report

CLAIM = registry["norms.submultiplicative"]


def passing(changed=None, outcome="pass"):
    """Records of all evidence that applies to CLAIM; ``changed`` is the one with the outcome."""
    return [
        Record(kind, name, outcome if (kind, name) == changed else "pass", None, 1, 0.0, "")
        for kind, name in sorted(required(registry, CLAIM))
    ]


def twins(let_pass=None):
    titles = [(n, t.title) for n, c in registry.checks_of(CLAIM.id).items() for t in c.twins]
    return [TwinRecord(n, title, title != let_pass, None, "") for n, title in titles]


def test_a_run_in_which_all_passes_is_as_claimed_if_it_is_whole():
    done = report()
    assert done.as_claimed
    done.interrupted = True
    assert not done.as_claimed


@pytest.mark.parametrize("outcome", ["fail", "unknown"])
def test_one_record_that_does_not_pass_is_not_as_claimed(outcome):
    assert not report({CLAIM.id: outcome}).as_claimed


def test_one_twin_that_is_not_rejected_is_not_as_claimed():
    done = report()
    for id, records in done.twins.items():
        for place, twin in enumerate(records):
            done.twins[id] = list(records)
            done.twins[id][place] = TwinRecord(twin.check, twin.twin, False, None, "")
            assert not done.as_claimed
        done.twins[id] = records
    assert done.as_claimed and not report(let_pass=(CLAIM.id,)).as_claimed


@pytest.mark.parametrize("outcome", ["fail", "unknown"])
def test_every_record_counts_for_the_status(outcome):
    assert own(registry, CLAIM, passing(), twins()).status == "verified"
    for pair in required(registry, CLAIM):
        standing = own(registry, CLAIM, passing(pair, outcome), twins())
        assert standing.status == ("failed" if outcome == "fail" else "partial")
        assert standing.reasons


def test_every_twin_counts_for_the_status():
    for twin in twins():
        standing = own(registry, CLAIM, passing(), twins(let_pass=twin.twin))
        assert standing.status == "failed" and twin.twin in standing.reasons[0]


def test_missing_records_and_twins_are_partial():
    for pair in required(registry, CLAIM):
        rest = [r for r in passing() if (r.kind, r.check) != pair]
        assert own(registry, CLAIM, rest, twins()).status == "partial"
    for name in {t.check for t in twins()}:
        rest = [t for t in twins() if t.check != name]
        assert own(registry, CLAIM, passing(), rest).status == "partial"


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ("verified", "verified", "verified"),
        ("partial", "verified", "partial"),
        ("failed", "verified", "partial"),
        ("failed", "criterion met", "partial"),  # an experiment rests on theorems, too
        ("refuted", "verified", "verified"),  # what is used is its counterexample
        ("failed", "failed", "failed"),
    ],
)
def test_a_claim_is_no_better_than_what_it_rests_on(first, second, status):
    from attnverify.verification.status import Standing

    ids = ["paths.stochastic-product", "paths.decomposition"]
    alone = {ids[0]: Standing(first), ids[1]: Standing(second)}
    assert standings(registry, alone)[ids[1]].status == status


@pytest.mark.parametrize("status", ["verified", "partial", "failed", "not checked", "refuted"])
def test_only_a_verified_correction_corrects(status):
    from attnverify.verification.status import Standing

    for claim in filter(lambda claim: claim.corrected_by, registry.values()):
        alone = {id: Standing("verified") for id in registry}
        alone |= {claim.id: Standing("refuted"), str(claim.corrected_by): Standing(status)}
        found = standings(registry, alone)[claim.id].status
        assert found == ("corrected" if status == "verified" else "refuted")


@pytest.mark.parametrize(
    ("holds", "outcome", "decided"), [(True, "pass", 3), (False, "fail", 3), (None, "unknown", 0)]
)
def test_a_decision_passes_only_if_it_holds(holds, outcome, decided):
    decision = Decision(lambda: Verdict(holds, "because", cases=3), limits="these")
    ((kind, (step, limits)),) = evidence(decision, Settings(), "t").items()
    found = step()
    assert (kind, limits, found.outcome, found.decided) == ("decided", "these", outcome, decided)
    assert reject(decision, Settings(), "t")[0] is (holds is False)


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("holds", [True, False, None])
def test_a_criterion_passes_only_if_it_comes_out_as_the_book_says(expected, holds):
    judge = lambda rows: Verdict(holds, "rows")  # noqa: E731
    check = Measured(list, print, judge, "these rows", expected=expected)
    ((kind, (step, _)),) = evidence(check, Settings(), "t").items()
    outcome = "unknown" if holds is None else "pass" if holds is expected else "fail"
    assert (kind, step().outcome) == ("measured", outcome)
    assert reject(check, Settings(), "t")[0] is (outcome == "fail")


def test_what_is_no_form_of_a_check_has_no_evidence():
    for ask in (evidence, reject):
        with pytest.raises(TypeError, match="orm"):
            ask(object(), Settings(), "t")

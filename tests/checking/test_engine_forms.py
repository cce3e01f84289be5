"""The forms of a check: twins that differ from their own check in named fields."""

from dataclasses import replace

import pytest

from attnverify.chapters import registry
from attnverify.checking import sampling
from attnverify.checking.check import Decision, Identity, Inequality
from attnverify.checking.preflight import asking, asking_identity
from attnverify.support.errors import InputError
from attnverify.support.seeds import generator
from attnverify.support.verdict import Verdict

CHECKS = {id: registry.checks_of(id) for id in registry}

SIZES = ({"x": (1,)},)
FORMS = [
    pytest.param(Inequality(abs, lambda x: 2 * abs(x), SIZES), {"right": abs}, id="inequality"),
    pytest.param(Identity(abs, abs, SIZES), {"right": lambda x: x}, id="identity"),
    pytest.param(
        Decision(lambda: Verdict(True, ""), "these"), {"run": lambda: Verdict(False, "")}, id="run"
    ),
]


@pytest.mark.parametrize(("check", "changes"), FORMS)
def test_but_adds_one_twin_that_differs_in_the_named_fields_alone(check, changes):
    once = check.but("first", **changes)
    twice = once.but("second", **changes)
    assert [t.title for t in twice.twins] == ["first", "second"]
    assert replace(twice, twins=()) == check
    for twin in twice.twins:
        assert twin.check == replace(check, **changes)


@pytest.mark.parametrize(("check", "changes"), FORMS)
def test_a_twin_that_changes_nothing_is_refused(check, changes):
    with pytest.raises(InputError, match="changes"):
        check.but("the claim itself")


@pytest.mark.full  # a minute: every inequality of the book and its twins, at every size
def test_formulas_of_the_book_compute_the_same_for_all_numbers():
    """A branch on a comparison of balls would enclose nothing; what asks, encloses on every branch.

    P(Q <= x) takes as many terms as its accuracy needs, which is asked of the numbers; each sum has
    its own bound on what it leaves out (``evidence.quadrature.enclosure``). v(H) finds its argument
    by bisection in floats and adds what that leaves out (``gradients.entropy_variance``).
    """
    asked = set()
    for claim, checks in CHECKS.items():
        for name, check in checks.items():
            for form in (check, *(twin.check for twin in check.twins)):
                if isinstance(form, Inequality):
                    asked |= {(claim, name, side) for side in _asking(form)}
    law = ("edgeworth", "gaussian", "middle-token", "near-middle")
    asks = [(f"localization.{claim}", "bound") for claim in law]
    asks += [("training.covariance", name) for name in ("by the entropy", "at most linear")]
    sides = ("left", "right")  # one function gives both
    expected = {(*check, side) for check in asks for side in sides}
    assert asked == expected


def _asking(check):
    for sizes in check.sizes:
        free = sampling.parameters(sizes, 1, generator(0, "asked"), spread=False)
        yield from asking(check, sampling.single(check.build(**free), 0))


def test_identities_of_the_book_compute_the_same_for_all_numbers():
    for checks in CHECKS.values():
        for check in checks.values():
            for form in (check, *(twin.check for twin in check.twins)):
                if isinstance(form, Identity) and form.arithmetic == "ball":
                    assert not any(asking_identity(form, sizes) for sizes in form.sizes)

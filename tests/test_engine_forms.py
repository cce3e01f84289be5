"""The forms of a check: twins that differ from their own check in named fields."""

from dataclasses import replace

import pytest

from attnverify.errors import InputError
from attnverify.evidence.forms import Decision, Identity, Inequality
from attnverify.verdict import Verdict

SIZES = ({"x": (1,)},)
FORMS = [
    pytest.param(Inequality(abs, lambda x: 2 * abs(x), SIZES), {"right": abs}, id="inequality"),
    pytest.param(Identity(abs, abs, abs, SIZES), {"right": lambda x: x}, id="identity"),
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

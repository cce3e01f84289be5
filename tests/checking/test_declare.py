"""The short form of a check: what it makes, and what a mistake in it is told."""

import pytest
import torch

import attnverify as av
from attnverify import InputError
from attnverify.checking import declare
from attnverify.checking.check import Decision, Identity, Inequality
from attnverify.checking.gather import gather
from attnverify.checking.search import Settings

QUICK = Settings(samples=100, restarts=2, steps=20)


@pytest.fixture(autouse=True)
def declared():
    """What a test declares is gone after it."""
    with declare.collecting() as found:
        yield found


def squares():
    @av.inequality("mine.squares", "x[n]", 2, 5)
    def sum_of_squares(x, times=1, power=2):
        total = av.ops.sum(x, -1)
        return times * total**power, x.shape[-1] * av.ops.sum(av.ops.square(x), -1)

    return sum_of_squares.equal(x=[1, 1, 1])


def test_a_function_is_a_check_by_its_name(declared):
    found = squares().false("twice the left side", times=2).false("at another place", at={"x": [1]})
    assert declared == {"mine.squares": {"sum of squares": found}}
    check = found.check
    assert isinstance(check, Inequality) and check.sizes == ({"x": (2,)}, {"x": (5,)})
    titles = ["0.9999 times the right side", "twice the left side", "at another place"]
    assert [twin.title for twin in check.twins] == titles
    seen = gather("mine.squares", {"sum of squares": check}, QUICK)
    assert {r.kind: r.outcome for r in seen.records} == dict.fromkeys(check.kinds, "pass")
    assert [twin.rejected for twin in seen.twins] == [True, True, False]  # the last one is true


def test_both_sides_are_computed_once():
    calls = []

    @av.inequality("mine.count", "x[n]", 3)
    def count(x):
        calls.append(1)
        return 0 * x, x * x

    left, right = count.check.sides(x=torch.ones(1, 3))
    assert len(calls) == 1 and left.sum() == 0 and right.sum() == 3
    count.check.times(0.5).twins[0].check.sides(x=torch.ones(1, 3))
    assert len(calls) == 2


def test_another_check_of_the_same_function():
    """Its knobs, sizes and factor are its own; instances and neighbors are not taken over."""
    first = squares()
    other = first.also("halved", 3, power=2, times=0.5, tight=0.4).false("whole", times=9).check
    assert other.sizes == ({"x": (3,)},) and other.extremal == ()
    assert [twin.title for twin in other.twins] == ["0.4 times the right side", "whole"]
    left, right = other.sides(x=torch.ones(1, 2))
    assert (float(left), float(right)) == (2.0, 4.0)


def test_hypotheses_and_instances_get_the_knobs_that_they_name():
    @av.inequality(
        "mine.sorted",
        "x[n]",
        4,
        draw=lambda x, sign=1: {"x": sign * torch.sort(x).values},
        where=lambda x, sign=1: [(sign * x[..., :-1], sign * x[..., 1:])],
    )
    def sorted_entries(x, sign=1):
        return sign * x[..., :1], sign * x[..., -1:]

    check = sorted_entries.false("falling", sign=-1).check
    wrong = check.twins[-1].check
    for each, sign in ((check, 1), (wrong, -1)):
        made = each.build(x=torch.tensor([[2.0, -1.0, 3.0, 0.0]]))["x"]
        assert torch.equal(made, sign * torch.tensor([[-1.0, 0.0, 2.0, 3.0]]))
        assert each.hypotheses is not None
        smaller, larger = each.hypotheses(x=made)[0]
        assert (smaller <= larger).all()


def test_identities_decisions_definitions_and_criteria():
    @av.identity("mine.a", "x[n,2] c[1]", 3, exact="ball")
    def doubled(x, c, factor=2):
        return x + x, factor * x

    @av.decision("mine.a", "certified", limits="one case", cases=2)
    def one(yes=True):
        return av.Verdict(yes, "one case", cases=2)

    @av.definition("mine.a", name="entry by entry")
    def root(power=2):
        (x,) = av.drawn(0, (2,))
        yield "square", av.ops.square(x), av.table(lambda i: x[i] ** power, 2)

    @av.measured("mine.a", lambda: [{"loss": 1.0}], print, limits="one run")
    def falls(rows, below=2.0):
        return av.Verdict(rows[0]["loss"] < below, "one row")

    doubled.false("three times", factor=3)
    one.false("the other", yes=False)
    root.false("its cube", power=3)
    falls.false("below a half", below=0.5)
    checks = {each.name: each.check for each in (doubled, one, root, falls)}
    assert isinstance(checks["doubled"], Identity) and isinstance(checks["one"], Decision)
    assert checks["doubled"].sizes == ({"x": (3, 2), "c": (1,)},) and checks["one"].cases == 2
    seen = gather("mine.a", checks, QUICK)
    assert all(record.outcome == "pass" for record in seen.records)
    assert len(seen.twins) == 4 and all(twin.rejected for twin in seen.twins)


def test_an_identity_draws_with_its_knobs_and_takes_scalars():
    @av.identity(
        "mine.b", "x[n] c[]", 3, exact="ball", draw=lambda x, c, sign: {"x": sign * abs(x), "c": c}
    )
    def length(x, c, sign=1, times=1):
        return av.ops.sqrt(av.ops.square(c * x)), times * abs(c) * sign * x

    below = length.false("twice", times=2).also("below", sign=-1).false("twice", times=2)
    seen = gather("mine.b", {"above": length.check, "below": below.check}, QUICK)
    assert [record.outcome for record in seen.records] == ["pass", "pass"]
    assert all(twin.rejected for twin in seen.twins)


def test_fewer_cases_than_said_are_unknown():
    @av.decision("mine.c", "certified", limits="two cases", cases=2)
    def two(yes=True):
        return av.Verdict(yes, "two cases", cases=2)

    @av.definition("mine.c", cases=3)
    def square(power=2):
        (x,) = av.drawn(0, (2,))
        yield "square", av.ops.square(x), av.table(lambda i: x[i] ** power, 2)

    three = two.false("no", yes=False).also("three", cases=3, limits="three cases")
    checks = {each.name: each for each in (two, three.false("no", yes=False), square)}
    square.false("cube", power=3)
    seen = gather("mine.c", {name: each.check for name, each in checks.items()}, QUICK)
    assert [(r.outcome, r.limits.split(",")[0]) for r in seen.records] == [
        ("pass", "two cases"),
        ("unknown", "three cases"),
        ("unknown", "these instances"),
    ]


def no_knob(x, y):
    return x, y


MISTAKES = [
    (lambda: squares().false("x", tims=2), "got tims=, expected .*times, power.*mean 'times'"),
    (lambda: squares().false("nothing"), "got no change, expected a knob to turn"),
    (lambda: squares().equal(x=[[1, 2]]), r"instance: got x \(1, 2\), expected x\[n\]"),
    (lambda: squares().equal(y=[1]), r"instance: got \['y'\], expected \['x'\]"),
    (
        lambda: av.inequality("a.b", "x[n]", 2)(no_knob),
        r"parameters: got",
    ),
    (
        lambda: av.inequality("a.b", "x[n] y[m]", 2)(no_knob),
        r"sizes: got .2,., expected 2 lengths, of the axes n, m of 'x\[n\] y\[m\]'",
    ),
    (lambda: av.inequality("a.b", "x[n], y", 2)(no_knob), "arrays: got ', y' in .*expected as"),
    (lambda: av.decision("a.b", limits="x")(no_knob), r"parameters: got \['x', 'y'\]"),
    (
        lambda: av.inequality("a.b", "x[n] y[n]", 2, tight=None)(no_knob).check,
        "no knob: got no false neighbor",
    ),
    (
        lambda: av.inequality("a.b", "x[n] y[m]", (2, 2))(no_knob).equal(x=[1, 1], y=1),
        r"instance: got y \(\), expected y\[m\]",
    ),
    (
        lambda: av.inequality("a.b", "x[n] y[n]", 2)(no_knob).equal(x=[1, 1], y=[1, 1, 1]),
        r"got y \(3,\), so n = 3, expected n = 2",
    ),
    (
        lambda: av.inequality("a.b", "x[n]", 2)(lambda x: x).check.sides(x=1),
        "what it returns: got int, expected left, right",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), MISTAKES)
def test_a_mistake_names_file_line_claim_and_check(wrong, message):
    with pytest.raises(InputError, match=message) as told:
        wrong()
    own = "squares" in wrong.__code__.co_names  # a call that is not the decorator's
    line = f"{wrong.__code__.co_firstlineno}:" if own else ""
    assert f"test_declare.py:{line}" in str(told.value)

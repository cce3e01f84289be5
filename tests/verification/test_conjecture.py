"""The search for best constants: known ones of the literature, found without being told."""

from __future__ import annotations

import json
import subprocess
import sys

import flint
import pytest
import sympy as sp
import torch
from typer.testing import CliRunner

import attnverify as av
from attnverify import InputError, cli
from attnverify.arithmetic import ops
from attnverify.chapters import registry
from attnverify.checking import closed_forms
from attnverify.checking.check import Inequality
from attnverify.checking.closed_forms import number, propose
from attnverify.checking.search import Settings
from attnverify.support.errors import RunError
from attnverify.support.typeset import numbers
from attnverify.verification import claim_files, conjecture_file
from attnverify.verification.conjecture import best_constant, certified
from places import ROOT
from tiers import in_tiers

EXAMPLES = ROOT / "book" / "examples"
EXAMPLE = EXAMPLES / "quarter.py"
RECORD = json.loads((EXAMPLES / "constants.json").read_text(encoding="utf-8"))
QUICK = Settings(restarts=8, steps=200)

#: The constant of the literature for each question of the page; book/outside.md cites it.
KNOWN = {
    "half": "1/2",
    "hoeffding": "1/8",
    "pinsker": "1/2",
    "lin": "log(2)",
    "lecam": "sqrt(2)",
    "quarter": "1/4",
}


def asked(name: str) -> Inequality:
    """The question of a file of the page, which names no constant."""
    names = claim_files.executed(claim_files.read(EXAMPLES / f"{name}.py")).names
    return Inequality(names["left"], names["right"], tuple(names["SIZES"]))


def row(name: str) -> str:
    """The line of the page's table that the record gives."""
    found = RECORD[name]
    p = found["proposal"]
    cells = [
        f"{found['at least']:.12g}",
        p["constant"],
        f"{p['gap']:.1e}",
        f"{p['chance']:.1e}",
        repr(found["twin"]),
        f"{found['seconds']:.1f} s",
    ]
    return numbers(" | ".join(["", *cells, ""]).strip() + "\n")


@pytest.mark.parametrize("name", in_tiers(KNOWN, ("half", "lin")))
def test_a_known_constant_is_found(name):
    """With a twelfth of the search that the page's record took."""
    check = asked(name)
    found = best_constant(check.left, check.right, check.sizes, settings=QUICK)
    print(f"{name}: {found}; {found.instances} instances, {found.seconds:.1f} s")
    assert found.proposal is not None and found.proposal.constant == sp.sympify(KNOWN[name])
    assert found.proposal.chance < closed_forms.BY_CHANCE and 0.99 <= found.twin < 1
    with ops.precision(256):  # log 2 is attained to the last digit of a float
        known = number(KNOWN[name], ops.balls(torch.ones(1)))
        assert flint.arb(found.lower) <= known
        assert flint.arb(found.twin) * known < flint.arb(found.lower)


@pytest.mark.parametrize("name", KNOWN)
def test_the_record_of_the_page_is_certified_again(name):
    """Its instance in balls, without a search: ratio, proposal, twin, the row of the page."""
    found = RECORD[name]
    arrays = {
        key: torch.tensor([float.fromhex(v) for v in value["values"]], dtype=torch.float64)
        for key, value in found["instance"].items()
    }
    lower, upper = certified(asked(name), arrays)
    assert lower == found["at least"] and [lower.hex(), upper.hex()] == found["ratio between"]
    proposal = propose(lower)
    assert proposal is not None and str(proposal.constant) == KNOWN[name]
    assert (proposal.gap, proposal.chance) == pytest.approx(
        (found["proposal"]["gap"], found["proposal"]["chance"]), rel=1e-12
    )
    with ops.precision(256):
        known = number(KNOWN[name], ops.balls(torch.ones(1)))
        assert flint.arb(found["twin"]) * known < flint.arb(lower) <= known
    page = (ROOT / "book" / "outside.md").read_text(encoding="utf-8")
    assert row(name) in page


def test_a_quotient_of_no_simple_form_is_not_proposed():
    """A constant that was drawn at random is certified from below and left at that."""
    found = best_constant(
        lambda u: u * 0.3183731 / u, lambda u: u / u, ({"u": (1,)},), settings=QUICK
    )
    assert found.proposal is None and abs(found.lower - 0.3183731) < 1e-9
    assert "no number of simple form" in str(found) and found.twin is None
    assert "no number of simple form" in found._repr_html_()


def test_an_answer_shows_itself():
    found = best_constant(lambda u: u / (2 * u), lambda u: u / u, [{"u": (1,)}], settings=QUICK)
    assert (found.lower, found.upper) == (0.5, 0.5)
    shown = found._repr_html_()
    assert '<th scope="row">certified</th><td>C ≥ 0.5</td>' in shown
    assert "C = 1/2, a quotient up to 8" in shown and "0.999999999999 times" in shown
    assert "u = (" in shown and "instances" in shown


def test_what_has_no_constant_is_refused():
    one = ({"u": (1,)},)
    with pytest.raises(InputError, match="expected a bounded quotient"):
        best_constant(
            lambda u: ops.exp(ops.exp(ops.square(u))), lambda u: u / u, one, settings=QUICK
        )
    with pytest.raises(InputError, match="left: got no positive value"):
        best_constant(lambda u: -u / u, lambda u: u / u, one, settings=QUICK)
    with pytest.raises(InputError, match=r"right: got shape \(8, 1\), expected shape \(8, 1, 2\)"):
        best_constant(lambda u: ops.stack([u, u], -1), lambda u: u / u, one, settings=QUICK)


@pytest.mark.parametrize(
    ("left", "where"),
    [
        (lambda u: ops.log(1 + abs(u)), "1000 times as large"),
        (lambda u: ops.sqrt(abs(u)), "1000 times as large"),
        (lambda u: 1 / ops.sqrt(abs(u)), "1000 times as small"),
    ],
)
def test_a_quotient_that_keeps_growing_is_told(left, where):
    found = best_constant(left, lambda u: u / u, [{"u": (1,)}], settings=QUICK)
    assert found.proposal is None and found.twin is None
    assert "the quotient still grows" in str(found) and where in str(found)
    assert numbers(found.growth) in found._repr_html_()
    assert found.as_json()["growth"] == found.growth


@pytest.mark.parametrize("left", [lambda u: abs(u), lambda u: 0 * u + 1])
def test_a_quotient_that_ends_at_infinity_or_zero_is_not_called_growing(left):
    found = best_constant(left, lambda u: 1 + abs(u), [{"u": (1,)}], settings=QUICK)
    assert not found.growth and found.proposal is not None and found.proposal.constant == 1


def test_a_proposal_is_the_least_likely_by_chance():
    found = propose(0.25 * (1 - 1e-9))
    assert found is not None and found.constant == sp.Rational(1, 4) and found.gap < 2e-9
    assert propose(0.25 * (1 + 1e-6)) is None  # no constant lies below what is certified
    third = propose(float(sp.sqrt(2) / 3) - 1e-12)
    assert third is not None and third.constant == sp.sqrt(2) / 3
    assert propose(0.3183731) is None


def test_the_smallest_number_of_a_form_is_proposed_too():
    """1/8 is the least quotient up to 8; roots of quotients up to 16 begin at twice of it."""
    found = propose(0.125 * (1 - 1e-8))
    assert found is not None and found.constant == sp.Rational(1, 8) and found.chance > 0


def test_chance_is_what_numbers_drawn_at_random_meet():
    """Of ratios drawn as ``chance`` supposes, no larger share than p has a chance below p.

    2000 ratios, log-uniform in (0.3, 3), p = 1e-3: the number that are proposed is binomial with
    a mean of 2 at most, and exceeds 10 with probability 8e-6.
    """
    random = torch.Generator().manual_seed(5)
    draws = torch.rand(2000, generator=random, dtype=torch.float64)
    ratios = (0.3 * 10**draws).tolist()
    assert sum(propose(ratio) is not None for ratio in ratios) <= 10


TEXTS = ["1/4", "sqrt(2)/4", "pi/3", "2*E", "1/log(2)", "1/sqrt(2*pi)", "pi**2/6", "exp(2)"]
TEXTS += ["sqrt(E)", "1+sqrt(5)", "2**(3/2)", "(1+pi)**-2", "1/sqrt(E)"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_number_is_the_same_in_every_arithmetic(text):
    """In floats to a few roundings, in balls around what sympy has to 40 digits."""
    exact = sp.N(sp.sympify(text), 40)
    value = float(exact)
    assert float(number(text, torch.ones(1, dtype=torch.float64))) == pytest.approx(value, 1e-14)
    with ops.precision(256):
        ball = number(text, ops.balls(torch.ones(1)))
        near = flint.arb(str(exact), "1e-37")
        assert ball.overlaps(near) and ball.rad() < 1e-60


@pytest.mark.parametrize("text", ["0.25", "2**(1/3)", "sin(1)", "x/2"])
def test_what_is_no_number_of_these_kinds_is_refused(text):
    with pytest.raises(InputError, match="expression: got .*expected integers, quotients"):
        av.number(text, torch.ones(1))


@pytest.mark.full
def test_the_claim_that_is_written_is_checked_and_its_twin_rejected(tmp_path):
    """From the file of the page: constant, claim, verification, all by command.

    Twenty seconds for four processes: that what one command writes the other accepts.
    """
    source, claim = tmp_path / "quarter.py", tmp_path / "claim.py"
    source.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    few = ("--restarts", "8", "--steps", "200")
    done = run("conjecture", str(source), "--out", str(claim), *few, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["proposal"]["constant"] == "1/4"
    again = run("conjecture", str(source), "--out", str(claim), *few)
    assert again.returncode == 2 and "expected a new file" in again.stderr
    few = ("--samples", "100", "--restarts", "4", "--steps", "50", "--json", "-")
    checked = run("verify", str(claim), *few)
    assert checked.returncode == 0, checked.stderr
    (stated,) = json.loads(checked.stdout)["claims"]
    assert stated["id"] == "quarter.bound" and stated["status"] == "partial"
    assert all(twin["rejected"] for twin in stated["twins"]) and stated["twins"]
    assert {e["outcome"] for e in stated["evidence"]} == {"pass"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "attnverify", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("text.txt", "which is there, expected a new file"),
        ("-", "expected the name of a file"),
    ],
)
def test_a_bad_target_is_told_before_the_search(tmp_path, monkeypatch, target, message):
    (tmp_path / "text.txt").write_text("a letter")
    monkeypatch.setattr(conjecture_file, "answer", lambda *a: pytest.fail("the search started"))
    target = target if target == "-" else str(tmp_path / target)
    done = CliRunner().invoke(cli.app, ["conjecture", str(EXAMPLE), "--out", target])
    assert str(done.exception).startswith("out: got ") and message in str(done.exception)
    assert (tmp_path / "text.txt").read_text() == "a letter"


def test_a_search_that_never_ends_is_ended(tmp_path):
    path = tmp_path / "endless.py"
    text = EXAMPLE.read_text(encoding="utf-8")
    path.write_text(text.replace("    return", "    while len(u) > 9: pass\n    return", 1))
    with pytest.raises(RunError, match=r"the search of endless.py: got no end within 1 s.*--limit"):
        conjecture_file.answer(path, QUICK, limit=1)


@pytest.mark.parametrize(
    ("file", "expected"),
    [("Tanh bound.py", "tanh-bound"), ("softmax.py", "my-softmax"), ("2.py", "my-2")]
    + [("größe.py", "gr-e"), ("_.py", "my")],
)
def test_ids_are_made_of_the_files_name(file, expected):
    assert conjecture_file.prefix(file, registry.prefixes) == expected
    assert claim_files.ID.fullmatch(f"{expected}.bound")


SPOILED = {
    "no right": (("def right", "def wrong"), "without right, expected left, right, SIZES"),
    "no sizes": (("SIZES = [", "SIZES = [] and ["), "sizes: got .*expected shapes by name"),
    "no shapes": (("(n,)", "n"), "sizes: got .*expected shapes by name"),
    "states something": (
        ("SIZES", "# ```{claim} x.y\nSIZES"),
        "with a claim, expected a file that states",
    ),
    "another name": (("left(u, e)", "left(u, x)"), "spoiled.py: left: got TypeError.*parameters"),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_file_that_asks_for_nothing_is_refused(tmp_path, what):
    (old, new), message = SPOILED[what]
    path = tmp_path / "spoiled.py"
    path.write_text(EXAMPLE.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        conjecture_file._answer(claim_files.read(path), QUICK)


def test_forms_have_each_number_once_and_rounded_up():
    for form in closed_forms.FORMS:
        values = closed_forms.numbers(form)
        assert len({number for _, number in values}) == len(values)
        assert all(sp.Float(value, 40) >= sp.N(number, 40) for value, number in values)

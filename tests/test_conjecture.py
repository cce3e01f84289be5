"""The search for best constants: five of the literature, found without being told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import flint
import pytest
import sympy as sp
import torch

from attnverify import InputError, ops
from attnverify.evidence import conjecture, conjecturefile
from attnverify.evidence.conjecture import best_constant, number, propose
from attnverify.evidence.search import Settings

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "book" / "examples" / "quarter.py"
SIZES = tuple({"u": (n,), "e": (n,)} for n in (2, 3, 6))
QUICK = Settings(restarts=8, steps=200)


def osc(e):
    return ops.amax(e, -1) + ops.amax(-e, -1)


def length(x):
    return ops.sqrt(ops.sum(ops.square(x), -1))


def moved(u, e):
    return ops.softmax(u + e) - ops.softmax(u)


def variation(u, e):
    return ops.sum(abs(moved(u, e)), -1) / 2


def variance(u, e):
    p = ops.softmax(u)
    return ops.sum(p * ops.square(e - ops.sum(p * e, -1, keepdims=True)), -1)


def divergence(u, e):
    p, q = ops.softmax(u), ops.softmax(u + e)
    return ops.sum(p * (ops.log(p) - ops.log(q)), -1)


#: Left side, right side without its constant, and the constant of the literature.
KNOWN = {
    # the book's softmax.total-variation: tanh(x) <= x, with equality in the limit
    "total variation": (variation, lambda u, e: osc(e), "1/4"),
    # Gao and Pavel 2017 have the bound 1; the largest eigenvalue of the Jacobian is at most 1/2
    "Lipschitz": (lambda u, e: length(moved(u, e)), lambda u, e: length(e), "1/2"),
    # both together: the oscillation is at most sqrt 2 times the length
    "mixed": (variation, lambda u, e: length(e), "sqrt(2)/4"),
    # Popoviciu 1935
    "variance": (variance, lambda u, e: ops.square(osc(e)), "1/4"),
    # Hoeffding 1963
    "divergence": (divergence, lambda u, e: ops.square(osc(e)), "1/8"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_constant_is_found(name):
    left, right, known = KNOWN[name]
    found = best_constant(left, right, SIZES, settings=QUICK)
    print(f"{name}: {found}; {found.instances} instances, {found.seconds:.1f} s")
    assert found.proposal is not None and found.proposal.constant == sp.sympify(known)
    assert found.lower <= float(sp.sympify(known)) and found.proposal.chance < 1e-3
    assert 0 < found.twin < 1 and found.twin * float(sp.sympify(known)) < found.lower


def test_a_quotient_of_no_simple_form_is_not_proposed():
    """A constant that was drawn at random is certified from below and left at that."""
    found = best_constant(
        lambda u: u * 0.3183731 / u, lambda u: u / u, ({"u": (1,)},), settings=QUICK
    )
    assert found.proposal is None and abs(found.lower - 0.3183731) < 1e-9
    assert "no number of simple form" in str(found)
    with pytest.raises(ValueError, match="no constant is proposed"):
        _ = found.twin


def test_what_has_no_constant_is_refused():
    with pytest.raises(InputError, match="expected a bounded quotient"):
        best_constant(
            lambda u: ops.exp(ops.exp(ops.square(u))),
            lambda u: u / u,
            ({"u": (1,)},),
            settings=QUICK,
        )
    with pytest.raises(InputError, match="left: got no positive value"):
        best_constant(lambda u: -u / u, lambda u: u / u, ({"u": (1,)},), settings=QUICK)


def test_a_proposal_is_the_least_likely_by_chance():
    found = propose(0.25 * (1 - 1e-9))
    assert found is not None and found.constant == sp.Rational(1, 4) and found.gap < 2e-9
    assert propose(0.25 * (1 + 1e-6)) is None or propose(0.25 * (1 + 1e-6)).constant != 0.25
    third = propose(float(sp.sqrt(2) / 3) - 1e-12)
    assert third is not None and third.constant == sp.sqrt(2) / 3
    assert propose(0.3183731) is None


@pytest.mark.parametrize("text", ["1/4", "sqrt(2)/4", "pi/3", "2*E", "1/log(2)", "1/sqrt(2*pi)"])
def test_a_number_is_the_same_in_every_arithmetic(text):
    value = float(sp.N(sp.sympify(text), 30))
    assert abs(float(number(text, torch.ones(1, dtype=torch.float64))) - value) < 8e-16 * value
    ball = number(text, ops.balls(torch.ones(1)))
    assert abs(ball - flint.arb(value)) < 2e-16 * value and ball.rad() < 1e-12


def test_the_claim_that_is_written_is_checked_and_its_twin_rejected(tmp_path):
    """From the file of the page: constant, claim, verification, all by command."""
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
        [sys.executable, "-m", "attnverify.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


SPOILED = {
    "no right": (("def right", "def wrong"), "without right, expected left, right, SIZES"),
    "no sizes": (("SIZES = [", "SIZES = [] and ["), "SIZES: got .*expected as"),
    "states something": (
        ("SIZES", "CLAIMS = []\nSIZES"),
        "with CLAIMS, expected a file that states",
    ),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_file_that_asks_for_nothing_is_refused(tmp_path, what):
    (old, new), message = SPOILED[what]
    path = tmp_path / "spoiled.py"
    path.write_text(EXAMPLE.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        conjecturefile.answer(path, QUICK)


def test_forms_have_each_number_once_and_rounded_up():
    for form in conjecture.FORMS:
        values = conjecture._numbers(form)
        assert len({number for _, number in values}) == len(values)
        assert all(sp.Float(value, 40) >= sp.N(number, 40) for value, number in values)

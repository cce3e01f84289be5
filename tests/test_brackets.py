"""Brackets: how near to its constant an inequality is refuted, told and checked by the engine."""

import json
import math

import pytest
import torch

import evidence_files
from attnverify.book.pages import status
from attnverify.book.pages.common import Evidence, false_at, read_evidence
from attnverify.checks import CHECKS
from attnverify.errors import InputError
from attnverify.evidence.certify import certify
from attnverify.evidence.exact import compare
from attnverify.evidence.forms import Inequality
from attnverify.evidence.run import reject
from attnverify.evidence.search import Settings

INEQUALITIES = [
    pytest.param(check, id=f"{id}/{name}")
    for id, checks in CHECKS.items()
    for name, check in checks.items()
    if isinstance(check, Inequality)
]
QUICK = Settings(samples=50, restarts=2, steps=5)


def number(value: float) -> dict[str, torch.Tensor]:
    return {"x": torch.tensor([value], dtype=torch.float64)}


def share(value: float) -> Inequality:
    """value |x| <= |x|."""
    return Inequality(lambda x: value * abs(x), lambda x: abs(x), ({"x": (1,)},))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 0.9999),  # equality: the nearest factor that is told
        (0.9999, 0.9998),  # the float next to 0.9999 may lie on either side
        (0.75, 0.7499),  # not 0.75 itself, which is true
        (0.70711, 0.7071),
        (1e-5, None),
    ],
)
def test_the_nearest_refuted_factor_is_just_below_the_ratio(value, expected):
    found = certify(share(value), QUICK, "t", [number(1.0)])
    assert found.outcome == "pass" and found.refuted_at in (expected, round(value, 4))
    if found.refuted_at is not None:
        assert compare(share(value).scaled(found.refuted_at), number(1.0)).outcome == "fail"
        step_up = share(value).scaled(found.refuted_at + 1e-4)
        assert value == 1 or compare(step_up, number(1.0)).outcome != "fail"


def test_a_false_statement_has_no_bracket():
    found = certify(share(1.5), QUICK, "t", [number(1.0)])
    assert found.outcome == "fail" and found.refuted_at is None


def test_times_adds_the_statement_with_another_constant():
    check = share(0.9).times(0.89)
    (twin,) = check.twins
    assert twin.title == "0.89 times the right side" and twin.factor == 0.89
    x = torch.tensor([[3.0]], dtype=torch.float64)
    assert torch.equal(twin.check.right(x=x), 0.89 * x) and twin.check.twins == ()
    assert twin.check.left is check.left and twin.check.sizes == check.sizes
    assert reject(twin.check, QUICK, "t")[0]
    assert not reject(check.times(0.91).twins[1].check, QUICK, "t")[0]
    for wrong in (0.0, 1.0, 1.5, math.nan):
        with pytest.raises(InputError, match="^factor: got .*expected a number between 0 and 1"):
            check.times(wrong)


@pytest.mark.parametrize("check", INEQUALITIES)
def test_every_inequality_has_a_twin_with_a_smaller_constant(check):
    assert [t for t in check.twins if t.factor is not None]


def test_the_pages_show_the_factors(tmp_path):
    file = evidence_files.write(tmp_path / "e.json")
    body = json.loads(file.read_text())
    entry = next(c for c in body["claims"] if c["id"] == "norms.diameter")
    certified = [r for r in entry["evidence"] if r["kind"] == "certified"]
    certified[0]["refuted_at"], certified[1]["refuted_at"] = 0.9999, 0.35
    file.write_text(json.dumps(body))
    evidence = read_evidence(file)
    assert isinstance(evidence, Evidence)
    assert false_at(evidence.records("norms.diameter")) == ["0.9999", "0.3500"]
    rows = status.text(evidence).splitlines()
    assert " | 0.9999, 0.3500 | " in next(r for r in rows if "status-norms-diameter" in r)

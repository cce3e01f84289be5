"""Brackets: how near to its constant an inequality is refuted, told and checked by the engine."""

import json
import math
from dataclasses import replace

import pytest
import torch

import evidence_files
from attnverify.book.pages import status
from attnverify.book.pages.common import Evidence, read_evidence
from attnverify.chapters import registry
from attnverify.checking.ball_comparison import compare
from attnverify.checking.certify import certify
from attnverify.checking.check import Inequality
from attnverify.checking.gather import reject
from attnverify.checking.records import Record
from attnverify.checking.search import Settings
from attnverify.support.errors import InputError
from attnverify.verification.margins import best_ratio, false_at
from places import ROOT

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
        (0.99995, 0.9999),
        (0.75, 0.7499),  # not 0.75 itself, which is true
        (0.70711, 0.7071),
        (0.017677, 0.01767),
        (0.00086712, 0.0008671),
        (0.0, None),
    ],
)
def test_the_nearest_refuted_factor_is_just_below_the_ratio(value, expected):
    found = certify(share(value), QUICK, "t", [number(1.0)])
    assert found.outcome == "pass" and found.refuted_at == expected
    if expected is not None:
        assert compare(share(value).scaled(expected), number(1.0)).outcome == "fail"


def test_a_false_statement_has_no_bracket():
    found = certify(share(1.5), QUICK, "t", [number(1.0)])
    assert found.outcome == "fail" and found.refuted_at is None


def test_a_lower_bound_of_the_left_side_decides_what_is_refuted():
    """3/4 |x| stands for something that is known to be 1/2 |x| at least."""
    check = replace(share(0.75), lower=lambda x: 0.5 * abs(x))
    found = certify(check, QUICK, "t", [number(1.0)])
    assert found.outcome == "pass" and (found.ratio, found.refuted_at) == (0.5, 0.4999)
    for twin in (check.times(0.6).twins[0], check.but("x", right=lambda x: 0.6 * abs(x)).twins[0]):
        assert twin.check.left is check.lower and not reject(twin.check, QUICK, "t")[0]
    assert reject(check.times(0.49).twins[0].check, QUICK, "t")[0]
    assert certify(replace(check, left=lambda x: 2 * abs(x)), QUICK, "t", []).outcome == "fail"


def test_a_lower_bound_above_the_left_side_is_a_failure():
    check = replace(share(0.5), lower=lambda x: 0.75 * abs(x))
    found = certify(check, QUICK, "t", [number(1.0)])
    assert found.outcome == "fail" and "lower bound" in found.detail
    assert found.refuted_at is None


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


def test_every_inequality_has_a_twin_with_a_smaller_constant():
    for id in registry:
        for name, check in registry.checks_of(id).items():
            if isinstance(check, Inequality):
                assert [t for t in check.twins if t.factor is not None], (id, name)


def test_the_best_ratio_is_the_certified_one():
    """A search may have looked at an upper bound of the left side; the certificate has not."""
    records = [
        Record("attacked", "mean", "pass", 0.99, 1, 0.0, ""),
        Record("certified", "mean", "pass", 0.75, 1, 0.0, "", refuted_at=0.7499),
    ]
    as_json = [r.as_json() for r in records]
    assert best_ratio(registry, "norms.residual-centers", as_json) == 0.75
    assert best_ratio(registry, "norms.residual-centers", as_json[:1]) == 0.99
    assert best_ratio(registry, "norms.residual-centers", []) is None
    assert false_at(as_json) == ["0.7499"] and false_at(as_json[:1]) == []


def test_the_pages_show_the_factors(tmp_path):
    file = evidence_files.write(tmp_path / "e.json")
    body = json.loads(file.read_text())
    entry = next(c for c in body["claims"] if c["id"] == "norms.diameter")
    certified = [r for r in entry["evidence"] if r["kind"] == "certified"]
    certified[0]["refuted_at"], certified[1]["refuted_at"] = 0.9999, 0.35
    file.write_text(json.dumps(body))
    evidence = read_evidence(file)
    assert isinstance(evidence, Evidence)
    assert false_at(evidence.records("norms.diameter")) == ["0.9999", "0.35"]
    rows = status.text(evidence, ROOT).splitlines()
    assert " | 0.9999, 0.35 | " in next(r for r in rows if "status-norms-diameter" in r)

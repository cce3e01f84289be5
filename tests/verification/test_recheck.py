"""Certificates, exported as programs, come out the same in a second program."""

import json
import subprocess
import sys
from pathlib import Path

import flint
import numpy as np
import pytest
import torch

import recheck
from attnverify.arithmetic import ops
from attnverify.arithmetic.tracing import Program, UntraceableError
from attnverify.chapters import registry
from attnverify.checking.check import Inequality
from attnverify.checking.search import Settings, attack
from attnverify.mathematics import softmax
from attnverify.mathematics.spectral import spectral_norm
from attnverify.support.errors import InputError
from attnverify.verification import certificate_export, replay
from places import ROOT

CHECKS = {id: registry.checks_of(id) for id in registry}

iv = recheck.iv
TOOL = ROOT / "tools" / "recheck.py"
OWN = {"attnverify", "flint", "numpy", "torch", "scipy", "sympy", "jaxtyping", "beartype"}

#: The inequalities that are not exported: they enclose the exact law of a score by an algorithm
#: that chooses its number of terms by the values it meets; one sorts, and needs digamma; two invert
#: the entropy of two weights.
RANK_ALONE = ("localization.edgeworth", "in the rank alone")
UNTRACED = {RANK_ALONE} | {
    (f"localization.{name}", "bound")
    for name in ("gaussian", "middle-token", "near-middle", "edgeworth")
}
UNTRACED |= {("training.covariance", name) for name in ("by the entropy", "at most linear")}
BRANCHES = "the formula branches on the value of a number"
DESCENDING = "the formula uses descending of a number"

#: Both sides are equal here, so that whatever changes one of them shows.
EQUAL = "softmax.total-variation-001.json"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of all certificates, and its index.

    In a process of its own: with the shape checks of a test run, every single operation would be
    checked, and the export takes two minutes.
    """
    folder = tmp_path_factory.mktemp("certificates") / "all"
    command = [sys.executable, "-m", "attnverify", "certificates", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=True)
    index = json.loads((folder / "index.json").read_text())
    assert " ".join(done.stdout.split()).startswith(f"{len(index['files'])} certificates in ")
    return folder, index


@pytest.fixture
def equal(exported):
    """One attained certificate, to be spoiled."""
    return json.loads((exported[0] / EQUAL).read_text())


def run(*arguments):
    """The second program in a process of its own."""
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)


def rechecked(body, folder):
    """Whether a certificate shows what it should, and how it does not."""
    path = folder / "spoiled.json"
    path.write_text(json.dumps(body))
    result = recheck.recheck(path)
    return not result.wrong, f"{result.words}, {path.name}"


def test_certificates_with_every_operation_come_out_as_the_engine_says(exported):
    """Small ones that together have every operation and verdict that any certificate has."""
    parts = {}
    for path in exported[0].glob("*-*.json"):
        body = json.loads(path.read_text())
        parts[path] = {op for op, *_ in body["program"]} | {body["expected"]}
    missing, chosen = set().union(*parts.values()), 0
    for path in sorted(parts, key=lambda path: path.stat().st_size):
        if missing & parts[path]:
            missing -= parts[path]
            chosen += 1
            assert not recheck.recheck(path).wrong, path.name
    assert not missing and chosen > 5


@pytest.mark.full
def test_every_certificate_comes_out_as_the_engine_says(exported):
    folder, index = exported
    done = run(folder)
    assert done.stderr == ""
    assert done.returncode == 0
    count = len(index["files"])
    last = done.stdout.splitlines()[-1]
    assert last == f"{count} certificates rechecked, 0 do not come out as expected"
    assert len(done.stdout.splitlines()) == count + 2
    assert {p.name for p in folder.iterdir()} == {*index["files"], "index.json"}


@pytest.mark.full
def test_every_inequality_but_the_stated_ones_is_exported(exported):
    folder, index = exported
    bodies = [json.loads((folder / name).read_text()) for name in index["files"]]
    there = {(b["claim"], b["check"]) for b in bodies}
    checks = {(c, n): check for c, named in CHECKS.items() for n, check in named.items()}
    assert there == {k for k, c in checks.items() if isinstance(c, Inequality)} - UNTRACED
    assert {b["expected"] for b in bodies} == {"pass", "fail", "attained"}
    assert all((b["false twin"] is not None) == (b["expected"] == "fail") for b in bodies)
    failing = {(b["claim"], b["check"]) for b in bodies if b["expected"] == "fail"}
    assert len(failing) > len(there) / 2  # most twins are rejected at an extremal instance


def test_what_is_not_exported_is_listed_with_its_reason(exported):
    entries = exported[1]["not exported"]
    listed = {
        (e["claim"], e["check"], e["reason"])
        for e in entries
        if e["false twin"] is None or (e["claim"], e["check"]) in UNTRACED
    }
    kept = [e for e in entries if e["reason"] == "the false twin is not refuted by this instance"]
    assert kept and all(e["false twin"] and e["engine"] in ("pass", "attained") for e in kept)
    other = {
        (claim, name, certificate_export.NO_INEQUALITY[type(check).__name__])
        for claim, named in CHECKS.items()
        for name, check in named.items()
        if not isinstance(check, Inequality)
    }
    untraced = {(*key, BRANCHES) for key in UNTRACED - {RANK_ALONE}} | {(*RANK_ALONE, DESCENDING)}
    kept_untraced = {(*key, kept[0]["reason"]) for key in UNTRACED}
    assert listed - kept_untraced == other | untraced


def test_the_second_program_imports_nothing_of_the_first(exported):
    code = (
        f"import sys; sys.path.insert(0, {str(TOOL.parent)!r}); import recheck\n"
        f"assert recheck.main([{str(exported[0] / EQUAL)!r}]) == 0\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "mpmath" in loaded
    assert not loaded & OWN


def test_any_flipped_sign_is_caught_at_equality(equal, tmp_path):
    flips = {"add": "sub", "sub": "add"}
    places = [k for k, line in enumerate(equal["program"]) if line[0] in flips]
    assert len(places) > 10
    for place in places:
        op, *rest = equal["program"][place]
        lines = [*equal["program"][:place], [flips[op], *rest], *equal["program"][place + 1 :]]
        good, words = rechecked({**equal, "program": lines}, tmp_path)
        assert not good, words


def test_a_changed_input_is_caught_at_equality(equal, tmp_path):
    name = next(n for n, a in equal["inputs"].items() if len(set(a["values"])) > 1)
    values = equal["inputs"][name]["values"]
    place = next(k for k, v in enumerate(values) if float.fromhex(v) != 0)
    values[place] = (float.fromhex(values[place]) * (1 + 2.0**-10)).hex()
    good, words = rechecked(equal, tmp_path)
    assert not good
    assert words.startswith("DISAGREES, expected attained: pass")


@pytest.mark.parametrize("claimed", ["pass", "fail"])
def test_another_verdict_is_contradicted(equal, tmp_path, claimed):
    good, words = rechecked({**equal, "expected": claimed}, tmp_path)
    assert not good
    assert words.startswith(f"DISAGREES, expected {claimed}: attained")


def test_a_false_twin_does_not_pass(exported, tmp_path):
    bodies = (json.loads((exported[0] / n).read_text()) for n in exported[1]["files"])
    false = next(b for b in bodies if b["expected"] == "fail")
    for claimed in ("pass", "attained"):
        assert not rechecked({**false, "expected": claimed}, tmp_path)[0]
    for claimed in ("pass", "attained", "fail"):  # as a certificate of the claim itself
        good, words = rechecked({**false, "expected": claimed, "false twin": None}, tmp_path)
        assert not good and words.startswith(f"REFUTES {false['claim']} ({false['check']}): fail")


@pytest.mark.parametrize(
    "program",
    [
        [["const", "-1"], ["sqrt", 0]],
        [["const", "0"], ["log", 0]],
        [["const", "0"], ["div", 0, 0]],
        [["const", "-1"], ["lambertw-1", 0]],
    ],
)
def test_what_is_undefined_shows_nothing(program):
    body = {"inputs": {}, "program": program, "left": [0], "right": [0], "hypotheses": []}
    assert recheck.verdict(body, 200) == ("unknown", None)


POINTS = {
    "erf": (0.0, 0.3, -0.5, 3.25, -12.5, 29.5, 31.0, 1e-8),
    "tanh": (0.3, -2.0, 40.0, 1e-6),
    "expm1": (1e-6, -3.0, 20.0),
    "log1p": (1e-6, -0.5, 20.0),
    "lambertw-1": (-0.3, -0.25, -1e-6),
}


def balled(interval):
    """An interval of mpmath as a ball of flint, through exact numbers."""
    ends = [flint.arb((int(m), e)) * (-1) ** s for s, m, e, _ in interval._mpi_]
    return ends[0].union(ends[1])


@pytest.mark.parametrize(
    ("name", "point"), [(n, p) for n, points in POINTS.items() for p in points]
)
def test_both_arithmetics_enclose_the_same_number(name, point):
    """They overlap, and the second one's width is small beside its value.

    2^-150 at 200 bits: the functions lose at most the 20 bits of an argument of 10^-6 (27 of
    10^-8), and a few bits to some hundred additions.
    """
    iv.prec = 200
    with ops.precision(400):
        ball = flint.arb(point)
        exact = ball.lambertw(-1) if name == "lambertw-1" else getattr(ball, name)()
        found = balled(recheck.UNARY[name](iv.mpf(point)))
        assert found.overlaps(exact)
        assert abs(found - exact) <= abs(exact) * flint.arb(2) ** -150


def test_powers_and_maxima_of_wide_intervals():
    iv.prec = 60
    around = iv.mpf([-1, 2])
    assert recheck.power(around, 2) == iv.mpf([0, 4])
    assert recheck.power(around, 3) == iv.mpf([-1, 8])
    assert recheck.power(iv.mpf([-3, -2]), 2) == iv.mpf([4, 9])
    assert recheck.larger(around, iv.mpf([0, 1])) == iv.mpf([0, 2])


def test_singular_values_agree_with_those_of_the_engine():
    iv.prec = 200
    A = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with ops.precision(200):
        exact = spectral_norm(ops.balls(A))
        found = balled(recheck.spectral_norm(3, 4, [iv.mpf(float(v)) for v in A.flatten()]))
        assert found.overlaps(exact)
        assert abs(found - exact) < flint.arb(2) ** -80
    assert recheck.spectral_norm(1, 2, [iv.mpf(0)] * 2) == 0


def nodes(*values):
    program = Program()
    return np.array([program.constant(v) for v in values], dtype=object)


def test_nothing_is_decided_while_a_formula_is_written_down():
    a, b = nodes(1, 2)
    for ask in (lambda: a < b, lambda: a >= 1, lambda: bool(a), lambda: float(a), a.is_zero):
        with pytest.raises(UntraceableError, match="branches on the value"):
            ask()
    with pytest.raises(UntraceableError, match="no exact number"):
        _ = a + flint.arb(2).sqrt()
    with pytest.raises(UntraceableError, match="digamma"):
        ops.digamma(nodes(1))
    with pytest.raises(UntraceableError, match="power"):
        _ = a**0.5


def test_equal_operations_are_one_line_and_constants_are_exact():
    x = nodes(0.1)
    out = ops.exp(x) + ops.exp(x)
    assert out[0].program.lines == [
        ("const", "3602879701896397/36028797018963968"),
        ("exp", 0),
        ("add", 1, 1),
    ]


def test_the_critical_oscillation_written_down_is_the_one_in_balls():
    node = softmax.critical_oscillation(nodes(0))
    body = {"inputs": {}, "program": node.program.lines}
    iv.prec = 200
    value = recheck.evaluate(json.loads(json.dumps(body)))[node.id]
    with ops.precision(200):
        assert balled(value).overlaps(softmax.critical_oscillation())


def test_a_program_over_the_limit_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(certificate_export, "MOST_LINES", 10)
    index = certificate_export.write(registry, ["softmax.total-variation"], tmp_path)
    entries = [e for e in index["not exported"] if e["check"] == "variation"]
    reasons = {e["reason"] for e in entries if e["false twin"] is None}
    assert not index["files"]
    assert reasons and all("more than 10" in reason for reason in reasons)


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("")
    with pytest.raises(InputError, match="a new or empty folder"):
        certificate_export.write(registry, [], tmp_path)


RIGHT_FACTOR = CHECKS["norms.diameter"]["right factor"]


@pytest.fixture
def saved(tmp_path) -> Path:
    """A replay file of a searched instance."""
    found = attack(RIGHT_FACTOR, Settings(restarts=2, steps=5), "t")
    replay.save(
        registry.home, tmp_path / "worst.json", "norms.diameter", "right factor", found.instance
    )
    return tmp_path / "worst.json"


def test_a_replay_file_is_rechecked_by_the_second_program(saved, tmp_path):
    """And another verdict on the same instance is contradicted."""
    target = tmp_path / "program.json"
    certificate_export.write_saved(registry, saved, target)
    assert recheck.recheck(target).wrong == ""
    body = json.loads(target.read_text())
    assert body["instance"] == "saved" and body["expected"] in ("pass", "attained")
    target.write_text(json.dumps({**body, "expected": "fail"}))
    assert recheck.recheck(target).wrong.startswith("DISAGREES")


def test_a_replay_file_that_cannot_be_written_down_is_told(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(certificate_export, "MOST_LINES", 1)
    with pytest.raises(InputError, match="without a program"):
        certificate_export.write_saved(registry, saved, tmp_path / "program.json")
    assert not (tmp_path / "program.json").exists()


def test_an_export_replaces_certificates_and_nothing_else(saved, tmp_path):
    before, notes = saved.read_bytes(), tmp_path / "notes.txt"
    notes.write_text("a letter")
    for same in (saved, tmp_path / "folder" / ".." / saved.name):
        with pytest.raises(InputError, match=r"^export: got .*, the file with the instance"):
            certificate_export.write_saved(registry, saved, same)
    with pytest.raises(InputError, match=r"^export: got .*notes.txt, which was not written by"):
        certificate_export.write_saved(registry, saved, notes)
    assert saved.read_bytes() == before and notes.read_text() == "a letter"
    for _ in range(2):
        certificate_export.write_saved(registry, saved, tmp_path / "new" / "program.json")

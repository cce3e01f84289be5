"""One verdict on every machine: evidence gathered as other machines would gather it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import machines
from machines import MACHINES, Machine

#: Every form of check and every kind of evidence but the slow ones.
CLAIMS = (
    "softmax.total-variation",
    "norms.*",
    "paths.count",
    "entropy.lower-bound",
    "mlp.lipschitz",
)
SETTINGS = ("--samples", "200", "--restarts", "4", "--steps", "60", "--jobs", "1")


def report(machine: Machine, folder: Path) -> dict:
    """The report of ``attnverify verify`` on an emulated machine."""
    target = folder / "report.json"
    start = "import sys; from attnverify.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", start, "verify", *CLAIMS, *SETTINGS, "--json", str(target)],
        cwd=folder if machine.elsewhere else None,
        env={**os.environ, **machine.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(target.read_text(encoding="utf-8"))


def evidence(body: dict, digits: bool) -> list:
    """What has to be the same: everything but times; without ``digits`` also no found figures.

    The ratio at the end of a search is a float that thousands of steps led to: another rounding of
    an exponential leads elsewhere, and past other points that floats cannot decide, which an attack
    hands to balls and counts. Both ratios are certified lower bounds of the supremum. Outcomes,
    statuses and all other numbers of instances do not depend on it.
    """
    counts = set() if digits else {"instances", "decided"}
    left_out = {"seconds"} if digits else {"seconds", "ratio", "detail", "refuted_at"}
    return [
        [
            claim["id"],
            claim["status"],
            [
                {
                    key: value
                    for key, value in entry.items()
                    if key not in left_out
                    and not (entry.get("kind") == "attacked" and key in counts)
                }
                for entry in [*claim["evidence"], *claim["twins"]]
            ],
        ]
        for claim in body["claims"]
    ]


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> dict:
    """The report of this machine."""
    return report(MACHINES[0], tmp_path_factory.mktemp("here"))


@pytest.mark.slow  # a verification for each machine: nothing cheaper shows that they agree
@pytest.mark.parametrize("machine", MACHINES[1:], ids=lambda m: m.name)
def test_evidence_is_the_same(machine, here, tmp_path):
    """Same outcomes, counts, rejections and statuses; and same digits where arithmetic is."""
    there = report(machine, tmp_path)
    assert evidence(there, machine.same_digits) == evidence(here, machine.same_digits)


def test_the_comparison_can_fail(here):
    """Another outcome, another status and, with digits, another ratio are seen."""
    for digits, (place, key, value) in [
        (False, ("evidence", "outcome", "unknown")),
        (False, ("twins", "rejected", False)),
        (True, ("evidence", "ratio", 0.123)),
    ]:
        other = json.loads(json.dumps(here))
        other["claims"][0][place][0][key] = value
        assert evidence(other, digits) != evidence(here, digits)


def test_a_run_that_fails_names_some_tests_and_keeps_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "ROOT", tmp_path)
    monkeypatch.setattr(machines, "LOGS", tmp_path / "logs")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "tests").mkdir()
    lines = ["import pytest", "@pytest.mark.parametrize('n', range(20))", "def test_n(n):"]
    test = tmp_path / "tests" / "test_some.py"
    test.write_text("\n".join([*lines, "    assert n > 11, 'too small'\n"]))
    passed, closing, seconds = machines.run_tests(Machine("a machine, mended"), ["-p", "no:xdist"])
    assert not passed and seconds > 0
    first, *named, last = closing.splitlines()
    assert "12 failed, 8 passed" in first and len(named) == machines.SHOWN
    assert last == "12 in all; see logs/a-machine-mended.log"
    assert "too small" in (tmp_path / "logs" / "a-machine-mended.log").read_text()

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


@pytest.mark.full
@pytest.mark.slow  # a verification for each machine: nothing cheaper shows that they agree
@pytest.mark.parametrize("machine", MACHINES[1:], ids=lambda m: m.name)
def test_evidence_is_the_same(machine, here, tmp_path):
    """Same outcomes, counts, rejections and statuses; and same digits where arithmetic is."""
    there = report(machine, tmp_path)
    assert evidence(there, machine.same_digits) == evidence(here, machine.same_digits)


@pytest.mark.full
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


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project of twenty tests, of which twelve fail, and one more that looks at pages."""
    monkeypatch.setattr(machines, "ROOT", tmp_path)
    monkeypatch.setattr(machines, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(machines, "WORKERS", 0)  # a worker takes longer to start than these tests
    monkeypatch.setattr(machines, "SEEN", tmp_path / "logs" / "seen.json")
    monkeypatch.setattr(machines, "PAGES", tmp_path / "html")
    monkeypatch.setattr(machines, "BROWSER_TESTS", ("test_look.py",))
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "page.html").write_text("<p>one</p>")
    (tmp_path / "tests").mkdir()
    lines = ["import pytest", "@pytest.mark.parametrize('n', range(20))", "def test_n(n):"]
    some = "\n".join([*lines, "    assert n > FROM, 'too small'\n"])
    (tmp_path / "tests" / "test_some.py").write_text(some.replace("FROM", "11"))
    (tmp_path / "tests" / "test_look.py").write_text("def test_it():\n    pass\n")
    return tmp_path


def test_a_run_that_fails_names_some_tests_and_keeps_its_log(project):
    passed, closing = machines.run_tests(Machine("a machine, mended"), ["tests/test_some.py"])
    assert not passed
    first, *named, last = closing.splitlines()
    assert "12 failed, 8 passed" in first and len(named) == machines.SHOWN
    assert last == "12 in all; see logs/a-machine-mended.log"
    assert "too small" in (project / "logs" / "a-machine-mended.log").read_text()


@pytest.mark.full
def test_pages_are_looked_at_once_while_they_and_the_tests_stay(project):
    """Again where a page, a test or the locale is another, and where the tests did not pass."""
    some, look = project / "tests" / "test_some.py", project / "tests" / "test_look.py"
    some.write_text(some.read_text().replace("11", "-1"))
    one, other = Machine("one"), Machine("other")

    def seen(machine: Machine) -> str:
        return machines.run_all(machine)[1].splitlines()[1]

    assert "1 passed" in seen(one)
    assert seen(other) == "pages as on one: not looked at again"
    assert "1 passed" in seen(Machine("abroad", {"LC_ALL": "C"}, elsewhere=True))
    page = project / "html" / "page.html"
    first = page.read_text()
    page.write_text("<p>two</p>")
    assert "1 passed" in seen(other)
    page.write_text(first)
    assert seen(other) == "pages as on one: not looked at again"
    look.write_text("def test_it():\n    assert False\n")
    passed, closing = machines.run_all(one)
    assert not passed and "1 failed" in closing
    assert "1 failed" in seen(other)

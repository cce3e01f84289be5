"""A wheel carries its derivations and runs no others; each of the two packages has one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from attnverify.derivation import notebook_sources, run_cells
from attnverify.verification import formal
from modelzoo import saved_bert

CLAIM, NOTEBOOK = "softmax.total-variation", "softmax.md"
VERIFY = [sys.executable, "-m", "attnverify", "verify", CLAIM, "--evidence", "derived"]
VERIFY += ["--jobs", "1"]
#: The two steps of `pip install .` from source: a source distribution, a wheel from it.
BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""
HOSTILE = """\
```{code-cell} ipython3
:tags: [derivation]

import pathlib, sympy as sp, attnverify as av
pathlib.Path("ran").touch()
av.ledger.derived("softmax.total-variation", {"hostile": (sp.diff(sp.Symbol("x")), 1)})
```
"""


def run(*command: str | Path, cwd: Path, path: Path | None = None, code: int = 0) -> str:
    """Standard output and error of a command that must end with this exit code."""
    ours = ("ATTNVERIFY_NOTEBOOKS", "PYTHONPATH")
    environment = {k: v for k, v in os.environ.items() if k not in ours}
    environment |= {"PYTHONPATH": str(path)} if path else {}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, root) -> Path:
    """The wheel that was built from a source distribution."""
    return built(root, tmp_path_factory.mktemp("wheel"))


def built(project: Path, folder: Path) -> Path:
    """The wheel of a project, by way of its source distribution; nothing is written beside it."""
    tree, made = folder / "tree", folder / "made"
    ignored = shutil.ignore_patterns(".*", "_build", "build", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(project, tree, ignore=ignored)
    run(sys.executable, "-c", BUILD, "build_sdist", made, cwd=tree)
    shutil.unpack_archive(next(made.glob("*.tar.gz")), folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    run(sys.executable, "-c", BUILD, "build_wheel", made, cwd=unpacked)
    return next(made.glob("*.whl"))


PIP = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile"]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The folder of the package installed from the wheel."""
    target = tmp_path_factory.mktemp("target") / "site"
    run(sys.executable, "-m", "pip", *PIP, "--target", target, wheel, cwd=target.parent)
    return target


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory) -> Path:
    """The command of a fresh virtual environment with the wheel, outside the repository.

    What the package requires comes from this environment, as a folder on the path: no hook of its
    editable installation runs there. So nothing is fetched.
    """
    place = tmp_path_factory.mktemp("fresh") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place.parent)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "required.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = place / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, *PIP, wheel, cwd=place)
    where = run(python, "-c", "import attnverify; print(attnverify.__file__)", cwd=place).strip()
    assert Path(where).is_relative_to(site)
    return place / "bin" / "attnverify"


def test_the_wheel_has_every_notebook_with_its_digest(installed, root):
    shipped = installed / "attnverify" / "notebooks"
    digests = json.loads((shipped / "digests.json").read_text(encoding="utf-8"))
    sources = {p.name: p.read_bytes() for p in (root / "notebooks").glob("*.md")}
    assert digests == {name: hashlib.sha256(b).hexdigest() for name, b in sources.items()}
    assert {p.name: p.read_bytes() for p in shipped.glob("*.md")} == sources


def test_the_wheel_has_the_theories_and_the_record_of_their_proofs(installed, root):
    """Every source that the record names, so that it is evidence in an installation, too."""
    shipped = formal.read(installed / "attnverify" / "formal")
    assert shipped.record == formal.registered().record and shipped.theorems
    assert [t.name for t in shipped.theorems if formal.trouble(t.name, shipped)] == []
    assert {p.name for p in shipped.folder.iterdir()} <= {
        p.name for p in (root / "formal").iterdir()
    }
    assert not list(shipped.folder.rglob("*.vo"))


@pytest.mark.slow  # one import of the package: what a user of the wheel gets, not a stand-in
def test_shipped_derivations_run_and_those_of_the_current_folder_do_not(
    installed, root, tmp_path, monkeypatch
):
    """The verdict comes from the package, and the report says so."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / NOTEBOOK).write_text(HOSTILE)
    cell = {"cell_type": "code", "metadata": {"tags": ["derivation"]}}
    cell["source"] = HOSTILE.splitlines(keepends=True)[3:-1]
    (tmp_path / "notebooks" / "softmax.ipynb").write_text(json.dumps({"cells": [cell]}))
    report = tmp_path / "report.json"
    said = run(*VERIFY, "--json", report, cwd=tmp_path, path=installed)
    digest = hashlib.sha256((root / "notebooks" / NOTEBOOK).read_bytes()).hexdigest()
    assert f"{NOTEBOOK}, shipped with the installed package, SHA-256 {digest}" in said
    body = json.loads(report.read_text(encoding="utf-8"))
    assert body["derivations"]["softmax"]["sha256"] == digest
    steps = {c["id"]: c["evidence"][0] for c in body["claims"]}[CLAIM]
    assert steps["outcome"] == "pass" and "hostile" not in steps["detail"]
    assert not (tmp_path / "ran").exists()
    # asked for by path, the same file runs: the trap above would have been seen
    monkeypatch.chdir(tmp_path)
    done = run_cells.run(notebook_sources.load("softmax", Path("notebooks")))
    assert (tmp_path / "ran").exists()
    assert [s.name for e in done.entries for s in e.steps] == ["hostile"]


@pytest.mark.slow  # one import: that the command refuses it, in one line
def test_an_altered_notebook_of_an_installation_is_refused(installed, tmp_path):
    """By name, and before any of it runs."""
    site = tmp_path / "site"
    shutil.copytree(installed, site)
    with (site / "attnverify" / "notebooks" / NOTEBOOK).open("a") as file:
        file.write(HOSTILE)
    said = run(*VERIFY, cwd=tmp_path, path=site, code=2)
    assert f"notebooks: got {NOTEBOOK} with SHA-256" in said and "Traceback" not in said
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow  # five processes: a claim from outside is met as its author would meet it
def test_a_claim_from_outside_in_a_fresh_environment(fresh, root, tmp_path):
    """Checked, its twin rejected, its worst instance replayed; a false one fails."""
    text = (root / "book" / "examples" / "lipschitz.py").read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text(text)
    few = ["--samples", "200", "--restarts", "4", "--steps", "60"]
    said = run(fresh, "verify", "mine.py", *few, "--json", "report.json", cwd=tmp_path)
    (claim,) = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["claims"]
    assert (claim["id"], claim["status"]) == ("mine.lipschitz", "partial")
    assert {(e["kind"], e["outcome"]) for e in claim["evidence"]} == {
        (kind, "pass") for kind in ("sampled", "attacked", "certified")
    }
    assert [t["rejected"] for t in claim["twins"]] == [True] and "1 of 1 twins rejected" in said
    attack = ["attack", "mine.lipschitz", "--claims", "mine.py", "--save", "worst.json"]
    run(fresh, *attack, *few[2:], cwd=tmp_path)
    replay = [fresh, "replay", "worst.json", "--claims", "mine.py"]
    assert "left <= right" in run(*replay, "--export", "certificate.json", cwd=tmp_path)
    recheck = [sys.executable, root / "tools" / "recheck.py", "certificate.json"]
    said = run(*recheck, cwd=tmp_path)  # in another interval arithmetic
    assert "1 certificates rechecked, 0 do not come out" in said
    (tmp_path / "mine.py").write_text(text.replace("length(e) / 2", "length(e) / 2.1"))
    assert "failed" in run(fresh, "verify", "mine.py", *few, cwd=tmp_path, code=1)
    assert "claims: got one with SHA-256" in run(*replay, cwd=tmp_path, code=2)


@pytest.mark.slow  # a wheel, an installation, two processes: what each package alone can do
def test_models_are_read_where_the_tool_for_them_is_installed(fresh, root, tmp_path):
    """By the same command, which else says what is missing and how to get it."""
    saved_bert(tmp_path / "model")
    (tmp_path / "ids.txt").write_text("3 4 5 6")
    ask = [fresh, "inspect", "model", "--tokens", "ids.txt", "--out", "report"]
    said = run(*ask, cwd=tmp_path, code=2)
    assert "got no package attninspect, expected it (pip install ./src/attninspect in" in said
    tool = built(root / "src" / "attninspect", tmp_path)
    python = fresh.with_name("python")
    run(sys.executable, "-m", "pip", "--python", python, *PIP, tool, cwd=tmp_path)
    assert "page in report/inspect.html" in run(*ask, cwd=tmp_path)
    assert (tmp_path / "report" / "inspect.html").is_file()

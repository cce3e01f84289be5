"""Kept work: what a key follows from, what is reused, and what is made again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import machines
from attnverify.book.build import execute_notebooks
from attnverify.chapters import Claim, Registry, registry
from attnverify.chapters.verify import verify
from attnverify.checking.records import ClaimEvidence, Record, TwinRecord
from attnverify.checking.search import Settings
from attnverify.derivation import run_cells
from attnverify.derivation.entry import Entry
from attnverify.derivation.notebook_sources import Source
from attnverify.experiments.engine import weights
from attnverify.experiments.trained_models import folders
from attnverify.runtime.cache import Store
from attnverify.runtime.kept import MOST, SOURCE, Kept
from attnverify.runtime.tasks import Task
from attnverify.runtime.workers import run_all
from attnverify.support import environment
from attnverify.verification import cache_keys, reuse
from places import ROOT

SMALL = Settings(samples=20, restarts=2, steps=5)


# The store


def test_an_entry_is_found_again_by_an_equal_key(tmp_path):
    store = Store(tmp_path / "new")
    store.put({"a": 1, "b": [2]}, {"x": 0.1})
    assert store.get({"b": [2], "a": 1}) == {"x": 0.1}
    assert store.get({"a": 1, "b": [3]}) is None


@pytest.mark.parametrize(
    "edit",
    [lambda b: b[:-9], lambda b: b.replace(b"0.1", b"0.2"), lambda b: b"7", lambda b: b"\xff"],
)
def test_a_damaged_entry_is_none(tmp_path, edit):
    """Cut short, changed in a digit, or something else altogether."""
    store = Store(tmp_path)
    store.put({"a": 1}, {"x": 0.1})
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(edit(path.read_bytes()))
    assert store.get({"a": 1}) is None


def test_an_entry_of_another_key_is_none(tmp_path):
    """A file under another's name is not believed."""
    store = Store(tmp_path)
    store.put({"a": 1}, "one")
    (one,) = tmp_path.glob("*.json")
    store.put({"a": 2}, "two")
    (two,) = set(tmp_path.glob("*.json")) - {one}
    shutil.copy(one, two)
    assert store.get({"a": 2}) is None


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    store = Store(tmp_path)
    for k in range(3):
        store.put({"k": k}, "x" * 100)
    for age, k in enumerate((1, 0, 2)):
        os.utime(store._path({"k": k}), (age, age))
    store.get({"k": 1})  # used now
    size = store._path({"k": 0}).stat().st_size
    store.prune(2 * size)
    assert [store.get({"k": k}) is not None for k in range(3)] == [False, True, True]


def filled(folder: Path, entries: int) -> tuple[Store, list[Path], int]:
    """A store with entries of one size, the first used longest ago; their files and the size."""
    store = Store(folder)
    for k in range(entries):
        store.put({"k": k}, "x" * 100)
    paths = [store._path({"k": k}) for k in range(entries)]
    for age, path in enumerate(paths):
        os.utime(path, (age, age))
    return store, paths, paths[0].stat().st_size


@pytest.mark.parametrize(("days", "kept"), [(0.9, True), (1.1, False)])
def test_what_a_killed_writer_left_is_removed_after_a_day(tmp_path, days, kept):
    """Until then it may become an entry, and counts as one."""
    store, paths, size = filled(tmp_path, 2)
    half = interrupted(tmp_path)
    half.write_bytes(b"x" * size)
    foreign = tmp_path / ".notes.json.swp"
    foreign.write_text("")
    then = time.time() - days * 24 * 3600
    for path in (half, foreign):
        os.utime(path, (then, then))
    store.prune(2 * size)
    assert half.exists() is kept and foreign.exists()
    assert [path.exists() for path in paths] == [not kept, True]


def interrupted(folder: Path) -> Path:
    """The file that a writer leaves who is killed between its two steps."""
    text = (
        "import os, pathlib, sys\n"
        "from attnverify.runtime.cache import Store\n"
        "os.replace = pathlib.Path.replace = lambda *_: os._exit(9)\n"
        "Store(pathlib.Path(sys.argv[1])).put({'killed': 1}, 'x')"
    )
    before = set(folder.iterdir())
    done = subprocess.run([sys.executable, "-c", text, str(folder)], check=False)
    (left,) = set(folder.iterdir()) - before
    assert done.returncode == 9
    return left


def test_a_store_that_cannot_be_written_costs_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file")
    store.put({"a": 1}, "one")
    assert store.get({"a": 1}) is None


# The files that were read


KEY = {"what": "sum", "of": "a, b"}


def test_a_result_is_found_while_its_files_hold_what_they_held(tmp_path):
    """Each version of a file has its own; a file that is gone, or another one, changes nothing."""
    store, file = Store(tmp_path / "store"), tmp_path / "a.py"
    for text in ("one", "two"):
        file.write_text(text)
        time.sleep(0.02)  # longer than a clock of files takes to go on
        kept = Kept(store, tmp_path)
        assert kept.get(KEY) is None
        kept.put(KEY, ["a.py"], text)
    (tmp_path / "b.py").write_text("")
    for text in ("one", "two", "one"):
        file.write_text(text)
        assert Kept(store, tmp_path).get(KEY) == text
    file.unlink()
    assert Kept(store, tmp_path).get(KEY) is None


def test_a_result_may_come_to_read_other_files(tmp_path):
    """Both lists are known, whoever wrote the last one; too old a list is forgotten."""
    for name in "abcdefghij":
        (tmp_path / name).write_text("")
    time.sleep(0.02)
    one, other = (Kept(Store(tmp_path / "store"), tmp_path) for _ in range(2))
    one.put(KEY, ["a"], "of a")
    other.put(KEY, ["b"], "of b")
    (tmp_path / "b").write_text("edited")
    assert Kept(one.store, tmp_path).get(KEY) == "of a"
    for name in "cdefghij"[:MOST]:
        one.put(KEY, [name], f"of {name}")
    for name in "cdefghij":
        (tmp_path / name).write_text("edited")
    assert Kept(one.store, tmp_path).get(KEY) is None


@pytest.mark.parametrize("edit", [Path.touch, Path.unlink])
def test_what_follows_from_a_file_that_was_written_meanwhile_is_not_kept(tmp_path, edit):
    """Nobody knows which text was read."""
    for name in "ab":
        (tmp_path / name).write_text("")
    time.sleep(0.02)
    kept = Kept(Store(tmp_path / "store"), tmp_path)
    time.sleep(0.02)
    edit(tmp_path / "b")
    kept.put(KEY, ["a", "b"], 1)
    assert kept.get(KEY) is None
    kept.put(KEY, ["a"], 1)
    assert kept.get(KEY) == 1


def test_a_killed_writer_of_a_list_costs_its_result_alone(tmp_path):
    """The result is written first: nobody finds it then, and it is made again."""
    (tmp_path / "a").write_text("")
    time.sleep(0.02)
    kept = Kept(Store(tmp_path / "store"), tmp_path)
    kept.put(KEY, ["a"], 1)
    for path in (tmp_path / "store").iterdir():
        if "files of" in path.read_text():
            path.write_text(path.read_text()[:-5])
    assert kept.get(KEY) is None
    kept.put(KEY, ["a"], 1)
    assert kept.get(KEY) == 1


def read_by(function, *arguments) -> set[str]:
    """The files that a process reads that does nothing else."""
    ((_, files),) = run_all([Task("x", function, arguments, recorded=True)], 1)
    return set(files)


def test_what_a_piece_reads_is_recorded():
    """Modules, whoever imports them; a table and weights; what another piece read is not."""
    code = "from attnverify.mathematics import {0}; from attnverify import experiments"
    code += "; import {1}; experiments.committed('circle')"
    found = read_by(exec, code.format("entropy", "places"))
    circle = "attnverify/experiments/results/circle.json"
    assert {"attnverify/mathematics/entropy.py", circle, "../tests/places.py"} <= found
    assert not any("sorting.json" in name or name.endswith(".md") for name in found)
    (file,) = [name for name in read_by(weights.committed, "circle") if "safetensors" in name]
    assert file == "attnverify/experiments/weights/circle.safetensors"
    assert "attnverify/mathematics/entropy.py" not in read_by(
        exec, "import attnverify.arithmetic.ops"
    )


# Keys


def cells(path: Path) -> list[tuple[str, list[str]]]:
    return execute_notebooks.cells(execute_notebooks.read(path))


PRINTS_IN_PIECES = """---
kernelspec:
  name: python3
---

```{code-cell} ipython3
import time

for letter in "ab":
    print(letter, end="", flush=True)
    time.sleep(0.4)  # longer than a kernel waits before it sends what was printed
print("c")
```
"""


def test_a_print_in_pieces_is_one_output(tmp_path):
    """Where a kernel cuts a stream depends on the machine's speed; a page must not."""
    path = tmp_path / "pieces.md"
    path.write_text(PRINTS_IN_PIECES, encoding="utf-8")
    done = execute_notebooks.execute(path)
    assert not done.error
    assert [cell.outputs for cell in done.notebook.cells if cell.cell_type == "code"] == [
        [{"output_type": "stream", "name": "stdout", "text": "abc\n"}]
    ]


def test_prose_is_no_input_of_a_chapters_run(tmp_path):
    """Words around the cells change nothing; a cell, its tags and its order do."""
    text = (ROOT / "notebooks" / "norms.md").read_text(encoding="utf-8")
    path = tmp_path / "norms.md"

    def key(edit: str) -> dict:
        path.write_text(edit, encoding="utf-8")
        return cache_keys.of_chapter("norms", cells(path), registry)

    first = key(text)
    assert key(text.replace("What is claimed", "What is said")) == first
    assert key(text.replace("import sympy as sp", "import sympy as  sp")) != first
    assert key(text.replace(":tags: [derivation]", ":tags: [derivation, hide-cell]", 1)) != first


def test_a_key_follows_from_settings_versions_and_machine(monkeypatch):
    def key(settings: Settings = SMALL, kinds=("sampled",)) -> dict:
        return cache_keys.of_claim("norms.diameter", settings, kinds, registry)

    first = key()
    assert key() == first
    assert key(Settings(samples=20, restarts=2, steps=5, seed=1)) != first
    assert key(kinds=("attacked",)) != first
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert key() != first
    monkeypatch.delenv("MKL_CBWR")
    versions = cache_keys.installed("encoder")
    assert {"torch", "sympy", "numpy", "scipy", "python-flint", "mpmath", "python"} <= set(versions)
    monkeypatch.setattr(cache_keys, "installed", lambda *_: versions | {"mpmath": "0"})
    assert key() != first


def replaced(claim: Claim) -> Registry:
    """The book's registry with one claim in the place of that of its id."""
    return Registry([claim if c.id == claim.id else c for c in registry.values()], registry.home)


def test_a_finding_that_turns_around_is_measured_again():
    """What a claim asserts decides whether a criterion that fails is as the book says."""
    claim = registry["experiment.circle"]

    def key(asserts: str) -> dict:
        changed = replaced(replace(claim, asserts=asserts))
        return cache_keys.of_claim(claim.id, SMALL, ["measured"], changed)

    assert key("holds") == key("holds") != key("fails")


def test_a_chapter_is_run_again_with_another_package_of_the_book(monkeypatch):
    """Those that only the extra "book" asks for, as what draws and what executes notebooks."""
    alone = set(environment.installed("book")) - set(environment.installed("encoder", "models"))
    assert {"jupyter-cache", "myst-nb"} <= alone
    before = cache_keys.of_chapter("norms", [], registry)
    real = cache_keys.installed
    newer = lambda *extras: {  # noqa: E731
        name: "0" if name == "myst-nb" else version for name, version in real(*extras).items()
    }
    monkeypatch.setattr(cache_keys, "installed", newer)
    assert cache_keys.of_chapter("norms", [], registry) != before


def test_every_file_of_the_package_is_in_its_digest(tmp_path):
    """Other weights, another name, a file more: each makes another campaign."""
    for name in ("a.py", "deep/b.safetensors", "deep/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"content")
    found = [environment.digest_of(tmp_path)]
    (tmp_path / "deep" / "b.safetensors").write_bytes(b"Content")
    found.append(environment.digest_of(tmp_path))
    (tmp_path / "deep" / "c.json").rename(tmp_path / "deep" / "d.json")
    found.append(environment.digest_of(tmp_path))
    (tmp_path / "deep" / "d.json").rename(tmp_path / "d.json")
    found.append(environment.digest_of(tmp_path))
    (tmp_path / "empty.txt").touch()
    found.append(environment.digest_of(tmp_path))
    assert len(set(found)) == 5
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    assert environment.digest_of(tmp_path) == found[-1]
    assert environment.code_digest() == environment.digest_of(SOURCE / "attnverify")


def test_a_key_holds_the_packages_that_only_some_experiments_read(monkeypatch):
    """Also the one that no requirement leads to; what is not installed is left out."""
    key = cache_keys.of_claim("experiment.three-models", SMALL, ["measured"], registry)
    packages = (key or {})["packages"]
    assert {"transformers", "tokenizers", "rxnmapper"} <= set(packages)
    assert set(environment.ALONE) == {folders.PACKAGE}

    def absent(name: str):
        raise environment.PackageNotFoundError(name)

    monkeypatch.setattr(environment, "version", absent)
    monkeypatch.setattr(environment, "distribution", absent)
    assert set(environment.installed.__wrapped__("encoder", "models")) == {"python"}


def test_what_a_claim_rests_on_is_an_input_of_its_derivation_and_chapter():
    """A derivation takes nothing as given but what its claim uses. The statement is no input."""
    claim = registry["norms.residual-centers"]
    assert claim.notebook == "norms" and claim.uses

    def found(**changes) -> list[dict]:
        changed = replaced(replace(claim, **changes))
        makers = (cache_keys.of_derivations, cache_keys.of_chapter)
        notebooks = ("norms", "walk")
        return [make(name, [], changed) for make in makers for name in notebooks]

    first = found()
    assert found(statement="other", title="other") == first
    assert found(uses=claim.uses[::-1]) == first
    changed = [a != b for a, b in zip(first, found(uses=claim.uses[1:]), strict=True)]
    assert changed == [True, False, True, False]


# Reuse in a run


def test_a_second_run_is_taken_from_the_store(tmp_path, monkeypatch):
    """The same report to the last digit, times included, and nothing is run."""
    store = Store(tmp_path)
    first = verify(["paths.stochastic-product"], SMALL, jobs=1, store=store)
    assert first.reused == 0
    monkeypatch.setattr(
        "attnverify.verification.verify.run_all", lambda tasks, *_: (t for t in tasks)
    )
    again = verify(["paths.stochastic-product"], SMALL, jobs=1, store=store)
    assert again.reused == 2 and again.as_json() == first.as_json() | {"reused": 2}
    monkeypatch.undo()
    fresh = verify(["paths.stochastic-product"], SMALL, jobs=1)
    assert fresh.reused == 0


def test_only_complete_evidence_is_kept():
    """One record that is not passed, or one twin that was not rejected, and it is run again."""
    good = Record("sampled", "c", "pass", 1.0, 1, 0.0, "")
    bad = [Record("sampled", "c", outcome, 1.0, 1, 0.0, "") for outcome in ("fail", "unknown")]
    twin, kept = (TwinRecord("c", "t", rejected, None, "") for rejected in (True, False))
    assert reuse.complete(ClaimEvidence("x", (good,), (twin,), {}))
    assert not any(
        reuse.complete(ClaimEvidence("x", (good, record), (twin,), {})) for record in bad
    )
    assert not reuse.complete(ClaimEvidence("x", (good,), (twin, kept), {}))
    assert not reuse.complete(run_cells.NotebookRun(Source("n", (), "", "0"), (), "", 0.0))
    entry = Entry("paths.count", "derived", (), ())
    runs = [run_cells.NotebookRun(Source("n", (), "", "0"), (entry,), e, 0.0) for e in ("", "x")]
    assert [reuse.complete(run) for run in runs] == [True, False]


@pytest.fixture
def copied(tmp_path) -> Path:
    """The package's source and the notebooks, to be edited."""
    shutil.copytree(SOURCE / "attnverify", tmp_path / "src" / "attnverify")
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    shutil.copy(ROOT / "_toc.yml", tmp_path)  # or it is no checkout, with notebooks of its own
    return tmp_path


def run_in(folder: Path, status: int = 0) -> set[tuple[str, str]]:
    """What a run that exits with ``status`` adds to the store: (claim or derivations, which)."""
    before = set((folder / "store").glob("*.json"))
    command = [sys.executable, "-m", "attnverify", "verify", "--jobs", "1"]
    command += ["entropy.lower-bound", "paths.stochastic-product", "norms.not-subadditive"]
    command += ["--samples", "20", "--restarts", "2", "--steps", "5"]
    own = {"PYTHONPATH": str(folder / "src"), "ATTNVERIFY_STORE": str(folder / "store")}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    keys_added = (
        json.loads(p.read_text())["key"] for p in set((folder / "store").glob("*.json")) - before
    )
    found = {(key["what"], key.get("claim") or key["notebook"]) for key in keys_added}
    return {(what, name) for what, name in found if not what.startswith("files of")}


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.slow
def test_the_command_runs_again_exactly_what_an_edit_reaches(copied):
    """Nothing after an edit of prose; the claim after one of its check or of its formula, and
    nothing when that is undone: its derivation is symbolic and reaches neither."""
    assert run_in(copied) == {
        ("claim", "entropy.lower-bound"),
        ("claim", "paths.stochastic-product"),
        ("claim", "norms.not-subadditive"),
        ("derivations", "entropy"),
        ("derivations", "norms"),
        ("derivations", "path-theorem"),
    }
    append(copied / "notebooks" / "entropy.md", "\nMore words.\n")
    assert run_in(copied) == set()
    chapter = copied / "notebooks" / "norms.md"
    before = chapter.read_text()
    chapter.write_text(before.replace("factor=1.061)", "factor=1.062)"))
    # Its status is partial, because nobody read the derivation beside this check.
    assert run_in(copied, status=1) == {("claim", "norms.not-subadditive")}
    assert run_in(copied, status=1) == set()
    chapter.write_text(before)
    assert run_in(copied) == set()
    formula = copied / "src/attnverify/mathematics/entropy.py"
    before = formula.read_text()
    append(formula, "\n# edited\n")
    assert run_in(copied) == {("claim", "entropy.lower-bound")}
    formula.write_text(before)
    assert run_in(copied) == set()


def test_keys_hold_what_makes_another_machine(monkeypatch):
    """What emulates a machine is part of a key; what changes no figure is not."""
    for machine in machines.MACHINES:
        for name in set(machine.environment) - {"LC_ALL", "TZ", "COLUMNS"}:
            assert environment.VARIABLES.fullmatch(name), name
    before = environment.variables()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "set when a library is imported")
    assert environment.variables() == before

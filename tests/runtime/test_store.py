"""Kept work: what a key follows from, what is reused, and what is made again."""

from __future__ import annotations

import ast
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
from attnverify.chapters import Claim, Registry, lookup, registry
from attnverify.chapters.lookup import checks_of
from attnverify.chapters.verify import verify
from attnverify.checking.check import Measured
from attnverify.checking.gather import ClaimEvidence, gather_from
from attnverify.checking.records import Record, TwinRecord
from attnverify.checking.search import Settings
from attnverify.derivation import run_cells
from attnverify.derivation.entry import Entry
from attnverify.derivation.notebook_sources import Source
from attnverify.experiments.trained_models import folders
from attnverify.runtime import source_dependencies
from attnverify.runtime.cache import Store
from attnverify.runtime.source_dependencies import Sources
from attnverify.runtime.tasks import Task
from attnverify.support import environment
from attnverify.verification import cache_keys, reuse
from places import ROOT

SMALL = Settings(samples=20, restarts=2, steps=5)


def starts_of_claim(id: str) -> frozenset[str]:
    return cache_keys.starts_of_claim(registry, id) or frozenset()


def starts_of_cells(cell: str, sources: Sources) -> frozenset[str]:
    return cache_keys.starts_of_cells([cell], sources, registry.home.lookups)


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


# The closure


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources()


def edited(folder: Path, name: str, text: str = "\n# edited\n") -> Sources:
    """A copy of the package's source with one file that is longer by a line."""
    shutil.copytree(
        source_dependencies.SOURCE / "attnverify", folder / "attnverify", dirs_exist_ok=True
    )
    copy = Sources(folder)
    with copy.files[name].open("a") as file:
        file.write(text)
    return Sources(folder)


def test_the_names_of_a_cell():
    """Chains behind any way of importing; the package handed on as a value is all of it."""
    text = (
        "import attnverify as av, torch\nfrom attnverify.mathematics import paths as p\n"
        "def f():\n    from attnverify import ops\n    return ops.sqrt(av.norms.residual(p.terms))"
    )
    found = source_dependencies.names(ast.parse(text))
    full = {"mathematics.paths", "mathematics.paths.terms", "ops", "ops.sqrt", "norms.residual"}
    assert found >= {f"attnverify.{name}" for name in full}
    assert not any("torch" in name for name in found) and "attnverify.*" not in found
    assert "attnverify.*" in source_dependencies.names(
        ast.parse("import attnverify as av\ndir(av)")
    )


def test_a_public_name_leads_to_its_module(sources):
    here = {"attnverify", "attnverify.mathematics"}
    found = sources.resolve("attnverify.spectrum.xi")
    assert found == here | {"attnverify.mathematics.eigenspectrum"}
    assert "attnverify.mathematics.attention" in sources.resolve("attnverify.SelfAttentionNetwork")
    assert sources.resolve("attnverify.__version__") == {"attnverify"}
    for unclear in ("attnverify.*", "attnverify.no_such_name"):
        assert sources.resolve(unclear) == set(sources.files)


def small_package(folder: Path, **files: str) -> Sources:
    """A package of the same name with these modules."""
    top = folder / "attnverify"
    top.mkdir()
    for name, text in {"__init__": "", **files}.items():
        (top / f"{name}.py").write_text(text)
    return Sources(folder)


def test_names_imported_at_first_use_are_followed(tmp_path):
    """A table of strings in place of imports, and imports that only type checkers see."""
    package = small_package(
        tmp_path,
        a="from attnverify.lazy import Thing, other, missing",
        b="from attnverify.lazy import Thing",
        c="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from attnverify import a\n",
        d="def f():\n    from . import e",
        e="",
        lazy="T = {'Thing': 'attnverify.e:Thing', 'other': 'attnverify.c'}\n"
        "__getattr__, __dir__ = attributes(__name__, T)",
    )
    assert package.reached(["attnverify.a"]) == set(package.files)  # a name that nobody knows
    lazy = {"attnverify", "attnverify.lazy"}
    assert package.reached(["attnverify.b"]) == lazy | {"attnverify.b", "attnverify.e"}
    assert package.reached(["attnverify.c"]) == {"attnverify", "attnverify.c"}
    assert "attnverify.e" in package.reached(["attnverify.d"])


def test_imports_are_followed_as_python_runs_them(sources):
    """The closure of a file of checks holds every module of the package that importing it loads,
    apart from what only the tables load."""
    script = (
        "import sys, importlib.util, types\n"
        "for name in ('attnverify', 'attnverify.chapters', 'attnverify.experiments'):\n"
        "    spec = importlib.util.find_spec(name) if name == 'attnverify' else None\n"
        "    module = types.ModuleType(name)\n"
        "    top = spec.submodule_search_locations[0] if spec else None\n"
        "    base = top or sys.modules['attnverify'].__path__[0]\n"
        "    module.__path__ = [base + name.removeprefix('attnverify').replace('.', '/')]\n"
        "    sys.modules[name] = module\n"
        "import attnverify.chapters.simulation_cases, attnverify.chapters.full_layer\n"
        "import attnverify.mathematics.encoder\n"
        "print(*(n for n in sys.modules if n.startswith('attnverify')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    starts = [f"attnverify.chapters.{name}" for name in ("simulation_cases", "full_layer")]
    starts.append("attnverify.mathematics.encoder")
    loaded = {n for n in done if not (n in sources.modules and sources.is_table(n))}
    assert len(loaded) > 20 and loaded <= sources.reached(starts)


def test_checks_are_made_in_modules_that_are_followed(sources):
    """A package of checks is a table: one that made checks itself would hide what they reach."""
    for id in registry:
        assert not any(map(sources.is_table, lookup.starts(id) & sources.modules)), id
        if any(isinstance(c, Measured) for c in checks_of(id).values()):
            assert "attnverify.chapters.measured" in sources.reached(starts_of_claim(id)), id


def test_data_files_count(sources):
    """A script or a table that a module reads is part of what depends on it."""
    reached = sources.reached(f"attnverify.book.interactive.{n}" for n in ("limit", "depth"))
    assert {f"book/interactive/{n}.js" for n in ("moving", "limit", "depth")} <= reached
    found = starts_of_claim("experiment.circle")
    assert "experiments/results/circle.json" in found
    assert not any(name.endswith("sorting.json") for name in found)


def weights_of(name: str) -> str:
    return f"experiments/weights/{name}.safetensors"


@pytest.mark.full
def test_trained_weights_count(tmp_path, sources):
    """Those that an experiment reads, its own and another's, though no text names the file."""
    trained = {Path(n).stem for n in sources.files if n.startswith("experiments/weights/")}
    assert {"circle", "small-decoder"} <= trained
    for name in trained:
        assert weights_of(name) in sources.reached(starts_of_claim(f"experiment.{name}"))
    ids, chapters = dependents(sources, edited(tmp_path, weights_of("small-decoder"), "x"))
    # the last one imports the module that names the weights
    reading = {"small-decoder", "three-models", "real-spectra", "training-failures"}
    reading |= {"rollout-lengths"}  # which imports the reports on three models
    reading |= {"parallel-contexts"}
    assert ids == {f"experiment.{name}" for name in reading}
    expected = {"trained-models", "path-accuracy", "watch-training"}
    assert chapters == expected | {"rollout", "spectral-gap", "parallel-contexts"}


def test_weights_that_a_cell_reads_count(sources):
    """By a constant those alone, else all."""
    cell = "from attnverify.experiments.engine import weights\nweights.committed({})"
    one, every = (
        sources.reached(
            cache_keys.starts_of_cells([cell.format(name)], sources, registry.home.lookups)
        )
        for name in ("'circle'", "name")
    )
    assert weights_of("circle") in one and weights_of("sorting") not in one
    assert {weights_of("circle"), weights_of("sorting")} <= every


def test_only_the_engine_looks_up_by_id(sources):
    """Tables are not followed. So whoever looks something up in one is listed here, and each is
    taken care of: the engine looks up the claim or experiment of the key, the ledger its own id,
    the rest is reached by neither a claim nor a chapter. Weights are found by their names."""
    wanted = registry.home.lookups.keys() - {f"{lookup.HERE}.registry"}
    wanted -= {f"{lookup.EXPERIMENTS}.engine.weights.committed"}
    users = {m for m in sources.modules if wanted & set(map(sources.defined_as, sources.named(m)))}
    claims = {m for id in registry for m in sources.reached(starts_of_claim(id))}
    found = {module for module in users & claims if not sources.is_table(module)}
    assert found == {"attnverify.chapters.measured"}


@pytest.mark.parametrize(
    ("cell", "reached"),
    [
        ("import attnverify as av\nav.verify('walk.row')", "s.lookup"),
        ("from attnverify.chapters.verify import verify\nverify('walk.row')", "s.lookup"),
        (
            "from attnverify.chapters.lookup import checks_of\nchecks_of('walk.row')",
            "chapters.lookup",
        ),
        (
            "from attnverify.chapters import registry\nregistry.checks_of('walk.row')",
            "chapters.lookup",
        ),
        ("import attnverify as av\nav.claims.registry['walk.row']", "chapters.lookup"),
        ("from attnverify import experiments\nexperiments.run('circle')", "circle"),
        ("from attnverify import experiments\nexperiments.find('circle')", "circle"),
        ("from attnverify import experiments\nexperiments.committed('circle')", "circle"),
        ("from attnverify.experiments import EXPERIMENTS\nEXPERIMENTS['circle']", "circle"),
    ],
)
def test_what_a_cell_looks_up_by_id_is_part_of_it(sources, cell, reached):
    """Written down by hand: a table that is left out of the list would hide what is looked up."""
    found = sources.reached(starts_of_cells(cell, sources))
    assert any(reached in name for name in found), sorted(found)


# What an edit reaches


def dependents(before: Sources, after: Sources) -> tuple[set[str], set[str]]:
    """The claims and the chapters whose keys differ."""
    ids = {
        id
        for id in registry
        if cache_keys.of_claim(id, SMALL, ["sampled"], before, registry)
        != cache_keys.of_claim(id, SMALL, ["sampled"], after, registry)
    }
    chapters = {
        path.stem
        for path in sorted((ROOT / "notebooks").glob("*.md"))
        if cache_keys.of_chapter(path.stem, cells(path), before, registry)
        != cache_keys.of_chapter(path.stem, cells(path), after, registry)
    }
    return ids, chapters


def cells(path: Path) -> list[tuple[str, list[str]]]:
    from attnverify.book.build import execute_notebooks

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
    from attnverify.book.build import execute_notebooks

    path = tmp_path / "pieces.md"
    path.write_text(PRINTS_IN_PIECES, encoding="utf-8")
    done = execute_notebooks.execute(path)
    assert not done.error
    assert [cell.outputs for cell in done.notebook.cells if cell.cell_type == "code"] == [
        [{"output_type": "stream", "name": "stdout", "text": "abc\n"}]
    ]


@pytest.mark.full  # one edit of a formula is in the first tier, below
def test_an_edit_deep_in_the_package_reaches_what_depends_on_it(tmp_path, sources):
    """Written down by hand, from the formulas that the claims and chapters are about."""
    ids, chapters = dependents(
        sources, edited(tmp_path / "entropy", "attnverify.mathematics.entropy")
    )
    claims = {"lower-bound", "eigenspectrum", "spread", "spectral", "blocks", "selection"}
    rows = {"walk.row", "localization.softmax-row", "localization.both-collapses"}
    rows |= {"walk.moments", "walk.limit"}  # whose checks are in the file of walk.row's
    # Reports tell how far an entropy is from its floor.
    models = {f"experiment.{n}" for n in ("three-models", "rollout-lengths", "parallel-contexts")}
    names = ("covariance", "covariance-trace", "softmax-jacobian", "query-key-gradient")
    names += ("loss-gradient", "queries-and-keys", "gradient-over-depth", "clipped-scores")
    training = {f"training.{name}" for name in names}  # in the file of v(H)
    assert ids == {f"entropy.{name}" for name in claims} | rows | models | training
    assert chapters == {
        "entropy",
        "entropy-spread",
        "parallel-contexts",
        "softmax-row",
        "both-collapses",
        "piecewise-softmax",
        "path-accuracy",
        "rollout",
        "spectral-gap",
        "trained-models",
        "query-key-gradient",
    }
    ids, _ = dependents(sources, edited(tmp_path / "norms", "attnverify.mathematics.norms"))
    assert {id for id in registry if id.startswith("norms.")} <= ids
    assert {"walk.row", "walk.moments", "walk.limit"} <= ids, "an entropy uses a norm"
    assert not {id for id in registry if id.startswith("paths.")} & ids


@pytest.mark.full
def test_an_edit_of_the_engine_reaches_every_claim(tmp_path, sources):
    ids, _ = dependents(sources, edited(tmp_path, "attnverify.checking.certify"))
    assert ids == set(registry)


@pytest.mark.full
@pytest.mark.parametrize("name", ["attnverify.verification.statements", "attnverify.cli"])
def test_statements_and_commands_are_no_input(tmp_path, sources, name):
    """How a statement is read, and how it is shown, changes no evidence and no chapter's run."""
    ids, chapters = dependents(sources, edited(tmp_path, name))
    assert not ids and chapters <= {"path-accuracy"}  # which looks experiments up by a variable


def test_prose_is_no_input_of_a_chapters_run(tmp_path, sources):
    """Words around the cells change nothing; a cell, its tags and its order do."""
    text = (ROOT / "notebooks" / "norms.md").read_text(encoding="utf-8")
    path = tmp_path / "norms.md"

    def key(edit: str) -> dict:
        path.write_text(edit, encoding="utf-8")
        return cache_keys.of_chapter("norms", cells(path), sources, registry)

    first = key(text)
    assert key(text.replace("What is claimed", "What is said")) == first
    assert key(text.replace("import sympy as sp", "import sympy as  sp")) != first
    assert key(text.replace(":tags: [derivation]", ":tags: [derivation, hide-cell]", 1)) != first


def test_a_key_follows_from_settings_versions_and_machine(monkeypatch, sources):
    def key(settings: Settings = SMALL, kinds=("sampled",)) -> dict:
        return cache_keys.of_claim("norms.diameter", settings, kinds, sources, registry)

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


def test_a_finding_that_turns_around_is_measured_again(sources):
    """What a claim asserts decides whether a criterion that fails is as the book says."""
    claim = registry["experiment.circle"]

    def key(asserts: str) -> dict:
        changed = replaced(replace(claim, asserts=asserts))
        return cache_keys.of_claim(claim.id, SMALL, ["measured"], sources, changed)

    assert key("holds") == key("holds") != key("fails")


def test_a_chapter_is_run_again_with_another_package_of_the_book(monkeypatch, sources):
    """Those that only the extra "book" asks for, as what draws and what executes notebooks."""
    alone = set(environment.installed("book")) - set(environment.installed("encoder", "models"))
    assert {"jupyter-cache", "myst-nb"} <= alone
    before = cache_keys.of_chapter("norms", [], sources, registry)
    real = cache_keys.installed
    newer = lambda *extras: {  # noqa: E731
        name: "0" if name == "myst-nb" else version for name, version in real(*extras).items()
    }
    monkeypatch.setattr(cache_keys, "installed", newer)
    assert cache_keys.of_chapter("norms", [], sources, registry) != before


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
    assert environment.code_digest() == environment.digest_of(
        source_dependencies.SOURCE / "attnverify"
    )


def test_a_key_holds_the_packages_that_only_some_experiments_read(monkeypatch, sources):
    """Also the one that no requirement leads to; what is not installed is left out."""
    packages = cache_keys.of_claim(
        "experiment.three-models", SMALL, ["measured"], sources, registry
    )["packages"]
    assert {"transformers", "tokenizers", "rxnmapper"} <= set(packages)
    assert set(environment.ALONE) == {folders.PACKAGE}

    def absent(name: str):
        raise environment.PackageNotFoundError(name)

    monkeypatch.setattr(environment, "version", absent)
    monkeypatch.setattr(environment, "distribution", absent)
    assert set(environment.installed.__wrapped__("encoder", "models")) == {"python"}


def test_what_a_claim_rests_on_is_an_input_of_its_derivation_and_chapter(sources):
    """A derivation takes nothing as given but what its claim uses. The statement is no input."""
    claim = registry["norms.residual-centers"]
    assert claim.notebook == "norms" and claim.uses

    def found(**changes) -> list[dict]:
        changed = replaced(replace(claim, **changes))
        makers = (cache_keys.of_derivations, cache_keys.of_chapter)
        notebooks = ("norms", "walk")
        return [make(name, [], sources, changed) for make in makers for name in notebooks]

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
    assert reuse.complete(ClaimEvidence("x", (good,), (twin,)))
    assert not any(reuse.complete(ClaimEvidence("x", (good, record), (twin,))) for record in bad)
    assert not reuse.complete(ClaimEvidence("x", (good,), (twin, kept)))
    assert not reuse.complete(run_cells.NotebookRun(Source("n", (), "", "0"), (), "", 0.0))
    entry = Entry("paths.count", "derived", (), ())
    runs = [run_cells.NotebookRun(Source("n", (), "", "0"), (entry,), e, 0.0) for e in ("", "x")]
    assert [reuse.complete(run) for run in runs] == [True, False]


def test_evidence_of_an_edited_package_is_not_kept(tmp_path, monkeypatch):
    """A file that changes during the run: nobody knows which text the evidence is of."""
    monkeypatch.setattr(Sources, "unchanged", lambda self: False)
    task = Task("paths.count", gather_from, (registry.home, "paths.count", SMALL, ["decided"]))
    kept = reuse.Reuse([task], Store(tmp_path), registry)
    assert len(list(kept.keep(gather_from(*left.arguments) for left in kept.missing))) == 1
    assert list(tmp_path.glob("*.json")) == []


@pytest.fixture
def copied(tmp_path) -> Path:
    """The package's source and the notebooks, to be edited."""
    shutil.copytree(source_dependencies.SOURCE / "attnverify", tmp_path / "src" / "attnverify")
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    shutil.copy(ROOT / "_toc.yml", tmp_path)  # or it is no checkout, with notebooks of its own
    return tmp_path


def run_in(folder: Path) -> set[tuple[str, str]]:
    """What a run of the command adds to the store: (claim or derivations, which)."""
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
    assert done.returncode == 0, done.stdout + done.stderr
    keys_added = (
        json.loads(p.read_text())["key"] for p in set((folder / "store").glob("*.json")) - before
    )
    return {(key["what"], key.get("claim") or key["notebook"]) for key in keys_added}


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.slow
def test_the_command_runs_again_exactly_what_an_edit_reaches(copied):
    """Nothing after an edit of prose; the claim after one of its check or of its formula:
    its derivation is symbolic and reaches neither, the other claims rest on others."""
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
    chapter.write_text(chapter.read_text().replace("factor=1.061)", "factor=1.062)"))
    assert run_in(copied) == {("claim", "norms.not-subadditive")}
    append(copied / "src/attnverify/mathematics/entropy.py", "\n# edited\n")
    assert run_in(copied) == {("claim", "entropy.lower-bound")}


def test_keys_hold_what_makes_another_machine(monkeypatch):
    """What emulates a machine is part of a key; what changes no figure is not."""
    for machine in machines.MACHINES:
        for name in set(machine.environment) - {"LC_ALL", "TZ", "COLUMNS"}:
            assert environment.VARIABLES.fullmatch(name), name
    before = environment.variables()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "set when a library is imported")
    assert environment.variables() == before

"""The project's own files agree with each other, and the build chain fails safely."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from jupyter_book.config import get_final_config
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import attnverify
import build_book
from attnverify.book.build import execute_notebooks, page_python
from attnverify.book.sphinx import build_hooks, downloads
from attnverify.derivation import notebook_sources as notebooks
from attnverify.runtime.kept import SOURCE
from places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: conda-forge's name where it differs from pip's.
CONDA_NAMES = {"torch": "pytorch"}
#: What a GPU build of torch brings along; the pinned CPU build has none of it.
ACCELERATOR = re.compile(r"nvidia|cuda|triton|cupti")


def pinned() -> dict[str, Version]:
    """constraints.txt: name to exact version."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    parsed = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(parts) == 2 for parts in parsed), "constraints.txt: expected NAME==VERSION"
    return {canonicalize_name(name): Version(version) for name, version in parsed}


def declared(*extras: str) -> list[Requirement]:
    """What pyproject.toml asks for: the core, and the extras."""
    optional = PROJECT["optional-dependencies"]
    texts = PROJECT["dependencies"] + [d for extra in extras for d in optional[extra]]
    return [Requirement(text) for text in texts]


def conda_spec(requirement: Requirement) -> tuple[str, str]:
    """Name and limits of a requirement, as conda writes them."""
    return CONDA_NAMES.get(requirement.name, requirement.name), str(requirement.specifier)


def test_environment_yml_is_in_step_with_pyproject():
    """The conda file has the core's and the book's packages with the same limits."""
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    entries = yaml.safe_load(text)["dependencies"]
    by_pip = next(e["pip"] for e in entries if isinstance(e, dict))
    assert "-e ." in by_pip
    listed = [Requirement(e) for e in [*entries, *by_pip] if isinstance(e, str) and e != "-e ."]
    found = {(r.name, str(r.specifier)) for r in listed} - {("pip", "")}
    python = ("python", PROJECT["requires-python"])
    assert found == {conda_spec(r) for r in declared("book")} | {python}


def test_both_packages_have_one_version_and_one_license():
    """They share more than what is public, so the one asks for exactly the other."""
    folder = ROOT / "src" / "attninspect"
    tool = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert tool["version"] == PROJECT["version"] == attnverify.__version__
    assert tool["dependencies"] == [f"attnverify[models]=={attnverify.__version__}"]
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_constraints_pin_every_declared_package():
    """Each dependency has an exact version, inside the limits that pyproject.toml gives."""
    pins = pinned()
    for requirement in declared(*PROJECT["optional-dependencies"]):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"constraints.txt does not pin {requirement.name}"
        assert requirement.specifier.contains(version), f"{requirement} excludes {version}"


def installed_closure() -> dict[str, Version]:
    """Every installed package that the project's requirements lead to."""
    found: dict[str, Version] = {}
    waiting = [(r, "") for r in declared(*PROJECT["optional-dependencies"])]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        if name in found or not wanted:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # left out on purpose with --no-deps
        found[name] = Version(distribution.version)
        waiting += [(Requirement(text), "") for text in distribution.requires or []]
    return found


def test_constraints_pin_what_is_installed():
    """Nothing that the project's packages bring along is left to the day of the install."""
    pins = pinned()
    wrong = {
        name: str(version)
        for name, version in installed_closure().items()
        if not ACCELERATOR.search(name) and pins.get(name) != Version(version.public)
    }
    assert wrong == {}


def git(*arguments: str | Path) -> str:
    """Output of a git command."""
    command = ["git", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_notebooks_of_colab_are_one_commit_on_a_branch(tmp_path):
    """The branch that the Colab buttons name holds the last build's .ipynb and nothing else."""
    remote, work, notebooks = (tmp_path / name for name in ("remote", "work", "notebooks"))
    git("init", "--quiet", "--bare", remote)
    git("init", "--quiet", work)
    who = ["-c", "user.name=a", "-c", "user.email=a@host.invalid"]
    git("-C", work, *who, "commit", "--quiet", "--allow-empty", "-m", "first")
    notebooks.mkdir()
    for name in ("old.ipynb", "new.ipynb"):
        (notebooks / name).write_text("{}")
        subprocess.run(
            [ROOT / ".ci" / "push-notebooks", notebooks, remote],
            cwd=work,
            check=True,
            capture_output=True,
        )
        (notebooks / name).unlink()
    branch = build_hooks.COLAB_BRANCH
    listing = git("-C", remote, "ls-tree", "-r", "--name-only", branch)
    assert listing == "notebooks/new.ipynb\n"
    assert git("-C", remote, "rev-list", "--count", branch) == "1\n"
    assert git("-C", work, "status", "--porcelain") == ""


def launch_buttons(branch: str, page: str) -> list[dict[str, str]]:
    """Two buttons as the theme makes them."""
    return [
        {"url": f"https://colab.invalid/github/a/b/blob/{branch}/{page}.md"},
        {"url": f"https://binder.invalid/v2/gh/a/b/{branch}?urlpath=lab/tree/{page}.md"},
    ]


def test_colab_opens_the_pushed_notebook_and_binder_the_source():
    page, buttons = "notebooks/one", launch_buttons("main", "notebooks/one")
    app = SimpleNamespace(config=SimpleNamespace(html_theme_options={"repository_branch": "main"}))
    groups = [{"label": "download-buttons"}, {"label": "launch-buttons", "buttons": buttons}]
    build_hooks.point_to_notebooks(app, page, "", {"header_buttons": groups}, None)
    branch = build_hooks.COLAB_BRANCH
    assert [b["url"] for b in buttons] == [
        f"https://colab.invalid/github/a/b/blob/{branch}/notebooks/one.ipynb",
        "https://binder.invalid/v2/gh/a/b/main?urlpath=lab/tree/notebooks/one.md",
    ]


@pytest.fixture
def small_root(tmp_path, monkeypatch) -> Path:
    """A root with a previous build, whose stages do next to nothing."""
    previous = tmp_path / "_build" / "html"
    previous.mkdir(parents=True)
    (previous / "index.html").write_text("previous")
    (tmp_path / "_build" / "evidence.json").write_text('{"claims": [{"status": "verified"}]}')
    monkeypatch.setattr(build_book, "ROOT", tmp_path)
    for name in ("CI", *build_book.SETTINGS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(build_book.STORE, str(tmp_path / "store"))
    monkeypatch.setenv(page_python.WITHOUT, "1")
    monkeypatch.setattr(build_book, "verify", found)
    for stage in ("generate_pages", "execute_notebooks", "finish"):
        monkeypatch.setattr(build_book, stage, lambda *arguments: None)
    return tmp_path


def found(evidence: Path, store: object) -> None:
    """Stand-in for the verification: its evidence follows from the sources."""
    sources = build_book.source_hash(build_book.ROOT, build_book.CLAIMS)
    evidence.write_text(json.dumps({"claims": [{"status": "verified"}], "sources": sources}))


def new_pages(staging: Path, cache: Path, *evidence: Path) -> Path:
    """Stand-in for a build that succeeds; its pages show the evidence that it gets."""
    (staging / "html").mkdir()
    (staging / "html" / "shown").write_text("".join(path.read_text() for path in evidence))
    (staging / "html" / "index.html").write_text("new")
    return staging / "html"


def failing(*arguments) -> None:
    """Stand-in for a stage that fails, by way of a command that does."""
    build_book.run_python("-c", "raise SystemExit(3)")


@pytest.mark.parametrize("stage", ["verify", "execute_notebooks", "finish"])
def test_a_failed_build_keeps_the_previous_one(small_root, monkeypatch, capfd, stage):
    """Whichever stage fails: exit code 1, the reason, old pages and evidence untouched."""
    before = (small_root / "_build" / "evidence.json").read_text()
    monkeypatch.setattr(build_book, "build_html", new_pages)
    monkeypatch.setattr(build_book, stage, failing)
    assert build_book.main([]) == 1
    assert "exit code 3" in capfd.readouterr().err
    assert (small_root / "_build" / "html" / "index.html").read_text() == "previous"
    assert (small_root / "_build" / "evidence.json").read_text() == before
    assert {p.name for p in (small_root / "_build").iterdir()} == {
        "html",
        "evidence.json",
        build_book.LOCK,
    }


def test_two_builds_take_turns(small_root, monkeypatch, capfd):
    """The second waits, says so, and then finds the book of the first."""
    builds = []

    def slow(*arguments: Path) -> Path:
        builds.append(threading.get_ident())
        time.sleep(1)
        return new_pages(*arguments)

    monkeypatch.setattr(build_book, "build_html", slow)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(build_book.main, ([], []))) == [0, 0]
    assert len(builds) == 1
    said = capfd.readouterr().out
    assert "waiting for it" in said and "Built in" in said and "Up to date" in said


def test_a_failed_stage_repeats_its_warnings(capfd):
    """What to mend is in the message, not only somewhere in the log."""
    script = "import sys; print('page.md:3: WARNING: x\\nother', file=sys.stderr); sys.exit(1)"
    with pytest.raises(build_book.StageError) as raised:
        build_book.run_python("-c", script, repeat="WARNING")
    assert str(raised.value).splitlines()[1:] == ["page.md:3: WARNING: x"]
    assert "other" in capfd.readouterr().err


def test_nothing_is_done_if_nothing_changed(small_root, monkeypatch, capfd):
    """The page to open and the verdict all the same; CI and --fresh build whatever is there."""
    monkeypatch.setattr(build_book, "build_html", new_pages)
    assert build_book.main([]) == 0
    monkeypatch.setattr(build_book, "build", failing)
    capfd.readouterr()
    assert build_book.main([]) == 0
    lines = capfd.readouterr().out.strip().splitlines()
    assert lines[0].startswith("Up to date. Open file:") and lines[1] == "1 claim: 1 verified"
    assert build_book.main(["--fresh"]) == 1
    monkeypatch.setenv("CI", "true")
    assert build_book.main([]) == 1 and build_book.main(["--if-changed"]) == 0
    assert build_book.main(["--no-fresh"]) == 0


def test_a_fresh_build_uses_no_store(small_root, monkeypatch):
    """Neither this process nor those that it starts."""
    stores = []

    def verify(evidence: Path, store: object) -> None:
        stores.append(store)
        found(evidence, store)

    monkeypatch.setattr(build_book, "build_html", new_pages)
    monkeypatch.setattr(build_book, "verify", verify)
    assert build_book.main([]) == 0 and build_book.main(["--fresh"]) == 0
    assert stores[0].folder == small_root / "store" and stores[1] is None
    assert os.environ[build_book.STORE] == "none"


def test_the_stamp_follows_what_the_book_depends_on(small_root, monkeypatch):
    """Sources, the repository's address, settings of numerical libraries, versions."""
    monkeypatch.setattr(build_book, "build_html", new_pages)
    (small_root / "book").mkdir()
    assert build_book.main([]) == 0 and build_book.is_current(small_root)
    for name in ("book/page.md", "LICENSE"):
        (small_root / name).write_text("# New")
        assert not build_book.is_current(small_root)
        (small_root / name).unlink()
        assert build_book.is_current(small_root)
    for name in (build_book.URL_VARIABLE, "MKL_CBWR"):
        monkeypatch.setenv(name, "https://github.com/example/example")
        assert not build_book.is_current(small_root)
        monkeypatch.delenv(name)
    installed = build_book.installed
    for package in ("sphinx", "jupyter-book", "torch", "ipykernel", "transformers", "rxnmapper"):

        def another(*extras: str, name: str = package) -> dict[str, str]:
            versions = installed(*extras)
            return versions | dict.fromkeys({name} & set(versions), "0")

        monkeypatch.setattr(build_book, "installed", another)
        assert not build_book.is_current(small_root), package


def test_the_evidence_is_that_of_the_pages(small_root, monkeypatch):
    """A failed build of an edit that is then undone leaves it; another file makes a new build."""
    evidence, source = small_root / "_build" / "evidence.json", small_root / "src" / "a.py"
    source.parent.mkdir()
    source.write_text("a = 1")
    monkeypatch.setattr(build_book, "build_html", new_pages)
    assert build_book.main([]) == 0
    first = evidence.read_text()
    monkeypatch.setattr(build_book, "build_html", failing)
    source.write_text("a = 2")
    assert build_book.main([]) == 1
    source.write_text("a = 1")
    assert build_book.is_current(small_root) and evidence.read_text() == first
    assert (small_root / "_build" / "html" / "shown").read_text() == first
    evidence.write_text(first.replace("verified", "failed"))
    assert not build_book.is_current(small_root)


def test_a_book_that_an_edit_overtook_is_not_up_to_date(small_root, monkeypatch):
    """Nor if the edit is undone before the build ends."""
    source = small_root / "src" / "a.py"
    source.parent.mkdir()
    source.write_text("a = 1")

    def edited(*arguments: Path) -> Path:
        source.write_text("a = 2")
        source.write_text("a = 1")
        return new_pages(*arguments)

    monkeypatch.setattr(build_book, "build_html", edited)
    assert build_book.main([]) == 0
    assert not build_book.is_current(small_root)


def test_notebooks_that_are_named_count(small_root, tmp_path, monkeypatch):
    """Their derivations are the evidence's; without a name those of the checkout are."""
    monkeypatch.setattr(build_book, "build_html", new_pages)
    named = tmp_path / "named" / "norms.md"
    named.parent.mkdir()
    named.write_text("1")
    monkeypatch.setenv(notebooks.NOTEBOOKS, str(named.parent))
    assert build_book.main([]) == 0 and build_book.is_current(small_root)
    named.write_text("2")
    assert not build_book.is_current(small_root)


def test_parsed_pages_are_those_of_a_good_build(tmp_path, monkeypatch):
    """After a failure, an interrupt or a change of the machinery none are left."""
    monkeypatch.setattr(build_book, "ROOT", tmp_path)
    (tmp_path / "_config.yml").write_text("")
    folder = tmp_path / "pages"

    def found(fresh: bool = False, error: type[BaseException] | None = None) -> bool:
        with build_book.parsed_pages(folder, fresh):
            there = (folder / "parsed").is_file()
            assert not (folder / "complete").exists()
            (folder / "parsed").write_text("")
            if error:
                raise error
        return there

    assert [found(), found(), found(fresh=True), found()] == [False, True, False, True]
    for error in (build_book.StageError, KeyboardInterrupt):
        with pytest.raises(error):
            found(error=error)
        assert not found()
    (folder / "complete").unlink()  # as if killed on the way
    assert not found()
    with build_book.parsed_pages(folder, fresh=False):
        (tmp_path / "_config.yml").write_text("title: edited on the way")
        (folder / "parsed").write_text("")
    (tmp_path / "_config.yml").write_text("")
    assert not found()
    (tmp_path / "_config.yml").write_text("title: another")
    assert not found()


def test_a_text_is_made_again_when_what_it_depends_on_changes(tmp_path):
    made = []

    def text(depends: str, store) -> str:
        return build_book.kept(
            store, "text", lambda: depends, lambda: made.append(depends) or depends
        )

    store = build_book.Store(tmp_path)
    assert [text(d, store) for d in "aab"] == ["a", "a", "b"] and made == ["a", "b"]
    assert text("a", None) == "a" and made == ["a", "b", "a"]


def test_evidence_that_an_edit_overtook_is_not_kept(tmp_path, monkeypatch):
    """Nor if the edit is undone before the run ends: it is of the edited source."""
    source, evidence = tmp_path / "src" / "a.py", tmp_path / "_build" / "evidence.json"
    source.parent.mkdir()
    source.write_text("a = 1")
    monkeypatch.setattr(build_book, "ROOT", tmp_path)

    def edited(*arguments: object) -> None:
        source.write_text("a = 2")
        evidence.write_text("of 2")
        source.write_text("a = 1")

    store = build_book.Store(tmp_path / "store")
    monkeypatch.setattr(build_book, "run_main", edited)
    build_book.verify(evidence, store)
    monkeypatch.setattr(build_book, "run_main", lambda *_: evidence.write_text("of 1"))
    for _ in range(2):
        build_book.verify(evidence, store)
        assert evidence.read_text() == "of 1"
    assert len(list(store.folder.iterdir())) == 1


def test_formulas_are_rendered_once():
    """By source and mode; one with an error each time."""
    from attnverify.book.sphinx import formulas

    asked = []

    def render(latex: str, options=None) -> str:
        asked.append((latex, options))
        return "katex-error" if latex == "bad" else f"<{latex}>"

    memory = formulas.Formulas(render)
    for latex in ("x", "x", "bad", "bad"):
        memory.render(latex)
    assert memory.render("x", formulas.DISPLAY) == "<x>" and len(asked) == 4


def test_a_command_ends_as_python_would_end_it(tmp_path):
    """Its code, its words on the way out, and what it asked to have done at its end."""
    (tmp_path / "ends.py").write_text(
        "import atexit, sys\natexit.register(print, 'cleaned')\n"
        "def main():\n    print('here', *sys.argv[1:])\n    exec(sys.argv[1])\n    return code\n"
        "code = None\n"
    )
    ends = {"global code; code = 3": (3, ""), "sys.exit('words')": (1, "words\n")}
    ends["1 / 0"] = (1, "ZeroDivisionError")
    for what, (code, said) in ends.items():
        done = subprocess.run(
            [sys.executable, "-m", "attnverify.book.build.run_main", "ends", what],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (code, f"here {what}\ncleaned\n"), done.stderr
        assert said in done.stderr


def test_the_repository_address_is_checked(tmp_path, monkeypatch):
    """Something that is not an https address is refused by name; none means no buttons.

    The pages show the evidence of their own build, which is in its place only when they are.
    """
    monkeypatch.setenv(build_book.URL_VARIABLE, "example/example")
    with pytest.raises(build_book.StageError, match="BOOK_REPOSITORY_URL.*https"):
        build_book.build_config(tmp_path, tmp_path / "cache")
    monkeypatch.delenv(build_book.URL_VARIABLE)
    written = build_book.build_config(tmp_path, tmp_path / "cache", tmp_path / "new.json")
    config = yaml.safe_load(written.read_text(encoding="utf-8"))
    assert "launch_buttons" not in config and config["execute"]["cache"] == str(tmp_path / "cache")
    assert config["sphinx"]["config"]["attnverify_evidence"] == str(tmp_path / "new.json")


def test_a_job_that_runs_dependencies_may_write_nothing():
    """What deploys or pushes runs no code but its own, and for the default branch alone.

    A workflow's rights are those of reading, and an action is one commit: a tag may move.
    """
    writing = {}
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert set(workflow["permissions"].values()) == {"read"}, path.name
        for name, job in workflow["jobs"].items():
            used = [step["uses"] for step in job["steps"] if "uses" in step]
            assert used and all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", u) for u in used)
            rights = job.get("permissions", workflow["permissions"])
            if "write" in rights.values():
                assert job["if"].startswith("github.ref == ") and "default_branch" in job["if"]
                writing[name] = [step["run"].split()[0] for step in job["steps"] if "run" in step]
    assert writing == {"colab": [".ci/push-notebooks"], "publish": []}


@pytest.mark.parametrize("address", ["", "https://github.com/example/example"])
def test_downloads_name_an_address_that_the_build_set_or_none(tmp_path, monkeypatch, address):
    """Jupyter Book's own default is somebody else's address."""
    monkeypatch.setenv(build_book.URL_VARIABLE, address)
    written = build_book.build_config(tmp_path, tmp_path / "cache")
    config, _ = get_final_config(user_yaml=written, cli_config={"latex_individualpages": False})
    assert config["html_theme_options"]["repository_url"] == address
    app = SimpleNamespace(config=SimpleNamespace(**config | {"project": "Book"}))
    said = downloads.origin(app, "")
    assert re.findall(r"git\+([^ #`]*)", said) == [address, address] * bool(address)


def committed() -> list[Path]:
    """Every file that is, or would be, committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


#: Written in parts, so that this file does not match itself.
FOREIGN = re.compile(
    "|".join(
        [
            r"(?<![\w.])/" + r"(?:root|work|home/\w+|Users/\w+|opt/\w+)/",
            "pypi" + r"\.org",
            "python" + r"hosted\.org",
            "registry\\." + "npm",
            "download\\." + "pytorch",
            r"file:/" + r"//\w",
        ]
    )
)


def test_no_file_names_a_machine_or_a_registry_host():
    """No path of one machine and no package registry's host in anything that is committed."""
    found = []
    for path in committed():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a font or a picture
        found += [f"{path.relative_to(ROOT)}: {hit.group()}" for hit in FOREIGN.finditer(text)]
    assert found == []


@pytest.mark.parametrize("text", ["/" + "root/x", "https://" + "pypi" + ".org/simple"])
def test_the_search_for_machine_paths_can_fail(text):
    """The pattern finds what it is for."""
    assert FOREIGN.search(text)


def test_ci_script_is_runnable():
    """.ci/run is executable and is valid bash."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


SKIPPING = {
    "test_one.py": "import pytest\n\n\ndef test_one():\n    pytest.skip('no browser')\n",
    "test_two.py": "import pytest\n\npytest.importorskip('no_such_package_at_all')\n",
}
MARKED = "import pytest\n\n\n@pytest.mark.rocq\ndef test_b():\n    pass\n"


@pytest.mark.slow
def test_no_skip_passes_and_what_runs_the_proof_assistant_is_left_out_and_counted(tmp_path):
    """A test or a file that skips itself fails the run, in workers, too."""
    for file in ("conftest.py", "places.py"):
        shutil.copy(ROOT / "tests" / file, tmp_path)
    (tmp_path / "test_marked.py").write_text(f"def test_a():\n    pass\n\n\n{MARKED}")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    rocq: runs the prover\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        done = [*command, "-v", *options]
        return subprocess.run(done, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run("-m", "rocq")
    assert done.returncode == 0 and "test_b PASSED" in done.stdout, done.stdout
    assert "1 passed, 1 deselected" in done.stdout
    for name, text in SKIPPING.items():
        (tmp_path / name).write_text(text)
    done = run("-n", "1", "--continue-on-collection-errors")
    assert done.returncode == 1, done.stdout
    for each in ("test_one.py::test_one", "test_two.py"):
        assert f"{each}: unexpected skip (" in done.stdout
    assert "1 failed, 1 passed, 1 error" in done.stdout and "test_b" not in done.stdout


HEAD = (
    "---\njupytext:\n  text_representation:\n    format_name: myst\nkernelspec:\n  "
    "display_name: Python 3\n  language: python\n  name: python3\n---\n\n"
)
CELL = "```{code-cell} ipython3\n%s\n```\n"
CHECK = """import attnverify as av
@av.decision("mine.one", limits="one case")
def one(is_one=1):
    return av.Verdict(is_one == 1, "one case")
one.false("two", is_one=2)"""


FILL = """
import sys
from pathlib import Path
from attnverify.book.build.execute_notebooks import fill
if __name__ == "__main__":
    sys.exit("\\n".join(fill(Path("."), Path("cache"), jobs=1)) or 0)
"""
BEFORE = """x = 1
import os, sys, torch
assert torch.get_num_threads() == 1
torch.ones(1 << 20).cos()
os.environ['SEEN'] = sys.seen = '1'"""
AFTER = "import os, sys; print('x' in globals(), 'SEEN' in os.environ, hasattr(sys, 'seen'))"


@pytest.mark.slow
def test_executed_notebooks_are_found_again_and_share_nothing_but_imports(tmp_path):
    """A failure is named. Kernels are forks of a warm process, which may have started threads."""
    from jupyter_cache import get_cache

    texts = {"a": CELL % BEFORE, "b": CELL % AFTER + CELL % CHECK, "bad": CELL % "1 / 0"}
    paths = {name: tmp_path / f"{name}.md" for name in texts}
    for name, path in paths.items():
        path.write_text(HEAD + texts[name])
    (tmp_path / "start.py").write_text(FILL)
    done = subprocess.run(
        [sys.executable, "start.py"],
        cwd=tmp_path,
        env=os.environ | dict.fromkeys(execute_notebooks.THREADS, "8"),
        timeout=240,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("bad.md:") and "ZeroDivisionError" in done.stderr
    assert ".md:" not in done.stderr.removeprefix("bad.md:"), done.stderr
    store = get_cache(str(tmp_path / "cache"))
    _, merged = store.merge_match_into_notebook(execute_notebooks.read(paths["b"]))
    shown = [cell.outputs for cell in merged.cells]  # the build's own last cell is taken off
    assert shown[0][0].text == "False False False\n" and shown[1:] == [[]]
    with pytest.raises(KeyError):
        store.match_cache_notebook(execute_notebooks.read(paths["bad"]))


def test_an_unchanged_notebook_is_not_executed_again(tmp_path, monkeypatch):
    """Not after an edit of its prose, but after one of a cell; one that failed each time."""
    store, page = build_book.Store(tmp_path / "store"), tmp_path / "good.md"
    page.write_text(HEAD + CELL % "print(6 * 7)")
    bad = tmp_path / "bad.md"
    bad.write_text(HEAD + CELL % "1 / 0")
    ran = []

    def execute(path: Path) -> execute_notebooks.Executed:
        ran.append(path.stem)
        notebook, output = execute_notebooks.read(path), nbformat.v4.new_output
        notebook.cells[-1].outputs = [output("stream", name="stdout", text="42\n")]
        return execute_notebooks.Executed(path, notebook, 1.0, "no" if path == bad else "", READ)

    monkeypatch.setattr(execute_notebooks, "execute", execute)
    monkeypatch.setattr(execute_notebooks, "ProcessPoolExecutor", Inline)

    def outputs(cache: str) -> str:
        execute_notebooks.fill(tmp_path, tmp_path / cache, store=store)
        return (tmp_path / cache / execute_notebooks.OUTPUTS).read_text()

    first = outputs("one")
    page.write_text(HEAD + "Words.\n\n" + CELL % "print(6 * 7)")
    assert outputs("two") == first and sorted(ran) == ["bad", "bad", "good"]
    page.write_text(HEAD + CELL % "print(7 * 6)")
    outputs("three")
    assert sorted(ran) == ["bad", "bad", "bad", "good", "good"]


def test_a_cache_that_has_all_stays_and_another_one_is_emptied(tmp_path, monkeypatch):
    """Prose is no reason to fill it again; a cell, a kernel or a broken filling is."""
    store, page, cache = build_book.Store(tmp_path / "s"), tmp_path / "a.md", tmp_path / "cache"
    monkeypatch.setattr(execute_notebooks, "ProcessPoolExecutor", Inline)
    monkeypatch.setattr(execute_notebooks, "execute", executed)

    def stays(text: str) -> bool:
        page.write_text(text)
        mark = cache / "mark"
        mark.touch()
        assert execute_notebooks.fill(tmp_path, cache, store=store) == []
        return mark.exists()

    cache.mkdir()
    assert not stays(HEAD + CELL % "1")
    assert stays(HEAD + CELL % "1") and stays(HEAD + "Words.\n\n" + CELL % "1")
    assert not stays(HEAD + CELL % "2")
    assert not stays(HEAD.replace("Python 3", "Python") + CELL % "2")
    (cache / execute_notebooks.WHOLE).unlink()
    assert not stays(HEAD.replace("Python 3", "Python") + CELL % "2")
    assert stays(HEAD.replace("Python 3", "Python") + CELL % "2")


@pytest.mark.parametrize("edit", ["package", "notebook"])
def test_outputs_that_an_edit_overtook_are_not_kept(tmp_path, monkeypatch, edit):
    """Neither in the store nor in a cache that counts as whole: nobody knows which text ran."""
    store, page, cache = build_book.Store(tmp_path / "s"), tmp_path / "a.md", tmp_path / "cache"
    module = tmp_path / "module.py"
    page.write_text(HEAD + CELL % "1")
    module.write_text("")
    time.sleep(0.02)  # longer than a clock of files takes to go on
    monkeypatch.setattr(execute_notebooks, "ProcessPoolExecutor", Inline)
    ran = []

    def execute(path: Path) -> execute_notebooks.Executed:
        ran.append(path)
        done = executed(path, [os.path.relpath(module, SOURCE)])
        if len(ran) == 1:
            (module if edit == "package" else page).write_text(HEAD + CELL % "2")
        return done

    monkeypatch.setattr(execute_notebooks, "execute", execute)
    for times in (1, 2, 2):
        assert execute_notebooks.fill(tmp_path, cache, store=store) == []
        assert len(ran) == times
        time.sleep(0.02)
    assert (cache / execute_notebooks.WHOLE).is_file()


#: The files that a kernel has read.
READ = ["attnverify/__init__.py"]


def executed(path: Path, files: list[str] = READ) -> execute_notebooks.Executed:
    """A notebook that nobody has executed."""
    return execute_notebooks.Executed(path, execute_notebooks.read(path), 1.0, "", files)


class Inline(Executor):
    """A pool that does the work at once, here."""

    def __init__(self, *arguments, **options) -> None:
        pass

    def submit(self, function, *arguments):
        done = Future()
        done.set_result(function(*arguments))
        return done

"""The project's own files agree with each other, and the build chain fails safely."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import bookchain
import build_book
import execute_notebooks
import slim_html

ROOT = Path(__file__).resolve().parents[1]
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
    branch = bookchain.COLAB_BRANCH
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
    bookchain.point_to_notebooks(app, page, "", {"header_buttons": groups}, None)
    branch = bookchain.COLAB_BRANCH
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
    for stage in ("verify", "generate_pages", "execute_notebooks", "slim"):
        monkeypatch.setattr(build_book, stage, lambda *arguments: None)
    return tmp_path


def new_pages(staging: Path, cache: Path) -> Path:
    """Stand-in for a build that succeeds."""
    (staging / "html").mkdir()
    (staging / "html" / "index.html").write_text("new")
    return staging / "html"


def failing(*arguments) -> None:
    """Stand-in for a stage that fails, by way of a command that does."""
    build_book.run_python("-c", "raise SystemExit(3)")


STAGES = ["verify", "generate_pages", "execute_notebooks", "build_html", "slim"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_failed_build_keeps_the_previous_one(small_root, monkeypatch, capfd, stage):
    """Whichever stage fails: exit code 1, the reason, and the old pages untouched."""
    monkeypatch.setattr(build_book, "build_html", new_pages)
    monkeypatch.setattr(build_book, stage, failing)
    assert build_book.main([]) == 1
    assert "exit code 3" in capfd.readouterr().err
    assert (small_root / "_build" / "html" / "index.html").read_text() == "previous"
    assert {p.name for p in (small_root / "_build").iterdir()} == {"html", "evidence.json"}


def test_a_failed_stage_repeats_its_warnings(capfd):
    """What to mend is in the message, not only somewhere in the log."""
    script = "import sys; print('page.md:3: WARNING: x\\nother', file=sys.stderr); sys.exit(1)"
    with pytest.raises(build_book.StageError) as raised:
        build_book.run_python("-c", script, repeat="WARNING")
    assert str(raised.value).splitlines()[1:] == ["page.md:3: WARNING: x"]
    assert "other" in capfd.readouterr().err


def test_a_good_build_replaces_the_previous_one(small_root, monkeypatch, capfd):
    """The new pages are in place, with the page to open and the verdict as the last lines."""
    monkeypatch.setattr(build_book, "build_html", new_pages)
    assert build_book.main([]) == 0
    assert (small_root / "_build" / "html" / "index.html").read_text() == "new"
    lines = capfd.readouterr().out.strip().splitlines()
    assert "index.html" in lines[-2] and lines[-1] == "1 claims: 1 verified"


def test_the_stamp_follows_the_sources(small_root, monkeypatch):
    """A book is up to date until a source, or the repository's address, changes."""
    monkeypatch.setattr(build_book, "build_html", new_pages)
    monkeypatch.delenv(build_book.URL_VARIABLE, raising=False)
    (small_root / "book").mkdir()
    assert build_book.main([]) == 0 and build_book.is_current(small_root)
    (small_root / "book" / "page.md").write_text("# New")
    assert not build_book.is_current(small_root)
    (small_root / "book" / "page.md").unlink()
    monkeypatch.setenv(build_book.URL_VARIABLE, "https://github.com/example/example")
    assert not build_book.is_current(small_root)


def test_the_repository_address_is_checked(tmp_path, monkeypatch):
    """Something that is not an https address is refused by name; none means no buttons."""
    monkeypatch.setenv(build_book.URL_VARIABLE, "example/example")
    with pytest.raises(build_book.StageError, match="BOOK_REPOSITORY_URL.*https"):
        build_book.build_config(tmp_path, tmp_path / "cache")
    monkeypatch.delenv(build_book.URL_VARIABLE)
    config = build_book.build_config(tmp_path, tmp_path / "cache").read_text(encoding="utf-8")
    assert "launch_buttons" not in config and str(tmp_path / "cache") in config


def test_style_rules_are_kept_or_dropped():
    """Rules whose classes occur stay, also inside @media; the others go."""
    css = ".a,.b:hover{x:y}.c .a{x:y}@media print{.c{x:y}.a{x:y}}body:not(.c){x:y}.a\\:b{x:y}"
    kept = slim_html.purge(css, {"a", "b"})
    assert kept.split("\n") == [".a,.b:hover{x:y}", "@media print{.a{x:y}}", "body:not(.c){x:y}"]


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


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("name", sorted(SKIPPING))
def test_an_unexpected_skip_fails(tmp_path, name, workers):
    """A test or a file that skips itself fails the run, with or without workers."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / name).write_text(SKIPPING[name])
    options = ["-n", workers, "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode not in (0, 5), done.stdout
    assert "unexpected skip" in done.stdout


def test_executed_notebooks_are_found_again(tmp_path):
    """What is executed beforehand is what the page builder takes; a failure is named."""
    from jupyter_cache import get_cache
    from myst_nb.core.read import read_myst_markdown_notebook

    head = (
        "---\njupytext:\n  text_representation:\n    format_name: myst\nkernelspec:\n  "
        "display_name: Python 3\n  language: python\n  name: python3\n---\n\n"
    )
    cell = "```{code-cell} ipython3\n%s\n```\n"
    (tmp_path / "good.md").write_text(head + cell % "print(6 * 7)")
    (tmp_path / "bad.md").write_text(head + cell % "1 / 0")
    failed = execute_notebooks.fill(tmp_path, tmp_path / "cache", jobs=1)
    assert len(failed) == 1 and "bad.md" in failed[0] and "ZeroDivisionError" in failed[0]
    store = get_cache(str(tmp_path / "cache"))
    notebooks = {
        n: read_myst_markdown_notebook((tmp_path / n).read_text()) for n in ("good.md", "bad.md")
    }
    _, merged = store.merge_match_into_notebook(notebooks["good.md"])
    assert merged.cells[-1].outputs[0].text == "42\n"
    with pytest.raises(KeyError):
        store.match_cache_notebook(notebooks["bad.md"])

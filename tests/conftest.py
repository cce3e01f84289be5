"""Shared set-up: shapes enforced in the whole run, no silent skip, one built book."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import filelock
import pytest
from jaxtyping import install_import_hook

from places import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser


#: As `make book` would see it: without what this run sets. The book depends on it.
ENVIRONMENT = dict(os.environ)

#: Tests that patch a check must not meet, or leave behind, evidence of another run.
STORE = "ATTNVERIFY_STORE"
os.environ[STORE] = "none"

#: Tests run two at a time. With a thread for every core each they would wait for one another.
THREADS = "OMP_NUM_THREADS"
ONE_THREAD = THREADS not in os.environ and "PYTEST_XDIST_WORKER" in os.environ
if ONE_THREAD:
    os.environ[THREADS] = "1"

if "attnverify" in sys.modules:
    raise RuntimeError("attnverify was imported before its shape checks could be installed")
#: Modules that write shapes. The check costs 20 µs a call, so the others go without.
SHAPED = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in sorted((ROOT / "src").rglob("*.py"))
    if "from jaxtyping import" in path.read_text()
]
install_import_hook(SHAPED, "beartype.beartype")

#: Node ids of tests that may be skipped. Empty: a skip is a failure, so that a missing
#: browser or package cannot pass for a green run.
ALLOWED_SKIPS: frozenset[str] = frozenset()

#: Files whose tests open the built book. They run first, on one worker, which builds it while
#: the other workers run what needs no book.
BOOK_TESTS = (
    "test_book_evidence.py",
    "test_downloads.py",
    "test_figures.py",
    "test_folding.py",
    "test_one_page.py",
    "test_pages.py",
    "test_reader.py",
)

#: Those of them that take minutes. They run last, when the book is built, each on whichever
#: worker is free: every one is short, so that the workers end together.
LONG_BOOK_TESTS = (
    "test_accessibility.py",
    "test_interactive.py",
    "test_pages_claims.py",
    "test_pages_inpage.py",
)


def _fail_skip(report) -> None:
    """Turn an unexpected skip into a failure that says so."""
    if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        if report.nodeid not in ALLOWED_SKIPS:
            reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid}: unexpected skip ({reason}); see ALLOWED_SKIPS"


@pytest.fixture
def nothing_stays(monkeypatch):
    """What a test brings in from outside is gone after it."""
    from attnverify.chapters import registry
    from attnverify.verification import claim_files

    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr(claim_files, "_RAN", {})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that is skipped fails unless it is listed."""
    report = yield
    _fail_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """A file that skips itself while it is collected fails too."""
    report = yield
    _fail_skip(report)
    return report


#: Files whose tests share something that takes long to make.
SHARING_TESTS = (
    "test_machines.py",
    "test_pages_generated.py",
    "test_recheck.py",
    "test_sphinxext.py",
    "test_store.py",
    "test_wheel.py",
)


@pytest.hookimpl(tryfirst=True)  # before -m is applied
def pytest_collection_modifyitems(config, items):
    """Run the first tier unless -m asks for more: the book first, its long tests last.

    Tests in tests/full or marked `full` are the second tier. Tests that run the proof assistant
    need "rocq" in -m. What is left out is counted as deselected.
    """
    for item in items:
        if item.path.is_relative_to(ROOT / "tests" / "full"):
            item.add_marker("full")
    marks = config.option.markexpr
    unasked = set() if marks else {"full"}
    if "rocq" not in marks:
        unasked.add("rocq")
    left_out = [item for item in items if unasked & {mark.name for mark in item.iter_markers()}]
    if left_out:
        items[:] = [item for item in items if item not in set(left_out)]
        config.hook.pytest_deselected(items=left_out)

    def place(item) -> int:
        file = item.nodeid.split("::")[0]
        return 0 if file.endswith(BOOK_TESTS) else 2 if file.endswith(LONG_BOOK_TESTS) else 1

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep tests that share something on one worker: the book, or what a file's fixtures make.

    xdist's own --dist=loadgroup does nothing under pytest 9.2: it renames tests through an
    attribute that pytest no longer reads.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            if file.endswith(BOOK_TESTS):
                return "book"
            return file if file.endswith(SHARING_TESTS) else nodeid

    config.option.loadscopereorder = False  # xdist would put files with many tests first
    return Scheduler(config, log)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def built_book() -> Path:
    """The folder of built pages; built strictly first unless it is up to date."""
    output = ROOT / "_build"
    output.mkdir(exist_ok=True)
    log = output / "book-test.log"
    # The lock keeps two workers, or two test runs, from building at once.
    with filelock.FileLock(output / ".book.lock"), log.open("w+", encoding="utf-8") as stream:
        command = [sys.executable, str(ROOT / "tools" / "build_book.py"), "--if-changed"]
        done = subprocess.run(
            command,
            stdout=stream,
            stderr=stream,
            env=ENVIRONMENT,
            timeout=2400,
            check=False,
        )
    if done.returncode:
        tail = log.read_text(encoding="utf-8", errors="replace")[-6000:]
        pytest.fail(f"the book does not build; the end of {log}:\n{tail}", pytrace=False)
    return output / "html"


@pytest.fixture(scope="module")
def site(built_book: Path) -> Iterator[str]:
    """Address of the built book on this machine."""
    from visits import serve

    with serve(built_book) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium for all tests of a file."""
    from visits import chromium

    with chromium() as started:
        yield started

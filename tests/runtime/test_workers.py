"""The processes of a run: none outlives its parent, none dies without a word."""

import fcntl
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from attnverify.runtime.tasks import Task
from attnverify.runtime.workers import _Worker, run_all
from attnverify.support.errors import RunError
from places import ROOT

#: Holds a lock while its process lives, for ten minutes. `exec` is a function that can be sent.
HOLD = """
import fcntl, sys, time
file = open({path!r}, "w")
fcntl.lockf(file, fcntl.LOCK_EX)
file.write("held"); file.flush()
time.sleep(600)
"""
#: Two pieces that hold locks, in two processes. A test run in the background of a shell would
#: inherit that interrupts are ignored.
RUN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from attnverify.runtime.tasks import Task
from attnverify.runtime.workers import _Worker, run_all
list(run_all([Task(n, exec, (code,)) for n, code in {codes!r}.items()], 2))
"""
#: One notebook, and what executes all of a folder in processes of their own.
NOTEBOOK = """---
kernelspec: {{display_name: Python 3, language: python, name: python3}}
jupytext: {{text_representation: {{format_name: myst}}}}
---

```{{code-cell}} ipython3
{code}
```
"""
BUILD = """
from pathlib import Path
from attnverify.book.build.execute_notebooks import fill
fill(Path("."), Path("cache"), jobs=2)
"""


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def free(path: Path) -> bool:
    with path.open("r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


#: Signals that a process may handle; the one that it cannot is sent in the first tier.
IN_FULL = [pytest.param(s, marks=pytest.mark.full) for s in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_is_done_once(jobs):
    tasks = [Task(str(k), divmod, (k, 3)) for k in range(7)]
    assert sorted(run_all(tasks, jobs)) == sorted(divmod(k, 3) for k in range(7))
    assert list(run_all([], jobs)) == []


def test_a_limit_is_counted_from_when_the_piece_begins():
    """Not from when its process starts, which imports the package first."""
    worker = _Worker()
    try:
        worker.give(Task("a", divmod, (7, 2), limit=60))
        assert worker.left == math.inf
        wait([worker.connection])
        assert worker.starts() and 0 < worker.left <= 60 and not worker.starts()
        assert worker.take() == (3, 1)
    finally:
        worker.end()


def test_a_process_that_ran_code_from_outside_does_nothing_else():
    limited = [Task(str(k), os.getpid, (), limit=60) for k in range(3)]
    assert len(set(run_all(limited, 1))) == 3
    assert not multiprocessing.active_children()


def test_what_would_end_the_process_is_an_error_of_the_piece():
    with pytest.raises(RunError, match="^a: got SystemExit, expected an end"):
        list(run_all([Task("a", sys.exit, (3,), limit=60)], 1))


def test_a_process_that_dies_is_told_by_its_piece():
    tasks = [Task("sleeper", time.sleep, (600,)), Task("paths.count", signal.raise_signal, (9,))]
    start = time.monotonic()
    with pytest.raises(RunError, match="^paths.count: the process .* died .killed by signal 9"):
        list(run_all(tasks, 2))
    assert time.monotonic() - start < 500, "waited for the other piece"
    assert not multiprocessing.active_children()


def test_an_error_in_a_piece_comes_back_with_its_name():
    tasks = [Task("sleeper", time.sleep, (600,)), Task("paths.count", int, ("x",))]
    with pytest.raises(ValueError, match="invalid literal") as caught:
        list(run_all(tasks, 2))
    assert "in the piece paths.count" in caught.value.__notes__[0]
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("sent", [*IN_FULL, signal.SIGKILL])
def test_no_process_outlives_its_parent(tmp_path, sent):
    """However the parent is stopped, the pieces stop long before the ten minutes that they have."""
    held = [tmp_path / name for name in ("a", "b")]
    codes = {path.name: HOLD.format(path=str(path)) for path in held}
    command = [sys.executable, "-c", RUN.format(codes=codes)]
    parent = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert within(100, lambda: all(p.exists() and p.read_text() == "held" for p in held))
        assert not any(map(free, held))
        os.kill(parent.pid, sent)
        parent.wait(200)  # of the ten minutes that they have, on a machine under load
        assert within(200, lambda: all(map(free, held)))
    finally:
        parent.kill()
        _, said = parent.communicate()
    assert said.count("Traceback") == (sent == signal.SIGINT), said  # none from the processes


@pytest.mark.parametrize("sent", [*IN_FULL[1:], signal.SIGKILL])
def test_no_command_outlives_the_build_that_started_it(tmp_path, sent):
    """Nor a process that the command forked: both would go on without the lock of the build."""
    held = [tmp_path / name for name in ("a", "b")]
    command, forked = (HOLD.format(path=str(path)) for path in held)
    (tmp_path / "held.py").write_text(
        "import multiprocessing\nfork = multiprocessing.get_context('fork')\n"
        f"def main():\n    fork.Process(target=exec, args=({forked!r},)).start()\n"
        f"    exec({command!r})\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "tools")])
    build = subprocess.Popen(
        [sys.executable, "-c", "import build_book; build_book.run_main('held')"],
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert within(300, lambda: all(p.exists() and p.read_text() == "held" for p in held))
        os.kill(build.pid, sent)
        build.wait(200)
        assert within(200, lambda: all(map(free, held)))  # of the ten minutes that they have
    finally:
        build.kill()


@pytest.mark.full
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_build_leaves_no_process_behind(tmp_path, sent):
    """None of those that execute notebooks, of which one waits for the next, and no kernel.

    All of them have what the build writes to, so that its end comes when the last of them ends.
    """
    (tmp_path / "only.md").write_text(NOTEBOOK.format(code=HOLD.format(path=str(tmp_path / "a"))))
    command = [sys.executable, "-c", BUILD]
    build = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE)
    try:
        held = tmp_path / "a"
        assert within(100, lambda: held.exists() and held.read_text() == "held")
        os.kill(build.pid, sent)
        build.communicate(timeout=300)  # of the ten minutes that the notebook has
        assert free(held)
    finally:
        build.kill()

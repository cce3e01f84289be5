"""Run the pieces of a verification: in this process or in processes of its own.

Where the system can fork, these are forks of one warm process, which has imported the engine and no
formulas. A process ends when its parent does, leaves interrupts to its parent, and its death is
told by the name of the piece it was working on.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import (
    forkserver,
    get_all_start_methods,
    get_context,
    parent_process,
    resource_tracker,
)
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any

from attnverify.runtime.tasks import Results, Task
from attnverify.support.errors import RunError

CAN_FORK = "forkserver" in get_all_start_methods()
#: A fork of the process at hand, which may have threads, could hang.
CONTEXT = get_context("forkserver") if CAN_FORK else get_context("spawn")
#: What the warm process imports: first what records files, then what most pieces need; the units
#: are of ``sympy.simplify``.
WARM = ["attnverify.runtime.recording", "torch", "sympy", "sympy.physics.units", "flint"]
WARM += [
    "attnverify.checking.gather",
    "attnverify.derivation.run_cells",
    "attnverify.chapters.cells",
]


def run_all(tasks: Sequence[Task], jobs: int | None) -> Results:
    """The results of the tasks, in the order in which they come.

    jobs: number of processes, by default one a core.
    Raises ``RunError`` if a piece dies. A caller that stops early closes the iterator, which ends
    the processes at once.
    """
    jobs = min(jobs or os.cpu_count() or 1, len(tasks))
    if jobs <= 1 and all(task.limit is None and not task.recorded for task in tasks):
        yield from (task() for task in tasks)
    else:
        yield from _in_processes(tasks, max(jobs, 1))


def _in_processes(tasks: Sequence[Task], jobs: int) -> Results:
    waiting, workers = iter(tasks), []
    try:
        for _ in range(jobs):
            workers.append(_Worker())
            workers[-1].give(next(waiting))
        busy = list(workers)
        while busy:
            ready = wait([worker.connection for worker in busy], _left(busy))
            for worker in [w for w in busy if w.connection in ready or w.left <= 0]:
                if worker.starts():
                    continue
                result = worker.take()
                busy.remove(worker)
                if worker.task.limit is not None or (worker.task.recorded and CAN_FORK):
                    worker.end()
                    workers.remove(worker)
                if (task := next(waiting, None)) is not None:
                    if worker not in workers:
                        workers.append(worker := _Worker())
                    worker.give(task)
                    busy.append(worker)
                yield result
    finally:
        for worker in workers:
            worker.end()


def _left(busy: Sequence[_Worker]) -> float | None:
    """Seconds until the first of the pieces has to be done; None if none has to."""
    least = min(worker.left for worker in busy)
    return None if least == math.inf else max(least, 0)


class _Worker:
    """A process that does one task or one after the other."""

    def __init__(self) -> None:
        self.connection, far = CONTEXT.Pipe()
        arguments = far, dict(os.environ)  # the warm process may be older than a variable
        self.process = CONTEXT.Process(target=_serve, args=arguments, daemon=True)
        with _interrupts_held(), _nothing_of_this_program():
            self.process.start()
        far.close()  # the process alone holds its end, which closes when it dies

    def give(self, task: Task) -> None:
        self.task, self.started = task, math.inf
        try:
            self.connection.send(task)
        except OSError as error:
            raise self._died() from error

    @property
    def left(self) -> float:
        """Seconds that the piece at hand may still take."""
        if self.task.limit is None:
            return math.inf
        return self.started + self.task.limit - time.monotonic()

    def starts(self) -> bool:
        """Whether the next message says that the piece is about to begin; its time starts now."""
        if self.started < math.inf or self.left <= 0:
            return False
        try:
            self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        self.started = time.monotonic()
        return True

    def take(self) -> Any:
        if self.left <= 0 and not self.connection.poll():
            raise RunError(
                f"{self.task.name}: got no end within {self.task.limit:g} s, expected one; "
                "a larger --limit allows more"
            )
        try:
            failed, value = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if failed:
            raise value
        return value

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()

    def _died(self) -> RunError:
        self.process.join(5)
        code = self.process.exitcode
        how = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return RunError(f"{self.task.name}: the process that worked on it died ({how})")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process started in the block never sees Ctrl-C, which a terminal sends to all of them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # else the start below runs it, which lets interrupts in
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _nothing_of_this_program() -> Iterator[None]:
    """A process started in the block imports neither the main program nor from this folder."""
    main, safe = sys.modules["__main__"], os.environ.get("PYTHONSAFEPATH")
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        if CAN_FORK:
            forkserver.set_forkserver_preload(WARM)
            forkserver.ensure_running()
        yield
    finally:
        sys.modules["__main__"] = main
        os.environ.pop("PYTHONSAFEPATH")
        if safe is not None:
            os.environ["PYTHONSAFEPATH"] = safe


def _serve(connection: Connection, environment: dict[str, str]) -> None:
    """Do the tasks that come through the connection until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(environment)
    recording = import_module(WARM[0])
    end_with_parent()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        connection.send(None)  # all that the task needs is imported
        try:
            found = task()
            answer = False, (found, recording.files()) if task.recorded else found
        except Exception as error:
            error.add_note(f"in the piece {task.name}:\n{traceback.format_exc()}")
            answer = True, error
        except BaseException as error:  # the end of a process is not for a task to ask for
            answer = True, RunError(f"{task.name}: got {type(error).__name__}, expected an end")
        connection.send(answer)


def end_with_parent() -> None:
    """From now on this process ends when the one that started it does, killed or not."""
    threading.Thread(target=_wait_for_the_end, args=(os.getppid(),), daemon=True).start()


def _wait_for_the_end(started_by: int) -> None:
    if (parent := parent_process()) is not None:
        parent.join()
    else:  # no process of multiprocessing: there is nothing to wait at but its number
        while os.getppid() == started_by:
            time.sleep(0.5)
    os._exit(1)

"""Run the pieces of a verification on a dask cluster, with the evidence of a local run.

Every result says which versions, code and kind of machine made it; another one than this process
has is refused. A piece whose worker dies is done again by another.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

from attnverify.runtime.tasks import Results, Task
from attnverify.support.environment import code_digest, machine, processor, variables, versions
from attnverify.support.errors import InputError, RunError
from attnverify.support.extras import hint

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT = 5  # seconds to reach the scheduler
PATIENCE = 10  # seconds without a worker
#: The precision of balls and the number of torch's threads belong to a process: one piece at a time
_ALONE = threading.Lock()
#: Variables that no piece follows: of threads, as a piece has one (dask sets them for its workers),
#: of the order of hashes, which differs between any two runs, of figures and folders of chapters.
FREE = re.compile(r"(OMP|KMP)_\w*|\w+_NUM_THREADS|PYTHONHASHSEED|MPL\w+|ATTNVERIFY_NOTEBOOKS")


def run(tasks: Sequence[Task], address: str) -> Results:
    """The results of the tasks, in the order in which they come.

    Raises :class:`InputError` for an address where no scheduler answers, a scheduler without
    workers and a worker unlike this process, :class:`RunError` if a piece fails or all workers are
    lost.
    """
    with _connect(address) as client:
        from distributed import wait

        _require_workers(client, InputError, f"scheduler: got {address}, which has no worker")
        pending = {client.submit(_answer, task, pure=False): task for task in tasks}
        while pending:
            try:
                finished = cast(Any, wait(list(pending), PATIENCE, "FIRST_COMPLETED"))
            except TimeoutError:
                left = ", ".join(task.name for task in pending.values())
                _require_workers(client, RunError, f"{left}: no worker is left")
                continue
            for future in finished.done:
                yield _take(future, pending.pop(future))


def _connect(address: str) -> Client:
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(
            f"scheduler: got {address!r} and no package {error.name or 'distributed'}, "
            f"expected it ({hint('cluster')})"
        ) from error
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook runs an event loop in this one
            thread.submit(asyncio.run, _knock(address)).result()
    except Exception as error:  # each transport has its own for an address that it cannot take
        raise InputError(
            f"scheduler: got {address!r}, where no dask scheduler answers within {CONNECT} s, "
            "expected an address such as tcp://HOST:8786"
        ) from error
    return Client(address, timeout=CONNECT)


async def _knock(address: str) -> None:
    """Connect and hang up: a client that cannot connect takes twice as long and leaves warnings."""
    from distributed.comm.core import connect

    (await connect(address, timeout=CONNECT)).abort()


def _require_workers(client: Client, error: type[Exception], message: str) -> None:
    try:
        client.wait_for_workers(1, PATIENCE)
    except TimeoutError:
        raise error(f"{message} (waited {PATIENCE} s), expected at least one worker") from None


def _answer(task: Task) -> tuple[str, dict[str, str], Any]:
    """Run on a worker: its address, what it is, and the result."""
    from distributed import get_worker

    with _ALONE:
        return get_worker().address, identity(), task()


def identity() -> dict[str, str]:
    """What must be equal for evidence to be equal: versions, the package's code, the machine.

    Of the machine all that the keys of finished work hold
    (:mod:`attnverify.verification.cache_keys`) but for the number of cores and the variables of
    :data:`FREE`; and the instructions that torch uses, which need not be all that the processor
    has.
    """
    import torch

    kind = {key: str(machine()[key]) for key in ("system", "architecture")}
    kind |= {"processor": processor(), "instructions": torch.backends.cpu.get_cpu_capability()}
    settings = {name: value for name, value in variables().items() if not FREE.fullmatch(name)}
    return {**versions(), "code": code_digest(), **kind, **settings}


def _take(future: Future, task: Task) -> Any:
    try:
        worker, there, value = future.result()
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else ""
        raise RunError(f"{task.name}: {type(error).__name__}: {said}") from error
    here = identity()
    for name in {**here, **there}:  # a variable may be set on one side only
        if there.get(name) != here.get(name):
            raise InputError(
                f"scheduler: got {name} {there.get(name, 'unset')} on worker {worker}, "
                f"expected {here.get(name, 'unset')} as in this process"
            )
    return value
